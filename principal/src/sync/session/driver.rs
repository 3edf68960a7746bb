//! Drives one session: waits for whatever comes first, feeds the machine, carries out what it says.

use std::{sync::Arc, time::Duration};

use futures::{FutureExt as _, StreamExt as _, future::BoxFuture, stream::FuturesUnordered};
use protocol::{
    Event, Facet, Peer as MachinePeer, Role, Session, Target, Verdict, Work, WorkId,
    session::Limits as MachineLimits,
    version::{Capabilities, Capability},
    wire::eventstreamapi::Event as Frame,
};
use tokio::{
    sync::{mpsc, watch},
    time::Instant,
};
use tonic::{Status, Streaming};

use super::{
    Sessions,
    end::{Over, close},
    heartbeat::HeartbeatMonitor,
    ownership::Ownership,
    pace::Pace,
    spoke_info,
    violations::{PeerViolations, Violation},
};
use crate::{
    admission::{
        admit::{Admitted, Credentials},
        registry::{End, SessionSlot},
    },
    fleet::{Fleet, Mode},
    live::go_compat::GoRequestChannel,
    report::Stuck,
    sync::hub::{EventEncoder, Hub, Sender, Subscription},
};

/// The type of a heartbeat on the wire; the machine answers it by itself.
const PING: &str = "io.argoproj.argocd-agent.event.ping";

type Working = FuturesUnordered<BoxFuture<'static, (WorkId, Verdict, Option<&'static str>)>>;
type Leaving = FuturesUnordered<BoxFuture<'static, ()>>;

/// One session and everything it needs.
pub(super) struct Driver {
    sessions: Arc<Sessions>,
    hub: Arc<Hub>,
    session_slot: SessionSlot,
    machine: Session,
    resync: Ownership,
    subscription: Subscription,
    from: Sender,
    fleet: watch::Receiver<Arc<Fleet>>,
    /// What is asked of a Go agent; ours has a lane for that.
    go_requests: Option<GoRequestChannel>,
    inbound: Streaming<Frame>,
    outbound: mpsc::Sender<Result<Frame, Status>>,
    working: Working,
    /// What is let go because the agent has nothing of it. Bounded by its Applications.
    leaving: Leaving,
    pace: Pace,
    started: Instant,
    /// When it ends whatever happens, and why then.
    ends: (Instant, End),
    pulse: HeartbeatMonitor,
    peer_violations: PeerViolations,
    /// What was last told of writes that do not come about.
    stuck: Option<Stuck>,
    /// How the hub's complaints stood when they were last told.
    complaints: Option<u64>,
    /// What the metrics have of the machine's counters: resends and stray acknowledgements.
    counted: (u64, u64),
}

