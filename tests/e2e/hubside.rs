//! The hub's side of a cluster: its cluster Secret, the principal's address, and its project.

pub(crate) mod without_ocm;

use anyhow::{Context as _, Result, ensure};
use base64::Engine as _;
use lab::{
    product,
    steps::{
        At, deliver,
        enrol::{self, by_label, cluster_secret, until_available, until_removed},
        objects::{has_condition, is_rolled_out},
    },
};
use serde_json::{Value, json};

use crate::stage::{SOON, Stage, text};

const WRITTEN: &str = "argocd-agent.open-cluster-management.io/written";
const REGION: &str = "e2e.example.org/region";
const TEAM: &str = "e2e.example.org/team";

pub(crate) fn label(value: &Value, key: &str) -> Value {
    value["metadata"]["labels"][key].clone()
}

pub(crate) fn labelled(key: &str, value: &Value) -> Value {
    json!({"metadata": {"labels": {key: value}}})
}

/// The credentials in a cluster Secret: certificate and trusted CAs.
fn credentials(secret: &Value) -> Result<(String, String)> {
    let config: Value = serde_json::from_str(&text(secret, "config")?)?;
    let read = |field: &str| -> Result<String> {
        let encoded = config["tlsClientConfig"][field].as_str();
        let encoded = encoded.with_context(|| format!("no {field}"))?;
        let bytes = base64::engine::general_purpose::STANDARD.decode(encoded)?;
        Ok(String::from_utf8(bytes)?)
    };
    ensure!(!read("keyData")?.is_empty());
    Ok((read("certData")?, read("caData")?))
}

/// The cluster Secret has the fields that Argo CD needs, follows the ManagedCluster, and keeps edits of a user.
pub(crate) async fn the_cluster_secret_follows_its_cluster_and_keeps_user_edits(
    stage: &Stage,
) -> Result<()> {
    stage.enrolled(1).await?;
    let (hub, at, cluster) = (&stage.hub, cluster_secret("spoke1"), At::cluster("spoke1"));
    let secret = hub.read(&at).await?;
    let (certificate, trusted) = credentials(&secret)?;
    let pem = x509_parser::pem::parse_x509_pem(certificate.as_bytes())?.1;
    let subject = pem.parse_x509()?.subject().to_string();
    ensure!(
        subject == "CN=argocd-agent:resource-proxy:spoke1",
        "{subject}"
    );
    let ca = At::secret(product::NAMESPACE, "argocd-agent-ca");
    ensure!(trusted == text(&hub.read(&ca).await?, "tls.crt")?);
    ensure!(secret["metadata"]["annotations"]["argocd.argoproj.io/skip-reconcile"] == "true");

    hub.merge(&at, labelled(TEAM, &json!("a"))).await?;
    hub.merge(&cluster, labelled(REGION, &json!("eu"))).await?;
    let follows = |secret: &Value| label(secret, REGION) == "eu" && label(secret, TEAM) == "a";
    hub.until(&at, "has both labels", SOON, follows).await?;
    hub.merge(&cluster, labelled(REGION, &Value::Null)).await?;
    let follows = |secret: &Value| label(secret, REGION).is_null() && label(secret, TEAM) == "a";
    hub.until(&at, "has the user's label alone", SOON, follows)
        .await?;

    hub.merge(&at, labelled(REGION, &json!("mine"))).await?;
    hub.merge(&cluster, labelled(REGION, &json!("us"))).await?;
    let addon = At::addon("spoke1");
    let is_reported =
        |addon: &Value| has_condition(addon, "Degraded", "True", "ClusterSecretConflict");
    hub.until(&addon, "reports the conflict", SOON, is_reported)
        .await?;
    ensure!(
        label(&hub.read(&at).await?, REGION) == "mine",
        "a user's label was written over"
    );
    hub.merge(&at, labelled(REGION, &Value::Null)).await?;
    let follows = |secret: &Value| label(secret, REGION) == "us";
    hub.until(&at, "follows again", SOON, follows).await?;
    let calm = |addon: &Value| !has_condition(addon, "Degraded", "True", "");
    hub.until(&addon, "is not Degraded", SOON, calm).await?;
    hub.merge(&cluster, labelled(REGION, &Value::Null)).await?;
    hub.merge(&at, labelled(TEAM, &Value::Null)).await.map(drop)
}

