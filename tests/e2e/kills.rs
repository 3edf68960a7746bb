//! A program or API server is killed at each step of a cluster's enrolment, and of an Application's life. Both sides
//! recover by themselves, nothing is lost, and nothing is done twice.

use anyhow::{Result, ensure};
use lab::{
    audit::{Entry, Mark},
    steps::{
        At,
        deliver::{self, Application},
        enrol, workload,
    },
};
use serde_json::{Value, json};

use crate::{
    programs::Program,
    stage::{SOON, Stage},
};

/// The part that is killed.
#[derive(Clone, Copy, Debug)]
enum Blow {
    /// A program of ours; its Deployment brings another.
    Kill(Program),
    /// The API server of a spoke, which is started again.
    SpokeApi,
}

const PRINCIPAL: Blow = Blow::Kill(Program::Manager);
const AGENT: Blow = Blow::Kill(Program::Agent(1));

impl Blow {
    async fn fall(self, stage: &Stage) -> Result<()> {
        match self {
            Self::Kill(program) => program.kill(stage).await,
            Self::SpokeApi => {
                let spoke = stage.lab.spoke(1);
                spoke.kill_api().await;
                spoke.start_api().await
            }
        }
    }
}

pub(crate) async fn a_cluster_comes_and_goes_while_the_principal_is_killed(
    stage: &Stage,
) -> Result<()> {
    life_of_a_cluster(stage, PRINCIPAL, "comes-and-goes-1").await
}

pub(crate) async fn a_cluster_comes_and_goes_while_its_agent_is_killed(
    stage: &Stage,
) -> Result<()> {
    life_of_a_cluster(stage, AGENT, "comes-and-goes-2").await
}

pub(crate) async fn a_cluster_comes_and_goes_while_its_api_restarts(stage: &Stage) -> Result<()> {
    life_of_a_cluster(stage, Blow::SpokeApi, "comes-and-goes-3").await
}

pub(crate) async fn an_application_lives_and_ends_while_the_principal_is_killed(
    stage: &Stage,
) -> Result<()> {
    life_of_an_application(stage, PRINCIPAL, "lives-and-ends-1").await
}

pub(crate) async fn an_application_lives_and_ends_while_the_agent_is_killed(
    stage: &Stage,
) -> Result<()> {
    life_of_an_application(stage, AGENT, "lives-and-ends-2").await
}

pub(crate) async fn an_application_lives_and_ends_while_the_spokes_api_restarts(
    stage: &Stage,
) -> Result<()> {
    life_of_an_application(stage, Blow::SpokeApi, "lives-and-ends-3").await
}

/// Opting in, out, and in again: a blow falls before there is a certificate, before the first connection, and on
/// the way out.
async fn life_of_a_cluster(stage: &Stage, blow: Blow, name: &str) -> Result<()> {
    stage.not_enrolled(1).await?;
    let app = stage.greeter(name, 1).await?;
    let traces = Traces::begin(stage, &app)?;
    app.apply(&stage.hub).await?;

    enrol::by_label(&stage.hub, "spoke1").await?;
    blow.fall(stage).await?;
    let certificate = At::secret(enrol::AGENT_NAMESPACE, enrol::CERTIFICATE);
    stage
        .spoke(1)
        .until_there(&certificate, lab::wait::BOUND)
        .await?;
    blow.fall(stage).await?;
    enrol::until_available(&stage.hub, "spoke1").await?;
    deliver::until_healthy(&stage.hub, &app.at, "").await?;
    let before = traces.identities().await?;

    enrol::take_label_away(&stage.hub, "spoke1").await?;
    blow.fall(stage).await?;
    enrol::until_removed(&stage.hub, stage.spoke(1), "spoke1").await?;
    ensure!(
        traces.identities().await? == before,
        "opting out touched it"
    );

    stage.enrolled(1).await?;
    deliver::until_healthy(&stage.hub, &app.at, "").await?;
    ensure!(traces.identities().await? == before, "it was not adopted");
    traces.nothing_was_made_twice()?;
    stage.clear(&app).await
}

