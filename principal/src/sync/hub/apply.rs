//! Applies the events of a cluster to the hub: only to objects of that cluster, only fields that a spoke owns.

use std::time::Duration;

use argocd::{
    Application, Meta,
    command::{Judgement, Known, Operation, judge},
    projection::{release_patch_for_hub, status_patch_for_hub},
    routing::SpokeNamespace,
};
use protocol::{
    Event, Kind, ObjectKey, Target, Verb, Verdict,
    payload::{self, Contest},
};
use runtime::{
    error::Chain,
    trace::{self, Span},
};
use serde_json::Value;

use super::{
    Hub, Key,
    encode::operation_id,
    index::{Entry, Index, Place},
    spans,
    store::WriteError,
    write::Written,
};
use crate::fleet::ClusterName;

/// The pause before an event that has to wait for something else is retried; a newer value comes sooner.
const RETRY: Duration = Duration::from_secs(2);
/// The longest text that a cluster may put into a condition.
const LONGEST_REPORT: usize = 1024;

/// The sender of an event, and its protocol.
#[derive(Clone, Debug)]
pub(crate) struct Sender {
    pub(crate) cluster: ClusterName,
    /// Whether its reports name the commands that it took.
    pub(crate) names_commands: bool,
    /// Whether it owns its Applications itself.
    pub(crate) is_autonomous: bool,
}

impl Hub {
    /// Applies one event of a cluster; returns the verdict, and the reason of a refusal as a word. The event is a
    /// claim.
    pub(crate) async fn apply_for(
        &self,
        from: &Sender,
        event: &Event,
    ) -> (Verdict, Option<&'static str>) {
        let span = spans::received(from, event);
        let context = span.as_ref().map(Span::context);
        let (verdict, reason) = trace::within(context, self.apply_claim(from, event)).await;
        trace::finish_span(span, protocol::trace::outcome(&verdict));
        (verdict, reason)
    }

    async fn apply_claim(&self, from: &Sender, event: &Event) -> (Verdict, Option<&'static str>) {
        let refusable = match (event.target, event.verb) {
            (Target::Object(kind), verb) if from.is_autonomous => {
                self.apply_of_owner(from, kind, verb, event).await
            }
            (Target::Object(Kind::Application), Verb::StatusUpdate) => {
                self.apply_status(from, event).await
            }
            (Target::Object(Kind::Application), Verb::Delete) => {
                self.apply_delete(from, event).await
            }
            (Target::Object(_), Verb::Error) => self.apply_error(from, event),
            // Counters go to the hub's redis, which this version does not write.
            (Target::ClusterInfo | Target::Heartbeat, _) => done(),
            (Target::Object(_), _) => refused("not_allowed", "a managed cluster may not send this"),
            (_, _) => refused("not_allowed", "unsupported message"),
        };
        refusable.counted(&self.metrics)
    }

    #[cfg(test)]
    pub(crate) async fn apply(&self, from: &Sender, event: &Event) -> Verdict {
        self.apply_for(from, event).await.0
    }

    /// Whether the hub waits for the next report of an Application: a user requested a command, a refresh or the
    /// deletion.
    pub(crate) fn awaits(&self, from: &Sender, event: &Event) -> bool {
        let key = if from.is_autonomous {
            let mirror = |it: ObjectKey| self.mirror_key(&from.cluster, it.kind, &it.name);
            let key = event.object().and_then(mirror);
            key.as_ref().and_then(Key::from_object)
        } else {
            self.theirs_by_name(from, event)
        };
        let state = self.lock();
        let entry = key.and_then(|key| state.index.application(&key));
        entry.is_some_and(|entry| {
            entry.has_command() || entry.refresh().is_some() || entry.application().is_deleting()
        })
    }

    async fn apply_status(&self, from: &Sender, event: &Event) -> Refusable {
        let report = match payload::decode_object("Application", &event.payload) {
            Ok(report) => report,
            Err(error) => return refused("malformed", Chain(&error).to_string()),
        };
        let Some(key) = self.theirs(from, &report) else {
            return refused("not_theirs", "no Application of this cluster has this UID");
        };
        let written = self
            .write(&key, |entry| {
                let judgement = judged(from, &key, entry, &report)?;
                Some(status_patch_for_hub(entry.object(), &report, &judgement))
            })
            .await;
        if written.is_ok() {
            self.follow_up(from, &key, &report);
        }
        self.verdict(from, &key.object(), written)
    }

