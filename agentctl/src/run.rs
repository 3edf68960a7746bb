//! Reads what a command needs, has it judged, prints or writes. The only place that knows all parts.

mod adopt;
mod certificates;
mod error;
mod gather;
mod inspect;
mod pages;
mod spoke;
mod troubles;
mod wait;

use std::collections::{BTreeMap, BTreeSet};

use argocd::keys::{
    CLUSTER_SELECTOR,
    addon::{ADDON, MANAGER, MODE},
};
use jiff::Timestamp;
use ocm::name::ClusterName;
use serde_json::Value;

use crate::{
    agents::agents,
    args::{Agent, Certs, Check, Cli, Cluster, Command, Global, StatusArgs, WhyArgs},
    change::{self, Change},
    facts::Addon,
    fleet::{self, Servers},
    hub::{
        ADDONS, APPLICATIONS, By, CLUSTERS, DEPLOYMENTS, Error as HubError, Hub, PROJECTS, SECRETS,
        Target,
    },
    labels::Wrong,
    names::Unknown,
    output::{Place, View, render},
    progress::Progress,
    settings::{Settings, settings, silent},
    status::{self, Tally},
    why::{Facts, State, places, why},
};

pub use error::Error;

/// What a command has to say.
#[derive(Debug, PartialEq, Eq)]
pub struct Answer {
    /// For standard output.
    pub text: String,
    /// Whether the caller asked for an exit code, and there is a problem.
    pub bad: bool,
}

impl Answer {
    fn of(view: &impl View, place: Place, bad: bool) -> Result<Self, Error> {
        let text = render(view, place)?;
        Ok(Self { text, bad })
    }

    fn text(text: String) -> Self {
        Self { text, bad: false }
    }
}

/// Does what the command line says.
pub async fn run(
    cli: Cli,
    colours: bool,
    progress: &Progress,
    now: Timestamp,
) -> Result<Answer, Error> {
    let Cli { global, command } = cli;
    let place = Place {
        format: global.output,
        colours,
        now,
    };
    let hub = async || {
        is_name(&global.own_namespace)?;
        let hub = hub_of(&global).await?.watched_by(progress);
        progress.show("reading from the hub");
        Ok::<_, Error>(hub)
    };
    match command {
        Command::Completion { shell } => Ok(Answer::text(pages::completion(shell))),
        Command::Man { folder } => pages::write(&folder).map(Answer::text),
        Command::Status(args) => look(&hub().await?, &global, &args, place).await,
        Command::Why(args) => explain(&hub().await?, &global, &args, place).await,
        Command::SupportBundle { folder } => {
            gather::gather(&hub().await?, &global, &folder, place).await
        }
        Command::Cluster(Cluster::Adopt(args)) => {
            adopt::adopt(&hub().await?, &global, &args, place, progress).await
        }
        Command::Check { of: None } => inspect::inspect(&hub().await?, &global, place).await,
        Command::Check {
            of: Some(Check::Spoke(args)),
        } => {
            // It may do without the hub.
            is_name(&global.own_namespace)?;
            spoke::inspect(&global, &args, place, progress).await
        }
        Command::Certs(Certs::List) => certificates::list(&hub().await?, &global, place).await,
        Command::Certs(Certs::Rotate(args)) => {
            certificates::rotate(&hub().await?, &global, args, now, progress).await
        }
        Command::Agent(Agent::List) => {
            Answer::of(&agents(&addons(&hub().await?).await?), place, false)
        }
        Command::Agent(Agent::Revoke { cluster, reason }) => {
            let hub = hub().await?;
            let (cluster, addon) = one(&hub, &cluster).await?;
            write(&hub, change::revoke(&cluster, &addon, &reason)?).await
        }
        Command::Agent(Agent::Restore { cluster, wait }) => {
            certificates::restore(&hub().await?, &cluster, wait, now, progress).await
        }
    }
}

async fn hub_of(global: &Global) -> Result<Hub, HubError> {
    let (kubeconfig, context) = (global.kubeconfig.as_deref(), global.context.as_deref());
    Hub::connect(Target::Hub, kubeconfig, context).await
}

fn is_name(text: &str) -> Result<ClusterName, Error> {
    ClusterName::new(text).map_err(|_invalid| Error::NoName(text.to_owned()))
}

async fn addons(hub: &Hub) -> Result<Vec<Addon>, Error> {
    let read = |object: Value| Some(Addon::read(&object));
    Ok(hub.collect(ADDONS, &By::name(ADDON), read).await?)
}

