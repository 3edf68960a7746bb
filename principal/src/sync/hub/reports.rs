//! Applies the events of a cluster to the hub: only to objects of that cluster, only fields that a spoke owns.

use std::sync::Arc;

use argocd::{
    Application, Meta,
    command::{Judgement, Operation},
    projection::{release_patch_for_hub, status_patch_for_hub},
    routing::SpokeNamespace,
};
use protocol::{
    Event, Facet, Kind, ObjectKey, Target, Verb, Verdict,
    payload::{self, Contest},
};
use runtime::trace::{self, Span};
use serde_json::Value;

use super::{
    commands::Judged,
    deliveries::compares_sources,
    failing_writes::{Outcome, Unapplied},
    index::{Entry, Index},
    mirrors::Mirrors,
    objects::Objects,
    spans,
    writer::Writer,
};
use crate::{
    domain::{ClusterName, Key, Place, Sender},
    metrics::Metrics,
    store::WriteError,
};

/// The longest text that a cluster may put into a condition.
const LONGEST_REPORT: usize = 1024;

/// A status of so many bytes is always shown: that of an Application with about 300 resources.
const SMALL_STATUS: usize = 64 << 10;

/// Applies the events of all clusters.
#[derive(Debug)]
pub(crate) struct Reports {
    pub(super) objects: Arc<Objects>,
    pub(super) writer: Arc<Writer>,
    pub(super) mirrors: Arc<Mirrors>,
    pub(super) metrics: Metrics,
}

impl Reports {
    /// Applies one event of a cluster; returns the verdict, and the reason of a refusal as a word. The event is a
    /// claim.
    pub(crate) async fn apply_for(
        &self,
        from: &Sender,
        event: &Event,
    ) -> (Verdict, Option<&'static str>) {
        let span = spans::received(from, event);
        let context = span.as_ref().map(Span::context);
        let outcome = trace::within(context, self.apply_claim(from, event)).await;
        let (verdict, reason) = match outcome {
            Ok(()) => (Verdict::Done, None),
            Err(Unapplied::Retry(after)) => (Verdict::Retry { after }, None),
            Err(Unapplied::Refused { reason, message }) => {
                self.metrics.event_refused(reason);
                (Verdict::Refused(message), Some(reason))
            }
        };
        trace::finish_span(span, protocol::trace::outcome(&verdict));
        (verdict, reason)
    }

    async fn apply_claim(&self, from: &Sender, event: &Event) -> Outcome {
        match (event.target, event.verb) {
            (Target::Object(kind), verb) if from.is_autonomous => {
                let outcome = self.mirrors.apply(from, kind, verb, event).await;
                if outcome.is_ok() {
                    self.note_mirrored(from, event);
                }
                outcome
            }
            (Target::Object(Kind::Application), Verb::StatusUpdate) => {
                self.apply_status(from, event).await
            }
            (Target::Object(Kind::Application), Verb::Delete) => {
                self.apply_delete(from, event).await
            }
            (Target::Object(_), Verb::Error) => self.apply_error(from, event),
            // The session has recorded it.
            (Target::ClusterInfo | Target::Heartbeat, _) => Ok(()),
            (Target::Object(_), _) => Err(Unapplied::refused(
                "not_allowed",
                "a managed cluster may not send this",
            )),
            (_, _) => Err(Unapplied::refused("not_allowed", "unsupported message")),
        }
    }

    /// Whether the hub waits for the next report of an Application: a user requested a command, a refresh or the
    /// deletion.
    pub(crate) fn awaits(&self, from: &Sender, event: &Event) -> bool {
        let key = event.object().and_then(|object| {
            if from.is_autonomous {
                let (kind, name) = (object.kind, &object.name);
                let mirror = self.mirrors.mirror_key(&from.cluster, kind, name)?;
                Key::from_object(&mirror)
            } else {
                named(&self.objects.lock().index, &from.cluster, &(&object).into())
            }
        });
        let state = self.objects.lock();
        let entry = key.and_then(|key| state.index.application(&key));
        entry.is_some_and(|entry| {
            entry.has_command() || entry.refresh().is_some() || entry.application().is_deleting()
        })
    }

