//! The names of mirrored projects, which can fit several clusters: `a-b-c` is project `b-c` of cluster `a` and project
//! `c` of cluster `a-b`. One of them owns the name; the others are refused and lose their mirror.

use argocd::mirror;
use protocol::{Kind, ObjectKey};
use serde_json::Value;

use super::{
    super::{
        failing_writes::{Outcome, Unapplied},
        mailbox::Mailbox,
        objects::State,
    },
    Mirrors,
};
use crate::domain::{ClusterName, Sender};

const TAKEN: &str = "its name on the hub belongs to cluster ";

impl Mirrors {
    /// Refuses a reported project if its name belongs to another cluster; retried while that cluster still has it.
    pub(super) fn judge_name(&self, from: &Sender, key: &ObjectKey, source: &Value) -> Outcome {
        if key.kind != Kind::AppProject {
            return Ok(());
        }
        let mut state = self.objects.lock();
        let is_left = self.leave_name(&mut state, key);
        let owner = state.index.owner_of_project(&key.name);
        if let Some(owner) = owner.filter(|it| *it != from.cluster) {
            drop(state);
            let why = taken(&owner, key);
            return Err(self.not_shown(from, key.kind, source, "not_theirs", why));
        }
        if state.index.object(key).is_none() {
            state.mirrors.take_over(key, &from.cluster);
        }
        if is_left {
            Err(Unapplied::again())
        } else {
            Ok(())
        }
    }

    /// The enrolled clusters have changed: some names may have another owner now.
    pub(in crate::sync::hub) fn judge_names(&self) {
        let mut state = self.objects.lock();
        for key in state.index.mirrored_projects() {
            self.leave_name(&mut state, &key);
        }
        for (cluster, key, why) in state.mirrors.refused() {
            let name = mirror::project_name(cluster.as_str(), &key.name);
            let is_owner =
                |name: String| state.index.owner_of_project(&name).as_ref() == Some(cluster);
            if why.starts_with(TAKEN) && name.is_ok_and(is_owner) {
                // Its agent reports the objects that are not mirrored.
                state.notify(cluster, Mailbox::compare);
            }
        }
    }

    /// Deletes the mirror of a cluster that does not own its name any more; true if there is one.
    pub(super) fn leave_name(&self, state: &mut State, key: &ObjectKey) -> bool {
        let Some(live) = state.index.object(key).cloned() else {
            return false;
        };
        let holder = mirror::cluster_of(live.head()).and_then(|it| ClusterName::try_from(it).ok());
        let owner = state.index.owner_of_project(&key.name);
        let (Some(holder), Some(owner)) = (holder, owner) else {
            return false;
        };
        // The mirrors of a cluster that left stay.
        if owner == holder || !state.index.is_autonomous(&holder) {
            return false;
        }
        tracing::warn!(object = %key, cluster = %holder, %owner, "removing a mirrored AppProject: its name belongs to another cluster");
        if let Some(name) = mirror::source_name(holder.as_str(), &key.name) {
            let there = ObjectKey::new(key.kind, holder.as_str(), name);
            let why = taken(&owner, key);
            state.mirrors.note(&holder, &there, Some(why));
        }
        let uid = live.meta().source_uid().unwrap_or_default();
        state.mirrors.leave(key, &holder, uid);
        self.objects.mirrors.mark(key.clone());
        true
    }
}

fn taken(owner: &ClusterName, key: &ObjectKey) -> String {
    format!(
        "{TAKEN}{owner}: {} fits both clusters; rename the AppProject",
        key.name
    )
}
