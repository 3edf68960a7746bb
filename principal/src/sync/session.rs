//! Sessions: one task drives one subscribed stream.
//!
//! The rules of a session are `protocol::Session`, a machine without I/O. A driver feeds it: frames of the peer,
//! marks of the hub, ended writes, the time. It waits for the first of these and then acts; nothing it does waits
//! for the peer, and nothing is spawned per message.
//!
//! | from | bound | at the bound |
//! |---|---|---|
//! | hub to session | one mark per object | a newer mark is the same mark |
//! | session to stream | [`OUTBOUND`] frames | the driver stops taking from the outbox, which coalesces |
//! | stream to session | the machine's inbox | the driver stops reading, which slows this peer only |
//! | session to hub API | `writes_per_session` | work waits in the inbox, newest value per object |
//! | session to one object there | one write every [`pace::PAUSE`], a few in reserve | the same |

use std::{fmt, sync::Arc};

use protocol::wire::eventstreamapi::Event;
use runtime::{clock::Clock, parts::Spawner};
use tokio::sync::{mpsc, watch};
use tonic::{Status, Streaming};
use tracing::Instrument as _;

use crate::{
    admission::{
        admit::{Admission, Admitted, Credentials},
        registry::End,
        trust::{Roots, Trust},
        users::Passwords,
    },
    fleet::{ClusterName, Fleet, Mode},
    live::{go_compat::GoRequests, tunnel::Tunnels},
    metrics::Metrics,
    settings::Limits,
    sync::hub::Hub,
};

mod brake;
mod driver;
mod end;
mod heartbeat;
mod inventory;
mod ownership;
mod pace;
mod resync;
mod spoke_info;
mod spoke_owned;
mod violations;

/// Frames on their way to a peer; enough to fill a packet, few enough to stay fresh.
const OUTBOUND: usize = 16;

/// What all sessions share.
pub(crate) struct Sessions {
    pub(crate) gate: Arc<Admission>,
    pub(crate) hub: Arc<Hub>,
    pub(crate) tunnels: Tunnels,
    pub(crate) go_requests: GoRequests,
    pub(crate) limits: Limits,
    pub(crate) metrics: Metrics,
    pub(crate) clock: Clock,
    pub(crate) spawner: Spawner,
}

impl fmt::Debug for Sessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sessions").finish_non_exhaustive()
    }
}

impl Sessions {
    /// Starts the session of an admitted peer and returns what it says.
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

/// What the program is told, as it changes, and where who may come in is told on.
#[derive(Debug)]
pub(crate) struct PolicyInputs {
    pub(crate) fleet: watch::Receiver<Arc<Fleet>>,
    pub(crate) roots: Roots,
    pub(crate) gate: watch::Sender<Arc<Fleet>>,
}

/// Keeps the sessions in line with what the program is told: fleet, replica state, trusted
/// CAs, revocation list, passwords, stop.
///
/// A source that has ended tells nothing new; what it told last stays in use.
pub(crate) async fn keep_in_line(sessions: Arc<Sessions>, reply: PolicyInputs) {
    let PolicyInputs {
        mut fleet,
        mut roots,
        gate: door,
    } = reply;
    let gate = &sessions.gate;
    let (mut active, mut revoked) = (gate.active.clone(), gate.revoked.clone());
    let mut users = gate.passwords.as_ref().map(Passwords::follow);
    let stop = sessions.spawner.token().clone();
    loop {
        sessions.follow_fleet(&door, &Arc::clone(&fleet.borrow_and_update()));
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
            () = news_of(users.as_mut()) => {}
            Some(trust) = roots.changed() => sessions.follow_trust(&trust),
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

/// The same of a source that may not be there.
async fn news_of<T>(source: Option<&mut watch::Receiver<T>>) {
    match source {
        Some(source) => changed(source).await,
        None => std::future::pending().await,
    }
}

impl Sessions {
    /// Ends every session and every lane for which `verdict` has a reason.
    fn end_where(&self, verdict: impl Fn(&ClusterName, Mode, &Credentials) -> Option<End>) {
        self.gate.registry.end_where(&verdict);
        self.tunnels.end_where(verdict);
    }

    /// The hub's index first: whoever is let in must find its objects there.
    fn follow_fleet(&self, gate: &watch::Sender<Arc<Fleet>>, fleet: &Arc<Fleet>) {
        self.hub.set_fleet(fleet);
        let before = Arc::clone(&gate.borrow());
        let begins_anew = |cluster: &ClusterName| {
            let fresh = |fleet: &Fleet| fleet.clusters.get(cluster.as_str()).map(|it| it.fresh);
            (fresh(&before), fresh(fleet)) == (Some(false), Some(true))
        };
        // The session of an enrolment that ended unseen is not the first one of the next.
        self.end_where(|cluster, _, _| begins_anew(cluster).then_some(End::LeftFleet));
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
