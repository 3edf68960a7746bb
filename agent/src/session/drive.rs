//! Runs one session: one task with one `select!`, whose arms do no work.
//!
//! Applying never waits for the peer. While the outgoing half is full, the agent takes nothing more from
//! the session, which coalesces further values. The agent keeps reading, so two busy ends cannot block
//! each other.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use futures::{FutureExt as _, Stream, StreamExt as _, TryFutureExt as _};
use live::cluster_info::Census;
use protocol::version::Capability;
use protocol::wire::eventstreamapi::Event as Frame;
use protocol::wire::eventstreamapi::event_stream_client::EventStreamClient;
use protocol::{Event, Limits, ObjectKey, Peer, Role, Session, Target, Verdict, WorkId};
use runtime::trace::{self, Span};
use tokio::sync::{mpsc, mpsc::error::TrySendError, watch};
use tokio::time::Instant;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tonic::codec::CompressionEncoding;
use tonic::{Request, Status};

use super::recover::End;
use crate::live::go_compat::{self, GoRequests};
use crate::live::tunnel::ApiHandler;
use crate::metrics::Metrics;
use crate::sync::replica::{CacheStatus, Replica};
use crate::sync::report::Reports;
use crate::sync::spans;
use crate::transport::Carrier;
use crate::transport::credentials::{Renewal, Renewed};
use crate::transport::dial::{Opened, Welcome};
use phase::{IdentityCheck, Phase};

mod phase;
mod timers;

/// Frames between the session and the socket; the session coalesces what does not fit.
const OUTGOING: usize = 64;
/// Concurrent pieces of work. The API server answers in a few milliseconds, so this allows thousands a
/// second.
const CONCURRENT_WORK: usize = 16;

/// The inputs of one session.
pub(super) struct Drive<'a> {
    pub(super) heartbeat: Option<Duration>,
    pub(super) max_message: usize,
    pub(super) compression: bool,
    pub(super) replica: &'a Replica,
    pub(super) reports: &'a Reports,
    pub(super) api_handler: Option<&'a Arc<ApiHandler>>,
    pub(super) metrics: &'a Metrics,
    pub(super) sync_status: watch::Receiver<CacheStatus>,
    pub(super) census: watch::Receiver<Option<Census>>,
    pub(super) renewal: Renewal,
    /// Called once, on the first frame of the principal.
    pub(super) on_first_frame: &'a mut (dyn FnMut() + Send),
}

/// What `select!` returned.
enum Happened {
    Frame(Option<Result<Frame, Status>>),
    Done(WorkId, Verdict),
    Answered(Event),
    Changed,
    CacheStatus,
    RoomToSend,
    HungUp,
    Due,
    Certificates(Renewed),
    Known(bool),
    Stop,
}

/// The mutable state of one session.
pub(super) struct SessionState<'a> {
    pub(super) session: Session,
    begun: Instant,
    pub(super) welcome: Welcome,
    /// The spoke's own objects that the principal has named in this resync.
    pub(super) claimed: BTreeSet<ObjectKey>,
    outgoing: mpsc::Sender<Frame>,
    phase: Phase,
    working: FuturesUnordered<BoxFuture<'a, (WorkId, Verdict)>>,
    questions: GoRequests,
    identity: IdentityCheck<'a>,
    /// The restores of the cluster's API before this session.
    restores: u64,
    /// When the agent last did not read, because it had no room for more frames.
    unread: Duration,
}

