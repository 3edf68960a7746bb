//! The subscription of a session at the hub's objects.

use std::sync::Arc;

use protocol::{Event, Facet, ObjectKey};
use tokio::time::Instant;

use super::{conditions::GRACE, mailbox::Mailbox, objects::Objects, spans};
use crate::domain::ClusterName;

/// The subscription of a session at the hub; dropped, the session is not notified any more.
#[derive(Debug)]
pub(crate) struct Subscription {
    objects: Arc<Objects>,
    pub(crate) cluster: ClusterName,
    id: u64,
    pub(crate) mailbox: Mailbox,
    /// Everything that the cluster should have.
    pub(crate) delivered: Vec<ObjectKey>,
}

impl Subscription {
    /// Subscribes a session: it is notified of every change from now on, and gets the list of current objects.
    pub(super) fn begin(objects: &Arc<Objects>, cluster: &ClusterName) -> Self {
        let mut state = objects.lock();
        let id = state.next;
        state.next = state.next.wrapping_add(1);
        let mailbox = Mailbox::default();
        // Admitted just before the hub was restored to an earlier state.
        if !state.rewound.is_empty() {
            mailbox.end();
        }
        state.left.remove(cluster);
        let session = (id, mailbox.clone());
        state.sessions.insert(cluster.clone(), session);
        let effects = state.index.clear_reports(cluster);
        objects.post(&state, effects);
        for (key, entry) in state.index.routed_to(cluster) {
            if entry.refresh().is_some() {
                mailbox.state(key.object());
            }
            if entry.has_command() {
                mailbox.command(key.object());
            }
            objects.conditions.mark(key.clone());
        }
        let delivered = state.index.delivered_to(cluster);
        drop(state);
        Self {
            objects: Arc::clone(objects),
            cluster: cluster.clone(),
            id,
            mailbox,
            delivered,
        }
    }

    /// The event that deletes a copy.
    pub(crate) fn delete(&self, key: &ObjectKey, uid: &str) -> Event {
        let event = self.objects.deletion(key, uid);
        let (traces, matter) = (self.mailbox.traces(), (key, Facet::State));
        spans::sent(traces, matter, self.cluster.as_str(), event)
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let mut state = self.objects.lock();
        let current = state.sessions.get(&self.cluster);
        if current.is_none_or(|(id, _)| *id != self.id) {
            return;
        }
        state.sessions.remove(&self.cluster);
        self.objects.failing_writes.forget(&self.cluster);
        let now = Instant::now();
        state.left.insert(self.cluster.clone(), now);
        // A restarted agent is back before the condition is set.
        for (key, _) in state.index.routed_to(&self.cluster) {
            self.objects.conditions.mark_at(now + GRACE, key);
        }
    }
}
