//! Clusters that are lost, return, forge their status, drift, or are deleted.

use anyhow::{Context as _, Result, ensure};
use kube::api::{DynamicObject, PostParams};
use lab::{
    product,
    steps::{ADDON, At, Objects, enrol, objects::has_condition},
    wait,
};
use serde_json::{Value, json};

use crate::stage::{SOON, Stage};

/// The registration agent of a cluster, with its own rights and no more.
async fn as_spoke(stage: &Stage, cluster: &str) -> Result<Objects> {
    let user = format!("system:open-cluster-management:{cluster}:{cluster}-agent");
    let group = format!("system:open-cluster-management:{cluster}");
    let groups = [&*group, "system:open-cluster-management:managed-clusters"];
    Ok(Objects::new(
        stage.lab.hub().client_as(&user, &groups).await?,
    ))
}

/// Kills OCM's agents on spoke1, or starts them again.
async fn klusterlet(stage: &Stage, run: bool) -> Result<()> {
    let mut ocm = stage.lab.ocm().await?;
    let spoke = ocm.spokes.get_mut("spoke1").context("spoke1")?;
    if run {
        return spoke.resume().await;
    }
    spoke.kill();
    Ok(())
}

/// The add-on of a lost cluster is kept and Unknown. It is available as soon as the cluster is back, without waiting for
/// a resync.
pub(crate) async fn a_lost_cluster_is_available_again_as_soon_as_it_is_back(
    stage: &Stage,
) -> Result<()> {
    stage.enrolled(1).await?;
    let at = At::addon("spoke1");
    let before = stage.hub.read(&at).await?["metadata"]["uid"].clone();
    klusterlet(stage, false).await?;
    let lost = |it: &Value| {
        has_condition(
            it,
            "Available",
            "Unknown",
            "ManagedClusterLeaseUpdateStopped",
        )
    };
    // Five leases of ten seconds, and one more look.
    let bound = wait::BOUND * 2;
    stage.hub.until(&at, "is Unknown", bound, lost).await?;
    let mark = stage.lab.hub().audit().mark()?;
    klusterlet(stage, true).await?;
    let back = |it: &Value| has_condition(it, "ManagedClusterConditionAvailable", "True", "");
    stage
        .hub
        .until(&At::cluster("spoke1"), "is back", bound, back)
        .await?;
    let well = |it: &Value| has_condition(it, "Available", "True", "AgentConnected");
    stage
        .hub
        .until(&at, "is available again", SOON, well)
        .await?;
    let after = enrol::until_available(&stage.hub, "spoke1").await?;
    ensure!(after["metadata"]["uid"] == before, "it is the same add-on");
    let user = format!(
        "system:serviceaccount:{}:{}",
        product::NAMESPACE,
        product::MANAGER
    );
    let works = stage
        .lab
        .hub()
        .audit()
        .by(&user, mark)?
        .into_iter()
        .filter(|it| {
            it.is_write()
                && it
                    .object
                    .as_ref()
                    .is_some_and(|it| it.resource == "manifestworks")
        });
    ensure!(works.count() == 0, "works were written again");
    Ok(())
}

/// A cluster can write the status of its add-on. It is a claim: it grants nothing, and the manager corrects it.
pub(crate) async fn forged_add_on_status_grants_nothing(stage: &Stage) -> Result<()> {
    stage.enrolled(1).await?;
    let at = At::addon("spoke1");
    let good = stage.hub.read(&at).await?;
    let spoke = as_spoke(stage, "spoke1").await?;
    let forged = json!({ "status": {
        "registrations": [{
            "signerName": "open-cluster-management.io/argocd-agent-addon",
            "subject": {
                "user": "system:open-cluster-management:cluster:spoke2:addon:argocd-agent-addon:agent:argocd-agent-addon",
                "groups": ["system:masters"],
            },
        }],
        "namespace": "kube-system",
        "supportedConfigs": null,
        "healthCheck": { "mode": "Lease" },
    }});
    spoke.merge_status(&at, forged).await?;
    let restored = |it: &Value| {
        let fields = [
            "registrations",
            "namespace",
            "supportedConfigs",
            "healthCheck",
        ];
        fields
            .iter()
            .all(|field| it["status"][field] == good["status"][field])
    };
    stage.hub.until(&at, "is as it was", SOON, restored).await?;
    enrol::until_available(&stage.hub, "spoke1").await?;
    for csr in stage.hub.list(&At::csr(""), &enrol::of_addon()).await? {
        let approved = has_condition(&csr, "Approved", "True", "");
        let requester = csr["spec"]["username"].as_str().unwrap_or_default();
        if requester.starts_with("system:open-cluster-management:spoke1:") && approved {
            let subject = common_name(&csr)?;
            ensure!(
                subject.contains(":cluster:spoke1:"),
                "approved for {subject}"
            );
        }
    }
    Ok(())
}

