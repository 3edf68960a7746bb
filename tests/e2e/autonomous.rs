//! Autonomous clusters: the hub mirrors their Applications and forwards commands, but never changes a spec.

pub(crate) mod crds;
pub(crate) mod mode;

use anyhow::{Context as _, Result, ensure};
use lab::{
    raw_client::agent_name,
    steps::{
        At, Objects,
        deliver::{self, Application, CASCADE},
        enrol, workload,
    },
};
use protocol::{Event, Kind, ObjectKey, Verb};
use serde_json::{Value, json};
use time::Duration;

use crate::stage::{SOON, Stage, commit};

/// The spoke of these tests; the other one is managed.
const NUMBER: usize = 2;
const CLUSTER: &str = "spoke2";

/// An Application that a user creates on the spoke, and its mirror on the hub.
struct Own<'a> {
    stage: &'a Stage,
    app: Application,
    mirror: At,
}

impl<'a> Own<'a> {
    /// Makes it with kubectl, in a project of its own, and waits until the hub shows that it runs.
    async fn running(stage: &'a Stage, name: &str) -> Result<Self> {
        let own = Self::new(stage, name).await?;
        own.app.apply(stage.spoke(NUMBER)).await?;
        deliver::until_healthy(&stage.hub, &own.mirror, "").await?;
        Ok(own)
    }

    async fn new(stage: &'a Stage, name: &str) -> Result<Self> {
        stage.autonomous(NUMBER).await?;
        let repository = stage.lab.git().repository(&own_repository(name))?;
        commit(&repository, "hello", "v1")?;
        deliver::allow(stage.spoke(NUMBER), name, "in-cluster").await?;
        let app = Application {
            at: Stage::replica(name),
            project: name.to_owned(),
            cluster: "in-cluster".to_owned(),
            namespace: name.to_owned(),
            repository: repository.url(),
            path: workload::PATH.to_owned(),
            revision: "v1".to_owned(),
            automated: true,
        };
        Ok(Self {
            stage,
            app,
            mirror: At::application(CLUSTER, name),
        })
    }

    /// Where the hub shows its project.
    fn project(&self) -> At {
        At::project(enrol::ARGOCD, &format!("{CLUSTER}-{}", self.app.project))
    }

    /// Changes it on the spoke; returns the commit that has to be shown.
    async fn change(&mut self) -> Result<String> {
        let repository = own_repository(&self.app.project);
        let repository = self.stage.lab.git().repository(&repository)?;
        let next = commit(&repository, "changed", "v2")?;
        "v2".clone_into(&mut self.app.revision);
        self.app.apply(self.stage.spoke(NUMBER)).await?;
        Ok(next)
    }

    /// Deletes it on the spoke with its project, and waits until the hub shows neither.
    async fn clear(self) -> Result<()> {
        let spoke = self.stage.spoke(NUMBER);
        spoke.delete(&self.app.at).await?;
        spoke.until_gone(&self.app.at, lab::wait::BOUND).await?;
        self.stage.hub.until_gone(&self.mirror, SOON).await?;
        let project = At::project(enrol::ARGOCD, &self.app.project);
        spoke.delete(&project).await?;
        self.stage.hub.until_gone(&self.project(), SOON).await
    }
}

/// Where an Application of the spoke is kept in git; the hub may have one of the same name.
fn own_repository(name: &str) -> String {
    format!("own-{name}")
}

/// An Application made on the spoke is shown on the hub with its status and project, follows, and goes when it goes.
pub(crate) async fn an_application_of_the_spoke_is_shown_on_the_hub(stage: &Stage) -> Result<()> {
    let mut own = Own::running(stage, "shown").await?;
    let source = stage.spoke(NUMBER).read(&own.app.at).await?;
    let mirror = stage.hub.read(&own.mirror).await?;
    ensure!(
        mirror["metadata"]["annotations"][deliver::SOURCE_UID] == source["metadata"]["uid"],
        "{mirror:#}"
    );
    ensure!(mirror["spec"]["project"] == "spoke2-shown", "{mirror:#}");
    ensure!(
        mirror["spec"]["destination"] == json!({"name": CLUSTER, "namespace": "shown"}),
        "{mirror:#}"
    );
    ensure!(mirror["metadata"]["finalizers"].is_null(), "{mirror:#}");
    let project = stage.hub.read(&own.project()).await?;
    ensure!(
        project["spec"]["sourceNamespaces"] == json!([CLUSTER]),
        "{project:#}"
    );
    ensure!(
        project["spec"]["destinations"] == json!([{"name": CLUSTER, "namespace": "*"}]),
        "{project:#}"
    );

    let next = own.change().await?;
    deliver::until_healthy(&stage.hub, &own.mirror, &next).await?;
    let edit = json!({"spec": {"description": "changed there"}});
    let there = At::project(enrol::ARGOCD, "shown");
    stage.spoke(NUMBER).merge(&there, edit).await?;
    let changed = |project: &Value| project["spec"]["description"] == "changed there";
    stage
        .hub
        .until(&own.project(), "is changed", SOON, changed)
        .await?;
    own.clear().await
}