/// A cluster Secret of `argocd-agentctl` is taken over in place, keeps a user's labels, and is deleted at an opt-out.
pub(crate) async fn a_cluster_secret_of_argocd_agentctl_is_taken_over(stage: &Stage) -> Result<()> {
    stage.not_enrolled(2).await?;
    let (hub, at) = (&stage.hub, cluster_secret("spoke2"));
    let theirs = json!({
        "metadata": {
            "labels": {
                "argocd.argoproj.io/secret-type": "cluster",
                "argocd-agent.argoproj-labs.io/agent-name": "spoke2",
                TEAM: "a",
            },
            "annotations": {"managed-by": "argocd-agent", "argocd.argoproj.io/skip-reconcile": "true"},
        },
        "stringData": {
            "name": "spoke2",
            "server": "https://argocd-agent-resource-proxy:9090?agentName=spoke2",
            "config": r#"{"tlsClientConfig":{"insecure":false,"certData":"eA==","keyData":"eA==","caData":"eA=="}}"#,
        },
    });
    let made = hub.apply(&at, theirs).await?;
    by_label(hub, "spoke2").await?;
    until_available(hub, "spoke2").await?;
    let ours = |secret: &Value| !secret["metadata"]["annotations"][WRITTEN].is_null();
    let taken = hub.until(&at, "is ours", SOON, ours).await?;
    ensure!(
        taken["metadata"]["uid"] == made["metadata"]["uid"],
        "it was recreated"
    );
    ensure!(label(&taken, TEAM) == "a", "a user's label is gone");
    credentials(&taken)?;
    stage.not_enrolled(2).await?;
    until_removed(hub, stage.spoke(2), "spoke2").await?;
    by_label(hub, "spoke2").await?;
    until_available(hub, "spoke2").await.map(drop)
}

/// Host and port that the agent's Deployment configures.
fn dials(deployment: &Value) -> Option<(String, String)> {
    let env = deployment["spec"]["template"]["spec"]["containers"][0]["env"].as_array()?;
    let value = |name: &str| {
        let entry = env.iter().find(|entry| entry["name"] == name)?;
        entry["value"].as_str().map(str::to_owned)
    };
    Some((
        value("ARGOCD_AGENT_REMOTE_SERVER")?,
        value("ARGOCD_AGENT_REMOTE_PORT")?,
    ))
}

/// The principal's Service becomes a node port and then a load balancer again: its address is found each time, its
/// certificate covers it, and the agents dial there.
pub(crate) async fn the_principal_is_found_behind_a_node_port_and_a_load_balancer(
    stage: &Stage,
) -> Result<()> {
    stage.enrolled(1).await?;
    let app = stage.greeter("found-again", 1).await?;
    app.apply(&stage.hub).await?;
    deliver::until_healthy(&stage.hub, &app.at, "").await?;
    let helm = stage.lab.helm();
    let nodes = stage.hub.list(&At::node(""), "").await?;
    let node = nodes.first().context("the hub has a node")?;
    let node = node["status"]["addresses"][0]["address"].as_str();
    let node = node.context("the node has an address")?.to_owned();
    for kind in ["NodePort", "LoadBalancer"] {
        let values = [
            "--set",
            "principal.findAddress=true",
            "--set",
            &format!("principal.service.type={kind}"),
            "--wait",
        ];
        product::upgrade(&helm, &values).await?;
        let address = offered(stage, kind, &node).await?;
        until_dials(stage, &address).await?;
        let value = labelled("e2e.example.org/behind", &json!(kind));
        stage.hub.merge(&app.at, value).await?;
        let arrived = |app: &Value| label(app, "e2e.example.org/behind") == kind;
        let replica = Stage::replica("found-again");
        let what = format!("came by {kind}");
        let spoke = stage.spoke(1);
        spoke.until(&replica, &what, SOON * 2, arrived).await?;
    }
    until_available(&stage.hub, "spoke1").await?;
    stage.clear(&app).await
}