    async fn apply_status(&self, from: &Sender, event: &Event) -> Outcome {
        let header = payload::decode_metadata("Application", &event.payload)?;
        let why = "no Application of this cluster has this UID";
        let key = self.theirs(from, &header);
        let key = key.ok_or_else(|| Unapplied::refused("not_theirs", why))?;
        self.check_room(&from.cluster, &key, event.payload.len())?;
        let report = payload::decode_object("Application", &event.payload)?;
        let mut judged = None;
        let written = self
            .writer
            .patch(&key, |entry| {
                let is_theirs = entry.cluster() == Some(&from.cluster);
                let hub = entry.object().whole();
                judged = is_theirs.then(|| Judged::of(from, &key, (entry, &hub), &report));
                status_patch_for_hub(hub, &report, &judged.as_ref()?.judgement)
            })
            .await;
        if let (Ok(_), Some(judged)) = (&written, judged) {
            self.note_reported(from, &key, &judged.judgement, &report);
            judged.follow_up(&self.objects, from, &key, &report);
        }
        self.outcome(from, &key, written)
    }

    /// Notes the deliveries that an applied report shows.
    fn note_reported(&self, from: &Sender, key: &Key, judgement: &Judgement, report: &Value) {
        let deliveries = &self.objects.deliveries;
        if !deliveries.awaits_report(key, &from.cluster) {
            return;
        }
        let entry = self.objects.lock().index.application(key).cloned();
        let Some(entry) = entry else {
            return;
        };
        let compares = compares_sources(entry.application(), Application::of(report));
        deliveries.reported(key, &from.cluster, |facet| match facet {
            Facet::Command => judgement.operation != Operation::Hold && !judgement.terminate,
            Facet::State | Facet::Status => compares,
        });
    }

    /// Notes that an autonomous cluster reported an Application: its report is the whole object.
    fn note_mirrored(&self, from: &Sender, event: &Event) {
        let Some(object) = event.object().filter(|it| it.kind == Kind::Application) else {
            return;
        };
        let mirror = (self.mirrors).mirror_key(&from.cluster, object.kind, &object.name);
        if let Some(key) = mirror.as_ref().and_then(Key::from_object) {
            let deliveries = &self.objects.deliveries;
            deliveries.reported(&key, &from.cluster, |_facet| true);
        }
    }

    /// Whether the hub shows a status of this many bytes. A condition of the Application says why it does not.
    ///
    /// Small ones always, so that a cluster with many Applications loses none; large ones within a limit for the cluster,
    /// or if they are no larger than the status that they replace.
    fn check_room(&self, cluster: &ClusterName, key: &Key, bytes: usize) -> Outcome {
        if bytes <= SMALL_STATUS {
            return Ok(());
        }
        let limit = self.objects.large_statuses;
        let mut state = self.objects.lock();
        let others = state.index.large_statuses(cluster, key, SMALL_STATUS);
        let entry = state.index.application(key);
        let replaced = entry.map_or(0, |entry| entry.object().status_bytes());
        if others.saturating_add(bytes) <= limit || bytes <= replaced {
            return Ok(());
        }
        let why = format!(
            "its status of {bytes} bytes is not shown: those of its cluster above {SMALL_STATUS} bytes may have {limit} \
            bytes together; split the Application, or delete others"
        );
        let report = format!("cluster {cluster}: {why}");
        let effects = state.index.set_report(key, Some(report));
        self.objects.post(&state, effects);
        Err(Unapplied::refused("budget", why))
    }

    /// Ends the deletion of an Application that the cluster does not have, like a report that the copy is gone.
    pub(crate) async fn release_deletion(&self, from: &Sender, key: &ObjectKey) {
        let live = self.objects.lock().index.object(key).cloned();
        let Some(live) = live else {
            return;
        };
        tracing::info!(object = %key, "releasing the deletion: the cluster does not have the object");
        let gone = self.objects.deletion(key, live.meta().uid());
        while let (Verdict::Retry { after }, _) = self.apply_for(from, &gone).await {
            tokio::time::sleep(after).await;
        }
    }

