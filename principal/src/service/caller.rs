//! The checks of a request's sender.

use protocol::refusal::Refusal;
use tonic::{Request, Status};

use crate::admission::{
    admit::{Admission, Admitted},
    peer::Peer,
};

/// The sender of this request, set by the listener; without it the request is rejected.
pub(super) fn peer<T>(request: &Request<T>) -> Result<Peer, Refusal> {
    request
        .extensions()
        .get::<Peer>()
        .cloned()
        .ok_or(Refusal::AuthenticationFailed)
}

/// The sender of this request, unless its certificate was refused too often.
pub(super) fn limited_peer<T>(gate: &Admission, request: &Request<T>) -> Result<Peer, Refusal> {
    let peer = peer(request)?;
    gate.check_refusal_budget(&peer)?;
    Ok(peer)
}

/// Authenticates a request for a session or tunnel.
pub(super) fn admit<T>(gate: &Admission, request: &Request<T>) -> Result<Admitted, Status> {
    judge(gate, request, Admission::admit)
}

/// Authenticates a request for a live stream of a Go agent.
pub(super) fn recognize<T>(gate: &Admission, request: &Request<T>) -> Result<Admitted, Status> {
    judge(gate, request, Admission::recognize)
}

/// The metadata `authorization` has the bare token, without a scheme; of several the first counts.
fn judge<T>(
    gate: &Admission,
    request: &Request<T>,
    check: impl FnOnce(&Admission, &Peer, &str) -> Result<Admitted, Refusal>,
) -> Result<Admitted, Status> {
    let token = request
        .metadata()
        .get("authorization")
        .and_then(|raw| raw.to_str().ok());
    let admitted = limited_peer(gate, request).and_then(|peer| {
        let checked = token.ok_or(Refusal::InvalidToken);
        let checked = checked.and_then(|token| check(gate, &peer, token));
        checked.inspect_err(|refusal| gate.spend_refusal(&peer, refusal))
    });
    admitted.map_err(|refusal| {
        gate.metrics.refused(refusal.reason());
        refusal.to_stream_status()
    })
}
