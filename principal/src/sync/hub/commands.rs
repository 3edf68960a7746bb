//! How a report of a cluster affects the commands on an Application.

use argocd::{
    Meta,
    command::{Judgement, Known, Operation, judge},
};
use bytes::Bytes;
use protocol::{Event, Verb};
use serde_json::Value;

use super::{index::Entry, objects::Objects};
use crate::domain::{Key, Sender};

/// A judged report.
#[derive(Clone, Debug)]
pub(super) struct Judged {
    pub(super) judgement: Judgement,
    /// The version that introduced the judged operation.
    operation: Option<String>,
}

impl Judged {
    /// Judges a report about an entry, whose whole object is `hub`.
    pub(super) fn of(
        from: &Sender,
        key: &Key,
        (entry, hub): (&Entry, &Value),
        report: &Value,
    ) -> Self {
        let operation = operation_id(key, entry);
        let known = Known {
            operation: operation.as_deref(),
            refresh: entry.refresh(),
            names_commands: from.names_commands,
            taken: entry.is_taken(),
        };
        Self::with(judge(hub, report, known), entry)
    }

    /// The report about an object that replaced the mirrored one.
    pub(super) fn of_successor(entry: &Entry, report: &Value) -> Self {
        Self::with(Judgement::of_successor(report), entry)
    }

    fn with(judgement: Judgement, entry: &Entry) -> Self {
        let operation = entry.operation_version().map(str::to_owned);
        Self {
            judgement,
            operation,
        }
    }

    /// After the report is written: resends commands and refreshes that it does not know, and clears a reported error.
    pub(super) fn follow_up(&self, objects: &Objects, from: &Sender, key: &Key, report: &Value) {
        let Judgement {
            operation,
            terminate,
            refresh,
            refresh_done: _,
        } = &self.judgement;
        let is_waiting = matches!(operation, Operation::Hold);
        let mut state = objects.lock();
        let Some(entry) = state.index.application_mut(key) else {
            return;
        };
        if entry.cluster() != Some(&from.cluster) {
            return;
        }
        // A user may have requested another operation meanwhile, which the report does not know.
        if entry.operation_version() == self.operation.as_deref() {
            if is_waiting {
                entry.name_operation();
            } else if entry.application().operation().is_some() && from.names_commands {
                entry.take_operation();
            }
        }
        // Without a status the spoke's Argo CD has not processed it yet.
        if Meta::of(report).field("status").is_some() {
            let effects = state.index.set_report(key, None);
            objects.post(&state, effects);
        }
        if is_waiting || *terminate {
            state.notify(&from.cluster, |mailbox| mailbox.command(key.object()));
        }
        if *refresh {
            state.notify(&from.cluster, |mailbox| mailbox.state(key.object()));
        }
    }
}

/// The id of the event that carries the current operation.
fn operation_id(key: &Key, entry: &Entry) -> Option<String> {
    let version = entry.operation_version()?;
    let (key, verb) = (key.object(), Verb::SetOperation);
    Some(Event::about(&key, verb, entry.uid(), version, Bytes::new()).event_id)
}