/// Delivery, a sync, and the removal with everything that was deployed: a blow falls on each, and once more while the
/// sync runs.
async fn life_of_an_application(stage: &Stage, blow: Blow, name: &str) -> Result<()> {
    stage.enrolled(1).await?;
    let mut app = stage.greeter(name, 1).await?;
    app.automated = false;
    // Argo CD looks again only minutes later when it has seen an Application before its project. So another one brings
    // the project along before anything happens.
    let mut first = app.clone();
    first.at = At::application("spoke1", &format!("{name}-first"));
    first.namespace = format!("{name}-first");
    first.apply(&stage.hub).await?;
    until_compared(stage, &first.at).await?;
    let traces = Traces::begin(stage, &app)?;
    stage
        .spoke(1)
        .apply(&At::namespace(name), json!({}))
        .await?;

    app.apply(&stage.hub).await?;
    blow.fall(stage).await?;
    until_compared(stage, &app.at).await?;

    deliver::ask_for_patient_sync(&stage.hub, &app.at, "v1").await?;
    blow.fall(stage).await?;
    let taken = |replica: &Value| !replica["status"]["operationState"].is_null();
    let replica = Stage::replica(name);
    stage
        .spoke(1)
        .until(&replica, "syncs", lab::wait::BOUND, taken)
        .await?;
    blow.fall(stage).await?;
    deliver::until_healthy(&stage.hub, &app.at, "").await?;
    traces.one_sync_has_ended().await?;
    let identities = traces.identities().await?;
    ensure!(
        !identities.contains(&Value::Null),
        "all is there: {identities:?}"
    );

    stage.hub.delete(&app.at).await?;
    blow.fall(stage).await?;
    stage.hub.until_gone(&app.at, lab::wait::BOUND).await?;
    for at in [&replica, &traces.config_map, &traces.deployment] {
        stage.spoke(1).until_gone(at, SOON).await?;
    }
    traces.nothing_was_made_twice()?;
    stage.clear(&first).await?;
    stage.spoke(1).delete(&At::namespace(name)).await
}

/// Waits until the hub shows that Argo CD has compared it with the live state.
async fn until_compared(stage: &Stage, at: &At) -> Result<()> {
    let compared = |app: &Value| app["status"]["sync"]["status"] == "OutOfSync";
    let what = "is OutOfSync";
    stage
        .hub
        .until(at, what, lab::wait::BOUND, compared)
        .await
        .map(drop)
}

/// The objects of an Application of the greeter, and the audit log of their creation.
struct Traces<'a> {
    stage: &'a Stage,
    app: At,
    replica: At,
    config_map: At,
    deployment: At,
    name: String,
    mark: Mark,
}

impl<'a> Traces<'a> {
    fn begin(stage: &'a Stage, app: &Application) -> Result<Self> {
        Ok(Self {
            stage,
            app: app.at.clone(),
            replica: Stage::replica(&app.project),
            config_map: At::config_map(&app.namespace, workload::NAME),
            deployment: At::deployment(&app.namespace, workload::NAME),
            name: app.project.clone(),
            mark: stage.lab.spoke(1).audit().mark()?,
        })
    }

    /// The UIDs of the Application, its replica, and its resources.
    async fn identities(&self) -> Result<Vec<Value>> {
        let mut uids = vec![uid(self.stage.hub.get(&self.app).await?)];
        for at in [&self.replica, &self.config_map, &self.deployment] {
            uids.push(uid(self.stage.spoke(1).get(at).await?));
        }
        Ok(uids)
    }

    /// Both sides show that one sync ran and succeeded.
    async fn one_sync_has_ended(&self) -> Result<()> {
        let ended = |app: &Value| {
            app["operation"].is_null() && app["status"]["operationState"]["phase"] == "Succeeded"
        };
        let what = "shows that the sync ended";
        let hub = self
            .stage
            .hub
            .until(&self.app, what, lab::wait::BOUND, ended)
            .await?;
        for side in [hub, self.stage.spoke(1).read(&self.replica).await?] {
            let history = &side["status"]["history"];
            let length = history.as_array().map_or(0, Vec::len);
            ensure!(length == 1, "one sync was asked for: {history:#}");
        }
        Ok(())
    }

    /// Whether each object on the spoke was made once.
    fn nothing_was_made_twice(&self) -> Result<()> {
        let entries = self.stage.lab.spoke(1).audit().since(self.mark)?;
        for (namespace, kind, name) in [
            (
                enrol::ARGOCD,
                "applications.argoproj.io",
                self.name.as_str(),
            ),
            (&self.name, "configmaps", workload::NAME),
            (&self.name, "deployments.apps", workload::NAME),
        ] {
            let creations = |code: u16| {
                let fits = |entry: &&Entry| {
                    entry.verb == "create"
                        && entry.code == code
                        && entry.object.as_ref().is_some_and(|object| {
                            object.namespace == namespace
                                && object.kind() == kind
                                && object.name == name
                        })
                };
                entries.iter().filter(fits).count()
            };
            // The client may have been killed before the response; then the object was created, or not.
            let (made, unanswered) = (creations(201), creations(504));
            ensure!(
                made <= 1 && made + unanswered >= 1,
                "{kind} {namespace}/{name} was created {made} times, and {unanswered} more requests got no response"
            );
        }
        Ok(())
    }
}

fn uid(object: Option<Value>) -> Value {
    object.map_or(Value::Null, |object| object["metadata"]["uid"].clone())
}
