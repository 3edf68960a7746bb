//! Installs Argo CD on spokes that have none.
//!
//! The agent reports which Argo CD runs in its cluster. From that we [decide] once, record the decision on the
//! `ManagedClusterAddOn`, and keep it. The report of a spoke affects that spoke only.

pub mod follow;
pub mod keep;
pub mod objects;
pub mod pattern;
mod proxy;
pub mod record;
mod skipped;
mod tuning;

use std::{collections::BTreeMap, sync::Mutex};

use ocm::{api::addon::AddOnDeploymentConfigSpec, name::ClusterName, sdk::Rendered};
use principal::{ArgoCd, Runs, SessionReport};
use tokio::sync::watch;

use super::{manifests::Spoke, settings, template};
use crate::lock::lock;
use follow::Hub;
use objects::{Inputs, Templates};
use pattern::{Missing, Pattern};
use record::{Record, Records};
pub use skipped::{Skipped, withheld};

/// `INSTALL_ARGOCD`: what the user wants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Install {
    /// We install Argo CD if the cluster has none.
    #[default]
    Auto,
    /// We install Argo CD and its CRDs.
    Always,
    /// Users install Argo CD.
    Never,
}

/// The decision for a cluster, as the annotation records it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// We install Argo CD with its CRDs.
    Installed,
    /// We install Argo CD without its CRDs: the cluster had them already, and we leave them to their owner.
    InstalledWithoutDefinitions,
    /// The cluster has an Argo CD that we did not install.
    Found,
}

impl Decision {
    /// The value of the annotation.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Installed => "brought",
            Self::InstalledWithoutDefinitions => "brought-without-crds",
            Self::Found => "found",
        }
    }

    /// Parses the value of the annotation.
    pub fn read(word: &str) -> Option<Self> {
        let all = [
            Self::Installed,
            Self::InstalledWithoutDefinitions,
            Self::Found,
        ];
        all.into_iter().find(|it| it.as_str() == word)
    }

    /// Whether we install Argo CD.
    pub const fn installs_argocd(self) -> bool {
        matches!(self, Self::Installed | Self::InstalledWithoutDefinitions)
    }
}

/// The observed Argo CD of a cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// The programs in its namespace, if the agent has reported them.
    pub runs: Option<Runs>,
    /// Whether the cluster's API serves Argo CD's kinds by CRDs that are not ours.
    pub has_others_kinds: bool,
}

impl Seen {
    /// Reads the last report of the agent.
    pub fn of(session: Option<&SessionReport>) -> Self {
        Self {
            runs: session.and_then(|session| session.argocd_runs),
            has_others_kinds: session.is_some_and(|it| {
                it.argocd == Some(ArgoCd::Installed) && !it.argocd_kinds_installed
            }),
        }
    }
}

/// A problem that needs a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Need {
    /// The hub has no complete Argo CD that could be the pattern.
    Pattern(String),
    /// Another Argo CD runs where ours should be.
    NotOurs,
}

/// The result of [`decide`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// The decision; none until the agent has reported.
    pub decision: Option<Decision>,
    /// Whether the decision must still be recorded.
    pub records: bool,
    /// Whether our objects belong on the cluster now. Never before the decision is recorded.
    pub installs_argocd: bool,
    /// A problem that needs a person.
    pub need: Option<Need>,
}

/// The input of [`decide`].
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// What the user wants.
    pub install: Install,
    /// The recorded decision.
    pub recorded: Option<Decision>,
    /// The last decision of this process for the same `ManagedClusterAddOn`.
    pub recalled: Option<Decision>,
    /// The observed Argo CD of the cluster.
    pub seen: Seen,
    /// The missing part of the hub's pattern.
    pub missing_part: Option<&'a Missing>,
}

