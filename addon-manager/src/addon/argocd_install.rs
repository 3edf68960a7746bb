//! An Argo CD for spokes that have none.
//!
//! The agent says what runs in Argo CD's namespace of its cluster. What follows from that is [decided](decide) once,
//! written down on the `ManagedClusterAddOn`, and stays. A spoke's word decides about that spoke and nothing else.

pub mod follow;
pub mod objects;
pub mod pattern;
pub mod record;

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use ocm::{api::addon::AddOnDeploymentConfigSpec, name::ClusterName, sdk::Rendered};
use principal::{ArgoCd, Runs, SessionReport};
use tokio::sync::watch;

use super::{manifests::Spoke, settings, template};
use follow::Hub;
use objects::{Brought, Templates};
use pattern::{Missing, Pattern};
use record::{Record, Records};

/// `INSTALL_ARGOCD`: what a person wants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Install {
    /// Where the cluster has none.
    #[default]
    Auto,
    /// The cluster's Argo CD is ours.
    Always,
    /// The cluster's Argo CD is somebody else's.
    Never,
}

/// What was decided for a cluster, as it is written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// We bring Argo CD with the definitions of its kinds.
    Brought,
    /// We bring Argo CD; the cluster had the definitions already, which are left to whoever made them.
    InstalledWithoutDefinitions,
    /// The cluster has one of somebody else's.
    Found,
}

impl Decision {
    /// As it is written down.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Brought => "brought",
            Self::InstalledWithoutDefinitions => "brought-without-crds",
            Self::Found => "found",
        }
    }

    /// What was written down; none for any other word.
    pub fn read(word: &str) -> Option<Self> {
        let all = [
            Self::Brought,
            Self::InstalledWithoutDefinitions,
            Self::Found,
        ];
        all.into_iter().find(|it| it.as_str() == word)
    }

    const fn installs_argocd(self) -> bool {
        matches!(self, Self::Brought | Self::InstalledWithoutDefinitions)
    }
}

/// What is known of a cluster's Argo CD.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// What runs in its namespace, where the agent has said so.
    pub runs: Option<Runs>,
    /// Whether the cluster's API serves Argo CD's kinds by definitions that are not ours.
    pub has_others_kinds: bool,
}

impl Seen {
    /// As the agent has said it last.
    pub fn of(session: Option<&SessionReport>) -> Self {
        Self {
            runs: session.and_then(|session| session.argocd_runs),
            has_others_kinds: session.is_some_and(|it| {
                it.argocd == Some(ArgoCd::Installed) && !it.argocd_kinds_installed
            }),
        }
    }
}

/// What a person has to see to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Need {
    /// The hub has no Argo CD that could be the pattern.
    Pattern(String),
    /// There is one of somebody else's where ours should be.
    NotOurs,
}

/// Why none is brought to a cluster that has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Skipped {
    /// A person does not want it.
    Unwanted,
    /// It had one of somebody else's, which has gone.
    Gone,
}

/// What follows for a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// What is so now; none while that is not known.
    pub decision: Option<Decision>,
    /// Whether it has to be written down, since it is not.
    pub records: bool,
    /// Whether our objects belong on the cluster now. Never before that was written down.
    pub installs_argocd: bool,
    /// What a person has to see to.
    pub need: Option<Need>,
}

/// What it is decided from.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// What a person wants.
    pub install: Install,
    /// What is written down.
    pub recorded: Option<Decision>,
    /// What was decided before, for the same `ManagedClusterAddOn`.
    pub recalled: Option<Decision>,
    /// What is known of the cluster.
    pub seen: Seen,
    /// What the hub lacks of a pattern.
    pub missing_part: Option<&'a Missing>,
}

/// Decides about one cluster.
///
/// What was decided stays: an agent that is away, a program that is being replaced or a hub that cannot be read take
/// nothing away. An Argo CD of somebody else's is written down only when it goes, so that an ordinary enrolment costs no
/// further write.
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
    let bring = match (seen.runs, install) {
        (None | Some(Runs::Other), _) => return Verdict::default(),
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
        (Some(Runs::Nothing | Runs::Ours), _) => Decision::Brought,
    };
    if bring.installs_argocd() && need.is_some() {
        return Verdict {
            need,
            ..Verdict::default()
        };
    }
    Verdict {
        decision: Some(bring),
        records: bring.installs_argocd(),
        ..Verdict::default()
    }
}

/// Why a cluster that says that it has no Argo CD gets none; none if it gets one, or has not said so.
pub fn withheld(install: Install, verdict: &Verdict, seen: Seen) -> Option<Skipped> {
    match (install, verdict.decision) {
        _ if seen.runs != Some(Runs::Nothing) => None,
        (Install::Never, _) => Some(Skipped::Unwanted),
        (Install::Auto | Install::Always, Some(Decision::Found)) => Some(Skipped::Gone),
        (
            Install::Auto | Install::Always,
            None | Some(Decision::Brought | Decision::InstalledWithoutDefinitions),
        ) => None,
    }
}

