//! The chart on a hub: upgrade, uninstall, and install again. Each test leaves it installed.

pub(crate) mod configure;
pub(crate) mod gitops;
pub(crate) mod leftovers;

use std::collections::BTreeSet;

use anyhow::{Context as _, Result, ensure};
use lab::{
    audit::{Entry, Mark},
    helm, product,
    steps::{At, deliver, enrol, objects::condition, workload},
};
use serde_json::{Value, json};

use crate::{
    rights,
    stage::{SOON, Stage, commit},
};

/// The name of the uninstall Job and its objects.
pub(crate) const UNINSTALL: &str = "argocd-agent-addon-uninstall";

/// A changed value rolls the hub program and nothing else: same CA, same certificates, agents that only connect again.
pub(crate) async fn an_upgrade_keeps_the_ca_and_the_agents(stage: &Stage) -> Result<()> {
    stage.enrolled(1).await?;
    let mut app = stage.greeter("upgraded", 1).await?;
    app.apply(&stage.hub).await?;
    deliver::until_healthy(&stage.hub, &app.at, "").await?;
    let (before, manager) = (Identity::of(stage).await?, manager_pod(stage).await?);

    let helm = stage.lab.helm();
    let value = ["--set", "podAnnotations.upgraded=yes", "--wait"];
    let output = product::upgrade(&helm, &value).await?;
    ensure!(
        output.contains("kubectl label managedcluster"),
        "no notes: {output}"
    );
    ensure!(
        manager_pod(stage).await? != manager,
        "the hub program is a new one"
    );
    helm.run(&["test", product::RELEASE, "-n", product::NAMESPACE])
        .await?;

    let repository = stage.lab.git().repository("upgraded")?;
    let next = commit(&repository, "after-the-upgrade", "v2")?;
    "v2".clone_into(&mut app.revision);
    app.apply(&stage.hub).await?;
    deliver::until_healthy(&stage.hub, &app.at, &next).await?;
    enrol::until_available(&stage.hub, "spoke1").await?;
    let after = Identity::of(stage).await?;
    ensure!(before == after, "before {before:?}, after {after:?}");
    stage.clear(&app).await
}

/// `helm uninstall` removes the add-on from every cluster first, in order, and leaves the user's objects; the next install
/// adopts them.
pub(crate) async fn an_uninstallation_takes_the_add_on_off_and_an_installation_adopts(
    stage: &Stage,
) -> Result<()> {
    stage.enrolled(1).await?;
    stage.not_enrolled(2).await?;
    // The add-on of spoke2 was created by hand, so no controller recreates it.
    enrol::by_addon(&stage.hub, "spoke2").await?;
    enrol::until_available(&stage.hub, "spoke2").await?;
    let app = stage.greeter("outlives", 1).await?;
    let made = app.apply(&stage.hub).await?;
    deliver::until_healthy(&stage.hub, &app.at, "").await?;
    let (spoke, replica) = (stage.spoke(1), Stage::replica("outlives"));
    let replica_uid = spoke.read(&replica).await?["metadata"]["uid"].clone();
    let ca = At::secret(product::NAMESPACE, "argocd-agent-ca");
    let authority = stage.hub.read(&ca).await?["data"].clone();
    let mark = stage.lab.hub().audit().mark()?;

    uninstall(stage).await?;
    for number in [1, 2] {
        let cluster = format!("spoke{number}");
        enrol::until_removed(&stage.hub, stage.spoke(number), &cluster).await?;
    }
    went_in_order(&stage.lab.hub().audit().since(mark)?, "spoke1")?;
    used_its_rights(stage, mark, UNINSTALL, &[]).await?;
    leftovers::are_as_promised(stage).await?;
    let left = stage.hub.read(&app.at).await?;
    ensure!(
        left["metadata"]["uid"] == made["metadata"]["uid"],
        "the hub's Application stays"
    );
    ensure!(
        left["metadata"]["deletionTimestamp"].is_null(),
        "and is not going"
    );

    product::install(&stage.lab.helm(), product::OptIn::Manual).await?;
    // The label is still there, and is followed again.
    enrol::until_available(&stage.hub, "spoke1").await?;
    ensure!(
        stage.hub.get(&At::addon("spoke2")).await?.is_none(),
        "spoke2 has an add-on without an opt-in"
    );
    ensure!(
        stage.hub.read(&ca).await?["data"] == authority,
        "the CA is the same"
    );
    deliver::until_healthy(&stage.hub, &app.at, "").await?;
    let adopted = spoke.read(&replica).await?;
    ensure!(
        adopted["metadata"]["uid"] == replica_uid,
        "the replica was adopted in place"
    );
    let config = At::config_map("outlives", workload::NAME);
    spoke.until_there(&config, SOON).await?;
    stage.clear(&app).await
}