/// The common name in a request, as text in its bytes: which parser would be right about it is not the question here.
fn common_name(csr: &Value) -> Result<String> {
    use base64::Engine as _;
    let engine = base64::engine::general_purpose::STANDARD;
    let pem = engine.decode(csr["spec"]["request"].as_str().unwrap_or_default())?;
    let pem = String::from_utf8(pem)?;
    let body: String = pem
        .lines()
        .filter(|line| !line.starts_with("-----"))
        .collect();
    let der = engine.decode(body)?;
    Ok(String::from_utf8_lossy(&der).into_owned())
}

const REGISTRIES: &str = "open-cluster-management.io/image-registries";
const HOSTING: &str = "addon.open-cluster-management.io/hosting-cluster-name";

/// The cluster Secret follows ordinary labels, and still belongs to this cluster.
async fn secret_is_unharmed(stage: &Stage) -> Result<()> {
    let secret = enrol::cluster_secret("spoke1");
    let red = |it: &Value| it["metadata"]["labels"]["colour"] == "red";
    let secret = stage
        .hub
        .until(&secret, "follows the labels", SOON, red)
        .await?;
    let labels = &secret["metadata"]["labels"];
    ensure!(
        labels["argocd.argoproj.io/secret-type"] == "cluster",
        "{labels}"
    );
    ensure!(
        labels["argocd-agent.argoproj-labs.io/agent-name"] == "spoke1",
        "{labels}"
    );
    let annotations = &secret["metadata"]["annotations"];
    ensure!(!annotations.to_string().contains("spoke2"), "{annotations}");
    Ok(())
}

/// The condition names the invalid annotation, and no work goes to another cluster.
async fn invalid_annotation_is_reported(stage: &Stage) -> Result<()> {
    let is_reported = |it: &Value| {
        let degraded = lab::steps::objects::condition(it, "Degraded");
        let message = degraded
            .map(|it| it["message"].to_string())
            .unwrap_or_default();
        has_condition(it, "Degraded", "True", "ConfigurationInvalid")
            && message.contains(REGISTRIES)
    };
    stage
        .hub
        .until(
            &At::addon("spoke1"),
            "names the annotation",
            SOON,
            is_reported,
        )
        .await?;
    let hosted = stage
        .hub
        .list(
            &At::work("spoke2", ""),
            "open-cluster-management.io/addon-namespace",
        )
        .await?;
    ensure!(
        hosted.is_empty(),
        "nothing was sent to another cluster: {hosted:?}"
    );
    Ok(())
}

/// A cluster can write labels, annotations and claims of its ManagedCluster. They affect only this cluster; the add-on
/// reports invalid ones, and the works sent before stay.
pub(crate) async fn forged_managed_cluster_metadata_grants_nothing(stage: &Stage) -> Result<()> {
    stage.enrolled(1).await?;
    let (at, addon) = (At::cluster("spoke1"), At::addon("spoke1"));
    let before = stage.hub.read(&addon).await?;
    let spoke = as_spoke(stage, "spoke1").await?;
    let forged = json!({
        "labels": {
            "argocd.argoproj.io/secret-type": "repository",
            "argocd-agent.argoproj-labs.io/agent-name": "spoke2",
            "colour": "red",
        },
        "annotations": { HOSTING: "spoke2", REGISTRIES: "{not json" },
    });
    rewrite(&spoke, stage, &at, &forged).await?;
    let claims = json!([
        { "name": "argocd.argoproj.io/managed-by", "value": "spoke2" },
        { "name": "x".repeat(200), "value": "y".repeat(1000) },
    ]);
    spoke
        .merge_status(&at, json!({ "status": { "clusterClaims": claims } }))
        .await?;

    secret_is_unharmed(stage).await?;
    invalid_annotation_is_reported(stage).await?;

    let none = json!({
        "labels": {
            "argocd.argoproj.io/secret-type": null,
            "argocd-agent.argoproj-labs.io/agent-name": null,
            "colour": null,
        },
        "annotations": { HOSTING: null, REGISTRIES: null },
    });
    stage.hub.merge(&at, json!({ "metadata": none })).await?;
    let healed = |it: &Value| has_condition(it, "Degraded", "False", "");
    stage
        .hub
        .until(&addon, "is well again", SOON, healed)
        .await?;
    let after = enrol::until_available(&stage.hub, "spoke1").await?;
    ensure!(
        after["metadata"]["uid"] == before["metadata"]["uid"],
        "it is the same add-on"
    );
    ensure!(after["status"]["registrations"] == before["status"]["registrations"]);
    Ok(())
}

