//! Sessions: one task drives one subscribed stream.
//!
//! The rules of a session are `protocol::Session`, a machine without I/O. A driver feeds it with frames of the peer,
//! notes of the hub, finished writes, and the time. It waits for the first of these and then acts; no step waits for
//! the peer, and no message spawns a task.
//!
//! | from | bound | at the bound |
//! |---|---|---|
//! | hub to session | one note per object | a newer note widens it |
//! | session to stream | [`OUTBOUND`] frames | the driver stops taking from the outbox, which coalesces |
//! | stream to session | the machine's inbox | the driver stops reading, which slows this peer only |
//! | session to hub API | `writes_per_session` | work waits in the inbox, newest value per object |
//! | session to one object there | one write every [`pace::PAUSE`], a few in reserve, more while the hub has writes to spare | the same |

use std::sync::Arc;

use futures::future::OptionFuture;
use protocol::wire::eventstreamapi::Event;
use runtime::credentials::Material;
use tokio::sync::{mpsc, watch};
use tonic::{Status, Streaming};
use tracing::Instrument as _;

use crate::{
    admission::{
        admit::{Admitted, Credentials},
        registry::End,
        trust::Trust,
    },
    fleet::{ClusterName, Fleet, Mode},
};

mod brake;
mod driver;
mod end;
mod intake;
mod inventory;
mod ownership;
mod pace;
mod resync;
mod shared;
pub(crate) mod shed;
mod spoke_info;
mod spoke_owned;
mod violations;

pub(crate) use intake::Intake;
pub(crate) use shared::Sessions;

/// Frames on their way to a peer; enough to fill a packet, few enough to stay fresh.
const OUTBOUND: usize = 16;

impl Sessions {
    /// Starts the session of an admitted peer and returns its outgoing events.
    pub(crate) fn open(
        self: &Arc<Self>,
        admitted: Admitted,
        inbound: Streaming<Event>,
    ) -> mpsc::Receiver<Result<Event, Status>> {
        let (outbound, events) = mpsc::channel(OUTBOUND);
        let span = tracing::info_span!("session", cluster = %admitted.holder.cluster);
        let session = Arc::clone(self).run(admitted, inbound, outbound);
        self.spawner
            .spawn_short("session", session.instrument(span));
        events
    }

    async fn run(
        self: Arc<Self>,
        admitted: Admitted,
        inbound: Streaming<Event>,
        outbound: mpsc::Sender<Result<Event, Status>>,
    ) {
        let (cluster, mode) = (admitted.holder.cluster.clone(), admitted.holder.mode);
        let registry = &self.gate.registry;
        let session_slot = tokio::select! {
            biased;
            session_slot = registry.acquire_slot(&cluster, mode, &admitted.peer_credentials) => session_slot,
            () = outbound.closed() => return,
        };
        let session_slot = match session_slot {
            Ok(session_slot) => session_slot,
            Err(refusal) => {
                self.metrics.refused(refusal.reason());
                return end::send_refusal(&outbound, &refusal).await;
            }
        };
        let verdict = self
            .gate
            .verdict_at_opening(&cluster, mode, &admitted.peer_credentials);
        if let Some(end) = verdict {
            return end::close(session_slot, &outbound, end::Over::Hub(end)).await;
        }
        let _open = self.metrics.session();
        let driver = driver::Driver::new(&self, session_slot, &admitted, inbound, outbound);
        let session = driver.id();
        tracing::info!(session, version = %admitted.holder.announced.version, "session opened");
        let reason = driver.run().await;
        self.metrics.session_ended(reason);
        tracing::info!(session, reason, "session ended");
    }
}

/// Ends sessions that the policy does not allow any more, after each change of the fleet, the replica state, the
/// trusted CAs, the revocation list or the passwords, and at the stop.
///
/// An input that has ended keeps its last value.
/// `to_gate` passes the fleet on to admission.
pub(crate) async fn enforce_policy(
    sessions: Arc<Sessions>,
    mut fleet: watch::Receiver<Arc<Fleet>>,
    mut material: watch::Receiver<Arc<Material>>,
    to_gate: watch::Sender<Arc<Fleet>>,
) {
    let gate = &sessions.gate;
    let (mut active, mut revoked) = (gate.active.clone(), gate.revoked.clone());
    let mut users = gate.passwords.as_ref().map(|it| it.users.clone());
    let stop = sessions.spawner.token().clone();
    loop {
        // Bound first: a guard of a watch blocks its sender.
        let enrolled = Arc::clone(&fleet.borrow_and_update());
        sessions.follow_fleet(&to_gate, &enrolled);
        active.borrow_and_update();
        revoked.borrow_and_update();
        sessions.end_where(|cluster, mode, peer_credentials| {
            gate.verdict(cluster, mode, peer_credentials)
        });
        tokio::select! {
            biased;
            () = stop.cancelled() => break,
            () = changed(&mut fleet) => {}
            () = changed(&mut active) => {}
            () = changed(&mut revoked) => {}
            Some(()) = OptionFuture::from(users.as_mut().map(changed)) => {}
            () = changed(&mut material) => {
                let material = Arc::clone(&material.borrow_and_update());
                sessions.follow_trust(&Trust::new(&material));
            }
        }
    }
    sessions.end_where(|_, _, _| Some(End::Stopping));
}

/// Resolves at the next change; never when there will be none. Cancel-safe.
async fn changed<T>(source: &mut watch::Receiver<T>) {
    if source.changed().await.is_err() {
        std::future::pending::<()>().await;
    }
}

impl Sessions {
    /// Ends every session and every tunnel for which `verdict` returns a reason.
    fn end_where(&self, verdict: impl Fn(&ClusterName, Mode, &Credentials) -> Option<End>) {
        self.gate.registry.end_where(&verdict);
        self.tunnels.end_where(verdict);
    }

    /// Updates the hub's index first: a cluster that is admitted must find its objects there.
    fn follow_fleet(&self, gate: &watch::Sender<Arc<Fleet>>, fleet: &Arc<Fleet>) {
        self.hub.set_fleet(fleet);
        let before = Arc::clone(&gate.borrow());
        let is_new_enrolment = |cluster: &ClusterName| {
            let fresh = |fleet: &Fleet| fleet.clusters.get(cluster.as_str()).map(|it| it.fresh);
            (fresh(&before), fresh(fleet)) == (Some(false), Some(true))
        };
        // A cluster that was removed and enrolled again starts with a new session.
        self.end_where(|cluster, _, _| is_new_enrolment(cluster).then_some(End::LeftFleet));
        gate.send_replace(Arc::clone(fleet));
        let is_enrolled = |cluster: &str| fleet.clusters.contains_key(cluster);
        self.gate.registry.keep(is_enrolled);
        self.gate.keep(is_enrolled);
    }

    fn follow_trust(&self, trust: &Trust) {
        let now = self.clock.now();
        self.end_where(|_, _, peer_credentials| {
            (!peer_credentials.are_trusted(trust, now)).then_some(End::Certificate)
        });
    }
}
