//! One Application in the index.

use std::{collections::BTreeSet, sync::Arc};

use argocd::{
    Application,
    command::{self, Introduced},
    digest, host_keys, projection,
};
use serde_json::Value;

use super::effect::Effect;
use crate::{
    domain::{Block, Blocked, ClusterName, Key, Placement},
    store::Packed,
};

/// The hosts that an Application needs, and on which cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Uses {
    pub(super) cluster: ClusterName,
    pub(super) hosts: BTreeSet<String>,
}

/// The last state of an Application that was sent to a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
struct LastSent {
    cluster: ClusterName,
    digest: String,
}

/// The state of the commands on an Application. It does not survive a restart; see `argocd::command`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Commands {
    /// The version that introduced the current operation.
    operation: Option<String>,
    /// A report has shown that the cluster took the current operation.
    taken: bool,
    /// The identity of the requested refresh.
    refresh: Option<String>,
}

/// One Application: the hub's object, its placement, and the state of its copy.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    object: Arc<Packed>,
    pub(crate) placement: Placement,
    /// The cluster that it was routed to, if that left the fleet.
    pub(crate) left: Option<ClusterName>,
    commands: Commands,
    stated: Option<LastSent>,
    /// The cluster that may have a copy.
    pub(super) holder: Option<ClusterName>,
    /// The hosts that are counted for it.
    pub(super) uses: Option<Uses>,
    /// The error that the cluster reported for it.
    pub(crate) report: Option<String>,
    /// The other field manager on the cluster that keeps changing it, if there is one.
    pub(crate) contest: Option<String>,
    /// Its workload was to be deleted with it and stays now; the cluster may not know that.
    keeps_workload: bool,
    /// It is being deleted, and its cluster has no copy any more.
    is_gone_there: bool,
    /// It is from before the hub was restored to an earlier state: the next reported version counts.
    is_former: bool,
}

impl Entry {
    /// An Application that was unknown before. Unless it is `new` on the hub too, the age of its operation is unknown,
    /// and the first report of the cluster decides.
    pub(super) fn new(object: Arc<Packed>, new: bool) -> Self {
        let mut entry = Self {
            object: Arc::default(),
            placement: Placement::Local,
            left: None,
            commands: Commands::default(),
            stated: None,
            holder: None,
            uses: None,
            report: None,
            contest: None,
            keeps_workload: false,
            is_gone_there: false,
            is_former: false,
        };
        entry.update(object);
        if !new {
            entry.commands.operation = None;
        }
        entry
    }

    /// The hub was restored to an earlier state: the next version is not compared with this one.
    pub(super) const fn outdate(&mut self) {
        self.is_former = true;
    }

    /// Updates to a newer version; none when it is not newer.
    pub(super) fn replace(&mut self, object: Arc<Packed>) -> Option<Introduced> {
        if std::mem::take(&mut self.is_former) {
            return Some(self.reset_to(object));
        }
        let newer = is_newer(object.meta().resource_version(), self.version());
        newer.then(|| self.update(object))
    }

    /// Resets the entry as at a start: the age of the operation is unknown. The cluster may have taken it before the
    /// hub was restored, and its next report decides.
    fn reset_to(&mut self, object: Arc<Packed>) -> Introduced {
        self.object = Arc::default();
        (self.commands, self.stated) = (Commands::default(), None);
        let introduced = self.update(object);
        self.commands.operation = None;
        Introduced {
            operation: false,
            ..introduced
        }
    }

    fn update(&mut self, object: Arc<Packed>) -> Introduced {
        let head = object.head();
        let introduced = command::introduced(self.head(), head);
        let (before, after) = (
            self.application().operation(),
            Application::of(head).operation(),
        );
        let is_other = before != after;
        if introduced.operation || is_other {
            self.commands.taken = false;
        }
        if introduced.operation {
            self.commands.operation = Some(object.meta().resource_version().to_owned());
        } else if is_other {
            self.commands.operation = None;
        }
        if !command::wants_refresh(head) {
            self.commands.refresh = None;
        } else if introduced.refresh {
            self.commands.refresh = Some(command::refresh_id(head));
        }
        if projection::cascades(head) || object.meta().is_deleting() {
            self.keeps_workload = false;
        } else if projection::cascades(self.head()) {
            self.keeps_workload = true;
        }
        self.object = object;
        introduced
    }

