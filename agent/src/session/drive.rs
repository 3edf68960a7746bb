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
use futures::{Stream, StreamExt as _, TryFutureExt as _};
use live::cluster_info::Census;
use protocol::version::Capability;
use protocol::wire::eventstreamapi::Event as Frame;
use protocol::wire::eventstreamapi::event_stream_client::EventStreamClient;
use protocol::{Event, Limits, ObjectKey, Peer, Role, Session, Verdict, Violation, WorkId};
use tokio::sync::{mpsc, mpsc::error::TrySendError, watch};
use tokio::time::Instant;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tonic::codec::CompressionEncoding;
use tonic::{Request, Status};

use super::recover::End;
use crate::live::go_compat::GoRequests;
use crate::live::tunnel::ApiHandler;
use crate::metrics::Metrics;
use crate::sync::replica::{CacheStatus, Replica};
use crate::sync::report::Reports;
use crate::transport::Carrier;
use crate::transport::credentials::{Renewal, Renewed};
use crate::transport::dial::{Opened, Welcome};

mod pause;
mod work;

/// Frames between the session and the socket; the session coalesces what does not fit.
const OUTGOING: usize = 64;
/// How long open work may take when a session ends on purpose.
const DRAIN: Duration = Duration::from_secs(3);
/// How long the agent waits for the status of a principal that closed its receiving half.
const HANG_UP_GRACE: Duration = Duration::from_secs(2);

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
pub(super) struct Moving<'a> {
    pub(super) session: Session,
    begun: Instant,
    pub(super) welcome: Welcome,
    /// The spoke's own objects that the principal has named in this resync.
    pub(super) claimed: BTreeSet<ObjectKey>,
    outgoing: mpsc::Sender<Frame>,
    /// The outgoing half was full at the last attempt.
    full: bool,
    /// When the principal closed the outgoing half: it never has room again.
    hung_up: Option<Instant>,
    working: FuturesUnordered<BoxFuture<'a, (WorkId, Verdict)>>,
    questions: GoRequests,
    /// Some work failed, perhaps because the cluster's API rejects this agent's identity.
    in_doubt: bool,
    /// When the last check of the identity began.
    identity_checked: Instant,
    /// The running check of the identity.
    identity_check: Option<BoxFuture<'a, bool>>,
    /// When draining began, and the end that it leads to.
    draining: Option<(Instant, End)>,
    arrived: bool,
    /// When the agent last did not read, because it had no room for more frames.
    unread: Duration,
}

