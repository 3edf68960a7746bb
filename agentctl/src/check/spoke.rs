//! `check spoke`: whether a cluster has what the add-on needs there, before it has joined or after. Pure.

mod agent;
mod argo_cd;
mod definitions;
mod joined;
mod places;
mod redis;
mod redis_place;
mod time;
mod way;

use diagnosis::object::{present, replicas};
use serde_json::Value;

pub use joined::{NEEDS, Need, work_account};
pub use places::{Configured, Given, Places, address, configuration, matters, places, proxy};
pub use redis::REDIS;
pub(crate) use redis::{Client as RedisClient, fence as redis_fence};
pub use redis_place::{RedisPlace, redis_place};
pub(crate) use redis_place::{RedisSettings, decide};
pub(super) use time::from_here as clock_from_here;
pub(super) use way::from_here as way_from_here;
pub use way::{Handshake, Met, Source, Verdict, Way};

use super::{Checked, Finding, Findings, Outcome, failed, ok, unclear, warning};
use crate::hub::About;

/// An object that was looked for, or why it could not be read.
pub type One = Result<Option<Value>, String>;
/// Objects, or why they could not be read.
pub type Many = Result<Vec<Value>, String>;

/// What was read.
#[derive(Clone, Debug)]
pub struct Facts {
    /// The cluster's name at the hub, if known.
    pub cluster: Option<String>,
    /// Namespaces there.
    pub places: Places,
    /// What the add-on is configured with for it.
    pub configured: Configured,
    /// What its API says of itself.
    pub api: Result<About, String>,
    /// What is on it; none if its API did not answer.
    pub spoke: Option<Spoke>,
    /// Facts from the hub; none if it was not read.
    pub hub: Option<Hub>,
    /// The way to the principal, as far as it was gone from here.
    pub way: Way,
}

/// What is on the cluster.
#[derive(Clone, Debug)]
pub struct Spoke {
    /// Its namespace `kube-system`, whose UID identifies a cluster.
    pub system: One,
    /// The Deployments and `StatefulSets` that [`matters`] picks, of all namespaces.
    pub programs: Many,
    /// What the work agent may do.
    pub rights: Vec<(&'static Need, Result<bool, String>)>,
    /// The Pods in the agent's namespace.
    pub pods: Many,
    /// The definitions of [`DEFINITIONS`], by name.
    pub definitions: Vec<(&'static str, One)>,
    /// Whether the Secret of redis has a password; none if there is no such Secret.
    pub password: Result<Option<bool>, String>,
    /// The redis that the agent uses, if the Services could be read or its address is configured.
    pub redis: Result<RedisPlace, String>,
    /// The `NetworkPolicies` in Argo CD's namespace.
    pub fences: Many,
}

/// What the hub says.
#[derive(Clone, Debug)]
pub struct Hub {
    /// What its API says of itself.
    pub about: About,
    /// Its namespace `kube-system`.
    pub system: One,
    /// The `ManagedCluster`.
    pub managed: One,
    /// The add-on of this cluster.
    pub addon: One,
    /// The hub's own definitions, by name.
    pub definitions: Vec<(&'static str, One)>,
    /// The image of its Argo CD, if it has one.
    pub argocd_image: Option<String>,
}

impl Hub {
    /// The add-on of this cluster, if it is there.
    pub fn addon(&self) -> Option<&Value> {
        present(&self.addon)
    }
}

/// The definitions of Argo CD that an agent needs.
pub const DEFINITIONS: [&str; 2] = ["applications.argoproj.io", "appprojects.argoproj.io"];

/// Looks at everything.
pub fn check(facts: &Facts) -> Findings {
    let mut checks = vec![("api", api(facts))];
    if let Some(spoke) = &facts.spoke {
        checks.extend(joined::itself(facts, spoke).map(|it| ("cluster", it)));
        checks.extend([
            ("joined", joined::joined(facts)),
            ("klusterlet", joined::klusterlet(facts, spoke)),
            ("work agent", joined::rights(facts, spoke)),
            ("crds", definitions::check(facts, spoke)),
            ("argo cd", argo_cd::programs(facts, spoke)),
        ]);
        checks.extend(argo_cd::version(facts, spoke).map(|it| ("version", it)));
        checks.extend(redis::checks(facts, spoke));
        checks.extend([
            ("other agents", agent::others(spoke)),
            ("agent", agent::agent(facts, spoke)),
        ]);
    } else {
        checks.push(("joined", joined::joined(facts)));
    }
    let mut checks: Vec<_> = checks.into_iter().map(Finding::of).collect();
    checks.extend(way::findings(&facts.way));
    checks.extend(time::findings(facts));
    Findings { checks }
}

fn api(facts: &Facts) -> Checked {
    match &facts.api {
        Ok(about) => {
            let version = about.version.as_deref().unwrap_or("of an unknown version");
            ok(format!("the cluster's API answers, Kubernetes {version}"))
        }
        Err(reason) => failed(reason, "no other check of the cluster was possible"),
    }
}

/// The programs that were read, or none.
fn running(spoke: &Spoke) -> impl Iterator<Item = &Value> {
    spoke.programs.as_deref().unwrap_or_default().iter()
}

/// Whether as many are ready as are wanted, of those that are wanted at all.
fn is_ready(program: &Value) -> bool {
    let (wanted, ready) = (replicas(program), program.pointer("/status/readyReplicas"));
    wanted > 0 && ready.and_then(Value::as_i64).unwrap_or_default() >= wanted
}

#[cfg(test)]
mod tests;