/// An uninstall waits for a lost spoke until `uninstall.timeout`, then fails and names the next steps. Following them
/// works.
pub(crate) async fn an_uninstallation_waits_for_a_lost_spoke_with_a_bound(
    stage: &Stage,
) -> Result<()> {
    stage.enrolled(1).await?;
    stage.enrolled(2).await?;
    product::upgrade(
        &stage.lab.helm(),
        &["--set", "uninstall.timeout=20s", "--wait"],
    )
    .await?;
    let mut ocm = stage.lab.ocm().await?;
    ocm.spokes.get_mut("spoke2").context("spoke2")?.kill();
    until_lost(stage, "spoke2").await?;

    let output = stage.lab.helm().attempt(&UNINSTALLATION).await?;
    ensure!(
        !output.succeeded(),
        "it went on without spoke2: {}",
        output.out
    );
    ensure!(
        output.err.contains(UNINSTALL),
        "helm names the hook: {}",
        output.err
    );
    let word = last_word(stage).await?;
    for part in [
        "spoke2: OCM lost contact with this cluster",
        "reconnect the clusters that OCM lost (spoke2)",
        "helm uninstall --no-hooks",
    ] {
        ensure!(
            word.contains(part),
            "{part:?} is not in the last word: {word}"
        );
    }
    let mut errors = word.lines().filter(|line| line.contains(" ERROR "));
    ensure!(
        !errors.any(|line| line.contains("spoke1")),
        "spoke1 did not have to wait: {word}"
    );
    let manager = At::deployment(product::NAMESPACE, product::MANAGER);
    stage
        .hub
        .read(&manager)
        .await
        .context("the hub program is still there")?;

    ocm.spokes
        .get_mut("spoke2")
        .context("spoke2")?
        .resume()
        .await?;
    drop(ocm);
    uninstall(stage).await?;
    // OCM's agent deletes the certificate's Secret, but was down when the add-on was deleted. So wait for the Deployment only.
    let agent = enrol::agent();
    stage.spoke(2).until_gone(&agent, SOON).await?;
    product::install(&stage.lab.helm(), product::OptIn::Manual).await
}

/// Waits until the hub has lost a cluster, which is five of its leases later.
async fn until_lost(stage: &Stage, cluster: &str) -> Result<()> {
    let at = At::cluster(cluster);
    let leases = |seconds: u8| json!({"spec": {"leaseDurationSeconds": seconds}});
    stage.hub.merge(&at, leases(1)).await?;
    let lost = |cluster: &Value| {
        let available = condition(cluster, "ManagedClusterConditionAvailable");
        available.is_some_and(|it| it["status"] == "Unknown")
    };
    let what = "is lost to the hub";
    stage.hub.until(&at, what, lab::wait::BOUND, lost).await?;
    // Unknown it stays until a lease is renewed.
    stage.hub.merge(&at, leases(60)).await.map(drop)
}

/// Where an add-on of templates has the same names, the install fails without a write and prints how to migrate; that
/// way works.
pub(crate) async fn an_installation_refuses_an_add_on_of_templates(stage: &Stage) -> Result<()> {
    uninstall(stage).await?;
    let template = json!({"spec": {"supportedConfigs": [
        {"group": "addon.open-cluster-management.io", "resource": "addondeploymentconfigs"},
        {"group": "addon.open-cluster-management.io", "resource": "addontemplates"},
    ]}});
    let offer = At::addon_definition();
    stage.hub.apply(&offer, template).await?;
    let chart = helm::chart();
    let arguments = [
        "install",
        product::RELEASE,
        helm::text(&chart)?,
        "-n",
        product::NAMESPACE,
    ];
    let output = stage.lab.helm().attempt(&arguments).await?;
    ensure!(!output.succeeded(), "it was installed: {}", output.out);
    for part in [
        "argocd-pull-integration",
        "To change over",
        "kubectl delete clustermanagementaddons",
    ] {
        ensure!(
            output.err.contains(part),
            "{part:?} is not in: {}",
            output.err
        );
    }
    let account = At::service_account(product::NAMESPACE, product::MANAGER);
    ensure!(
        stage.hub.get(&account).await?.is_none(),
        "something was changed"
    );

    stage.hub.delete(&offer).await?;
    stage.hub.until_gone(&offer, SOON).await?;
    product::install(&stage.lab.helm(), product::OptIn::Manual).await?;
    stage.enrolled(1).await
}

const UNINSTALLATION: [&str; 5] = [
    "uninstall",
    product::RELEASE,
    "-n",
    product::NAMESPACE,
    "--wait",
];

/// `helm uninstall`, to its end: no Pod of the hub program is left.
pub(crate) async fn uninstall(stage: &Stage) -> Result<()> {
    if let Err(error) = stage.lab.helm().run(&UNINSTALLATION).await {
        let word = last_word(stage).await.unwrap_or_default();
        return Err(error.context(word));
    }
    let look = || async { manager_pods(stage).await };
    lab::wait::until("no Pod of the hub program is left", look, Vec::is_empty)
        .await
        .map(drop)
}