/// What is asked for one cluster.
#[derive(Clone, Copy, Debug)]
pub struct Ask<'a> {
    /// The cluster.
    pub cluster: &'a ClusterName,
    /// UID of its `ManagedClusterAddOn`.
    pub uid: &'a str,
    /// What is written down there.
    pub recorded: Option<Decision>,
    /// The namespace that is written down with it.
    pub place: Option<&'a str>,
    /// The session.
    pub session: Option<&'a SessionReport>,
    /// Its configuration.
    pub config: &'a AddOnDeploymentConfigSpec,
    /// Its settings.
    pub spoke: &'a Spoke,
}

/// Why nothing can be rendered.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A variable.
    #[error(transparent)]
    Settings(#[from] settings::Error),
    /// What is there stays.
    #[error("{0}")]
    Pattern(String),
    /// It is not moved: in another namespace there may be one of somebody else's, and what runs would have to go first.
    #[error(
        "the add-on installed Argo CD in namespace {from} of the cluster, but ARGOCD_NAMESPACE is now {to}: set it \
        back, or opt the cluster out, which removes that Argo CD, and in again; nothing changes until then"
    )]
    Moved {
        /// Where it is.
        from: String,
        /// Where it would be.
        to: String,
    },
    /// A mistake of ours.
    #[error(transparent)]
    Template(#[from] template::Error),
}

#[derive(Clone, Debug, Default)]
struct Stance {
    uid: String,
    verdict: Verdict,
    withheld: Option<Skipped>,
}

/// Brings Argo CD, and remembers what was decided.
#[derive(Debug)]
pub struct Installer {
    templates: Templates,
    hub: watch::Receiver<Hub>,
    records: watch::Sender<Records>,
    // Held for a lookup, never over an await.
    stances: Mutex<BTreeMap<ClusterName, Stance>>,
}

impl Installer {
    /// With what the hub has as the pattern; what has to be written down is told to `records`.
    pub fn new(
        hub: watch::Receiver<Hub>,
        records: watch::Sender<Records>,
    ) -> Result<Self, template::Error> {
        Ok(Self {
            templates: Templates::embedded()?,
            hub,
            records,
            stances: Mutex::default(),
        })
    }

    fn stances(&self) -> MutexGuard<'_, BTreeMap<ClusterName, Stance>> {
        self.stances.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a person has to see to on a cluster.
    pub fn need(&self, cluster: &ClusterName) -> Option<Need> {
        self.stances().get(cluster)?.verdict.need.clone()
    }

    /// Why a cluster that has no Argo CD gets none.
    pub fn withheld(&self, cluster: &ClusterName) -> Option<Skipped> {
        self.stances().get(cluster)?.withheld
    }

    /// Whether Argo CD is ours there, or is about to be.
    pub fn installs_argocd(&self, cluster: &ClusterName) -> bool {
        let stances = self.stances();
        stances.get(cluster).is_some_and(|it| {
            let Verdict {
                decision,
                records,
                installs_argocd,
                need: _,
            } = it.verdict;
            installs_argocd || (records && decision.is_some_and(Decision::installs_argocd))
        })
    }

    /// The cluster has left.
    pub fn forget(&self, cluster: &ClusterName) {
        self.stances().remove(cluster);
        self.note(cluster, None);
    }

    fn note(&self, cluster: &ClusterName, record: Option<Record>) {
        self.records.send_if_modified(|all| match record {
            Some(record) => all.insert(cluster.clone(), record.clone()).as_ref() != Some(&record),
            None => all.remove(cluster).is_some(),
        });
    }

    /// Decides, and gives the objects that belong on the cluster for that; none for most.
    pub fn render(&self, ask: &Ask<'_>) -> Result<Rendered, Error> {
        let install = settings::installs(ask.config)?;
        let keep = settings::keeps_argocd(ask.config)?;
        let pattern = Pattern::of(&self.hub.borrow());
        let verdict = self.judge(ask, install, pattern.as_ref().err());
        let wanted = verdict.decision.filter(|_| verdict.installs_argocd);
        let Some(decision) = wanted else {
            return Ok(Rendered::default());
        };
        let here = &ask.spoke.argocd_namespace;
        if let Some(place) = ask.place.filter(|place| place != here) {
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
        let installed = Brought {
            spoke: ask.spoke,
            image: settings::mirrored(&pattern.image, &ask.config.registries),
            redis_image: settings::mirrored(&pattern.redis_image, &ask.config.registries),
            crds,
            keep,
            config: ask.config,
        };
        Ok(self.templates.render(&installed)?)
    }

    fn judge(&self, ask: &Ask<'_>, install: Install, missing_part: Option<&Missing>) -> Verdict {
        let mut stances = self.stances();
        let before = stances.get(ask.cluster).filter(|it| it.uid == ask.uid);
        let seen = Seen::of(ask.session);
        let verdict = decide(&Question {
            install,
            recorded: ask.recorded,
            recalled: before.and_then(|it| it.verdict.decision),
            seen,
            missing_part,
        });
        let stance = Stance {
            uid: ask.uid.to_owned(),
            withheld: withheld(install, &verdict, seen),
            verdict: verdict.clone(),
        };
        stances.insert(ask.cluster.clone(), stance);
        drop(stances);
        let record = verdict.decision.filter(|_| verdict.records);
        let record = record.map(|decision| Record {
            uid: ask.uid.to_owned(),
            decision,
            place: decision
                .installs_argocd()
                .then(|| ask.spoke.argocd_namespace.clone()),
        });
        self.note(ask.cluster, record);
        verdict
    }
}

#[cfg(test)]
mod tests;
