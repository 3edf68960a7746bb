//! Encodes reports for one principal.

use argocd::Meta;
use argocd::projection::report_application;
use bytes::Bytes;
use protocol::{Event, Facet, Mode, ObjectKey, Source, Verb};
use serde_json::Value;

use super::Reports;
use crate::sync::source;

/// See [`Reports::told`].
#[derive(Debug)]
pub struct ReportEncoder<'a> {
    reports: &'a Reports,
    operations: bool,
    mode: Mode,
}

impl Reports {
    /// `operations`: whether the operation that is set here is told, too. A Go principal takes one that it did not
    /// have, or had overwritten with an older report, for one that somebody wants now, and says it again: the sync
    /// would run twice. It learns of an operation by the state that Argo CD keeps of it.
    pub const fn reply(&self, operations: bool, mode: Mode) -> ReportEncoder<'_> {
        ReportEncoder {
            reports: self,
            operations,
            mode,
        }
    }
}

impl Source for ReportEncoder<'_> {
    fn encode(&self, key: &ObjectKey, facet: Facet, stated_before: bool) -> Option<Event> {
        let event = self.event(key, facet, stated_before);
        self.reports.traces.sent(key, facet, self.mode, event)
    }
}

impl ReportEncoder<'_> {
    fn event(&self, key: &ObjectKey, facet: Facet, stated_before: bool) -> Option<Event> {
        match (facet, self.mode) {
            (Facet::State, Mode::Autonomous) => {
                let live = self.reports.store.live(key)?;
                source::state(key, &live, self.operations, stated_before)
            }
            (Facet::Status, Mode::Managed) => {
                status_event(key, &*self.reports.store.live(key)?, self.operations)
            }
            // In managed mode the hub owns specs, and commands in both.
            (Facet::State | Facet::Command, Mode::Managed)
            | (Facet::Status | Facet::Command, Mode::Autonomous) => None,
        }
    }
}

/// Identity, annotations, status and, if wanted, operation.
fn status_event(key: &ObjectKey, live: &Value, operation: bool) -> Option<Event> {
    let meta = Meta::of(live);
    meta.source_uid()?;
    let mut report = report_application(live);
    if !operation && let Some(fields) = report.as_object_mut() {
        fields.remove("operation");
    }
    // Plain JSON in memory: this cannot fail, and if it did the resync would repair it.
    let body = serde_json::to_vec(&report).ok()?;
    Some(Event::about(
        key,
        Verb::StatusUpdate,
        meta.uid(),
        meta.resource_version(),
        Bytes::from(body),
    ))
}
