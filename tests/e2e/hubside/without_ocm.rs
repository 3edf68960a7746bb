//! OCM's controllers and its conversion webhook are away while the hub program restarts.

use super::{
    At, Result, SOON, Stage, TEAM, Value, cluster_secret, deliver, ensure, json, label, labelled,
    product, until_available,
};
use crate::programs::Program;

/// The UIDs of the Secrets of an enrolled cluster, and the keys of its labels: the hub program must not remove them while it cannot read
/// the add-ons.
struct Enrolment(Vec<Value>);

impl Enrolment {
    async fn of(stage: &Stage) -> Result<Self> {
        let mut all = Vec::new();
        for at in [
            cluster_secret("spoke1"),
            At::secret(product::NAMESPACE, "argocd-agent-ca"),
            At::secret(product::NAMESPACE, "argocd-agent-jwt"),
        ] {
            all.push(stage.hub.read(&at).await?["metadata"]["uid"].clone());
        }
        let cluster = stage.hub.read(&At::cluster("spoke1")).await?;
        // OCM changes the value of its own label.
        let labels = cluster["metadata"]["labels"].as_object();
        all.extend(labels.into_iter().flatten().map(|(key, _)| json!(key)));
        Ok(Self(all))
    }

    async fn is_unchanged(&self, stage: &Stage) -> Result<()> {
        let now = Self::of(stage).await?.0;
        ensure!(now == self.0, "{:?} changed to {now:?}", self.0);
        Ok(())
    }
}

/// Sessions continue without OCM. A hub program that starts meanwhile cannot read any add-on, takes nothing away, and
/// serves the fleet when OCM is back.
pub(crate) async fn a_hub_program_that_starts_without_ocm_deletes_nothing(
    stage: &Stage,
) -> Result<()> {
    stage.enrolled(1).await?;
    let app = stage.greeter("without-ocm", 1).await?;
    app.apply(&stage.hub).await?;
    deliver::until_healthy(&stage.hub, &app.at, "").await?;
    let before = Enrolment::of(stage).await?;
    let mark = stage.lab.hub().audit().mark()?;
    stage.lab.ocm().await?.hub.stop().await;
    let restarted = restarted_without_ocm(stage, &app.at, &before).await;
    stage.lab.ocm().await?.hub.resume().await?;
    restarted?;

    changed(stage, &app.at, "with-ocm").await?;
    until_available(&stage.hub, "spoke1").await?;
    before.is_unchanged(stage).await?;
    let deleted = deletions(stage, mark)?;
    ensure!(deleted.is_empty(), "deleted: {deleted:#?}");
    stage.clear(&app).await
}

/// A change arrives, then the hub program is replaced, and the new one fails to read the add-ons.
async fn restarted_without_ocm(stage: &Stage, app: &At, before: &Enrolment) -> Result<()> {
    changed(stage, app, "without-ocm").await?;
    // The API server would serve the other version of the add-on API from its cache.
    stage.lab.hub().kill_api().await;
    stage.lab.hub().start_api().await?;
    Program::Manager.kill(stage).await?;
    let mark = stage.lab.hub().audit().mark()?;
    // A list fails after a minute or more: without the webhook the API server fills no cache of the add-ons.
    let answered = || async {
        let mut requests = stage.lab.hub().audit().by(&manager(), mark)?;
        requests.retain(|it| {
            let object = it.object.as_ref();
            it.verb == "list" && object.is_some_and(|it| it.resource == "managedclusteraddons")
        });
        anyhow::Ok(requests)
    };
    let what = "the new hub program cannot read the add-ons";
    let has_failed = |lists: &Vec<lab::audit::Entry>| lists.iter().any(|it| it.code >= 429);
    let lists = lab::wait::until(what, answered, has_failed).await?;
    ensure!(lists.iter().all(|it| it.code != 200), "read: {lists:#?}");
    before.is_unchanged(stage).await
}

/// A change of an Application arrives on its cluster.
async fn changed(stage: &Stage, app: &At, value: &str) -> Result<()> {
    stage.hub.merge(app, labelled(TEAM, &json!(value))).await?;
    let arrived = |app: &Value| label(app, TEAM) == value;
    let replica = Stage::replica(app.name());
    let what = format!("has the change {value}");
    let spoke = stage.spoke(1);
    spoke
        .until(&replica, &what, SOON * 2, arrived)
        .await
        .map(drop)
}

fn manager() -> String {
    let (namespace, name) = (product::NAMESPACE, product::MANAGER);
    format!("system:serviceaccount:{namespace}:{name}")
}

/// What the hub program deleted of enrolments and Applications since a mark.
fn deletions(stage: &Stage, mark: lab::audit::Mark) -> Result<Vec<lab::audit::Entry>> {
    const KINDS: [&str; 5] = [
        "managedclusteraddons",
        "manifestworks",
        "secrets",
        "applications",
        "appprojects",
    ];
    let mut requests = stage.lab.hub().audit().by(&manager(), mark)?;
    requests.retain(|it| {
        let object = it.object.as_ref();
        it.verb.starts_with("delete")
            && object.is_some_and(|object| KINDS.contains(&object.resource.as_str()))
    });
    Ok(requests)
}
