//! The methods of all services.

use std::{sync::Arc, time::Duration};

use futures::{StreamExt as _, stream::BoxStream};
use protocol::{
    refusal::Refusal,
    version::qualified,
    wire::{
        authapi::{
            AuthRequest, AuthResponse, RefreshTokenRequest, authentication_server::Authentication,
        },
        eventstreamapi::{
            Event, PingRequest, PongReply, PushSummary, event_stream_server::EventStream,
        },
        logstreamapi::{
            LogStreamData, LogStreamResponse, log_stream_service_server::LogStreamService,
        },
        terminalstreamapi::{
            TerminalStreamData, terminal_stream_service_server::TerminalStreamService,
        },
        tunnel::{Chunk, lane_server::Lane},
        versionapi::{VersionRequest, VersionResponse, version_server::Version},
    },
};
use tokio::{sync::mpsc, time::timeout};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

use super::caller::{admit, limited_peer, peer, recognize};
use crate::{
    admission::admit::Admission,
    live::{LiveContext, go_compat::TerminalStream, tunnel_server},
    sync::session::Sessions,
};

/// How long the first message of a stream of a Go agent may take.
const FIRST_MESSAGE: Duration = Duration::from_secs(10);
/// Input of a terminal that the agent has not read.
const UNSENT: usize = 4;

/// Implements every service of the main port.
#[derive(Debug)]
pub(super) struct Methods {
    pub(super) version: String,
    pub(super) sessions: Arc<Sessions>,
    pub(super) live: Arc<LiveContext>,
}

impl Methods {
    fn gate(&self) -> &Admission {
        &self.sessions.gate
    }

    /// Counts a refusal and returns its status.
    fn record_refusal(&self, refusal: &Refusal) -> Status {
        self.gate().metrics.refused(refusal.reason());
        refusal.to_status()
    }
}

#[tonic::async_trait]
impl Authentication for Methods {
    async fn authenticate(
        &self,
        request: Request<AuthRequest>,
    ) -> Result<Response<AuthResponse>, Status> {
        let agent = request
            .metadata()
            .get("user-agent")
            .and_then(|raw| raw.to_str().ok());
        let agent = agent.map(str::to_owned);
        let peer =
            limited_peer(self.gate(), &request).map_err(|refusal| self.record_refusal(&refusal))?;
        let authenticating =
            self.gate()
                .authenticate(&peer, agent.as_deref(), request.into_inner());
        let authenticated = authenticating.await;
        authenticated.map(Response::new).map_err(|refusal| {
            self.gate().spend_refusal(&peer, &refusal);
            self.record_refusal(&refusal)
        })
    }

    async fn refresh_token(
        &self,
        request: Request<RefreshTokenRequest>,
    ) -> Result<Response<AuthResponse>, Status> {
        let peer =
            limited_peer(self.gate(), &request).map_err(|refusal| self.record_refusal(&refusal))?;
        let refreshed = self
            .gate()
            .refresh(&peer, &request.into_inner().refresh_token);
        refreshed.map(Response::new).map_err(|refusal| {
            self.gate().spend_refusal(&peer, &refusal);
            self.record_refusal(&refusal)
        })
    }
}

#[tonic::async_trait]
impl Version for Methods {
    async fn version(
        &self,
        request: Request<VersionRequest>,
    ) -> Result<Response<VersionResponse>, Status> {
        let challenge = peer(&request)
            .ok()
            .and_then(|peer| self.gate().challenge(&peer));
        let (nonce, uid) = challenge.unwrap_or_default();
        Ok(Response::new(VersionResponse {
            version: qualified(&self.version),
            nonce,
            principal_uid: uid.to_string(),
        }))
    }
}

#[tonic::async_trait]
impl EventStream for Methods {
    type SubscribeStream = ReceiverStream<Result<Event, Status>>;

    async fn subscribe(
        &self,
        request: Request<Streaming<Event>>,
    ) -> Result<Response<Self::SubscribeStream>, Status> {
        let admitted = admit(self.gate(), &request)?;
        let events = self.sessions.open(admitted, request.into_inner());
        Ok(Response::new(ReceiverStream::new(events)))
    }

    async fn push(
        &self,
        request: Request<Streaming<Event>>,
    ) -> Result<Response<PushSummary>, Status> {
        admit(self.gate(), &request)?;
        Err(Status::unimplemented("use Subscribe"))
    }

    async fn ping(&self, request: Request<PingRequest>) -> Result<Response<PongReply>, Status> {
        admit(self.gate(), &request)?;
        Ok(Response::new(PongReply {}))
    }
}

/// Opens tunnels; ours, not upstream's.
#[tonic::async_trait]
impl Lane for Methods {
    type OpenStream = BoxStream<'static, Result<Chunk, Status>>;

    async fn open(
        &self,
        request: Request<Streaming<Chunk>>,
    ) -> Result<Response<Self::OpenStream>, Status> {
        let admitted = admit(self.gate(), &request)?;
        if let Ok(peer) = peer(&request) {
            peer.connection.move_to_background();
        }
        let outgoing = tunnel_server::open(&self.live, admitted, request.into_inner());
        let chunks = ReceiverStream::new(outgoing).map(|data| Ok(Chunk { data }));
        Ok(Response::new(chunks.boxed()))
    }
}

/// Logs of Go agents.
#[tonic::async_trait]
impl LogStreamService for Methods {
    async fn stream_logs(
        &self,
        request: Request<Streaming<LogStreamData>>,
    ) -> Result<Response<LogStreamResponse>, Status> {
        let admitted = recognize(self.gate(), &request)?;
        let mut messages = request.into_inner();
        let first = first_message(&mut messages, "invalid log message").await?;
        let cluster = &admitted.holder.cluster;
        let log = self.live.go_requests.open_log(cluster, &first.request_uuid);
        let log = log.ok_or_else(|| Status::not_found("unknown request id"))?;
        log.forward(messages).await?;
        Ok(Response::new(LogStreamResponse {
            request_uuid: first.request_uuid,
            status: 200,
            ..LogStreamResponse::default()
        }))
    }
}

/// Terminals of Go agents.
#[tonic::async_trait]
impl TerminalStreamService for Methods {
    type StreamTerminalStream = ReceiverStream<Result<TerminalStreamData, Status>>;

    async fn stream_terminal(
        &self,
        request: Request<Streaming<TerminalStreamData>>,
    ) -> Result<Response<Self::StreamTerminalStream>, Status> {
        let admitted = recognize(self.gate(), &request)?;
        let mut incoming = request.into_inner();
        let first = first_message(&mut incoming, "invalid terminal message").await?;
        let (to_agent, outgoing) = mpsc::channel(UNSENT);
        let terminal = TerminalStream {
            from_agent: incoming.boxed(),
            to_agent,
        };
        let cluster = &admitted.holder.cluster;
        self.live
            .go_requests
            .open_terminal(cluster, &first.request_uuid, terminal)
            .ok_or_else(|| Status::not_found("unknown request id"))?;
        Ok(Response::new(ReceiverStream::new(outgoing)))
    }
}

/// The first message of a stream of a Go agent, with the request id.
async fn first_message<T>(messages: &mut Streaming<T>, invalid: &'static str) -> Result<T, Status> {
    let first = timeout(FIRST_MESSAGE, messages.message()).await;
    first
        .map_err(|_elapsed| Status::deadline_exceeded("empty stream"))??
        .ok_or_else(|| Status::invalid_argument(invalid))
}
