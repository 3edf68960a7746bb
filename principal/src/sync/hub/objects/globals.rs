//! Changes of the global projects, and the log of those without effect.

use argocd::global_projects::GlobalProjects;

use super::{Effect, Mailbox, State, Watched};

impl State {
    /// Sets the global projects. A setting that was damaged for a moment deletes no copies at once.
    pub(super) fn set_globals(&mut self, globals: GlobalProjects) -> Vec<Effect> {
        let effects = self.index.set_globals(globals);
        self.log_ignored_globals();
        self.without_deletions(effects)
    }

    /// Compares clusters with the hub instead of deleting copies there at once.
    pub(super) fn without_deletions(&self, mut effects: Vec<Effect>) -> Vec<Effect> {
        effects.retain(|effect| {
            let Effect::Gone { cluster, .. } = effect else {
                return true;
            };
            self.notify(cluster, Mailbox::compare);
            false
        });
        effects
    }

    /// Logs the global projects without effect when they change, once all projects are known.
    pub(super) fn log_ignored_globals(&mut self) {
        if !self.synced.contains(&Watched::AppProject) {
            return;
        }
        let ignored = self.index.ignored_globals();
        if ignored != self.ignored_globals && !ignored.is_empty() {
            let reasons = ignored.join("; ");
            tracing::warn!(
                reasons,
                "entries of globalProjects in argocd-cm have no effect, nor have those after them for the same projects"
            );
        }
        self.ignored_globals = ignored;
    }
}