/// What must stay the same when the hub program is replaced.
#[derive(Debug, PartialEq, Eq)]
struct Identity {
    authority: Value,
    certificate: Value,
    agent: Value,
    restarts: Value,
}

impl Identity {
    async fn of(stage: &Stage) -> Result<Self> {
        let ca = At::secret(product::NAMESPACE, "argocd-agent-ca");
        let certificate = At::secret(enrol::AGENT_NAMESPACE, enrol::CERTIFICATE);
        let agents = At::pod(enrol::AGENT_NAMESPACE, "");
        let labels = "app.kubernetes.io/name=argocd-agent-agent";
        let agents = stage.spoke(1).list(&agents, labels).await?;
        let agent = agents.first().context("an agent")?;
        Ok(Self {
            authority: stage.hub.read(&ca).await?["metadata"]["resourceVersion"].clone(),
            certificate: stage.spoke(1).read(&certificate).await?["metadata"]["resourceVersion"]
                .clone(),
            agent: agent["metadata"]["uid"].clone(),
            restarts: agent["status"]["containerStatuses"][0]["restartCount"].clone(),
        })
    }
}

async fn manager_pods(stage: &Stage) -> Result<Vec<String>> {
    let labels = format!("app.kubernetes.io/name={}", product::MANAGER);
    let pods = stage
        .hub
        .list(&At::pod(product::NAMESPACE, ""), &labels)
        .await?;
    let names = pods
        .iter()
        .filter_map(|pod| pod["metadata"]["uid"].as_str());
    Ok(names.map(str::to_owned).collect())
}

/// The one Pod of the hub program, once there is one only.
async fn manager_pod(stage: &Stage) -> Result<String> {
    let look = || async { manager_pods(stage).await };
    let one = |pods: &Vec<String>| pods.len() == 1;
    let pods = lab::wait::until("one Pod of the hub program", look, one).await?;
    pods.into_iter().next().context("a Pod")
}

/// The termination message of the last uninstall Pod; Helm prints the same from its log.
async fn last_word(stage: &Stage) -> Result<String> {
    let labels = format!("app.kubernetes.io/name={UNINSTALL}");
    let pods = stage
        .hub
        .list(&At::pod(product::NAMESPACE, ""), &labels)
        .await?;
    let pod = pods.first().context("a Pod of the uninstallation")?;
    let ended = &pod["status"]["containerStatuses"][0]["state"]["terminated"];
    let word = ended["message"].as_str();
    Ok(word
        .with_context(|| format!("no last word: {ended}"))?
        .to_owned())
}

/// The offer goes, then the enrolment, then what is on the cluster, and the cluster Secret last.
fn went_in_order(entries: &[Entry], cluster: &str) -> Result<()> {
    let place = |verb: &str, resource: &str, name: &str| {
        let found = entries.iter().position(|entry| {
            let object = entry.object.as_ref();
            entry.verb == verb
                && entry.code < 300
                && object.is_some_and(|it| it.resource == resource && it.name == name)
                && object
                    .is_some_and(|it| ["", cluster, enrol::ARGOCD].contains(&it.namespace.as_str()))
        });
        found.with_context(|| format!("no {verb} of {resource} {name}"))
    };
    let addon = "argocd-agent-addon";
    let places = [
        place("delete", "clustermanagementaddons", addon)?,
        place("delete", "managedclusteraddons", addon)?,
        place("delete", "secrets", &format!("cluster-{cluster}"))?,
    ];
    ensure!(places.is_sorted(), "the order was {places:?}");
    Ok(())
}

/// The Jobs with this `ServiceAccount` used every right that the chart gives them with these values, and wanted no other.
async fn used_its_rights(stage: &Stage, mark: Mark, name: &str, values: &[&str]) -> Result<()> {
    let account = format!("system:serviceaccount:{}:{name}", product::NAMESPACE);
    let entries = stage.lab.hub().audit().by(&account, mark)?;
    let refused: Vec<_> = entries.iter().filter(|it| it.is_forbidden()).collect();
    ensure!(refused.is_empty(), "refused: {refused:#?}");
    let used = entries
        .iter()
        .filter_map(|it| Some(format!("{} {}", it.verb, it.object.as_ref()?.kind())));
    let used: BTreeSet<String> = used.collect();
    let rendered = product::rendered_with(&stage.lab.helm(), values).await?;
    let mut given = BTreeSet::new();
    for document in rendered.split("\n---\n") {
        let object: Value = serde_saphyr::from_str(document)?;
        let of = object["metadata"]["name"].as_str().unwrap_or_default();
        if of.starts_with(name) {
            given.extend(rights::of_object(&object));
        }
    }
    ensure!(given.len() > 4, "only {given:?} were read");
    ensure!(given == used, "given {given:#?}\nused {used:#?}");
    Ok(())
}