impl Drive<'_> {
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
        let questions = GoRequests::new(channel.clone(), tokens);
        let mut client = self.client(channel);
        // A Go principal sends its headers with its first message, so the agent does not wait for them
        // before it sends.
        let incoming = async move { client.subscribe(request).await }
            .map_ok(tonic::Response::into_inner)
            .try_flatten_stream();
        let mut incoming = std::pin::pin!(incoming);

        let peer = Peer {
            mode: self.replica.mode(),
            capabilities: welcome.capabilities.clone(),
        };
        let limits = Limits {
            heartbeat: self.heartbeat,
            message_bytes: self.max_message,
            ..Limits::default()
        };
        let mut moving = Moving {
            session: Session::new(Role::Agent, peer, limits),
            begun: Instant::now(),
            welcome,
            claimed: BTreeSet::new(),
            outgoing,
            full: false,
            hung_up: None,
            working: FuturesUnordered::new(),
            questions,
            in_doubt: false,
            identity_checked: Instant::now(),
            identity_check: None,
            draining: None,
            arrived: false,
            unread: Duration::ZERO,
        };
        self.greet(&mut moving);
        loop {
            if let Some(end) = moving.is_over() {
                return end;
            }
            self.send(&mut moving);
            moving.begin_work(&self);
            let happened = self.next(&mut moving, incoming.as_mut(), token).await;
            if let Some(end) = self.act(&mut moving, happened) {
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

    /// Sends pending events while the outgoing half has room.
    fn send(&self, moving: &mut Moving<'_>) {
        moving.full = false;
        let capabilities = &moving.session.peer().capabilities;
        let source = self.reports.encoder(
            capabilities.has(Capability::CommandIdentity),
            self.replica.mode(),
        );
        loop {
            let now = moving.begun.elapsed();
            let permit = match moving.outgoing.try_reserve() {
                Ok(permit) => permit,
                Err(refused) => {
                    moving.full = matches!(refused, TrySendError::Full(()));
                    break;
                }
            };
            let Some(event) = moving.session.next_outgoing(&source, now) else {
                break;
            };
            self.metrics.sent.inc();
            permit.send(Frame { event: Some(event) });
        }
        let stats = moving.session.stats(moving.begun.elapsed());
        self.metrics
            .outbox_objects
            .set(i64::try_from(stats.outbox_objects).unwrap_or(i64::MAX));
        self.metrics.outbox_oldest.set(stats.oldest.as_secs_f64());
        self.metrics
            .inbox_objects
            .set(i64::try_from(stats.inbox_objects).unwrap_or(i64::MAX));
    }

    /// Waits for the first event and returns it. Every arm is cancel-safe.
    async fn next(
        &mut self,
        moving: &mut Moving<'_>,
        mut incoming: impl Stream<Item = Result<Frame, Status>> + Unpin,
        token: &CancellationToken,
    ) -> Happened {
        let (has_room, draining) = (moving.session.has_room(), moving.draining.is_some());
        let wait = moving.wait(self.heartbeat);
        let answers = !draining && moving.session.can_emit_at_once();
        let Moving {
            outgoing,
            full,
            hung_up,
            working,
            questions,
            identity_check,
            ..
        } = moving;
        let happened = tokio::select! {
            biased;
            () = token.cancelled(), if !draining => Happened::Stop,
            Some((id, verdict)) = working.next() => Happened::Done(id, verdict),
            Some(answer) = questions.next(), if answers => Happened::Answered(answer),
            frame = incoming.next(), if has_room => Happened::Frame(frame),
            () = self.reports.changed(), if !draining => Happened::Changed,
            Ok(()) = self.sync_status.changed(), if !draining => Happened::CacheStatus,
            Ok(()) = self.census.changed(), if !draining => Happened::CacheStatus,
            () = outgoing.closed(), if hung_up.is_none() => Happened::HungUp,
            Ok(_) = outgoing.reserve(), if *full => Happened::RoomToSend,
            renewed_credentials = self.renewal.renewed_credentials(), if !draining => Happened::Certificates(renewed_credentials),
            known = answered(identity_check) => Happened::Known(known),
            () = tokio::time::sleep(wait) => Happened::Due,
        };
        if !has_room {
            moving.unread = moving.begun.elapsed();
        }
        happened
    }

    /// Handles an event; a returned end ends the session.
    fn act(&mut self, moving: &mut Moving<'_>, happened: Happened) -> Option<End> {
        let now = moving.begun.elapsed();
        match happened {
            Happened::Frame(None) => return Some(moving.ended(End::Closed)),
            Happened::Frame(Some(Err(status))) => return Some(moving.ended(End::Broken(status))),
            Happened::Frame(Some(Ok(frame))) => return self.receive(moving, frame, now),
            Happened::Done(id, verdict) => {
                moving.in_doubt |= matches!(verdict, Verdict::Retry { .. });
                moving.session.finished(id, verdict, now);
            }
            Happened::Known(true) => moving.identity_check = None,
            Happened::Known(false) => return Some(moving.ended(End::Unknown)),
            Happened::Answered(answer) => moving.session.emit(answer),
            Happened::Changed => self.take_reports(moving),
            Happened::CacheStatus | Happened::Certificates(Renewed::Trust) => {
                self.send_spoke_info(moving);
            }
            Happened::Stop => moving.drain(End::Stopped),
            Happened::Certificates(Renewed::Replace) => moving.drain(End::Renewed),
            Happened::HungUp => moving.hung_up = Some(Instant::now()),
            Happened::Due if moving.is_silent(self.heartbeat) => return Some(End::Silent),
            Happened::RoomToSend | Happened::Due => {}
        }
        None
    }

    fn receive(&mut self, moving: &mut Moving<'_>, frame: Frame, now: Duration) -> Option<End> {
        self.metrics.received.inc();
        if !moving.arrived {
            moving.arrived = true;
            (self.on_first_frame)();
        }
        // An empty frame, on which a Go agent would crash, is harmless.
        let event = frame.event?;
        let received: Result<(), Violation> = moving.session.receive(event, now);
        received.err().map(End::Violation)
    }
}

impl Moving<'_> {
    fn drain(&mut self, end: End) {
        self.session.drain();
        self.draining = Some((Instant::now(), end));
    }

    /// The end of a drain that is complete or timed out, and of a session whose principal closed its
    /// receiving half and sent no status in time.
    fn is_over(&mut self) -> Option<End> {
        if self
            .hung_up
            .is_some_and(|since| since.elapsed() >= HANG_UP_GRACE)
        {
            return Some(self.ended(End::Closed));
        }
        let (since, _) = self.draining.as_ref()?;
        let drained = self.session.is_drained() && self.working.is_empty();
        let late = !drained && since.elapsed() >= DRAIN;
        if late {
            let stats = self.session.stats(self.begun.elapsed());
            tracing::info!(?stats, "some work timed out at the end of the session");
        }
        (drained || late)
            .then(|| self.draining.take().map(|(_, end)| end))
            .flatten()
    }

    /// The end for which the session drains, or else this one.
    fn ended(&mut self, end: End) -> End {
        self.draining.take().map_or(end, |(_, reason)| reason)
    }
}

/// The result of a running check; pending while none runs.
async fn answered(check: &mut Option<BoxFuture<'_, bool>>) -> bool {
    match check {
        Some(check) => check.await,
        None => std::future::pending().await,
    }
}
