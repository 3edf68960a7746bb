//! What a session begins with: its state machine, and the time of its end.

use std::time::Duration;

use protocol::{
    Kind,
    session::{Limits, Peer, Role, Session},
    version::{self, Capabilities},
};
use tokio::time::Instant;

use crate::admission::{admit::Credentials, registry::End, tokens::Holder};
use crate::sync::session::Sessions;

/// The state machine of a session with this agent.
pub(super) fn machine(holder: &Holder, capabilities: Capabilities, limits: Limits) -> Session {
    let is_go = !capabilities.is_ours();
    let peer = Peer {
        mode: holder.mode,
        capabilities,
    };
    let mut machine = Session::new(Role::Principal, peer, limits);
    machine.tracker().track(Kind::Application);
    if is_go && !version::knows_operations(&holder.announced.version) {
        machine.send_operations_in_updates();
    }
    machine
}

/// A session ends with the first of its certificates, or when it has lived long enough.
pub(super) fn ends(sessions: &Sessions, peer_credentials: &Credentials) -> (Instant, End) {
    let now = Instant::now();
    let life = (now + sessions.limits.session_life, End::Life);
    let certificate = peer_credentials.not_after().and_then(|not_after| {
        let left = not_after.duration_since(sessions.clock.now());
        now.checked_add(Duration::try_from(left).unwrap_or_default())
    });
    let certificate = certificate.map(|at| (at, End::Certificate));
    certificate.filter(|(at, _)| *at < life.0).unwrap_or(life)
}
