//! Reads what a command needs, has it judged, prints or writes. The only place that knows all parts.

mod adopt;
mod certificates;
mod error;
mod gather;
mod globals;
mod inspect;
mod pages;
mod setup;
mod spoke;
mod troubles;
mod wait;

use std::{borrow::Cow, collections::BTreeSet};

use argocd::{
    Application,
    keys::{
        CLUSTER_SELECTOR,
        addon::{ADDON, MANAGER, MODE},
    },
};
use diagnosis::{
    facts::Addon,
    fleet::{self, Servers},
    labels::Wrong,
    object::full_name,
    settings::Settings,
    status::{self, Standing},
    why::{Facts, State, why},
};
use jiff::Timestamp;
use runtime::names::with_suggestion;
use serde_json::Value;

use crate::{
    agents::agents,
    args::{Agent, Certs, Check, Cli, Cluster, Command, Global, StatusArgs, WhyArgs},
    change::{self, Change},
    hub::{
        ADDONS, APPLICATIONS, CLUSTERS, DEPLOYMENTS, Error as HubError, Hub, PROJECTS, SECRETS,
        Target, all, labelled, named,
    },
    names::none_missing,
    output::{Place, View, render},
    progress::Progress,
    settings::settings,
    setup::HubCommand,
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

    const fn text(text: String) -> Self {
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
    let hub = async || Context::connect(&global, place, progress).await;
    match command {
        Command::Completion { shell } => Ok(Answer::text(pages::completion(shell))),
        Command::Man { folder } => pages::write(&folder).map(Answer::text),
        Command::Status(args) if args.applications => troubles::list(&hub().await?, &args).await,
        Command::Status(args) => hub().await?.look(&args).await,
        Command::Why(args) => hub().await?.explain(&args.taken_apart()).await,
        Command::SupportBundle { folder } => gather::gather(&hub().await?, &folder).await,
        Command::Cluster(Cluster::Adopt(args)) => adopt::adopt(&hub().await?, &args).await,
        Command::Hub(HubCommand::Setup(args)) => setup::setup(&hub().await?, args).await,
        Command::Check { of: None } => inspect::inspect(&hub().await?).await,
        Command::Check {
            of: Some(Check::Spoke(args)),
        } => spoke::inspect(&global, &args, place, progress).await,
        Command::Certs(Certs::List) => certificates::list(&hub().await?).await,
        Command::Certs(Certs::Rotate(args)) => certificates::rotate(&hub().await?, args).await,
        Command::Agent(Agent::List) => {
            Answer::of(&agents(&hub().await?.addons().await?), place, false)
        }
        Command::Agent(Agent::Revoke { cluster, reason }) => {
            let hub = hub().await?;
            let change = change::revoke(&hub.addon(&cluster).await?, &reason)?;
            hub.write(change).await
        }
        Command::Agent(Agent::Restore { cluster, wait }) => {
            certificates::restore(&hub().await?, &cluster, wait).await
        }
    }
}

fn is_name(text: &str) -> Result<(), Error> {
    let name = ocm::name::ClusterName::new(text);
    name.map(drop)
        .map_err(|_invalid| Error::NoName(text.to_owned()))
}

/// The hub, and what all commands have in common.
#[derive(Debug)]
struct Context<'a> {
    hub: Hub,
    global: &'a Global,
    place: Place,
    progress: &'a Progress,
}

impl<'a> Context<'a> {
    async fn connect(
        global: &'a Global,
        place: Place,
        progress: &'a Progress,
    ) -> Result<Self, Error> {
        is_name(&global.own_namespace)?;
        let (kubeconfig, context) = (global.kubeconfig.as_deref(), global.context.as_deref());
        let hub = Hub::connect(Target::Hub, kubeconfig, context, progress).await?;
        progress.show("reading from the hub");
        Ok(Self {
            hub,
            global,
            place,
            progress,
        })
    }

    /// The namespace of the hub program.
    fn own(&self) -> &str {
        &self.global.own_namespace
    }

    async fn addons(&self) -> Result<Vec<Addon>, HubError> {
        let read = |object: Value| Some(Addon::read(&object));
        self.hub.collect(ADDONS, None, named(ADDON), read).await
    }

    /// The labels that cannot be followed.
    async fn labels(&self) -> Result<Vec<Wrong>, HubError> {
        let wrong = |cluster: Value| Wrong::read(&cluster);
        self.hub
            .collect(CLUSTERS, None, labelled(MODE), wrong)
            .await
    }

    /// The add-on of one cluster.
    async fn addon(&self, cluster: &str) -> Result<Addon, Error> {
        is_name(cluster)?;
        if let Some(object) = self.hub.get(ADDONS, Some(cluster), ADDON).await? {
            return Ok(Addon::read(&object));
        }
        // Who may not list them is not helped with the name.
        let known = self.addons().await.unwrap_or_default();
        let known = known.iter().map(|addon| addon.cluster.as_str());
        Err(Error::NoCluster(with_suggestion(&[cluster], known)))
    }

    /// The hub program's settings.
    async fn settings(&self) -> Settings {
        let place = format!("{}/{MANAGER}", self.own());
        let read = self.hub.find(DEPLOYMENTS, Some(self.own()), MANAGER).await;
        settings(&read, &place, &self.global.given)
    }

