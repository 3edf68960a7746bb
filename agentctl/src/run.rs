//! Reads what a command needs, has it judged, prints or writes. The only place that knows all parts.

mod adopt;
mod gather;
mod inspect;
mod pages;
mod spoke;

use std::collections::BTreeMap;

use argocd::keys::{
    CLUSTER_SELECTOR,
    addon::{ADDON, MANAGER},
};
use jiff::Timestamp;
use ocm::name::ClusterName;
use serde_json::Value;

use crate::{
    agents::agents,
    args::{Agent, Certs, Check, Cli, Cluster, Command, Global, RotateArgs, StatusArgs, WhyArgs},
    certs::{self, Certificates, certificates},
    change::{self, Change},
    facts::Addon,
    fleet::{self, Servers},
    hub::{
        ADDONS, APPLICATIONS, By, DEPLOYMENTS, Error as HubError, Hub, PROJECTS, SECRETS, Whose,
    },
    output::{self, Place, View, render},
    settings::{Settings, settings},
    status::{self, Tally},
    why::{Facts, State, places, why},
};

/// Why a command did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The hub.
    #[error(transparent)]
    Hub(#[from] HubError),
    /// Printing.
    #[error(transparent)]
    Output(#[from] output::Error),
    /// Nothing was written.
    #[error(transparent)]
    Refused(#[from] change::Refusal),
    /// No such clusters.
    #[error("no cluster with the add-on is named {}; `argocd-agentctl status` lists them", .0.join(", "))]
    NoCluster(Vec<String>),
    /// No such cluster Secrets.
    #[error("no cluster Secret is of {}; `argocd-agentctl cluster adopt --dry-run` lists them", .0.join(", "))]
    NoSecret(Vec<String>),
    /// No such Application.
    #[error("there is no Application {0} on the hub; look with kubectl get applications -A")]
    NoApplication(String),
    /// Several Applications.
    #[error("there are several: {0}; name the namespace with -n")]
    Several(String),
    /// What cannot be a name.
    #[error("{0:?} cannot be a name on a cluster")]
    NoName(String),
    /// Pages could not be written.
    #[error("write {path}")]
    Page {
        /// The file.
        path: String,
        /// Why.
        source: std::io::Error,
    },
}

/// What a command has to say.
#[derive(Debug, PartialEq, Eq)]
pub struct Answer {
    /// For standard output.
    pub text: String,
    /// Whether the caller asked to be told by the exit code, and there is something to tell.
    pub bad: bool,
}

impl Answer {
    fn of(view: &impl View, place: Place, bad: bool) -> Result<Self, Error> {
        let text = render(view, place)?;
        Ok(Self { text, bad })
    }

    fn said(text: String) -> Self {
        Self { text, bad: false }
    }
}

/// Does what the command line says.
pub async fn run(cli: Cli, colours: bool, now: Timestamp) -> Result<Answer, Error> {
    let Cli { global, command } = cli;
    let place = Place {
        format: global.output,
        colours,
        now,
    };
    match &command {
        Command::Completion { shell } => return Ok(Answer::said(pages::completion(*shell))),
        Command::Man { folder } => return pages::write(folder).map(Answer::said),
        Command::Status(_)
        | Command::Why(_)
        | Command::Certs(_)
        | Command::Agent(_)
        | Command::Cluster(_)
        | Command::Check { .. }
        | Command::SupportBundle { .. } => {}
    }
    is_name(&global.own_namespace)?;
    if let Command::Check {
        of: Some(Check::Spoke(args)),
    } = &command
    {
        // It may do without the hub.
        return spoke::inspect(&global, args, place).await;
    }
    let hub = hub_of(&global).await?;
    match command {
        Command::Status(args) => look(&hub, &global, &args, place).await,
        Command::Why(args) => explain(&hub, &global, &args, place).await,
        Command::SupportBundle { folder } => gather::gather(&hub, &global, &folder, place).await,
        Command::Cluster(Cluster::Adopt(args)) => adopt::adopt(&hub, &global, &args, place).await,
        Command::Check { .. } => inspect::inspect(&hub, &global, place).await,
        Command::Certs(Certs::List) => list_certificates(&hub, &global, place).await,
        Command::Certs(Certs::Rotate(args)) => rotate(&hub, &global, args, now).await,
        Command::Agent(Agent::List) => Answer::of(&agents(&addons(&hub).await?), place, false),
        Command::Agent(Agent::Revoke { cluster, reason }) => {
            let (cluster, addon) = one(&hub, &cluster).await?;
            write(&hub, change::revoke(&cluster, &addon, &reason)?).await
        }
        Command::Agent(Agent::Restore { cluster }) => {
            let (cluster, addon) = one(&hub, &cluster).await?;
            write(&hub, change::restore(&cluster, &addon, now)?).await
        }
        Command::Completion { .. } | Command::Man { .. } => Ok(Answer::said(String::new())),
    }
}

async fn hub_of(global: &Global) -> Result<Hub, HubError> {
    let (kubeconfig, context) = (global.kubeconfig.as_deref(), global.context.as_deref());
    Hub::connect(Whose::Hub, kubeconfig, context).await
}

fn is_name(text: &str) -> Result<ClusterName, Error> {
    ClusterName::new(text).map_err(|_invalid| Error::NoName(text.to_owned()))
}

async fn addons(hub: &Hub) -> Result<Vec<Addon>, Error> {
    let mut addons = Vec::new();
    hub.each(ADDONS, &By::name(ADDON), |object| {
        addons.push(Addon::read(&object));
    })
    .await?;
    Ok(addons)
}

/// The add-on of one cluster.
async fn one(hub: &Hub, cluster: &str) -> Result<(ClusterName, Addon), Error> {
    let name = is_name(cluster)?;
    let object = hub.get(ADDONS, Some(cluster), ADDON).await?;
    let object = object.ok_or_else(|| Error::NoCluster(vec![cluster.to_owned()]))?;
    Ok((name, Addon::read(&object)))
}

/// What the hub program was told.
async fn told(hub: &Hub, global: &Global) -> Settings {
    let namespace = &global.own_namespace;
    let manager = match hub.get(DEPLOYMENTS, Some(namespace), MANAGER).await {
        Ok(Some(manager)) => Ok(manager),
        Ok(None) => Err(format!("there is no Deployment {namespace}/{MANAGER}")),
        Err(error) => Err(error.to_string()),
    };
    settings(&manager, &global.given())
}

async fn servers(hub: &Hub, settings: &Settings) -> Result<Servers, String> {
    let by = By {
        labels: Some(CLUSTER_SELECTOR.to_owned()),
        ..By::namespace(&settings.routing.argocd_namespace)
    };
    let mut servers = Servers::new();
    let read = hub.each(SECRETS, &by, |secret| {
        fleet::take_server(&mut servers, &secret);
    });
    read.await.map_err(|error| {
        format!("which clusters are meant by the server of a destination: {error}")
    })?;
    Ok(servers)
}

async fn look(
    hub: &Hub,
    global: &Global,
    args: &StatusArgs,
    place: Place,
) -> Result<Answer, Error> {
    let mut fleet = fleet_of(hub, global).await?;
    let unknown = fleet.keep(&args.clusters);
    if !unknown.is_empty() {
        return Err(Error::NoCluster(unknown));
    }
    let bad = args.exit_code && fleet.is_degraded();
    Answer::of(&fleet, place, bad)
}

/// The whole fleet.
async fn fleet_of(hub: &Hub, global: &Global) -> Result<status::Fleet, Error> {
    let (addons, settings) = (addons(hub).await?, told(hub, global).await);
    // Without this right Applications that name a server are counted nowhere; the rest is as good.
    let servers = servers(hub, &settings).await.unwrap_or_default();
    let clusters = fleet::clusters(&addons, &servers);
    let mut tallies = BTreeMap::<String, Tally>::new();
    hub.each(APPLICATIONS, &By::default(), |application| {
        if let Some(cluster) = status::belongs_to(&application, &clusters, &settings.routing) {
            tallies.entry(cluster).or_default().count(&application);
        }
    })
    .await?;
    Ok(status::fleet(&addons, tallies))
}

async fn explain(
    hub: &Hub,
    global: &Global,
    args: &WhyArgs,
    place: Place,
) -> Result<Answer, Error> {
    let settings = told(hub, global).await;
    let namesakes = namesakes(hub, args).await?;
    let application = chosen(&namesakes, args)?;
    let project = argocd::Application::of(&application).project();
    let project = match hub
        .list(
            PROJECTS,
            &By {
                name: Some(project.to_owned()),
                ..By::namespace(&settings.routing.argocd_namespace)
            },
        )
        .await
    {
        Ok(projects) => Ok(projects.into_iter().next()),
        Err(error) => Err(error.to_string()),
    };
    let facts = Facts {
        addons: addons(hub).await?,
        servers: servers(hub, &settings).await,
        application,
        namesakes,
        project,
        settings,
    };
    let why = why(&facts);
    let bad = args.exit_code && why.verdict != State::Good;
    Answer::of(&why, place, bad)
}

/// Every Application of that name; where the caller may look only into one namespace, the one there.
async fn namesakes(hub: &Hub, args: &WhyArgs) -> Result<Vec<Value>, Error> {
    let mut by = By::name(&args.application);
    match (hub.list(APPLICATIONS, &by).await, &args.namespace) {
        (Err(error), Some(namespace)) if error.is_forbidden() => {
            by.namespace = Some(is_name(namespace)?.to_string());
            Ok(hub.list(APPLICATIONS, &by).await?)
        }
        (read, _) => Ok(read?),
    }
}

fn chosen(namesakes: &[Value], args: &WhyArgs) -> Result<Value, Error> {
    let fits = |application: &&Value| {
        let namespace = argocd::Meta::of(application).namespace();
        args.namespace.as_ref().is_none_or(|it| it == namespace)
    };
    let mut fitting = namesakes.iter().filter(fits);
    match (fitting.next(), fitting.next()) {
        (Some(application), None) => Ok(application.clone()),
        (Some(_), Some(_)) => Err(Error::Several(places(namesakes))),
        (None, _) => {
            let place = args.namespace.as_ref();
            let place = place.map_or_else(String::new, |namespace| format!("{namespace}/"));
            Err(Error::NoApplication(format!("{place}{}", args.application)))
        }
    }
}

async fn list_certificates(hub: &Hub, global: &Global, place: Place) -> Result<Answer, Error> {
    let certificates = listed_certificates(hub, global, place.now).await?;
    Answer::of(&certificates, place, false)
}

async fn listed_certificates(
    hub: &Hub,
    global: &Global,
    now: Timestamp,
) -> Result<Certificates, Error> {
    let mut secrets = Vec::new();
    for (name, _) in certs::SECRETS {
        let secret = hub.get(SECRETS, Some(&global.own_namespace), name).await;
        secrets.push((name, secret.map_err(|error| error.to_string())));
    }
    Ok(certificates(&secrets, &addons(hub).await?, now))
}

async fn rotate(
    hub: &Hub,
    global: &Global,
    args: RotateArgs,
    now: Timestamp,
) -> Result<Answer, Error> {
    let RotateArgs { cluster, ca: _ } = args;
    let change = match cluster {
        Some(cluster) => {
            let (cluster, addon) = one(hub, &cluster).await?;
            change::rotate_agent(&cluster, &addon, now)?
        }
        None => change::rotate_authority(&global.own_namespace, now),
    };
    write(hub, change).await
}

async fn write(hub: &Hub, change: Change) -> Result<Answer, Error> {
    let Change {
        kind,
        namespace,
        name,
        body,
        said,
    } = change;
    if hub.merge(kind, Some(&namespace), name, &body).await? {
        return Ok(Answer::said(said + "\n"));
    }
    Err(HubError::NotFound {
        resource: kind.full(),
        name: name.to_owned(),
        place: format!("in namespace {namespace}"),
        next: "is the add-on installed there (--own-namespace)?",
    }
    .into())
}