impl<'a> Drive<'a> {
    /// Opens the stream and runs until the session ends.
    pub(super) async fn run(mut self, opened: Opened, token: &CancellationToken) -> End {
        let Opened {
            channel,
            tokens,
            welcome,
        } = opened;
        let (outgoing, frames) = mpsc::channel(OUTGOING);
        let mut request = Request::new(ReceiverStream::new(frames));
        tokens.show(&mut request);
        let api_handler = self.api_handler.cloned();
        let questions = GoRequests::new(api_handler, welcome.clone(), channel.clone(), tokens);
        let mut client = self.client(channel);
        // A Go principal sends its headers with its first message, so the agent does not wait for them
        // before it sends.
        let incoming = async move { client.subscribe(request).await }
            .map_ok(tonic::Response::into_inner)
            .try_flatten_stream();
        let mut incoming = std::pin::pin!(incoming);

        let peer = Peer::new(self.replica.mode(), welcome.capabilities.clone());
        let limits = Limits {
            heartbeat: self.heartbeat,
            message_bytes: self.max_message,
            ..Limits::default()
        };
        let mut state = SessionState {
            session: Session::new(Role::Agent, peer, limits),
            begun: Instant::now(),
            welcome,
            claimed: BTreeSet::new(),
            outgoing,
            phase: Phase::Opening,
            working: FuturesUnordered::new(),
            questions,
            identity: IdentityCheck::later(),
            restores: self.sync_status.borrow().restores(),
            unread: Duration::ZERO,
        };
        self.greet(&mut state);
        loop {
            if let Some(end) = state.is_over() {
                return end;
            }
            let is_full = self.send(&state.outgoing, &mut state.session, state.begun);
            self.begin_work(&mut state);
            let happened = self
                .next(&mut state, is_full, incoming.as_mut(), token)
                .await;
            if let Some(end) = self.act(&mut state, happened) {
                return end;
            }
        }
    }

    fn client(&self, channel: Carrier) -> EventStreamClient<Carrier> {
        let client = EventStreamClient::new(channel)
            .max_decoding_message_size(self.max_message)
            .max_encoding_message_size(self.max_message);
        if self.compression {
            client
                .send_compressed(CompressionEncoding::Gzip)
                .accept_compressed(CompressionEncoding::Gzip)
        } else {
            client
        }
    }

    /// Sends pending events while the outgoing half has room; returns whether it is full.
    fn send(&self, outgoing: &mpsc::Sender<Frame>, session: &mut Session, begun: Instant) -> bool {
        let has_operations = session.peer().capabilities.has(Capability::CommandIdentity);
        let source = self.reports.encoder(has_operations, self.replica.mode());
        let is_full = loop {
            let permit = match outgoing.try_reserve() {
                Ok(permit) => permit,
                Err(refused) => break matches!(refused, TrySendError::Full(())),
            };
            let Some(event) = session.next_outgoing(&source, begun.elapsed()) else {
                break false;
            };
            self.metrics.sent.inc();
            permit.send(Frame { event: Some(event) });
        };
        let (stats, metrics) = (session.stats(begun.elapsed()), self.metrics);
        let count = |objects: usize| i64::try_from(objects).unwrap_or(i64::MAX);
        metrics.outbox_objects.set(count(stats.outbox_objects));
        metrics.outbox_oldest.set(stats.oldest.as_secs_f64());
        metrics.inbox_objects.set(count(stats.inbox_objects));
        is_full
    }

    /// Starts waiting work up to the limit; resync questions are answered at once.
    fn begin_work(&self, state: &mut SessionState<'a>) {
        while state.working.len() < CONCURRENT_WORK {
            let now = state.begun.elapsed();
            let Some(work) = state.session.next_work(now) else {
                break;
            };
            if work.event.target == Target::Resync {
                let verdict = self.answer_resync(state, &work.event);
                state.session.finished(work.id, verdict, now);
                continue;
            }
            if go_compat::is_one(&work.event) {
                if let Some(answer) = state.questions.take(&work.event) {
                    state.session.emit(answer);
                }
                state.session.finished(work.id, Verdict::Done, now);
                continue;
            }
            let (replica, welcome) = (self.replica, state.welcome.clone());
            let span = spans::received(&work.event, replica.mode(), &welcome);
            state.working.push(
                async move {
                    let context = span.as_ref().map(Span::context);
                    let done = trace::within(context, replica.carry_out(&work.event, &welcome));
                    let verdict = done.await;
                    trace::finish_span(span, protocol::trace::outcome(&verdict));
                    (work.id, verdict)
                }
                .boxed(),
            );
        }
    }

