//! How complete the caches of the spoke are.

use std::collections::BTreeSet;

use protocol::Kind;
use protocol::payload::{ArgoCd, HealthProblem, Runs};

use crate::sync::api::Target;

/// The programs of an Argo CD that run in the agent's namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Running {
    /// The programs that run.
    pub runs: Runs,
    /// Whether the add-on installed the definitions of Argo CD's kinds.
    pub kinds_installed: bool,
    /// What fails in the Argo CD that the add-on installed.
    pub health_problem: Option<HealthProblem>,
}

/// How complete the caches of the spoke are, and whether the spoke has an Argo CD.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CacheStatus {
    /// Targets that are not listed yet.
    unknown: BTreeSet<Target>,
    /// Targets that the spoke's API does not serve.
    missing: BTreeSet<Target>,
    /// Targets to list again, since the API was restored to an earlier state.
    rewound: BTreeSet<Target>,
    /// How often all of these were listed again.
    restores: u64,
    /// The running Argo CD, after the first probe.
    runs: Option<Running>,
}

impl CacheStatus {
    /// None of these targets is listed yet.
    pub(super) fn none_of(targets: impl IntoIterator<Item = Target>) -> Self {
        Self {
            unknown: targets.into_iter().collect(),
            ..Self::default()
        }
    }

    /// The running Argo CD; none until the caches are complete, since the hub decides on both.
    pub fn runs(&self) -> Option<&Running> {
        self.runs.as_ref().filter(|_| self.is_complete())
    }

    /// Sets the result of a probe; true if it changes anything.
    pub(super) fn set_running(&mut self, runs: Running) -> bool {
        let is_change = self.runs.as_ref() != Some(&runs);
        self.runs = Some(runs);
        is_change
    }

    /// Whether all targets are listed. A kind that the API does not serve has no objects.
    pub fn is_complete(&self) -> bool {
        self.unknown.is_empty()
    }

    /// Whether the spoke's API serves Argo CD's kinds, as far as listed.
    pub fn argocd(&self) -> ArgoCd {
        if self.missing.is_empty() {
            ArgoCd::Installed
        } else {
            ArgoCd::Missing
        }
    }

    /// Whether objects of this kind can exist.
    pub(super) fn serves(&self, kind: Kind) -> bool {
        self.missing.iter().all(|target| target.kind != kind)
    }

    /// How often the caches were filled again after a restore of the API. After each restore the principal has to compare
    /// everything: the spoke may have objects again that the hub deleted.
    pub(crate) const fn restores(&self) -> u64 {
        self.restores
    }

    /// Notes that this target will be listed again.
    pub(super) fn rewind(&mut self, target: &Target) {
        self.rewound.insert(target.clone());
    }

    /// Applies the result of a watch; true if it changes anything.
    pub(super) fn saw(&mut self, target: &Target, is_served: bool) -> bool {
        let learned = self.unknown.remove(target);
        let restored = self.rewound.remove(target) && self.rewound.is_empty();
        self.restores = self.restores.wrapping_add(restored.into());
        let changed = if is_served {
            self.missing.remove(target)
        } else {
            self.missing.insert(target.clone())
        };
        learned || restored || changed
    }
}

#[cfg(test)]
mod tests {
    use protocol::payload::Runs;

    use super::*;

    #[test]
    fn a_restore_ends_when_all_its_targets_are_listed_again() {
        let target = |kind| Target {
            kind,
            namespace: Some("argocd".to_owned()),
        };
        let (apps, projects) = (target(Kind::Application), target(Kind::AppProject));
        let mut sync_status = CacheStatus::none_of([apps.clone(), projects.clone()]);
        assert!(sync_status.saw(&apps, true) && sync_status.saw(&projects, true));
        assert_eq!(sync_status.restores(), 0);
        sync_status.rewind(&apps);
        sync_status.rewind(&projects);
        assert!(!sync_status.saw(&projects, true), "one is not listed yet");
        assert_eq!(sync_status.restores(), 0);
        assert!(sync_status.saw(&apps, true));
        assert!(!sync_status.saw(&apps, true), "a later list is no restore");
        assert_eq!(sync_status.restores(), 1);
    }

    #[test]
    fn caches_of_a_spoke_without_argo_cd_become_complete() {
        let target = |kind| Target {
            kind,
            namespace: Some("argocd".to_owned()),
        };
        let (apps, projects) = (target(Kind::Application), target(Kind::AppProject));
        let mut sync_status = CacheStatus::none_of([apps.clone(), projects.clone()]);
        assert!(sync_status.saw(&apps, false));
        assert!(!sync_status.is_complete());
        let running = |runs| Running {
            runs,
            kinds_installed: false,
            health_problem: None,
        };
        assert!(
            sync_status.clone().set_running(running(Runs::Ours)) && sync_status.runs().is_none()
        );
        assert!(sync_status.saw(&projects, true));
        assert_eq!(
            (sync_status.is_complete(), sync_status.argocd()),
            (true, ArgoCd::Missing)
        );
        assert!(!sync_status.serves(Kind::Application) && sync_status.serves(Kind::AppProject));

        assert_eq!(sync_status.runs(), None, "no probe has run");
        let nothing = running(Runs::Nothing);
        assert!(
            sync_status.set_running(nothing.clone()) && !sync_status.set_running(nothing.clone())
        );
        assert_eq!(sync_status.runs(), Some(&nothing));

        assert!(!sync_status.saw(&projects, true), "a later list is no news");
        assert!(sync_status.saw(&apps, true));
        assert_eq!(
            (sync_status.is_complete(), sync_status.argocd()),
            (true, ArgoCd::Installed)
        );
    }
}
