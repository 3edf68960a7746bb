//! The names of mirrored projects, which can fit several clusters: `a-b-c` is project `b-c` of cluster `a` and project
//! `c` of cluster `a-b`. One of them owns the name; the others are refused and lose their mirror.

use argocd::{Meta, mirror};
use protocol::{Kind, ObjectKey};
use serde_json::Value;

use super::super::{
    Hub, State,
    apply::{Refusable, Sender, again},
    mailbox::Mailbox,
};

const TAKEN: &str = "its name on the hub belongs to cluster ";

impl Hub {
    /// A verdict on a reported AppProject, if its name belongs to another cluster, or if that cluster still has it.
    pub(super) fn judge_name(
        &self,
        from: &Sender,
        key: &ObjectKey,
        source: &Value,
    ) -> Option<Refusable> {
        if key.kind != Kind::AppProject {
            return None;
        }
        let (is_left, owner) = {
            let mut state = self.lock();
            let is_left = self.leave_name(&mut state, key);
            (is_left, owner_of(&state, key).map(str::to_owned))
        };
        match owner {
            Some(owner) if owner != from.cluster.as_str() => {
                let why = taken(&owner, key);
                Some(self.not_shown(from, key.kind, source, "not_theirs", why))
            }
            Some(_) | None => is_left.then(again),
        }
    }

    /// The enrolled clusters have changed: some names may have another owner now.
    pub(in crate::sync::hub) fn judge_names(&self, state: &mut State) {
        for key in state.index.mirrored_projects() {
            self.leave_name(state, &key);
        }
        let refused = state.mirrors.refused.iter();
        let is_free = |cluster: &str, key: &ObjectKey, why: &str| {
            why.starts_with(TAKEN)
                && mirror::project_name(cluster, &key.name)
                    .is_ok_and(|name| state.index.owner_of_project(&name) == Some(cluster))
        };
        for (cluster, _) in
            refused.filter(|(it, of)| of.iter().any(|(key, why)| is_free(it, key, why)))
        {
            // Its agent reports the objects that are not mirrored.
            state.notify(cluster, Mailbox::compare);
        }
    }

    /// Deletes the mirror of a cluster that does not own its name any more; true if there is one.
    fn leave_name(&self, state: &mut State, key: &ObjectKey) -> bool {
        let live = state.index.object(key).cloned();
        let holder = live.as_deref().and_then(mirror::cluster_of);
        let (Some(live), Some(holder)) = (&live, holder) else {
            return false;
        };
        let Some(owner) = owner_of(state, key).filter(|owner| *owner != holder) else {
            return false;
        };
        // The mirrors of a cluster that left stay.
        if !state.index.is_autonomous(holder) {
            return false;
        }
        let why = taken(owner, key);
        tracing::warn!(object = %key, cluster = holder, owner, "removing a mirrored AppProject: its name belongs to another cluster");
        if let Some(name) = mirror::source_name(holder, &key.name) {
            let there = ObjectKey::new(key.kind, holder, name);
            state.mirrors.note(holder, &there, Some(why));
        }
        let uid = Meta::of(live).source_uid().unwrap_or_default();
        state.mirrors.leave(key, holder, uid);
        self.mirrors_to_reconcile.mark(key.clone());
        true
    }
}

fn owner_of<'a>(state: &'a State, key: &ObjectKey) -> Option<&'a str> {
    state.index.owner_of_project(&key.name)
}

fn taken(owner: &str, key: &ObjectKey) -> String {
    format!(
        "{TAKEN}{owner}: {} fits both clusters; rename the AppProject",
        key.name
    )
}