/// Host and port that the principal's Service offers as this type.
async fn offered(stage: &Stage, kind: &str, node: &str) -> Result<(String, String)> {
    let ready = |service: &Value| {
        if kind == "NodePort" {
            return service["spec"]["ports"][0]["nodePort"].is_u64();
        }
        service["status"]["loadBalancer"]["ingress"][0]["ip"].is_string()
    };
    let at = At::service(product::NAMESPACE, product::SERVICE);
    let service = stage.hub.until(&at, kind, SOON, ready).await?;
    let given = &service["status"]["loadBalancer"]["ingress"][0]["ip"];
    let given = given.as_str().unwrap_or_default().to_owned();
    let opened = service["spec"]["ports"][0]["nodePort"].to_string();
    Ok(if kind == "NodePort" {
        (node.to_owned(), opened)
    } else {
        (given, "443".to_owned())
    })
}

/// Waits until the agent's Deployment has this address and its new Pod.
async fn until_dials(stage: &Stage, address: &(String, String)) -> Result<()> {
    let deployment = enrol::agent();
    let there = |agent: &Value| dials(agent).as_ref() == Some(address);
    let what = format!("dials {}:{}", address.0, address.1);
    let spoke = stage.spoke(1);
    spoke.until(&deployment, &what, SOON * 2, there).await?;
    let what = "has its new pod";
    spoke
        .until(&deployment, what, SOON * 2, is_rolled_out)
        .await
        .map(drop)
}

/// With `clusterProjects` each cluster has an AppProject of its own, which lets its namespace deploy there. A user's
/// project of that name is left alone, and ours is deleted at an opt-out.
pub(crate) async fn each_cluster_has_a_project_where_it_is_wanted(stage: &Stage) -> Result<()> {
    stage.enrolled(1).await?;
    stage.not_enrolled(2).await?;
    let hub = &stage.hub;
    let theirs = At::project(enrol::ARGOCD, "cluster-spoke1");
    let made = hub
        .apply(&theirs, json!({"spec": {"description": "a user's"}}))
        .await?;
    let helm = stage.lab.helm();
    product::upgrade(&helm, &["--set", "clusterProjects=true", "--wait"]).await?;

    by_label(hub, "spoke2").await?;
    let project = At::project(enrol::ARGOCD, "cluster-spoke2");
    let lets = |project: &Value| project["spec"]["sourceNamespaces"] == json!(["spoke2"]);
    hub.until(&project, "is made", SOON * 2, lets).await?;
    until_available(hub, "spoke2").await?;
    hub.merge(
        &project,
        json!({"spec": {"sourceNamespaces": ["elsewhere"]}}),
    )
    .await?;
    let wakes = labelled("e2e.example.org/wakes", &json!("x"));
    hub.merge(&At::cluster("spoke2"), wakes).await?;
    hub.until(&project, "is mended", SOON, lets).await?;
    stage.not_enrolled(2).await?;
    hub.until_gone(&project, SOON).await?;
    let left = hub.read(&theirs).await?;
    ensure!(left["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]);
    hub.delete(&theirs).await?;

    product::upgrade(&helm, &["--wait"]).await?;
    by_label(hub, "spoke2").await?;
    until_available(hub, "spoke2").await.map(drop)
}

/// The chart's value puts the label of ACM's backups on each object that a restored hub needs, and not on a serving
/// certificate.
pub(crate) async fn backup_label_marks_all_that_a_restored_hub_needs(stage: &Stage) -> Result<()> {
    const BACKUP: &str = "cluster.open-cluster-management.io/backup";
    const VALUE: &str = "cluster-activation";
    stage.enrolled(1).await?;
    let (helm, own) = (stage.lab.helm(), product::NAMESPACE);
    let set = format!("backup.label={VALUE}");
    product::upgrade(&helm, &["--set", &set, "--wait"]).await?;
    let is_marked = |object: &Value| label(object, BACKUP) == VALUE;
    for at in [
        At::secret(own, "argocd-agent-ca"),
        At::secret(own, "argocd-agent-jwt"),
        At::config_map(own, "argocd-agent-addon-modes"),
        At::config_map(enrol::ARGOCD, "argocd-agent-principal-identity"),
    ] {
        let marked = stage.hub.until(&at, "has the label", SOON * 2, is_marked);
        marked.await?;
    }
    let leaf = At::secret(own, "argocd-agent-principal-tls");
    let leaf = stage.hub.read(&leaf).await?;
    ensure!(label(&leaf, BACKUP).is_null(), "it can be issued again");
    product::upgrade(&helm, &["--wait"]).await?;
    until_available(&stage.hub, "spoke1").await.map(drop)
}