/// Writes metadata with a full update, as a cluster may update its ManagedCluster.
async fn rewrite(spoke: &Objects, stage: &Stage, at: &At, metadata: &Value) -> Result<()> {
    let write = || async {
        let mut object = stage.hub.read(at).await?;
        for (field, more) in metadata.as_object().into_iter().flatten() {
            if !object["metadata"][field].is_object() {
                object["metadata"][field] = json!({});
            }
            for (key, value) in more.as_object().into_iter().flatten() {
                object["metadata"][field][key] = value.clone();
            }
        }
        let object: DynamicObject = serde_json::from_value(object)?;
        let (api, params) = (spoke.api(at), PostParams::default());
        let written = api.replace(at.name(), &params, &object).await;
        written.map(drop).context("not in this version")
    };
    wait::until("the cluster may write its ManagedCluster", write, |()| true).await
}

/// Drift on a spoke is repaired; fields of another field manager stay.
pub(crate) async fn drift_on_a_spoke_is_repaired_and_others_fields_stay(
    stage: &Stage,
) -> Result<()> {
    stage.enrolled(1).await?;
    let spoke = stage.spoke(1);
    let agent = enrol::agent();
    let role = At::role(enrol::ARGOCD, "argocd-agent-addon-agent");
    let binding = ("RoleBinding", "rolebindings");
    let binding = At::of(
        "rbac.authorization.k8s.io/v1",
        binding,
        Some(enrol::ARGOCD),
        "argocd-agent-addon-agent",
    );
    let missing = match spoke.get(&role).await? {
        Some(_) => role,
        None => binding,
    };
    let theirs = json!({ "metadata": { "annotations": { "example.com/owner": "ann" } } });
    spoke.apply(&agent, theirs).await?;
    spoke
        .merge(&agent, json!({ "spec": { "replicas": 0 } }))
        .await?;
    spoke.delete(&missing).await?;
    // The work agent looks every four to six minutes.
    let bound = wait::BOUND * 5;
    spoke
        .until(&missing, "is there again", bound, |it| !it.is_null())
        .await?;
    let right = |it: &Value| it["spec"]["replicas"] == 1;
    let repaired = spoke
        .until(&agent, "has its replica again", bound, right)
        .await?;
    ensure!(
        repaired["metadata"]["annotations"]["example.com/owner"] == "ann",
        "{}",
        repaired["metadata"]
    );
    enrol::until_available(&stage.hub, "spoke1").await.map(drop)
}

/// Deleting a ManagedCluster deletes all objects of the add-on, in order, and nothing is recreated meanwhile.
pub(crate) async fn a_deleted_cluster_leaves_nothing_behind(stage: &Stage) -> Result<()> {
    stage.enrolled(3).await?;
    let mark = stage.lab.hub().audit().mark()?;
    let cluster = At::cluster("spoke3");
    stage.hub.delete(&cluster).await?;
    stage.hub.until_gone(&cluster, wait::BOUND * 2).await?;
    stage.hub.until_gone(&At::addon("spoke3"), SOON).await?;
    stage
        .hub
        .until_gone(&enrol::cluster_secret("spoke3"), SOON)
        .await?;
    let works = stage.hub.list(&At::work("spoke3", ""), "").await?;
    ensure!(works.is_empty(), "{works:?}");
    for at in [
        enrol::agent(),
        At::secret(enrol::AGENT_NAMESPACE, enrol::CERTIFICATE),
    ] {
        stage.spoke(3).until_gone(&at, wait::BOUND).await?;
    }
    let user = format!(
        "system:serviceaccount:{}:{}",
        product::NAMESPACE,
        product::MANAGER
    );
    let made = stage
        .lab
        .hub()
        .audit()
        .by(&user, mark)?
        .into_iter()
        .filter(|it| {
            let of_cluster = it.object.as_ref().is_some_and(|it| {
                it.namespace == "spoke3" && (it.resource == "manifestworks" || it.name == ADDON)
            });
            of_cluster && matches!(it.verb.as_str(), "create" | "patch" | "update") && it.code < 300
        });
    let made: Vec<_> = made
        .filter(|it| {
            it.object
                .as_ref()
                .is_some_and(|it| it.subresource.is_empty())
        })
        .collect();
    ensure!(made.is_empty(), "made while the cluster went: {made:#?}");
    Ok(())
}
