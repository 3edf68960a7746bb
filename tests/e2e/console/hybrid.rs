//! A hub whose Argo CD runs an application controller, for the hub itself and for clusters in push mode, beside the add-on.

use anyhow::{Result, ensure};
use lab::{
    argocd, product,
    steps::{
        At,
        deliver::{self, Application},
        enrol::ARGOCD,
        objects::condition,
    },
};
use serde_json::{Value, json};

use super::line::Console;
use crate::{
    agentctl::results,
    reader::Reader,
    stage::{Stage, commit},
};

const PAGE: &str = "docs/hybrid.md";
/// The user as which the hub's application controller sends requests.
const CONTROLLER: &str = "system:serviceaccount:argocd:argocd-application-controller";
/// The hub, as Argo CD names it.
const HUB: &str = "https://kubernetes.default.svc";
const FLEET: &str = "hybrid-fleet";
const OWN: &str = "hybrid-own";

/// An application controller that knows no annotation of clusters runs on the hub, and argocd-server alone shows the
/// namespaces of clusters, by the command of the page. The controller syncs an Application that deploys to the hub, and
/// sends no request about one in the namespace of a cluster, which the agent delivers meanwhile.
pub(crate) async fn old_hub_controller_syncs_only_applications_of_its_own(
    stage: &Stage,
) -> Result<()> {
    let console = Console::open(stage).await?;
    let shared =
        stage.hub.read(&argocd::parameters()).await?["data"]["application.namespaces"].clone();
    share(stage, Value::Null).await?;
    let reader = Reader::of(stage)?.with("NAMESPACES", "spoke1,spoke2");
    let test = "old_hub_controller_syncs_only_applications_of_its_own";
    reader.follow(PAGE, test, 1).await?;
    argocd::install_controller(stage.lab.hub(), stage.lab.tools()).await?;
    let seen = both_deploy(stage, &console).await;

    // Later tests find the hub without a controller, and the server as the console sets it up.
    argocd::remove_controller(stage.lab.hub(), stage.lab.tools()).await?;
    share(stage, shared).await?;
    let server = At::deployment(ARGOCD, argocd::SERVER);
    stage.hub.delete(&server).await?;
    argocd::install_server(stage.lab.hub(), stage.lab.tools()).await?;
    seen
}

/// Sets the namespaces that all programs of the hub's Argo CD share.
async fn share(stage: &Stage, namespaces: Value) -> Result<()> {
    let data = json!({"data": {"application.namespaces": namespaces}});
    stage.hub.merge(&argocd::parameters(), data).await.map(drop)
}

async fn both_deploy(stage: &Stage, console: &Console) -> Result<()> {
    let (hub, log) = (&stage.hub, stage.lab.hub().audit());
    let mark = log.mark()?;
    let mut fleet = stage.greeter(FLEET, 1).await?;
    "spoke1".clone_into(&mut fleet.cluster);
    fleet.apply(hub).await?;
    let own = of_the_hub(stage).await?;
    deliver::until_healthy(hub, &own.at, "").await?;
    deliver::until_healthy(hub, &fleet.at, "").await?;

    // A change and a refresh, which a controller that looks at it would answer.
    let next = commit(&stage.lab.git().repository(FLEET)?, "good-day", "v2")?;
    "v2".clone_into(&mut fleet.revision);
    fleet.apply(hub).await?;
    deliver::until_healthy(hub, &fleet.at, &next).await?;
    stage.until_greets(1, FLEET, "good-day").await?;
    stage.refresh(&fleet.at, FLEET).await?;
    let app = hub.read(&fleet.at).await?;
    for kind in ["ComparisonError", "InvalidSpecError"] {
        ensure!(condition(&app, kind).is_none(), "{app:#}");
    }
    let name = format!("spoke1/{FLEET}");
    let tree = ["app", "get", &name, "--output", "tree"];
    console
        .until_it_prints(&tree, |tree| tree.contains("Pod"))
        .await?;

    let requests = log.by(CONTROLLER, mark)?;
    let about = |namespace: &str| {
        let objects = requests.iter().filter_map(|it| it.object.as_ref());
        let of = objects.filter(|it| it.resource == "applications" && it.namespace == namespace);
        of.count()
    };
    ensure!(about(ARGOCD) > 0, "no request about its own: {requests:#?}");
    ensure!(about("spoke1") == 0, "{requests:#?}");
    it_is_checked(stage).await?;
    stage.clear(&fleet).await?;
    stage.clear(&own).await?;
    hub.delete(&At::namespace(OWN)).await
}

/// An Application that deploys to the hub.
async fn of_the_hub(stage: &Stage) -> Result<Application> {
    let repository = stage.lab.git().repository(OWN)?;
    let map = "{apiVersion: v1, kind: ConfigMap, metadata: {name: own}, data: {word: own}}";
    repository.commit("first", &[("app/map.yaml", map)])?;
    let project = json!({"spec": {
        "sourceRepos": ["*"],
        "destinations": [{"server": HUB, "namespace": "*"}],
        "clusterResourceWhitelist": [{"group": "*", "kind": "*"}],
    }});
    stage.hub.apply(&At::project(ARGOCD, OWN), project).await?;
    let own = Application {
        at: At::application(ARGOCD, OWN),
        project: OWN.to_owned(),
        cluster: "in-cluster".to_owned(),
        namespace: OWN.to_owned(),
        repository: repository.url(),
        path: "app".to_owned(),
        revision: "main".to_owned(),
        automated: true,
    };
    own.apply(&stage.hub).await?;
    Ok(own)
}

/// `check` finds the namespaces shown, and warns of Applications of clusters in Argo CD's own namespace.
/// Whether this application controller ignores the annotation of clusters, which Argo CD reads from 3.4 on.
fn is_old(controller: &Value) -> bool {
    let image = controller["spec"]["template"]["spec"]["containers"][0]["image"].as_str();
    let version = image.and_then(|it| it.rsplit_once(":v")).map(|it| it.1);
    let mut numbers = version
        .unwrap_or_default()
        .split('.')
        .map(str::parse::<u64>);
    let mut number = || numbers.next().and_then(Result::ok);
    let known = number().zip(number());
    known.is_some_and(|it| it < (3, 4))
}

async fn it_is_checked(stage: &Stage) -> Result<()> {
    let team = stage.platform_team().await?;
    let output = product::agentctl(&team, &["check", "-o", "json"]).await?;
    let found: Value = serde_json::from_str(&output.out)?;
    let controller = stage
        .hub
        .read(&At::stateful_set(ARGOCD, argocd::CONTROLLER))
        .await?;
    let controllers = if is_old(&controller) { "warning" } else { "ok" };
    for (check, expected) in [("controllers", controllers), ("argo cd", "ok")] {
        ensure!(results(&found, check) == [expected], "{check}: {found:#}");
    }
    Ok(())
}
