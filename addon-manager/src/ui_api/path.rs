//! The path of one Application as the API shows it. Pure.

use std::{borrow::Cow, collections::BTreeSet};

use argocd::{
    Application,
    routing::{Clusters, RoutingSettings},
};
use diagnosis::{
    facts::Addon,
    fleet::Servers,
    settings::Settings,
    status::{Connected, connected},
    why::{self, Facts, Why},
    writers::Writer,
};
use jiff::Timestamp;
use principal::Delivery;
use serde::Serialize;
use serde_json::Value;

use super::cut;

/// The answer about one Application.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PathAnswer {
    /// As `argocd-agentctl why` judges it.
    #[serde(flatten)]
    pub why: Why,
    /// Whether the agent of its cluster is connected.
    pub connection: Option<Connected>,
    /// Its last changes, the newest first.
    pub timeline: Vec<Step>,
}

/// The delivery of one change. A step that did not happen has no time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Step {
    /// The resourceVersion on the hub.
    pub version: String,
    /// Whether the change is only an operation, such as a sync.
    pub is_operation: bool,
    /// When the hub program learned of the change.
    pub written: Timestamp,
    /// When it was sent to the agent.
    pub sent: Option<Timestamp>,
    /// When the agent acknowledged it.
    pub acknowledged: Option<Timestamp>,
    /// When the cluster reported its result.
    pub reported: Option<Timestamp>,
    /// The id of its trace, if it has one.
    pub trace: Option<String>,
}

impl From<Delivery> for Step {
    fn from(delivery: Delivery) -> Self {
        Self {
            version: cut::word(delivery.version),
            is_operation: delivery.is_operation,
            written: delivery.written,
            sent: delivery.sent,
            acknowledged: delivery.acknowledged,
            reported: delivery.reported,
            trace: delivery.trace.map(cut::word),
        }
    }
}

/// The facts about one Application that the path shows.
#[derive(Clone, Debug)]
pub struct PathFacts {
    /// The Application, with its managed fields if they are known.
    pub application: Value,
    /// Every Application of its name, itself among them.
    pub namesakes: Vec<Value>,
    /// Its project with its global projects.
    pub project: Option<Value>,
    /// The add-ons of the [clusters that matter](related).
    pub addons: Vec<Addon>,
    /// The servers of the clusters.
    pub servers: Servers,
    /// The rules of routing.
    pub routing: RoutingSettings,
    /// What could not be read, and why.
    pub doubt: Option<String>,
}

/// The clusters that decide about the routes of these Applications: those that their namespaces and destinations name.
pub fn related<'a>(
    applications: impl IntoIterator<Item = &'a Value>,
    clusters: &Clusters,
) -> BTreeSet<String> {
    let named = applications.into_iter().flat_map(|object| {
        let app = Application::of(object);
        let destination = app.destination();
        let by_server = clusters.by_server(destination.server);
        [app.namespace(), destination.name]
            .into_iter()
            .chain(by_server)
    });
    named.map(str::to_owned).collect()
}

/// The path of an Application, with bounds on all that others wrote.
pub fn path(facts: PathFacts, deliveries: Vec<Delivery>) -> PathAnswer {
    let doubt = facts.doubt;
    let judged = Facts {
        application: facts.application,
        namesakes: facts.namesakes,
        project: Ok(facts.project),
        globals_doubt: None,
        addons: facts.addons.into(),
        servers: Ok(Cow::Owned(facts.servers)),
        settings: Settings::from(facts.routing),
    };
    let mut why = bounded(why::why(&judged));
    why.doubts.extend(doubt.map(cut::message));
    let addon = (judged.addons.iter()).find(|addon| Some(&addon.cluster) == why.cluster.as_ref());
    PathAnswer {
        connection: addon.map(connected),
        timeline: deliveries.into_iter().map(Step::from).collect(),
        why,
    }
}

fn bounded(mut why: Why) -> Why {
    // The last ones are conditions of Argo CD on the cluster, of which there can be any number.
    why.hops.truncate(cut::ENTRIES);
    for hop in &mut why.hops {
        hop.text = cut::message(std::mem::take(&mut hop.text));
        hop.next = hop.next.take().map(cut::message);
    }
    why.writers.truncate(cut::ENTRIES);
    why.writers = why.writers.into_iter().map(writer).collect();
    why.doubts = why.doubts.into_iter().map(cut::message).collect();
    why.next = why.next.map(cut::message);
    why
}

fn writer(writer: Writer) -> Writer {
    let wrote = writer.wrote.into_iter().take(cut::ENTRIES);
    Writer {
        manager: cut::word(writer.manager),
        at: writer.at,
        wrote: wrote.map(cut::word).collect(),
    }
}

#[cfg(test)]
mod tests;
