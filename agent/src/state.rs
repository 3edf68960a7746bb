//! The agent's state for the debug endpoint: no secrets, at most a screenful.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use protocol::Mode;
use runtime::net::authority;
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::metrics::{ENDS, Metrics};
use crate::session::{Link, LinkState};
use crate::sync::replica::CacheStatus;
use crate::sync::report::Reports;

/// The sources of the state.
#[derive(Debug, Clone)]
pub struct State {
    /// Host and port of the principal.
    pub principal: String,
    /// Who owns the Applications.
    pub mode: Mode,
    /// Whether a session is up.
    pub link: watch::Receiver<LinkState>,
    /// How much of the spoke the caches have.
    pub sync_status: watch::Receiver<CacheStatus>,
    /// The reports, which know the objects of the spoke.
    pub reports: Arc<Reports>,
    /// The agent's metrics.
    pub metrics: Metrics,
}

impl State {
    /// The state of an agent with this link.
    pub fn of(link: &Link) -> Self {
        Self {
            principal: authority(&link.dialer.hub.host, link.dialer.hub.port),
            mode: link.replica.mode(),
            link: link.state.subscribe(),
            sync_status: link.replica.sync_status(),
            reports: Arc::clone(&link.reports),
            metrics: link.metrics.clone(),
        }
    }

    /// The current state as JSON.
    pub fn to_json(&self) -> Value {
        let m = &self.metrics;
        let ends = ENDS
            .iter()
            .map(|reason| (*reason, m.link_ends.counted(reason)));
        let ends: BTreeMap<_, _> = ends.filter(|(_, count)| *count > 0).collect();
        let sync_status = self.sync_status.borrow();
        json!({
            "principal": self.principal,
            "mode": self.mode.as_str(),
            "connected": *self.link.borrow() == LinkState::Up,
            "connectedSince": time(whole(m.connected_since.get())),
            "certificateExpires": time(m.certificate_expiry.get()),
            "outboxObjects": m.outbox_objects.get(),
            "oldestUnacknowledgedSeconds": m.outbox_oldest.get(),
            "inboxObjects": m.inbox_objects.get(),
            "lastResync": time(m.last_resync.get()),
            "lanes": m.agent_tunnels.get(),
            "watchesComplete": sync_status.is_complete(),
            "argocd": sync_status.argocd(),
            "objects": self.reports.store().present(),
            "linkEnds": ends,
        })
    }
}

/// The time in RFC 3339; none for 0.
fn time(seconds: i64) -> Option<String> {
    let at = Timestamp::from_second(seconds).ok()?;
    (seconds > 0).then(|| at.to_string())
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "whole seconds of this millennium fit"
)]
const fn whole(seconds: f64) -> i64 {
    seconds as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_is_small_and_shows_connection_and_outbox() {
        let metrics = Metrics::default();
        metrics.connected_since.set(1_767_225_600.0);
        metrics.link_ends.count("Silent");
        metrics.outbox_objects.set(3);
        let state = State {
            principal: "hub.example.org:443".to_owned(),
            mode: Mode::Managed,
            link: watch::channel(LinkState::Up).1,
            sync_status: watch::channel(CacheStatus::default()).1,
            reports: Arc::new(Reports::new(Arc::default())),
            metrics,
        };
        let reply = state.to_json();
        assert_eq!(reply["connected"], true);
        assert_eq!(reply["connectedSince"], "2026-01-01T00:00:00Z");
        assert_eq!(reply["certificateExpires"], Value::Null);
        assert_eq!(reply["linkEnds"], json!({"Silent": 1}));
        assert_eq!(
            (&reply["outboxObjects"], &reply["mode"]),
            (&json!(3), &json!("managed"))
        );
        assert!(reply.to_string().len() < 1024, "{reply}");
    }
}
