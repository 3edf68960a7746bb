//! `why`: each hop of one Application, what is in its way, and the next step. Pure.
//!
//! Routing, names and projects are judged by the very functions that the principal uses; what happened on the cluster is
//! read from what the hub shows of it.

mod cluster_side;
mod hub_side;

use argocd::{Application, routing::route};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

pub use crate::writers::Writer;

use crate::{
    facts::Addon,
    fleet::{self, Servers},
    output::{Mood, Place, View, age, draw, one_line, or_nothing, paint, word},
    settings::Settings,
    writers,
};

/// What is judged.
#[derive(Clone, Debug)]
pub struct Facts {
    /// The Application.
    pub application: Value,
    /// Every Application of its name, itself among them.
    pub namesakes: Vec<Value>,
    /// Its project with its global projects; why it could not be read.
    pub project: Result<Option<Value>, String>,
    /// Why the global projects could not be read.
    pub globals_doubt: Option<String>,
    /// The clusters with the add-on.
    pub addons: Vec<Addon>,
    /// The servers of their cluster Secrets; why they could not be read.
    pub servers: Result<Servers, String>,
    /// The rules of routing.
    pub settings: Settings,
}

/// The way of one Application.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Why {
    /// Its namespace on the hub.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The cluster that it goes to or comes from.
    pub cluster: Option<String>,
    /// The hops, in order.
    pub hops: Vec<Hop>,
    /// Who wrote it, the last first.
    pub writers: Vec<Writer>,
    /// What could not be known, and why.
    pub doubts: Vec<String>,
    /// The worst of all hops.
    pub verdict: State,
    /// What to do; nothing if all is well.
    pub next: Option<String>,
}

/// One hop.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Hop {
    /// Which one.
    pub hop: &'static str,
    /// How it stands.
    pub state: State,
    /// Since when, or when it was last so.
    pub at: Option<Timestamp>,
    /// What there is to know.
    #[serde(rename = "what")]
    pub text: String,
    /// What to do about it.
    pub next: Option<String>,
}

/// How a hop stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// As it should be.
    Good,
    /// Unknown.
    Unclear,
    /// It takes its time.
    Waiting,
    /// It is refused or broken.
    Bad,
}

impl State {
    const fn mood(self) -> Mood {
        match self {
            Self::Good => Mood::Calm,
            Self::Unclear | Self::Waiting => Mood::Warning,
            Self::Bad => Mood::Bad,
        }
    }
}

impl Hop {
    fn new(hop: &'static str, state: State, text: impl Into<String>) -> Self {
        Self {
            hop,
            state,
            at: None,
            text: text.into(),
            next: None,
        }
    }

    fn at(mut self, at: Option<Timestamp>) -> Self {
        self.at = at;
        self
    }

    fn next(mut self, next: impl Into<String>) -> Self {
        self.next = Some(next.into());
        self
    }
}

/// Follows an Application on its way.
pub fn why(facts: &Facts) -> Why {
    let (addons, settings) = (&facts.addons, &facts.settings);
    let none = Servers::new();
    let clusters = fleet::clusters(addons, facts.servers.as_ref().unwrap_or(&none));
    let app = Application::of(&facts.application);
    let route = route(app, &clusters, &settings.routing);
    let judged = hub_side::Judged {
        app,
        route: &route,
        clusters: &clusters,
        facts,
    };
    let mut hops = hub_side::hops(&judged);
    let is_blocked = hops.iter().any(|hop| hop.state == State::Bad);
    let cluster = route.cluster().filter(|_| !app.is_ignored());
    if let Some(cluster) = cluster {
        let addon = addons.iter().find(|addon| addon.cluster == cluster);
        let silent = settings.silent.as_deref();
        hops.push(cluster_side::connection(cluster, addon, silent));
        hops.extend(cluster_side::hops(app, &route, is_blocked));
    }
    let verdict = hops.iter().map(|hop| hop.state).max();
    let verdict = verdict.unwrap_or(State::Unclear);
    let next = hops.iter().find(|hop| hop.state == verdict);
    let next = next.and_then(|hop| hop.next.clone());
    let doubts = [
        settings.doubt.clone(),
        facts.servers.as_ref().err().cloned(),
        facts.globals_doubt.clone(),
    ];
    Why {
        namespace: app.namespace().to_owned(),
        name: app.name().to_owned(),
        cluster: cluster.map(str::to_owned),
        writers: writers::of(app.value()),
        doubts: doubts.into_iter().flatten().collect(),
        next,
        verdict,
        hops,
    }
}

impl View for Why {
    fn text(&self, place: Place) -> String {
        let at = |at: Option<Timestamp>| or_nothing(at.map(|at| age(at, place.now)));
        let to = self
            .cluster
            .iter()
            .map(|cluster| format!(", cluster {cluster}"));
        let to: String = to.collect();
        let mut text = format!("Application {}/{}{to}\n\n", self.namespace, self.name);
        let hops = self.hops.iter().map(|hop| {
            let cells = [
                hop.hop.to_owned(),
                word(hop.state),
                at(hop.at),
                hop.text.clone(),
            ];
            (hop.state.mood(), cells.to_vec())
        });
        text += &draw(&["HOP", "STATE", "AGE", "WHAT"], hops, place.colours);
        let writers = self.writers.iter().map(|writer| {
            let cells = [
                writer.manager.clone(),
                at(writer.at),
                writer.wrote.join(", "),
            ];
            (Mood::Calm, cells.to_vec())
        });
        text += "\n";
        text += &draw(&["WRITER", "AGE", "WROTE"], writers, place.colours);
        let doubts = self.doubts.iter();
        text.extend(doubts.map(|doubt| format!("\nNot known: {doubt}\n")));
        let next = self.next.as_deref().unwrap_or("nothing to do");
        let next = paint(&one_line(next), self.verdict.mood(), place.colours);
        text + &format!("\nNext: {next}\n")
    }
}

#[cfg(test)]
mod tests;
