//! Encodes reports for one principal.

use argocd::Meta;
use argocd::projection::report_application;
use protocol::{Event, Facet, Mode, ObjectKey, Source, Verb};
use serde_json::Value;

use super::Reports;
use crate::sync::source;

/// See [`Reports::encoder`].
#[derive(Debug)]
pub(crate) struct ReportEncoder<'a> {
    reports: &'a Reports,
    operations: bool,
    mode: Mode,
}

impl Reports {
    /// `operations`: whether reports contain the operation that is set on the spoke. A Go principal that lacks it, or
    /// overwrote it with an older report, takes it for a new command and sends it back: the sync would run twice. It
    /// learns of an operation by the state that Argo CD records.
    pub(crate) const fn encoder(&self, operations: bool, mode: Mode) -> ReportEncoder<'_> {
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
            // In managed mode the hub owns specs; in both modes it owns commands.
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
    let (uid, version) = (meta.uid(), meta.resource_version());
    let body = report.to_string().into();
    Some(Event::about(key, Verb::StatusUpdate, uid, version, body))
}