    async fn servers(&self, settings: &Settings) -> Result<Servers, String> {
        let argocd = Some(settings.routing.argocd_namespace.as_str());
        let read = |secret: Value| fleet::server(&secret);
        let of_clusters = labelled(CLUSTER_SELECTOR);
        let servers = self.hub.collect(SECRETS, argocd, of_clusters, read).await;
        let servers = servers.map(Servers::from_iter);
        servers.map_err(|error| format!("cannot resolve destinations by server: {error}"))
    }

    async fn look(&self, args: &StatusArgs) -> Result<Answer, Error> {
        let mut fleet = self.fleet().await?;
        let known: Vec<_> = fleet.clusters.iter().map(|it| it.name.clone()).collect();
        none_missing(&fleet.keep(&args.clusters), &known).map_err(Error::NoCluster)?;
        Answer::of(&fleet, self.place, args.exit_code && fleet.is_degraded())
    }

    /// The whole fleet.
    async fn fleet(&self) -> Result<status::Fleet, HubError> {
        let (addons, settings) = (self.addons().await?, self.settings().await);
        // Without this right Applications that name a server are counted nowhere; the rest is as good.
        let servers = self.servers(&settings).await.unwrap_or_default();
        let clusters = fleet::clusters(&addons, &servers);
        let standing = |it: Value| Standing::of(&it, &clusters, &settings.routing);
        let standings = self.hub.collect(APPLICATIONS, None, all(), standing);
        let tallies = status::tallies(&standings.await?);
        let mut fleet = status::fleet(&addons, tallies, self.place.now);
        // `check` says that this right is missing.
        fleet.mislabelled(&self.labels().await.unwrap_or_default());
        fleet.silent = settings.silent;
        Ok(fleet)
    }

    async fn explain(&self, args: &WhyArgs) -> Result<Answer, Error> {
        let settings = self.settings().await;
        let namesakes = self.namesakes(args).await?;
        if namesakes.is_empty() {
            return Err(self.no_application(args).await);
        }
        let application = chosen(&namesakes, args)?;
        let argocd = settings.routing.argocd_namespace.as_str();
        let project = named(Application::of(&application).project());
        let projects = self.hub.find_all(PROJECTS, Some(argocd), project).await;
        let project = projects.map(|it| it.into_iter().next());
        let (project, globals_doubt) = self.with_globals(argocd, project).await;
        let facts = Facts {
            addons: self.addons().await?.into(),
            servers: self.servers(&settings).await.map(Cow::Owned),
            application,
            namesakes,
            project,
            globals_doubt,
            settings,
        };
        let why = why(&facts);
        let bad = args.exit_code && why.verdict != State::Good;
        Answer::of(&why, self.place, bad)
    }

    /// Every Application of that name; where the caller may look only into one namespace, the one there.
    async fn namesakes(&self, args: &WhyArgs) -> Result<Vec<Value>, Error> {
        let list = async |namespace| {
            let params = named(&args.application);
            self.hub
                .collect(APPLICATIONS, namespace, params, Some)
                .await
        };
        match (list(None).await, args.namespace.as_deref()) {
            (Err(HubError::Forbidden(_)), Some(namespace)) => {
                is_name(namespace)?;
                Ok(list(Some(namespace)).await?)
            }
            (read, _) => Ok(read?),
        }
    }

    /// With the name that was meant, if there is one like it.
    async fn no_application(&self, args: &WhyArgs) -> Error {
        let name = |it: Value| Some(Application::of(&it).name().to_owned());
        let names = self.hub.collect(APPLICATIONS, None, all(), name).await;
        // Who may not list all of them is not helped.
        let names = BTreeSet::from_iter(names.unwrap_or_default());
        let known = names.iter().map(String::as_str);
        Error::NoApplication(with_suggestion(&[args.application.as_str()], known))
    }

    async fn write(&self, change: Change) -> Result<Answer, Error> {
        let (kind, namespace, name) = (change.kind, &change.namespace, change.name);
        let written = self
            .hub
            .merge(kind, Some(namespace), name, &change.body)
            .await?;
        if written {
            return Ok(Answer::text(change.confirmation + "\n"));
        }
        let kind = kind.full();
        let cause = format!(
            "there is no {kind} {name} in namespace {namespace}; is the add-on installed there (--own-namespace)?"
        );
        Err(HubError::Other(cause).into())
    }
}

fn chosen(namesakes: &[Value], args: &WhyArgs) -> Result<Value, Error> {
    let fits = |application: &&Value| {
        let namespace = Application::of(application).namespace();
        args.namespace.as_ref().is_none_or(|it| it == namespace)
    };
    let mut fitting = namesakes.iter().filter(fits);
    match (fitting.next(), fitting.next()) {
        (Some(application), None) => Ok(application.clone()),
        (Some(_), Some(_)) => {
            let names: Vec<_> = namesakes.iter().map(full_name).collect();
            Err(Error::Several(names.join(", ")))
        }
        (None, _) => {
            let place = args.namespace.as_ref().map(|it| format!("{it}/"));
            let place = place.unwrap_or_default();
            Err(Error::NoApplication(format!("{place}{}", args.application)))
        }
    }
}