    /// Also resends commands and refreshes that the report does not know, and clears a reported error.
    pub(super) fn follow_up(&self, from: &Sender, key: &Key, report: &Value) {
        let mut state = self.lock();
        let Some(entry) = state.index.application(key) else {
            return;
        };
        let Some(judgement) = judged(from, key, entry, report) else {
            return;
        };
        let retained = matches!(judgement.operation, Operation::Hold);
        let has_operation = entry.application().operation().is_some();
        if retained {
            state.index.name_operation(key);
        } else if has_operation && from.names_commands {
            state.index.take_operation(key);
        }
        // Without a status the spoke's Argo CD has not processed it yet.
        if Meta::of(report).field("status").is_some() {
            let effects = state.index.set_report(key, None);
            self.post(&state, effects);
        }
        let cluster = from.cluster.as_str();
        if retained || judgement.terminate {
            state.notify(cluster, |mailbox| mailbox.command(key.object()));
        }
        if judgement.refresh {
            state.notify(cluster, |mailbox| mailbox.state(key.object()));
        }
    }

    /// Ends the deletion of an Application that the cluster does not have, like a report that the copy is gone.
    pub(crate) async fn release_deletion(&self, from: &Sender, key: &ObjectKey) {
        let uid = {
            let state = self.lock();
            let entry = Key::from_object(key).and_then(|key| state.index.application(&key));
            entry.map(|entry| entry.uid().to_owned())
        };
        let Some(uid) = uid else {
            return;
        };
        tracing::info!(object = %key, "releasing the deletion: the cluster does not have the object");
        let gone = self.delete(key, &uid);
        while let (Verdict::Retry { after }, _) = self.apply_for(from, &gone).await {
            tokio::time::sleep(after).await;
        }
    }

    /// The copy is gone. That completes a deletion that the hub requested, and nothing else.
    async fn apply_delete(&self, from: &Sender, event: &Event) -> Refusable {
        let copy = match payload::decode_object("Application", &event.payload) {
            Ok(copy) => copy,
            Err(error) => return refused("malformed", Chain(&error).to_string()),
        };
        let key = self
            .theirs(from, &copy)
            .or_else(|| self.theirs_by_name(from, event));
        let Some(key) = key else {
            // The hub has deleted it already, as most deletions end.
            return done();
        };
        let wanted = self.lock().index.note_gone_there(&key);
        if !wanted {
            // A user deleted the copy on the spoke; the hub still wants it.
            self.lock()
                .notify(from.cluster.as_str(), |mailbox| mailbox.state(key.object()));
            return refused("not_deleting", "the hub has not deleted it");
        }
        let written = self
            .write(&key, |entry| {
                let theirs = entry.cluster() == Some(from.cluster.as_str());
                (theirs && entry.application().is_deleting())
                    .then(|| release_patch_for_hub(entry.object()))
            })
            .await;
        self.verdict(from, &key.object(), written)
    }

    fn apply_error(&self, from: &Sender, event: &Event) -> Refusable {
        let report: payload::ErrorReport = match payload::decode("error report", &event.payload) {
            Ok(report) => report,
            Err(error) => return refused("malformed", Chain(&error).to_string()),
        };
        let mut state = self.lock();
        let claimed = Key {
            namespace: report.resource_namespace,
            name: report.resource_name,
        };
        let Some(key) = named(&state.index, from.cluster.as_str(), &claimed) else {
            return refused("not_theirs", "no Application of this cluster has this name");
        };
        let message: String = report.message.chars().take(LONGEST_REPORT).collect();
        let cluster = &from.cluster;
        let stated = Some(format!("cluster {cluster} reports: {message}"));
        let effects = match report.contest {
            None => state.index.set_report(&key, stated),
            Some(Contest::On) => state.index.set_contest(&key, stated),
            Some(Contest::Over) => state.index.set_contest(&key, None),
            Some(Contest::Other) => Vec::new(),
        };
        self.post(&state, effects);
        done()
    }

