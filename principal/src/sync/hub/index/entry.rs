//! One Application in the index.

use std::{collections::BTreeSet, sync::Arc};

use argocd::{
    Application, Meta,
    command::{self, Introduced},
    host_keys, projection,
};
use serde_json::Value;

use super::{Effect, Key, judge};

mod place;

pub(crate) use place::{Blocked, Place, Placement};

/// The hosts that an Application needs, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Uses {
    pub(super) cluster: String,
    pub(super) hosts: BTreeSet<String>,
}

/// What was last said to a cluster about an Application.
#[derive(Clone, Debug, PartialEq, Eq)]
struct LastSent {
    cluster: String,
    digest: String,
}

/// What is known about the commands on an Application. Nothing of it survives a restart; see `argocd::command`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Commands {
    /// The version that introduced the operation which is set.
    operation: Option<String>,
    /// A report has shown that the operation which is set was taken.
    taken: bool,
    /// The identity of the refresh that is asked for.
    refresh: Option<String>,
}

/// One Application: what the hub has, where it goes, and what is known about its copy.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    object: Arc<Value>,
    pub(crate) placement: Placement,
    commands: Commands,
    stated: Option<LastSent>,
    /// The cluster that may hold a copy.
    pub(super) holder: Option<String>,
    /// The hosts that are counted for it.
    pub(super) uses: Option<Uses>,
    /// What the cluster last said went wrong with it.
    pub(crate) report: Option<String>,
    /// Who over there keeps changing it, if somebody does.
    pub(crate) contest: Option<String>,
    /// Its workload was to go with it and is to stay now; a cluster may not have heard of that.
    spares: bool,
    /// It is being deleted, and its cluster has nothing of it any more.
    is_gone_there: bool,
    /// It is of a state from before the hub went back to an earlier one: whatever is reported next counts.
    is_former: bool,
}

impl Entry {
    /// An Application that was not known before. Unless it is `new` on the hub too, nobody knows since when its
    /// operation is set, and the cluster's first report decides.
    pub(super) fn new(object: Value, new: bool) -> Self {
        let mut entry = Self {
            object: Arc::new(Value::Null),
            placement: Placement::Local,
            commands: Commands::default(),
            stated: None,
            holder: None,
            uses: None,
            report: None,
            contest: None,
            spares: false,
            is_gone_there: false,
            is_former: false,
        };
        entry.take_in(object);
        if !new {
            entry.commands.operation = None;
        }
        entry
    }

    /// The hub went back: versions that come from now on are not compared with this one.
    pub(super) const fn outdate(&mut self) {
        self.is_former = true;
    }

    /// Takes a newer version in; none when it is not newer.
    pub(super) fn replace(&mut self, object: Value) -> Option<Introduced> {
        if std::mem::take(&mut self.is_former) {
            return Some(self.begin_anew(object));
        }
        let newer = is_newer(Meta::of(&object).resource_version(), self.version());
        newer.then(|| self.take_in(object))
    }

    /// As if it were found at a start: nobody knows since when its operation is set, the cluster may have taken it in the
    /// time that the hub has forgotten, and its next report decides.
    fn begin_anew(&mut self, object: Value) -> Introduced {
        self.object = Arc::new(Value::Null);
        (self.commands, self.stated) = (Commands::default(), None);
        let introduced = self.take_in(object);
        self.commands.operation = None;
        Introduced {
            operation: false,
            ..introduced
        }
    }

    fn take_in(&mut self, object: Value) -> Introduced {
        let introduced = command::introduced(&self.object, &object);
        let (before, after) = (
            self.application().operation(),
            Application::of(&object).operation(),
        );
        let is_other = before != after;
        if introduced.operation || is_other {
            self.commands.taken = false;
        }
        if introduced.operation {
            self.commands.operation = Some(Meta::of(&object).resource_version().to_owned());
        } else if is_other {
            self.commands.operation = None;
        }
        if !command::wants_refresh(&object) {
            self.commands.refresh = None;
        } else if introduced.refresh {
            self.commands.refresh = Some(command::refresh_id(&object));
        }
        if projection::cascades(&object) || Meta::of(&object).is_deleting() {
            self.spares = false;
        } else if projection::cascades(&self.object) {
            self.spares = true;
        }
        self.object = Arc::new(object);
        introduced
    }

    pub(crate) const fn object(&self) -> &Arc<Value> {
        &self.object
    }

    /// Whether it is being deleted and its cluster has said that nothing of it is left.
    pub(crate) const fn is_gone_there(&self) -> bool {
        self.is_gone_there
    }

    /// Its cluster has nothing of it any more, or may have something again.
    pub(super) fn note_gone_there(&mut self, is_gone: bool) {
        self.is_gone_there = is_gone && Meta::of(&self.object).is_deleting();
    }

    /// What a cluster has to know before it is told that the Application is gone, if it takes the workload away with what
    /// it holds.
    pub(crate) fn last_words(&self) -> Option<Arc<Value>> {
        self.spares.then(|| Arc::clone(&self.object))
    }