/// A sync requested on the hub runs once on the spoke, and the mirror shows its result.
pub(crate) async fn a_sync_asked_for_on_the_hub_runs_once_on_the_spoke(
    stage: &Stage,
) -> Result<()> {
    let mut own = Own::new(stage, "asked").await?;
    own.app.automated = false;
    let namespace = At::namespace("asked");
    let spoke = stage.spoke(NUMBER);
    spoke.apply(&namespace, json!({})).await?;
    own.app.apply(spoke).await?;
    let out_of_sync = |app: &Value| app["status"]["sync"]["status"] == "OutOfSync";
    stage
        .hub
        .until(&own.mirror, "is out of sync", SOON, out_of_sync)
        .await?;
    for times in [1, 2] {
        deliver::ask_for_sync(&stage.hub, &own.mirror, "v1").await?;
        let ended = |app: &Value| {
            let history = app["status"]["history"].as_array().map_or(0, Vec::len);
            app["operation"].is_null()
                && app["status"]["operationState"]["phase"] == "Succeeded"
                && history == times
        };
        let what = format!("shows {times} syncs that have ended");
        stage
            .hub
            .until(&own.mirror, &what, lab::wait::BOUND, ended)
            .await?;
        let there = spoke.read(&own.app.at).await?;
        ensure!(
            there["status"]["history"].as_array().map(Vec::len) == Some(times),
            "{there:#}"
        );
    }
    let ask = json!({"metadata": {"annotations": {"argocd.argoproj.io/refresh": "hard"}}});
    stage.hub.merge(&own.mirror, ask).await?;
    let done = |app: &Value| app["metadata"]["annotations"]["argocd.argoproj.io/refresh"].is_null();
    stage
        .hub
        .until(&own.mirror, "was refreshed", SOON, done)
        .await?;
    own.clear().await?;
    spoke.delete(&namespace).await
}

/// The hub reverts edits and deletions of a mirror; they never reach the spoke's Application.
pub(crate) async fn an_edit_or_a_deletion_of_a_mirror_is_undone(stage: &Stage) -> Result<()> {
    let own = Own::running(stage, "reverted").await?;
    let before = stage.spoke(NUMBER).read(&own.app.at).await?;
    let edit = json!({
        "metadata": {"labels": {"mine": "true"}},
        "spec": {"source": {"path": "elsewhere"}},
    });
    stage.hub.merge(&own.mirror, edit).await?;
    let healed = |app: &Value| {
        app["spec"]["source"]["path"] == workload::PATH && app["metadata"]["labels"].is_null()
    };
    stage
        .hub
        .until(&own.mirror, "is as the spoke wants it", SOON, healed)
        .await?;
    // As the UI deletes with the resources: it puts the finalizer on first.
    let cascade = json!({"metadata": {"finalizers": [CASCADE]}});
    let first = stage.hub.merge(&own.mirror, cascade).await?;
    stage.hub.delete(&own.mirror).await?;
    let again = |app: &Value| {
        app["metadata"]["uid"] != first["metadata"]["uid"]
            && app["metadata"]["deletionTimestamp"].is_null()
            && app["status"]["health"]["status"] == "Healthy"
    };
    stage
        .hub
        .until(&own.mirror, "is there again", SOON, again)
        .await?;
    let project = own.project();
    let gone = stage.hub.read(&project).await?["metadata"]["uid"].clone();
    stage.hub.delete(&project).await?;
    let again = |project: &Value| !project.is_null() && project["metadata"]["uid"] != gone;
    stage
        .hub
        .until(&project, "is there again", SOON, again)
        .await?;
    let after = stage.spoke(NUMBER).read(&own.app.at).await?;
    for field in ["uid", "deletionTimestamp", "labels"] {
        ensure!(
            after["metadata"][field] == before["metadata"][field],
            "{field}"
        );
    }
    ensure!(after["spec"] == before["spec"], "{after:#}");
    own.clear().await
}

/// Principal and agent are killed while both sides change; both sides agree after the restart.
pub(crate) async fn killed_programs_lose_nothing_of_an_autonomous_cluster(
    stage: &Stage,
) -> Result<()> {
    let mut own = Own::running(stage, "survives").await?;
    let going = Own::running(stage, "goes-meanwhile").await?;
    kill_agent(stage).await?;
    let next = own.change().await?;
    stage.spoke(NUMBER).delete(&going.app.at).await?;
    let principal = pod(&stage.hub, lab::product::NAMESPACE, lab::product::MANAGER).await?;
    stage.hub.kill(&principal).await?;
    stage
        .hub
        .merge(
            &own.mirror,
            json!({"spec": {"source": {"path": "elsewhere"}}}),
        )
        .await?;
    deliver::until_healthy(&stage.hub, &own.mirror, &next).await?;
    let healed = |app: &Value| app["spec"]["source"]["path"] == workload::PATH;
    stage
        .hub
        .until(&own.mirror, "is as the spoke wants it", SOON, healed)
        .await?;
    stage.hub.until_gone(&going.mirror, SOON).await?;
    own.clear().await?;
    going.clear().await
}