/// The labels that cannot be followed.
async fn labels(hub: &Hub) -> Result<Vec<Wrong>, HubError> {
    let wrong = |cluster: Value| Wrong::read(&cluster);
    hub.collect(CLUSTERS, &By::labels(MODE), wrong).await
}

/// The add-on of one cluster.
async fn one(hub: &Hub, cluster: &str) -> Result<(ClusterName, Addon), Error> {
    let name = is_name(cluster)?;
    let object = hub.get(ADDONS, Some(cluster), ADDON).await?;
    let Some(object) = object else {
        // Who may not list them is not helped with the name.
        let known = addons(hub).await.unwrap_or_default();
        let known = known.iter().map(|addon| addon.cluster.as_str());
        return Err(Error::NoCluster(Unknown::one(cluster, known)));
    };
    Ok((name, Addon::read(&object)))
}

/// The hub program's settings.
async fn hub_settings(hub: &Hub, global: &Global) -> Settings {
    let namespace = &global.own_namespace;
    let place = format!("{namespace}/{MANAGER}");
    let read = hub.get(DEPLOYMENTS, Some(namespace), MANAGER).await;
    let silent = silent(&read, &place);
    let manager = match read {
        Ok(Some(manager)) => Ok(manager),
        Ok(None) => Err(format!("Deployment {place} not found")),
        Err(error) => Err(error.to_string()),
    };
    Settings {
        silent,
        ..settings(&manager, &global.given())
    }
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
    read.await
        .map_err(|error| format!("cannot resolve destinations by server: {error}"))?;
    Ok(servers)
}

async fn look(
    hub: &Hub,
    global: &Global,
    args: &StatusArgs,
    place: Place,
) -> Result<Answer, Error> {
    if args.applications {
        return troubles::list(hub, global, args, place).await;
    }
    let mut fleet = fleet_of(hub, global, place.now).await?;
    let all: Vec<_> = fleet.clusters.iter().map(|it| it.name.clone()).collect();
    let unknown = fleet.keep(&args.clusters);
    if !unknown.is_empty() {
        let known = all.iter().map(String::as_str);
        return Err(Error::NoCluster(Unknown::new(unknown, known)));
    }
    let bad = args.exit_code && fleet.is_degraded();
    Answer::of(&fleet, place, bad)
}

/// The whole fleet.
async fn fleet_of(hub: &Hub, global: &Global, now: Timestamp) -> Result<status::Fleet, Error> {
    let (addons, settings) = (addons(hub).await?, hub_settings(hub, global).await);
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
    let mut fleet = status::fleet(&addons, tallies, now);
    // `check` says that this right is missing.
    fleet.mislabelled(&labels(hub).await.unwrap_or_default());
    fleet.silent = settings.silent;
    Ok(fleet)
}

async fn explain(
    hub: &Hub,
    global: &Global,
    args: &WhyArgs,
    place: Place,
) -> Result<Answer, Error> {
    let args = &args.taken_apart();
    let settings = hub_settings(hub, global).await;
    let namesakes = namesakes(hub, args).await?;
    if namesakes.is_empty() {
        return Err(no_application(hub, args).await);
    }
    let application = chosen(&namesakes, args)?;
    let project = argocd::Application::of(&application).project();
    let by = By {
        name: Some(project.to_owned()),
        ..By::namespace(&settings.routing.argocd_namespace)
    };
    let projects = hub.find_all(PROJECTS, &by).await;
    let project = projects.map(|it| it.into_iter().next());
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

/// With the name that was meant, if there is one like it.
async fn no_application(hub: &Hub, args: &WhyArgs) -> Error {
    let mut names = BTreeSet::new();
    let everywhere = By::default();
    let read = hub.each(APPLICATIONS, &everywhere, |application| {
        names.insert(argocd::Meta::of(&application).name().to_owned());
    });
    // Who may not list all of them is not helped.
    drop(read.await);
    let known = names.iter().map(String::as_str);
    Error::NoApplication(Unknown::one(&args.application, known))
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
            let name = format!("{place}{}", args.application);
            Err(Error::NoApplication(Unknown::one(
                &name,
                std::iter::empty(),
            )))
        }
    }
}

async fn write(hub: &Hub, change: Change) -> Result<Answer, Error> {
    let Change {
        kind,
        namespace,
        name,
        body,
        confirmation,
    } = change;
    if hub.merge(kind, Some(&namespace), name, &body).await? {
        return Ok(Answer::text(confirmation + "\n"));
    }
    Err(HubError::NotFound {
        resource: kind.full(),
        name: name.to_owned(),
        place: format!("in namespace {namespace}"),
        next: "is the add-on installed there (--own-namespace)?",
    }
    .into())
}
