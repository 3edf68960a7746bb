//! Drives one session: waits for the first input, feeds the machine, carries out its output.

use std::{sync::Arc, time::Duration};

use futures::{FutureExt as _, future::BoxFuture, stream::FuturesUnordered};
use protocol::{
    Event, Facet, Kind, Peer as MachinePeer, Role, Session, Verdict, WorkId,
    session::Limits as MachineLimits,
    version::{Capabilities, Capability},
    wire::{eventstreamapi::Event as Frame, frame_bytes},
};
use tokio::{
    sync::{Semaphore, mpsc, watch},
    time::Instant,
};
use tonic::{Status, Streaming};

use super::{
    end::{Over, close},
    ownership::{Ownership, Step},
    pace::{AWAITED, Newest, Pace, SHOWN},
    resync::Resync,
    shared::Sessions,
    spoke_owned::Claims,
    violations::{PeerViolations, Violation},
};
use crate::{
    admission::{
        admit::{Admitted, Credentials},
        registry::{End, SessionSlot},
    },
    fleet::{Fleet, Mode},
    live::go_compat::GoRequestChannel,
    report::{Figures, Update},
    sync::hub::{EventEncoder, Hub, Sender, Subscription},
};

type Working = FuturesUnordered<BoxFuture<'static, (WorkId, Verdict, Option<&'static str>)>>;
type Releases = FuturesUnordered<BoxFuture<'static, ()>>;

/// One session and everything it needs.
pub(super) struct Driver {
    sessions: Arc<Sessions>,
    hub: Arc<Hub>,
    session_slot: SessionSlot,
    machine: Session,
    resync: Box<dyn Ownership>,
    subscription: Subscription,
    from: Sender,
    fleet: watch::Receiver<Arc<Fleet>>,
    /// Requests to a Go agent; ours has a tunnel for them.
    go_requests: Option<GoRequestChannel>,
    inbound: Streaming<Frame>,
    outbound: mpsc::Sender<Result<Frame, Status>>,
    working: Working,
    /// Lets one large message be applied at a time.
    large: Arc<Semaphore>,
    budget: Budget,
    /// Deletions that end because the agent has no copy. Bounded by its Applications.
    releases: Releases,
    pace: Pace,
    /// The throttle of reports that a user waits for.
    awaited: Pace,
    /// The newest facts of the agent about its cluster.
    facts: Newest<Event>,
    started: Instant,
    /// The latest end, and its reason.
    ends: (Instant, End),
    peer_violations: PeerViolations,
    reported: Reported,
}

impl Driver {
    pub(super) fn new(
        sessions: &Arc<Sessions>,
        session_slot: SessionSlot,
        admitted: &Admitted,
        inbound: Streaming<Frame>,
        outbound: mpsc::Sender<Result<Frame, Status>>,
    ) -> Self {
        let holder = &admitted.holder;
        let capabilities = Capabilities::read(&holder.announced.capabilities);
        let limits = MachineLimits {
            message_bytes: sessions.limits.message_bytes,
            inbox_bytes: sessions.limits.inbox_bytes,
            silence: sessions.limits.silence,
            ..MachineLimits::default()
        };
        let from = Sender {
            cluster: holder.cluster.clone(),
            names_commands: capabilities.has(Capability::CommandIdentity),
            is_autonomous: holder.mode == Mode::Autonomous,
        };
        let asks = || (sessions.go_requests).open(&holder.cluster, holder.mode, &sessions.spawner);
        let go_requests = (!capabilities.is_ours()).then(asks);
        let machine_peer = MachinePeer::new(holder.mode, capabilities);
        let machine_peer = machine_peer.of_version(&holder.announced.version);
        let mut machine = Session::new(Role::Principal, machine_peer, limits);
        machine.tracker().track(Kind::Application);
        let mut subscription = sessions.hub.subscribe(&holder.cluster);
        let fresh = admitted.enrolment.fresh;
        let resync: Box<dyn Ownership> = match holder.mode {
            Mode::Managed => Box::new(Resync::begin(
                &mut machine,
                &holder.cluster,
                &holder.announced.namespace,
                fresh,
                std::mem::take(&mut subscription.delivered),
                sessions.limits.compare_every,
            )),
            Mode::Autonomous => Box::new(Claims::begin(&sessions.hub, &holder.cluster, fresh)),
        };
        sessions.metrics.resynced("connect");
        Self {
            hub: Arc::clone(&sessions.hub),
            machine,
            resync,
            subscription,
            from,
            fleet: sessions.gate.fleet.clone(),
            go_requests,
            inbound,
            outbound,
            working: FuturesUnordered::new(),
            large: Arc::new(Semaphore::new(1)),
            budget: Budget::default(),
            releases: FuturesUnordered::new(),
            pace: Pace::new(SHOWN, sessions.limits.object_writes),
            awaited: Pace::new(AWAITED, sessions.limits.object_writes),
            facts: Newest::default(),
            started: Instant::now(),
            ends: ends(sessions, &admitted.peer_credentials),
            peer_violations: PeerViolations::default(),
            reported: Reported::default(),
            session_slot,
            sessions: Arc::clone(sessions),
        }
    }