    /// The copy is gone. That completes a deletion that the hub requested, and nothing else.
    async fn apply_delete(&self, from: &Sender, event: &Event) -> Outcome {
        let copy = payload::decode_metadata("Application", &event.payload)?;
        let by_name = || {
            let claimed = Key::from(&event.object()?);
            named(&self.objects.lock().index, &from.cluster, &claimed)
        };
        let Some(key) = self.theirs(from, &copy).or_else(by_name) else {
            // The hub has deleted it already, as most deletions end.
            return Ok(());
        };
        if !self.note_gone_there(from, &key) {
            let why = "the hub has not deleted it";
            return Err(Unapplied::refused("not_deleting", why));
        }
        let written = self
            .writer
            .patch(&key, |entry| {
                let theirs = entry.cluster() == Some(&from.cluster);
                (theirs && entry.application().is_deleting())
                    .then(|| release_patch_for_hub(entry.head()))?
            })
            .await;
        self.outcome(from, &key, written)
    }

    /// Records that the cluster has no copy any more; returns whether the hub wanted that.
    fn note_gone_there(&self, from: &Sender, key: &Key) -> bool {
        let mut state = self.objects.lock();
        let entry = state.index.application_mut(key);
        let is_wanted = entry.is_some_and(|entry| {
            entry.note_gone_there(true);
            entry.is_gone_there()
        });
        if !is_wanted {
            // A user deleted the copy on the spoke; the hub still wants it.
            state.notify(&from.cluster, |mailbox| mailbox.state(key.object()));
        }
        is_wanted
    }

    fn apply_error(&self, from: &Sender, event: &Event) -> Outcome {
        let report: payload::ErrorReport = payload::decode("error report", &event.payload)?;
        let claimed = Key {
            namespace: report.resource_namespace,
            name: report.resource_name,
        };
        let cluster = &from.cluster;
        let mut state = self.objects.lock();
        let why = "no Application of this cluster has this name";
        let key = named(&state.index, cluster, &claimed);
        let key = key.ok_or_else(|| Unapplied::refused("not_theirs", why))?;
        let message: String = report.message.chars().take(LONGEST_REPORT).collect();
        let stated = Some(format!("cluster {cluster} reports: {message}"));
        let effects = match report.contest {
            None => state.index.set_report(&key, stated),
            Some(Contest::On) => state.index.set_contest(&key, stated),
            Some(Contest::Over) => state.index.set_contest(&key, None),
            Some(Contest::Other) => Vec::new(),
        };
        self.objects.post(&state, effects);
        Ok(())
    }

    fn outcome(&self, from: &Sender, key: &Key, written: Result<bool, WriteError>) -> Outcome {
        let failing_writes = &self.objects.failing_writes;
        failing_writes.outcome(&from.cluster, &key.object(), written)
    }

    /// The Application of this copy, if it is routed to the sender.
    fn theirs(&self, from: &Sender, copy: &Value) -> Option<Key> {
        let source_uid = Application::of(copy).source_uid();
        let uid = source_uid.unwrap_or_else(|| Meta::of(copy).uid());
        let state = self.objects.lock();
        let (key, entry) = state.index.by_uid(uid)?;
        (entry.cluster() == Some(&from.cluster)).then(|| key.clone())
    }
}

/// The Application of this name that is routed to this cluster, by its hub namespace or by its spoke namespace.
fn named(index: &Index, cluster: &ClusterName, claimed: &Key) -> Option<Key> {
    let goes_there = |entry: &Entry| entry.cluster() == Some(cluster);
    if index.application(claimed).is_some_and(goes_there) {
        return Some(claimed.clone());
    }
    let place = |spoke_namespace| Place {
        cluster: cluster.clone(),
        spoke_namespace,
        name: claimed.name.clone(),
    };
    let same = index.keeper(&place(SpokeNamespace::Same(claimed.namespace.clone())));
    same.or_else(|| index.keeper(&place(SpokeNamespace::ArgoCd)))
        .map(|(key, _)| key.clone())
}

#[cfg(test)]
impl Reports {
    pub(super) async fn apply(&self, from: &Sender, event: &Event) -> Verdict {
        self.apply_for(from, event).await.0
    }
}

#[cfg(test)]
mod tests;