async fn kill_agent(stage: &Stage) -> Result<()> {
    let spoke = stage.spoke(NUMBER);
    let pod = pod(spoke, enrol::AGENT_NAMESPACE, "argocd-agent-agent").await?;
    spoke.kill(&pod).await
}

async fn pod(side: &Objects, namespace: &str, app: &str) -> Result<At> {
    let labels = format!("app.kubernetes.io/name={app}");
    let pods = side.list(&At::pod(namespace, ""), &labels).await?;
    let pod = pods.first().with_context(|| format!("no pod of {app}"))?;
    let name = pod["metadata"]["name"].as_str().unwrap_or_default();
    Ok(At::pod(namespace, name))
}

/// The agent of an autonomous cluster writes mirrors in its own namespace only, for any name that it sends.
pub(crate) async fn an_autonomous_cluster_writes_in_its_own_place_only(
    stage: &Stage,
) -> Result<()> {
    stage.enrolled(1).await?;
    stage.autonomous(NUMBER).await?;
    let theirs = stage.greeter("not-theirs", 1).await?;
    theirs.apply(&stage.hub).await?;
    deliver::until_healthy(&stage.hub, &theirs.at, "").await?;
    // The hub's own Application among the mirrors is not delivered, and is not a mirror either.
    let hubs = At::application(CLUSTER, "the-hubs");
    let body = json!({"spec": {
        "project": "default", "destination": {"name": "in-cluster", "namespace": "x"},
        "source": {"repoURL": "https://git.example/r.git", "path": "hub"},
    }});
    let made = stage.hub.apply(&hubs, body).await?;
    let is_reported = |app: &Value| {
        app["status"]["conditions"]
            .to_string()
            .contains("autonomous")
    };
    stage
        .hub
        .until(&hubs, "names the mode autonomous", SOON, is_reported)
        .await?;

    let (door, forger) = stage.door().await?;
    let peer = forger.issue(&agent_name(CLUSTER), &[], Duration::days(1))?;
    let version = door.version(&peer).await?;
    // In the first session of an enrolment nothing is taken away.
    kill_agent(stage).await?;
    let session = door
        .authenticate(Some(&peer), "autonomous", &version)
        .await??;
    let mut stream = door.subscribe(&peer, &session.access_token).await??;
    for (namespace, name) in [
        ("spoke1", "not-theirs"),
        ("argocd", "the-hubs"),
        ("kube-system", "poisoned"),
        ("argocd", "../poisoned"),
    ] {
        stream
            .send_event(Some(poisoned(namespace, name)), None)
            .await?;
    }
    let shown = At::application(CLUSTER, "poisoned");
    stage.hub.until_there(&shown, SOON).await?;
    for (namespace, name) in [("kube-system", "poisoned"), ("argocd", "the-hubs")] {
        let stray = stage.hub.get(&At::application(namespace, name)).await?;
        ensure!(stray.is_none(), "{namespace}/{name}: {stray:#?}");
    }
    let kept = stage.hub.read(&theirs.at).await?;
    ensure!(kept["spec"]["project"] == "not-theirs", "{kept:#}");
    let kept = stage.hub.read(&hubs).await?;
    ensure!(kept["spec"] == made["spec"], "{kept:#}");
    let namesake = At::application(CLUSTER, "not-theirs");
    stage.hub.until_there(&namesake, SOON).await?;

    // The real agent reconnects, and the resync removes mirrors without a source.
    drop(stream);
    enrol::until_available(&stage.hub, CLUSTER).await?;
    for mirror in [&shown, &namesake] {
        stage.hub.until_gone(mirror, lab::wait::BOUND).await?;
    }
    stage.hub.delete(&hubs).await?;
    stage.clear(&theirs).await
}

fn poisoned(namespace: &str, name: &str) -> protocol::wire::cloudevents::CloudEvent {
    let body = json!({
        "metadata": {
            "namespace": namespace, "name": name, "uid": "forged", "resourceVersion": "1",
            "annotations": {deliver::SOURCE_UID: "forged"},
        },
        "spec": {"project": "default", "destination": {"name": "spoke1"}},
    });
    let key = ObjectKey::new(Kind::Application, namespace, name);
    let event = Event::about(&key, Verb::Create, "forged", "1", body.to_string().into());
    event.into_cloud_event("agent://agent-managed")
}