    /// Waits for the first event and returns it. Every arm is cancel-safe.
    async fn next(
        &mut self,
        state: &mut SessionState<'a>,
        is_full: bool,
        mut incoming: impl Stream<Item = Result<Frame, Status>> + Unpin,
        token: &CancellationToken,
    ) -> Happened {
        let (has_room, stays) = (state.session.has_room(), !state.phase.is_draining());
        let wait = state.wait(self.heartbeat, is_full);
        let answers = stays && state.session.can_emit_at_once();
        let SessionState {
            outgoing,
            phase,
            working,
            questions,
            identity,
            ..
        } = state;
        let happened = tokio::select! {
            biased;
            () = token.cancelled(), if stays => Happened::Stop,
            Some((id, verdict)) = working.next() => Happened::Done(id, verdict),
            Some(answer) = questions.next(), if answers => Happened::Answered(answer),
            frame = incoming.next(), if has_room => Happened::Frame(frame),
            () = self.reports.changed(), if stays => Happened::Changed,
            Ok(()) = self.sync_status.changed(), if stays => Happened::CacheStatus,
            Ok(()) = self.census.changed(), if stays => Happened::CacheStatus,
            () = outgoing.closed(), if phase.is_up() => Happened::HungUp,
            Ok(_) = outgoing.reserve(), if is_full => Happened::RoomToSend,
            renewed = self.renewal.renewed_credentials(), if stays => Happened::Certificates(renewed),
            known = identity.answered(self.replica) => Happened::Known(known),
            () = tokio::time::sleep(wait) => Happened::Due,
        };
        if !has_room {
            state.unread = state.begun.elapsed();
        }
        happened
    }

    /// Handles an event; a returned end ends the session.
    fn act(&mut self, state: &mut SessionState<'_>, happened: Happened) -> Option<End> {
        let now = state.begun.elapsed();
        match happened {
            Happened::Frame(None) => return Some(state.phase.ended(End::Closed)),
            Happened::Frame(Some(Err(status))) => {
                return Some(state.phase.ended(End::Broken(status)));
            }
            Happened::Frame(Some(Ok(frame))) => {
                self.metrics.received.inc();
                if state.phase.arrived() {
                    (self.on_first_frame)();
                }
                // An empty frame, on which a Go agent would crash, is harmless.
                let received = state.session.receive(frame.event?, now);
                return received.err().map(End::Violation);
            }
            Happened::Done(id, verdict) => {
                if matches!(verdict, Verdict::Retry { .. }) {
                    state.identity.doubt();
                }
                state.session.finished(id, verdict, now);
            }
            Happened::Known(true) => state.identity = IdentityCheck::later(),
            Happened::Known(false) => return Some(state.phase.ended(End::Unknown)),
            Happened::Answered(answer) => state.session.emit(answer),
            Happened::Changed => self.take_reports(state),
            Happened::CacheStatus | Happened::Certificates(Renewed::Trust) => {
                self.send_spoke_info(state);
                if self.sync_status.borrow().restores() != state.restores {
                    state.drain(End::Restored);
                }
            }
            Happened::Stop => state.drain(End::Stopped),
            Happened::Certificates(Renewed::Replace) => state.drain(End::Renewed),
            Happened::HungUp => state.phase.hang_up(),
            Happened::Due if state.is_silent(self.heartbeat) => return Some(End::Silent),
            Happened::RoomToSend | Happened::Due => {}
        }
        None
    }
}

impl SessionState<'_> {
    fn drain(&mut self, end: End) {
        self.session.drain();
        self.phase.drain(end);
    }

    /// The end of a drain that is complete or timed out, and of a session whose principal closed its
    /// receiving half and sent no status in time.
    fn is_over(&mut self) -> Option<End> {
        let is_late = self.phase.ends().is_some_and(|at| Instant::now() >= at);
        if self.phase.is_draining() {
            let is_drained = self.session.is_drained() && self.working.is_empty();
            if is_late && !is_drained {
                let stats = self.session.stats(self.begun.elapsed());
                tracing::info!(?stats, "some work timed out at the end of the session");
            }
            if is_drained {
                return Some(self.phase.ended(End::Closed));
            }
        }
        is_late.then(|| self.phase.ended(End::Closed))
    }
}