    /// The number of this session.
    pub(super) fn id(&self) -> u64 {
        self.session_slot.id()
    }

    /// Drives until the end and returns its reason, as a word.
    pub(super) async fn run(mut self) -> &'static str {
        let over = loop {
            if let Err(over) = self.turn().await {
                break over;
            }
        };
        self.record_facts(Duration::MAX);
        match over {
            Over::Hub(End::Stopping) => self.finish_work().await,
            Over::Peer(_) => self.write_after_disconnect().await,
            Over::Hub(_) | Over::Violation(_) | Over::TooLarge => {}
        }
        let reason = over.reason();
        // Drops unfinished work before the slot: the next session must not see our writes.
        let Self {
            session_slot,
            outbound,
            working,
            releases,
            subscription,
            go_requests,
            ..
        } = self;
        drop(go_requests);
        drop((working, releases));
        drop(subscription);
        close(session_slot, &outbound, over).await;
        reason
    }

    async fn turn(&mut self) -> Result<(), Over> {
        if self.subscription.mailbox.is_over() {
            return Err(Over::Hub(End::Rewound));
        }
        self.take_notes();
        let now = self.started.elapsed();
        // Work first: a resync answers at once, and its messages have to be written before we wait.
        self.start_work(now).await;
        self.record_facts(now);
        let (resync, mut step) = self.resync_step(now);
        if resync.advance(&mut step) {
            self.sessions.metrics.resynced("periodic");
        }
        self.delete_unknown(now);
        self.release_deletions();
        if !self.may_read() {
            self.machine.skip_read(now);
        }
        let full = self.write(now);
        let progress = self.machine.tracker().take();
        (self.hub.objects.deliveries).progressed(&self.from.cluster, progress);
        self.count(now);
        for refusal in self.machine.take_refusals() {
            self.hub
                .objects
                .refused_by(&self.from.cluster, &refusal.key, &refusal.reason);
        }
        match self.next(full).await {
            Next::Over(over) => Err(over),
            Next::Frame(frame) => {
                let (intake, cluster) = (&self.sessions.intake, &self.from.cluster);
                self.budget.read(frame_bytes(&frame), intake, cluster);
                self.read(frame)
            }
            Next::Worked(id, verdict, reason) => {
                let now = self.started.elapsed();
                self.machine.finished(id, verdict, now);
                if let Some(peer_violation) = reason.and_then(Violation::of) {
                    self.peer_violations.record(peer_violation, now);
                }
                if self.from.is_autonomous {
                    let unmirrored = self.hub.mirrors.unmirrored(&self.from.cluster);
                    let slot = &self.session_slot;
                    slot.report(|report, _now| report.unmirrored = unmirrored);
                }
                let stuck = self.hub.objects.stuck(&self.from.cluster);
                self.reported.stuck(&self.session_slot, stuck);
                Ok(())
            }
            Next::Fleet => {
                self.resync.waiting().review(self.started.elapsed());
                Ok(())
            }
            Next::GoRequest(event) => {
                self.machine.emit(event);
                Ok(())
            }
            Next::Turn => self.listen(),
        }
    }

    /// The resync, and what its next step acts on.
    fn resync_step(&mut self, now: Duration) -> (&mut dyn Ownership, Step<'_>) {
        let step = Step {
            session: &mut self.machine,
            hub: &self.hub,
            now,
        };
        (&mut *self.resync, step)
    }

    fn take_notes(&mut self) {
        for (key, note) in self.subscription.mailbox.take() {
            // A command alone does not deliver the object to an agent without it.
            if note.state || note.gone.is_some() {
                self.resync.forget(&mut self.machine, &key);
            }
            if let Some(last) = note.last.filter(|_| self.go_requests.is_some()) {
                self.machine
                    .emit(self.hub.objects.final_update(&key, &last));
            }
            // The hub deletes no object that an autonomous cluster owns.
            if let Some(uid) = note.gone.filter(|_| !self.from.is_autonomous) {
                let event = self.subscription.delete(&key, &uid);
                self.machine.emit(event);
            }
            if note.state {
                self.machine.mark(key.clone(), Facet::State);
            }
            if note.command {
                self.resync.command(&mut self.machine, &key);
            }
        }
        if self.subscription.mailbox.take_comparison() {
            self.resync.resync_now(&self.hub);
        }
    }

    /// Deletes the objects that the hub does not know any more, as far as the brake allows.
    fn delete_unknown(&mut self, now: Duration) {
        if !self.resync.waiting().is_due(now) {
            return;
        }
        let cluster = self.from.cluster.as_str();
        let enrolment = self.fleet.borrow().clusters.get(cluster).cloned();
        let (resync, mut step) = self.resync_step(now);
        let blocked = resync.decide(&mut step, enrolment);
        self.session_slot.report_blocked_deletion(blocked);
    }

    /// Ends deletions that wait for a copy that the agent does not have.
    fn release_deletions(&mut self) {
        for key in self.resync.take_absent() {
            let (hub, from) = (Arc::clone(&self.hub), self.from.clone());
            let going = async move { hub.reports.release_deletion(&from, &key).await };
            self.releases.push(going.boxed());
        }
    }

    /// Writes what the stream takes without waiting; true when it takes no more.
    fn write(&mut self, now: Duration) -> bool {
        let event_encoder = EventEncoder {
            objects: &self.hub.objects,
            cluster: &self.from.cluster,
            is_go: self.go_requests.is_some(),
            traces: self.subscription.mailbox.traces(),
        };
        loop {
            let Ok(permit) = self.outbound.try_reserve() else {
                return true;
            };
            let Some(event) = self.machine.next_outgoing(&event_encoder, now) else {
                return false;
            };
            self.sessions.metrics.event_sent();
            permit.send(Ok(Frame { event: Some(event) }));
        }
    }

    fn read(&mut self, frame: Frame) -> Result<(), Over> {
        self.sessions.metrics.event_received();
        self.session_slot.arrived();
        // A Go principal tears the stream down after an event without content; we ignore it.
        let Some(event) = frame.event else {
            self.sessions.metrics.event_refused("malformed");
            return Ok(());
        };
        let now = self.started.elapsed();
        let before = self.machine.stats(now);
        let received = self.machine.receive(event, now).map_err(Over::Violation);
        let after = self.machine.stats(now);
        if after.malformed > before.malformed {
            self.peer_violations.record(Violation::Malformed, now);
            self.sessions.metrics.event_refused("malformed");
        }
        if after.refused > before.refused {
            self.peer_violations.record(Violation::NotAllowed, now);
            self.sessions.metrics.event_refused("not_allowed");
        }
        received
    }

    /// Updates the metrics and the report, and finds violations.
    fn count(&mut self, now: Duration) {
        let stats = self.machine.stats(now);
        self.reported.counters(&self.sessions.metrics, &stats);
        self.session_slot.show(Figures {
            outbox_objects: stats.outbox_objects,
            in_flight: stats.in_flight,
            unacknowledged: stats.unacknowledged,
            inbox_objects: stats.inbox_objects,
            inbox_bytes: stats.inbox_bytes,
            agreed: self.resync.agreed().map(|at| now.saturating_sub(at)),
            arrived: now.saturating_sub(stats.last_received),
        });
        if self.session_slot.take_contested() {
            self.peer_violations.record(Violation::Contested, now);
        }
        if self.resync.has_too_many() {
            self.peer_violations.record(Violation::TooManyObjects, now);
        }
        if self.budget.is_flooded() {
            self.peer_violations.record(Violation::TooFast, now);
        }
        if let Update::Now(misconduct) = self.peer_violations.updates(stats.unacknowledged, now) {
            self.session_slot.report_misconduct(misconduct);
        }
        self.reported.forget_shed(&self.session_slot, now);
        self.reported
            .refused(&self.session_slot, &self.hub, &self.from.cluster, now);
    }
}

/// A session ends with the first of its certificates, or when it has lived long enough.
fn ends(sessions: &Sessions, peer_credentials: &Credentials) -> (Instant, End) {
    let now = Instant::now();
    let life = (now + sessions.limits.session_life, End::Life);
    let certificate = peer_credentials.not_after().and_then(|not_after| {
        let left = not_after.duration_since(sessions.clock.now());
        now.checked_add(Duration::try_from(left).unwrap_or_default())
    });
    let certificate = certificate.map(|at| (at, End::Certificate));
    certificate.filter(|(at, _)| *at < life.0).unwrap_or(life)
}

mod budget;
mod input;
mod report;
#[cfg(test)]
pub(super) mod tests;
mod wait;
mod work;

use budget::Budget;
use input::Next;
use report::Reported;