impl Driver {
    pub(super) fn new(
        sessions: &Arc<Sessions>,
        session_slot: SessionSlot,
        admitted: &Admitted,
        inbound: Streaming<Frame>,
        outbound: mpsc::Sender<Result<Frame, Status>>,
    ) -> Self {
        let Admitted {
            holder,
            enrolment,
            peer_credentials,
        } = admitted;
        let capabilities = Capabilities::read(&holder.announced.capabilities);
        let limits = MachineLimits {
            message_bytes: sessions.limits.message_bytes,
            inbox_bytes: sessions.limits.inbox_bytes,
            ..MachineLimits::default()
        };
        let from = Sender {
            cluster: holder.cluster.clone(),
            names_commands: capabilities.has(Capability::CommandIdentity),
            is_autonomous: holder.mode == Mode::Autonomous,
        };
        let asks = || (sessions.go_requests).open(&holder.cluster, holder.mode, &sessions.spawner);
        let go_requests = (!capabilities.is_ours()).then(asks);
        let machine_peer = MachinePeer {
            mode: holder.mode,
            capabilities,
        };
        let mut machine = Session::new(Role::Principal, machine_peer, limits);
        let mut subscription = sessions.hub.subscribe(&holder.cluster);
        let resync = Ownership::begin(
            &mut machine,
            &sessions.hub,
            &mut subscription,
            &holder.announced.namespace,
            enrolment.fresh,
            sessions.limits.compare_every,
        );
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
            leaving: FuturesUnordered::new(),
            pace: Pace::default(),
            started: Instant::now(),
            ends: ends(sessions, peer_credentials),
            pulse: HeartbeatMonitor::default(),
            peer_violations: PeerViolations::default(),
            stuck: None,
            complaints: None,
            counted: (0, 0),
            session_slot,
            sessions: Arc::clone(sessions),
        }
    }

    /// The number of this session.
    pub(super) const fn id(&self) -> u64 {
        self.session_slot.id()
    }

    /// Drives until the end and says why it came, as a word.
    pub(super) async fn run(mut self) -> &'static str {
        let over = loop {
            match self.turn().await {
                Ok(()) => {}
                Err(over) => break over,
            }
        };
        match over {
            Over::Hub(End::Stopping) => self.finish_work().await,
            Over::Peer(_) => self.leave_word().await,
            Over::Hub(_) | Over::Violation(_) | Over::TooLarge => {}
        }
        let reason = over.reason();
        // Work that is under way is dropped before the seat: the next session must not find us writing.
        let Self {
            session_slot,
            outbound,
            working,
            leaving,
            subscription,
            go_requests,
            ..
        } = self;
        drop(go_requests);
        drop((working, leaving));
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
        if self.resync.begin_when_due(&mut self.machine, now) {
            self.sessions.metrics.resynced("periodic");
        }
        self.resync.end_when_due(&mut self.machine, &self.hub, now);
        // Work first: a resync answers at once, and what it marks has to be written before we wait.
        self.start_work(now);
        self.take_away(now);
        self.let_go();
        self.leave_unread(now);
        let full = self.write(now);
        self.count(now);
        self.tell_refused();
        for refusal in self.machine.take_refusals() {
            self.hub
                .refused_by(&self.from.cluster, &refusal.key, &refusal.reason);
        }
        match self.next(full).await {
            Next::Over(over) => Err(over),
            Next::Frame(frame) => self.read(frame),
            Next::Worked(id, verdict, reason) => {
                let now = self.started.elapsed();
                self.machine.finished(id, verdict, now);
                if let Some(peer_violation) = reason.and_then(Violation::of) {
                    self.peer_violations.offended(peer_violation, now);
                }
                if self.resync.is_autonomous() {
                    let unmirrored = self.hub.unmirrored(&self.from.cluster);
                    self.session_slot.report_unmirrored(unmirrored);
                }
                self.tell_stuck();
                Ok(())
            }
            Next::Fleet => {
                self.resync.waiting_mut().look_again(self.started.elapsed());
                Ok(())
            }
            Next::Question(event) => {
                self.machine.emit(event);
                Ok(())
            }
            Next::Look => self.listen(),
        }
    }

    fn take_notes(&mut self) {
        for (key, note) in self.subscription.mailbox.take() {
            // A command alone does not bring the object to an agent that lacks it.
            if note.state || note.gone.is_some() {
                self.resync.forget(&mut self.machine, &key);
            }
            if let Some(last) = note.last.filter(|_| self.go_requests.is_some()) {
                self.machine.emit(self.hub.final_update(&key, &last));
            }
            // What an autonomous cluster owns is not taken away from here.
            if let Some(uid) = note.gone.filter(|_| !self.resync.is_autonomous()) {
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
            self.resync.resync_now();
        }
    }

    /// Lets go what the hub does not know any more, as far as it may go now.
    fn take_away(&mut self, now: Duration) {
        if !self.resync.waiting().is_due(now) {
            return;
        }
        let cluster = self.from.cluster.as_str();
        let enrolment = self.fleet.borrow().clusters.get(cluster).cloned();
        let retained = self
            .resync
            .decide(&mut self.machine, &self.hub, enrolment, now);
        self.session_slot.report_blocked_deletion(retained);
    }

    /// Ends what the hub waits for and the agent has nothing of.
    fn let_go(&mut self) {
        for key in self.resync.take_absent() {
            let (hub, from) = (Arc::clone(&self.hub), self.from.clone());
            let going = async move { hub.release_deletion(&from, &key).await };
            self.leaving.push(going.boxed());
        }
    }

    /// Writes what the stream takes without waiting; true when it takes no more.
    fn write(&mut self, now: Duration) -> bool {
        let event_encoder = EventEncoder {
            hub: &self.hub,
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

    fn start_work(&mut self, now: Duration) {
        while self.working.len() < self.sessions.limits.writes_per_session {
            let Some(Work { id, event }) = self.machine.next_work(now) else {
                return;
            };
            if event.target == Target::Resync {
                let verdict = self.resync.take(&mut self.machine, &self.hub, &event, now);
                self.machine.finished(id, verdict, now);
                continue;
            }
            if event.target == Target::ClusterInfo {
                // At once, so that the last word counts.
                spoke_info::record(&self.session_slot, &event);
            }
            if self
                .go_requests
                .as_ref()
                .is_some_and(|go_requests| go_requests.handle_response(&event))
            {
                self.machine.finished(id, Verdict::Done, now);
                continue;
            }
            if let Some(verdict) = self.resync.take_message(&self.hub, &event, now) {
                self.machine.finished(id, verdict, now);
                continue;
            }
            if let Some(after) = self.hold(&event, now) {
                self.machine.finished(id, Verdict::Retry { after }, now);
                continue;
            }
            self.begin(id, event);
        }
    }

    fn begin(&self, id: WorkId, event: Event) {
        let (hub, from) = (Arc::clone(&self.hub), self.from.clone());
        let work = async move {
            let (verdict, reason) = hub.apply_for(&from, &event).await;
            (id, verdict, reason)
        };
        self.working.push(work.boxed());
    }

    fn read(&mut self, frame: Frame) -> Result<(), Over> {
        self.sessions.metrics.event_received();
        self.session_slot.arrived();
        // An event without content tears a Go principal's stream down; here it is nothing.
        let Some(event) = frame.event else {
            self.sessions.metrics.event_refused("malformed");
            return Ok(());
        };
        let now = self.started.elapsed();
        if event.r#type == PING {
            self.pulse.beat(now);
        }
        let before = self.machine.stats(now);
        let received = self.machine.receive(event, now).map_err(Over::Violation);
        let after = self.machine.stats(now);
        if after.malformed > before.malformed {
            self.peer_violations.offended(Violation::Malformed, now);
            self.sessions.metrics.event_refused("malformed");
        }
        if after.refused > before.refused {
            self.peer_violations.offended(Violation::NotAllowed, now);
            self.sessions.metrics.event_refused("not_allowed");
        }
        received
    }

    /// What was begun is ended, so that the peer need not say it again to the next replica.
    async fn finish_work(&mut self) {
        let bound = self.sessions.limits.drain;
        let drained = async {
            self.write_held().await;
            self.machine.drain();
            while let Some((id, verdict, _reason)) = self.working.next().await {
                self.machine.finished(id, verdict, self.started.elapsed());
            }
        };
        if tokio::time::timeout(bound, drained).await.is_err() {
            tracing::debug!("some work timed out at the end of the session");
        }
        self.machine.drain();
        self.write(self.started.elapsed());
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

mod report;
#[cfg(test)]
mod tests;
mod throttle;
mod wait;

use wait::Next;