/// Decides whether we install Argo CD on one cluster.
///
/// A decision is stable: we remove nothing while the agent is disconnected, during a rollout, or when the hub's Argo CD
/// is unavailable. We record `Found` only when that Argo CD is gone, so that an ordinary enrolment costs no write. An Argo
/// CD in another namespace postpones the decision of `auto`.
pub fn decide(question: &Question<'_>) -> Verdict {
    let Question {
        install,
        recorded,
        recalled,
        seen,
        missing_part,
    } = *question;
    if install == Install::Never {
        return Verdict {
            decision: recorded.or(recalled),
            ..Verdict::default()
        };
    }
    let need = missing_part.map(|missing_part| Need::Pattern(missing_part.to_string()));
    if let Some(before) = recorded.or(recalled) {
        if before.installs_argocd() {
            return Verdict {
                decision: Some(before),
                records: recorded != Some(before),
                installs_argocd: recorded == Some(before),
                need,
            };
        }
        if install == Install::Auto {
            let gone = seen.runs.is_some_and(|runs| runs != Runs::Foreign);
            return Verdict {
                decision: Some(Decision::Found),
                records: recorded.is_none() && gone,
                ..Verdict::default()
            };
        }
    }
    let decision = match (seen.runs, install) {
        (None | Some(Runs::Other), _) | (Some(Runs::Elsewhere), Install::Auto) => {
            return Verdict::default();
        }
        (Some(Runs::Foreign), Install::Always) => {
            return Verdict {
                need: Some(Need::NotOurs),
                ..Verdict::default()
            };
        }
        (Some(Runs::Foreign), _) => Decision::Found,
        (Some(Runs::Nothing | Runs::Ours), Install::Auto) if seen.has_others_kinds => {
            Decision::InstalledWithoutDefinitions
        }
        (Some(Runs::Nothing | Runs::Ours | Runs::Elsewhere), _) => Decision::Installed,
    };
    if decision.installs_argocd() && need.is_some() {
        return Verdict {
            need,
            ..Verdict::default()
        };
    }
    Verdict {
        decision: Some(decision),
        records: decision.installs_argocd(),
        ..Verdict::default()
    }
}

/// The input of a rendering for one cluster.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The cluster.
    pub cluster: &'a ClusterName,
    /// UID of its `ManagedClusterAddOn`.
    pub uid: &'a str,
    /// The decision that is recorded there.
    pub recorded: Option<Decision>,
    /// The namespace that is recorded with it.
    pub place: Option<&'a str>,
    /// The session.
    pub session: Option<&'a SessionReport>,
    /// Its configuration.
    pub config: &'a AddOnDeploymentConfigSpec,
    /// Its settings.
    pub spoke: &'a Spoke,
    /// Whether the cluster is an OpenShift.
    pub is_openshift: bool,
}

/// Why rendering failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A variable is invalid.
    #[error(transparent)]
    Settings(#[from] settings::Error),
    /// The hub's pattern is incomplete; installed objects stay.
    #[error("{0}")]
    Pattern(String),
    /// We do not move Argo CD: the new namespace may contain another one, and the installed one would have to go first.
    #[error(
        "the add-on installed Argo CD in namespace {from} of the cluster, but ARGOCD_NAMESPACE is now {to}: set it \
        back, or opt the cluster out, which removes that Argo CD, and in again; nothing changes until then"
    )]
    Moved {
        /// The namespace of the installed Argo CD.
        from: String,
        /// The requested namespace.
        to: String,
    },
    /// A manifest is invalid: a programming error.
    #[error(transparent)]
    Template(#[from] template::Error),
}

/// The last decision for a cluster.
#[derive(Clone, Debug, Default)]
pub struct State {
    uid: String,
    /// The decision.
    pub verdict: Verdict,
    /// Why we do not install Argo CD on a cluster that has none.
    pub withheld: Option<Skipped>,
}

impl State {
    /// Whether we install Argo CD there, or are about to.
    pub fn installs_argocd(&self) -> bool {
        let verdict = &self.verdict;
        let decided = verdict.decision.is_some_and(Decision::installs_argocd);
        verdict.installs_argocd || (verdict.records && decided)
    }

    /// The decision, if our objects belonged on the cluster.
    fn rendered(&self) -> Option<Decision> {
        self.verdict
            .decision
            .filter(|_| self.verdict.installs_argocd)
    }
}

