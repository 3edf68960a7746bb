//! Each hop of one Application, its obstacles and the next step. Pure.
//!
//! Routing, names and projects are judged by the very functions that the principal uses; what happened on the cluster is
//! read from what the hub shows of it.

mod cluster_side;
mod hub_side;

use std::borrow::Cow;

use argocd::{Application, routing::route};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

use crate::{
    facts::Addon,
    fleet::{self, Servers},
    settings::Settings,
    writers::{self, Writer},
};

/// What is judged. Facts about the whole fleet can be borrowed from a caller that has them anyway.
#[derive(Clone, Debug)]
pub struct Facts<'a> {
    /// The Application.
    pub application: Value,
    /// Every Application of its name, itself among them.
    pub namesakes: Vec<Value>,
    /// Its project with its global projects; why it could not be read.
    pub project: Result<Option<Value>, String>,
    /// Why the global projects could not be read.
    pub globals_doubt: Option<String>,
    /// The clusters with the add-on.
    pub addons: Cow<'a, [Addon]>,
    /// The servers of their cluster Secrets; why they could not be read.
    pub servers: Result<Cow<'a, Servers>, String>,
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
pub fn why(facts: &Facts<'_>) -> Why {
    let (addons, settings) = (&facts.addons, &facts.settings);
    let (none, servers) = (Servers::new(), facts.servers.as_deref());
    let clusters = fleet::clusters(addons, servers.unwrap_or(&none));
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

#[cfg(test)]
mod tests;