    pub(crate) const fn object(&self) -> &Arc<Packed> {
        &self.object
    }

    /// The object with only a few fields of its status.
    pub(crate) fn head(&self) -> &Value {
        self.object.head()
    }

    /// Whether it is being deleted and its cluster has reported that no copy is left.
    pub(crate) const fn is_gone_there(&self) -> bool {
        self.is_gone_there
    }

    /// Records whether its cluster has no copy any more.
    pub(crate) fn note_gone_there(&mut self, is_gone: bool) {
        self.is_gone_there = is_gone && self.object.meta().is_deleting();
    }

    /// The state to send before the deletion, if the cluster would delete the workload with its outdated copy.
    pub(crate) fn final_state(&self) -> Option<Arc<Packed>> {
        self.keeps_workload.then(|| Arc::clone(&self.object))
    }

    pub(crate) fn application(&self) -> Application<'_> {
        Application::of(self.head())
    }

    pub(crate) fn uid(&self) -> &str {
        self.object.meta().uid()
    }

    pub(crate) fn version(&self) -> &str {
        self.object.meta().resource_version()
    }

    /// Its rank among the claims of a name.
    pub(super) fn claim(&self) -> (String, String) {
        let created = self.object.meta().creation_timestamp().unwrap_or_default();
        (created.to_owned(), self.uid().to_owned())
    }

    /// The cluster it is routed to, delivered or blocked, or is a mirror of.
    pub(crate) const fn cluster(&self) -> Option<&ClusterName> {
        self.placement.cluster()
    }

    /// Whether it is a mirror of an Application of this autonomous cluster.
    pub(crate) fn is_mirror_of(&self, cluster: &ClusterName) -> bool {
        matches!(&self.placement, Placement::Mirror(of) if of == cluster)
    }

    /// Sets the placement and returns the one before.
    pub(super) fn set_placement(
        &mut self,
        placement: Placement,
        is_enrolled: impl Fn(&ClusterName) -> bool,
    ) -> Placement {
        let former = self.cluster().cloned().or_else(|| self.left.take());
        self.left = former.filter(|former| placement == Placement::Local && !is_enrolled(former));
        std::mem::replace(&mut self.placement, placement)
    }

    /// The hosts that its cluster needs for it. Also while it is blocked: a copy may still run.
    pub(super) fn uses_now(&self) -> Option<Uses> {
        let cluster = self.cluster()?.clone();
        let hosts = host_keys::hosts(self.application());
        (!hosts.is_empty()).then_some(Uses { cluster, hosts })
    }

    /// The digest of the state that its cluster should have.
    pub(crate) fn digest(&self) -> String {
        digest::agreed(&projection::wire_application(self.head()))
    }

    /// The version that introduced the current operation, if it is known.
    pub(crate) fn operation_version(&self) -> Option<&str> {
        self.application()
            .operation()
            .and(self.commands.operation.as_deref())
    }

    /// The identity of the requested refresh.
    pub(crate) fn refresh(&self) -> Option<&str> {
        self.commands.refresh.as_deref()
    }

    /// Whether a report has shown that the cluster took the current operation.
    pub(crate) const fn is_taken(&self) -> bool {
        self.commands.taken
    }

    /// Records that the cluster took the current operation.
    pub(crate) const fn take_operation(&mut self) {
        self.commands.taken = true;
    }

    /// Names the current operation by this version, after a report has shown that no cluster knows it.
    pub(crate) fn name_operation(&mut self) {
        if self.application().operation().is_some() && self.commands.operation.is_none() {
            self.commands.operation = Some(self.version().to_owned());
        }
    }

    /// Whether the hub wants the running operation to end. Without a start the cluster cannot identify it.
    pub(crate) fn is_terminating(&self) -> bool {
        self.application()
            .operation_state()
            .is_some_and(|state| state.phase() == "Terminating" && state.started_at().is_some())
    }

    /// Whether there is a command to send.
    pub(crate) fn has_command(&self) -> bool {
        (self.operation_version().is_some() && !self.is_taken()) || self.is_terminating()
    }

    /// Whether the hub moved it away from the cluster with its copy, as opposed to blocking it.
    ///
    /// Decides by the name only: the meaning of a server URL depends on the current Secret of the cluster.
    pub(crate) fn is_moved_away(&self) -> bool {
        matches!(self.placement, Placement::Local)
            && self.application().destination().server.is_empty()
    }

    /// Sets the result of the evaluation and returns the messages to send.
    pub(super) fn settle(
        &mut self,
        key: &Key,
        blocked: Option<Blocked>,
        introduced: Introduced,
    ) -> Vec<Effect> {
        let is_commanded = introduced.operation || introduced.termination;
        match &mut self.placement {
            Placement::Mirror(cluster) => {
                (self.stated, self.holder) = (None, None);
                // A mirror receives only commands.
                let state = introduced.refresh.then(|| Effect::state(cluster, key));
                let command = is_commanded.then(|| Effect::command(cluster, key));
                return state.into_iter().chain(command).collect();
            }
            Placement::Routed(_, before) => {
                if blocked
                    .as_ref()
                    .is_some_and(|it| it.why == Block::DeletionUnconfirmed)
                {
                    // Without a confirmation the hub takes back no copy, also when the Application is gone.
                    self.holder = None;
                }
                *before = blocked;
            }
            Placement::Local | Placement::Ignored | Placement::Conflict(_) => {}
        }
        let mut effects: Vec<Effect> = self.leave(key).into_iter().collect();
        let Some(cluster) = self.placement.delivered_to().cloned() else {
            self.stated = None;
            return effects;
        };
        let now = LastSent {
            digest: self.digest(),
            cluster,
        };
        let before = self.stated.take();
        let before = before.filter(|stated| stated.cluster == now.cluster);
        if before.is_none() && command::is_spent(self.head()) {
            // Another cluster may have left it: only a report of this one shows whether it is a command.
            self.commands.operation = None;
        }
        let is_other = before.as_ref() != Some(&now);
        if is_other || introduced.refresh {
            effects.push(Effect::state(&now.cluster, key));
        }
        if is_commanded || (before.is_none() && self.has_command()) {
            effects.push(Effect::command(&now.cluster, key));
        }
        self.holder = Some(now.cluster.clone());
        self.stated = Some(now);
        effects
    }

    /// Deletes the copy on a cluster that the Application is not routed to any more.
    fn leave(&mut self, key: &Key) -> Option<Effect> {
        let holder = self.holder.as_ref()?;
        let moved = self.cluster().is_some_and(|cluster| cluster != holder);
        if !moved && !self.is_moved_away() {
            return None;
        }
        Some(Effect::Gone {
            cluster: self.holder.take()?,
            key: key.object(),
            uid: self.uid().to_owned(),
        })
    }
}

/// Whether a version of an object is newer than the known one. Equal is not newer.
///
/// Versions of one object are numbers that grow (KEP-5504). If one is not a number, every other version is newer.
pub(in crate::sync::hub) fn is_newer(version: &str, known: &str) -> bool {
    match (version.parse::<u128>(), known.parse::<u128>()) {
        (Ok(version), Ok(known)) => version > known,
        (Ok(_) | Err(_), Ok(_) | Err(_)) => version != known,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_an_object_are_compared_as_numbers() {
        assert!(is_newer("10", "9"));
        assert!(!is_newer("9", "10"));
        assert!(!is_newer("9", "9"));
        assert!(is_newer("b", "a") && is_newer("a", "b"));
        assert!(!is_newer("a", "a"));
    }
}