    fn verdict(
        &self,
        from: &Sender,
        key: &ObjectKey,
        written: Result<Written, WriteError>,
    ) -> Refusable {
        match written {
            Ok(Written::Changed | Written::Unchanged | Written::Gone) => {
                self.write_ended(from, key);
                done()
            }
            Err(error) => self.write_failed(from, key, &error),
        }
    }

    /// The write of a cluster's object is done, or obsolete.
    pub(super) fn write_ended(&self, from: &Sender, key: &ObjectKey) {
        self.failing_writes.ended(from.cluster.as_str(), key);
        self.metrics.hub_writes_stuck(self.failing_writes.count());
    }

    /// The verdict on an event after a failed write: refused, or retried after a pause.
    pub(super) fn write_failed(
        &self,
        from: &Sender,
        key: &ObjectKey,
        error: &WriteError,
    ) -> Refusable {
        if let WriteError::Refused(reason) = error {
            tracing::warn!(object = %key, reason, "the hub rejected the report of a cluster");
            self.write_ended(from, key);
            return refused("hub", reason.clone());
        }
        let error = Chain(error).to_string();
        let (after, is_reported) = self
            .failing_writes
            .failed(from.cluster.as_str(), key, &error);
        if is_reported {
            tracing::warn!(object = %key, error, "hub write still failing; retrying");
        } else {
            tracing::debug!(object = %key, error, "hub write failed; retrying");
        }
        self.metrics.hub_writes_stuck(self.failing_writes.count());
        // A newer value replaces this one.
        Refusable(Verdict::Retry { after }, None)
    }

    /// The Application of this copy, if it is routed to the sender.
    fn theirs(&self, from: &Sender, copy: &Value) -> Option<Key> {
        let meta = Meta::of(copy);
        let uid = Application::of(copy)
            .source_uid()
            .unwrap_or_else(|| meta.uid());
        let state = self.lock();
        let (key, entry) = state.index.by_uid(uid)?;
        (entry.cluster() == Some(from.cluster.as_str())).then(|| key.clone())
    }

    fn theirs_by_name(&self, from: &Sender, event: &Event) -> Option<Key> {
        let object = event.object()?;
        let claimed = Key {
            namespace: object.namespace,
            name: object.name,
        };
        named(&self.lock().index, from.cluster.as_str(), &claimed)
    }
}

/// How a report affects the commands; none when the Application is not routed to this cluster any more.
pub(super) fn judged(from: &Sender, key: &Key, entry: &Entry, report: &Value) -> Option<Judgement> {
    if entry.cluster() != Some(from.cluster.as_str()) {
        return None;
    }
    let operation = operation_id(key, entry);
    let known = Known {
        operation: operation.as_deref(),
        refresh: entry.refresh(),
        names_commands: from.names_commands,
        taken: entry.is_taken(),
    };
    Some(judge(entry.object(), report, known))
}

/// The Application of this name that is routed to this cluster, by its hub namespace or by its spoke namespace.
fn named(index: &Index, cluster: &str, claimed: &Key) -> Option<Key> {
    let goes_there = |entry: &Entry| entry.cluster() == Some(cluster);
    if index.application(claimed).is_some_and(goes_there) {
        return Some(claimed.clone());
    }
    let place = |spoke_namespace| Place {
        cluster: cluster.to_owned(),
        spoke_namespace,
        name: claimed.name.clone(),
    };
    let same = index.keeper(&place(SpokeNamespace::Same(claimed.namespace.clone())));
    same.or_else(|| index.keeper(&place(SpokeNamespace::ArgoCd)))
        .map(|(key, _)| key.clone())
}

/// A verdict, and the reason of a refusal as a word for the metrics.
pub(super) struct Refusable(Verdict, Option<&'static str>);

impl Refusable {
    fn counted(self, metrics: &crate::metrics::Metrics) -> (Verdict, Option<&'static str>) {
        if let Some(reason) = self.1 {
            metrics.event_refused(reason);
        }
        (self.0, self.1)
    }
}

pub(super) const fn done() -> Refusable {
    Refusable(Verdict::Done, None)
}

/// Retries after a pause.
pub(super) const fn again() -> Refusable {
    Refusable(Verdict::Retry { after: RETRY }, None)
}

pub(super) fn refused(reason: &'static str, message: impl Into<String>) -> Refusable {
    Refusable(Verdict::Refused(message.into()), Some(reason))
}

#[cfg(test)]
mod tests;