    pub(crate) fn application(&self) -> Application<'_> {
        Application::of(&self.object)
    }

    pub(crate) fn uid(&self) -> &str {
        Meta::of(&self.object).uid()
    }

    pub(crate) fn version(&self) -> &str {
        Meta::of(&self.object).resource_version()
    }

    /// How it stands in line for a name.
    pub(super) fn claim(&self) -> (String, String) {
        let created = Meta::of(&self.object)
            .creation_timestamp()
            .unwrap_or_default();
        (created.to_owned(), self.uid().to_owned())
    }

    /// The cluster it goes to, delivered or held, or is a mirror of.
    pub(crate) fn cluster(&self) -> Option<&str> {
        match &self.placement {
            Placement::Routed(place, _) => Some(&place.cluster),
            Placement::Mirror(cluster) => Some(cluster),
            Placement::Local | Placement::Ignored | Placement::Conflict(_) => None,
        }
    }

    /// Whether it shows an Application of this autonomous cluster.
    pub(crate) fn is_mirror_of(&self, cluster: &str) -> bool {
        matches!(&self.placement, Placement::Mirror(of) if of == cluster)
    }

    /// The cluster it is delivered to.
    pub(crate) fn delivered_to(&self) -> Option<&str> {
        match &self.placement {
            Placement::Routed(place, None) => Some(&place.cluster),
            Placement::Routed(_, Some(_))
            | Placement::Local
            | Placement::Ignored
            | Placement::Conflict(_)
            | Placement::Mirror(_) => None,
        }
    }

    /// The hosts that the cluster it goes to needs for it, delivered or held: a held one may have a copy that runs.
    pub(super) fn uses_now(&self) -> Option<Uses> {
        let cluster = self.cluster()?.to_owned();
        let hosts = host_keys::hosts(self.application());
        (!hosts.is_empty()).then_some(Uses { cluster, hosts })
    }

    /// The digest of what its cluster should have.
    pub(crate) fn digest(&self) -> String {
        judge::application_digest(&self.object)
    }

    /// The version that introduced the operation which is set, if it is known.
    pub(crate) fn operation_version(&self) -> Option<&str> {
        self.application()
            .operation()
            .and(self.commands.operation.as_deref())
    }

    /// The identity of the refresh that is asked for.
    pub(crate) fn refresh(&self) -> Option<&str> {
        self.commands.refresh.as_deref()
    }

    /// Whether a report has shown that the operation which is set was taken.
    pub(crate) const fn is_taken(&self) -> bool {
        self.commands.taken
    }

    /// A report has shown that the operation which is set was taken.
    pub(super) const fn take_operation(&mut self) {
        self.commands.taken = true;
    }

    /// The operation that is set has turned out to be one that no cluster knows: this version names it now.
    pub(super) fn name_operation(&mut self) {
        if self.application().operation().is_some() && self.commands.operation.is_none() {
            self.commands.operation = Some(self.version().to_owned());
        }
    }

    /// Whether the hub wants the running operation to end.
    pub(crate) fn is_terminating(&self) -> bool {
        self.application()
            .operation_state()
            .is_some_and(|state| state.phase() == "Terminating")
    }

    /// Whether there is something to be done once.
    pub(crate) fn has_command(&self) -> bool {
        (self.operation_version().is_some() && !self.is_taken()) || self.is_terminating()
    }

    /// Whether the hub moved it away from where a copy is, as opposed to holding it back.
    ///
    /// By name only: whether a server URL means a cluster depends on what is known of the cluster's Secret now.
    pub(crate) fn is_moved_away(&self) -> bool {
        matches!(self.placement, Placement::Local)
            && self.application().destination().server.is_empty()
    }

    /// Takes in the judgement and finds what has to be said now.
    pub(super) fn settle(
        &mut self,
        key: &Key,
        retained: Option<Blocked>,
        introduced: Introduced,
    ) -> Vec<Effect> {
        if let Placement::Mirror(cluster) = &self.placement {
            let cluster = cluster.clone();
            return self.settle_mirror(&cluster, key, introduced);
        }
        if let Placement::Routed(_, before) = &mut self.placement {
            *before = retained;
        }
        let mut effects: Vec<Effect> = self.leave(key).into_iter().collect();
        let Some(cluster) = self.delivered_to().map(str::to_owned) else {
            self.stated = None;
            return effects;
        };
        let now = LastSent {
            cluster: cluster.clone(),
            digest: self.digest(),
        };
        let before = self
            .stated
            .as_ref()
            .filter(|stated| stated.cluster == cluster);
        if before != Some(&now) || introduced.refresh {
            effects.push(Effect::State {
                cluster: cluster.clone(),
                key: key.object(),
            });
        }
        let begins = before.is_none() && self.has_command();
        if begins || introduced.operation || introduced.termination {
            effects.push(Effect::Command {
                cluster: cluster.clone(),
                key: key.object(),
            });
        }
        self.holder = Some(cluster);
        self.stated = Some(now);
        effects
    }

    /// Of a mirror only commands are said.
    fn settle_mirror(&mut self, cluster: &str, key: &Key, introduced: Introduced) -> Vec<Effect> {
        (self.stated, self.holder) = (None, None);
        let cluster = || cluster.to_owned();
        let state = introduced.refresh.then(|| Effect::State {
            cluster: cluster(),
            key: key.object(),
        });
        let command = (introduced.operation || introduced.termination).then(|| Effect::Command {
            cluster: cluster(),
            key: key.object(),
        });
        state.into_iter().chain(command).collect()
    }

    /// The copy goes where the Application does not go any more.
    fn leave(&mut self, key: &Key) -> Option<Effect> {
        let holder = self.holder.take()?;
        let moved = self.cluster().is_some_and(|cluster| cluster != holder);
        if moved || self.is_moved_away() {
            let (key, uid) = (key.object(), self.uid().to_owned());
            return Some(Effect::Gone {
                cluster: holder,
                key,
                uid,
            });
        }
        self.holder = Some(holder);
        None
    }
}

/// Whether a version of an object is newer than the known one. Equal is not newer.
///
/// Versions of one object are numbers that grow (KEP-5504). Should one not be, every other version is news.
pub(super) fn is_newer(version: &str, known: &str) -> bool {
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