/// Renders Argo CD for spokes, and remembers the decisions.
#[derive(Debug)]
pub struct Installer {
    templates: Templates,
    hub: watch::Receiver<Hub>,
    records: watch::Sender<Records>,
    // Locked for a lookup, never across an await.
    states: Mutex<BTreeMap<ClusterName, State>>,
}

impl Installer {
    /// Uses the hub's Argo CD as the pattern, and publishes decisions to record on `records`.
    pub fn new(
        hub: watch::Receiver<Hub>,
        records: watch::Sender<Records>,
    ) -> Result<Self, template::Error> {
        Ok(Self {
            templates: Templates::embedded()?,
            hub,
            records,
            states: Mutex::default(),
        })
    }

    /// The state of a cluster.
    pub fn state(&self, cluster: &ClusterName) -> State {
        let state = lock(&self.states).get(cluster).cloned();
        state.unwrap_or_default()
    }

    /// Forgets a cluster that has left.
    pub fn forget(&self, cluster: &ClusterName) {
        lock(&self.states).remove(cluster);
        self.note(cluster, None);
    }

    fn note(&self, cluster: &ClusterName, record: Option<Record>) {
        self.records.send_if_modified(|all| match record {
            Some(record) => all.insert(cluster.clone(), record.clone()).as_ref() != Some(&record),
            None => all.remove(cluster).is_some(),
        });
    }

    /// Decides, and returns the Argo CD objects for the cluster; none if we do not install Argo CD.
    pub fn render(&self, request: &Request<'_>) -> Result<Rendered, Error> {
        let install = settings::installs(request.config)?;
        let keep = settings::keeps_argocd(request.config)?;
        let pattern = Pattern::of(&self.hub.borrow());
        let verdict = self.judge(request, install, pattern.as_ref().err());
        let wanted = verdict.decision.filter(|_| verdict.installs_argocd);
        let Some(decision) = wanted else {
            return Ok(Rendered::default());
        };
        let here = &request.spoke.argocd_namespace;
        if let Some(place) = request.place.filter(|place| place != here) {
            return Err(Error::Moved {
                from: place.to_owned(),
                to: here.clone(),
            });
        }
        let pattern = pattern.map_err(|missing_part| Error::Pattern(missing_part.to_string()))?;
        let crds = match (decision, install) {
            (Decision::InstalledWithoutDefinitions, Install::Auto) => &[][..],
            _ => &pattern.crds,
        };
        let inputs = Inputs {
            spoke: request.spoke,
            image: settings::mirrored(&pattern.image, &request.config.registries),
            redis_image: settings::mirrored(&pattern.redis_image, &request.config.registries),
            crds,
            keep,
            is_openshift: request.is_openshift,
            config: request.config,
        };
        Ok(self.templates.render(&inputs)?)
    }

    fn judge(&self, request: &Request<'_>, install: Install, missing: Option<&Missing>) -> Verdict {
        let mut states = lock(&self.states);
        let before = states.get(request.cluster);
        let before = before.filter(|it| it.uid == request.uid);
        let seen = Seen::of(request.session);
        let verdict = decide(&Question {
            install,
            // What was rendered for this ManagedClusterAddOn was recorded before, even if another client removed the annotation.
            recorded: request.recorded.or_else(|| before?.rendered()),
            recalled: before.and_then(|it| it.verdict.decision),
            seen,
            missing_part: missing,
        });
        let state = State {
            uid: request.uid.to_owned(),
            withheld: withheld(install, &verdict, seen),
            verdict: verdict.clone(),
        };
        states.insert(request.cluster.clone(), state);
        drop(states);
        let record = verdict.decision.filter(|_| verdict.records);
        let record = record.map(|decision| Record {
            uid: request.uid.to_owned(),
            decision,
            place: decision
                .installs_argocd()
                .then(|| request.spoke.argocd_namespace.clone()),
        });
        self.note(request.cluster, record);
        verdict
    }
}

#[cfg(test)]
mod tests;
