//! A scripted principal, with real TLS and gRPC.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures::StreamExt as _;
use futures::stream::BoxStream;
use http_body_util::combinators::UnsyncBoxBody;
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use protocol::version::Capabilities;
use protocol::wire::authapi::authentication_server::{Authentication, AuthenticationServer};
use protocol::wire::authapi::{AuthRequest, AuthResponse, RefreshTokenRequest};
use protocol::wire::cloudevents::CloudEvent;
use protocol::wire::eventstreamapi::event_stream_server::{EventStream, EventStreamServer};
use protocol::wire::eventstreamapi::{Event as Frame, PingRequest, PongReply, PushSummary};
use protocol::wire::logstreamapi::log_stream_service_server::{
    LogStreamService, LogStreamServiceServer,
};
use protocol::wire::logstreamapi::{LogStreamData, LogStreamResponse};
use protocol::wire::terminalstreamapi::terminal_stream_service_server::TerminalStreamServiceServer;
use protocol::wire::tunnel::Chunk;
use protocol::wire::tunnel::lane_server::{Lane as TunnelService, LaneServer};
use protocol::wire::versionapi::version_server::{Version, VersionServer};
use protocol::wire::versionapi::{VersionRequest, VersionResponse};
use protocol::{Event, Target, Verb};
use runtime::tunnel::{self, Tunnel};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_stream::wrappers::{ReceiverStream, TcpListenerStream};
use tokio_util::sync::CancellationToken;
use tonic::transport::{Certificate, Identity, Server, ServerTlsConfig};
use tonic::{Request, Response, Status, Streaming};

use super::terminals::{self, Opened};
use super::trust::{Authority, Leaf};
use super::wait::soon;

pub(super) const PRINCIPAL_UID: &str = "principal-1";

/// The kind of the principal.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Manner {
    Ours,
    /// Ours, behind a proxy that terminates TLS.
    Proxied,
    /// One that sends only the fields of the Go protocol.
    Go,
}

/// The nonce that an agent has to sign behind a proxy.
pub(super) const NONCE: &[u8] = b"once";

pub(super) struct Principal {
    pub(super) address: SocketAddr,
    pub(super) authenticated: Arc<Mutex<Vec<AuthRequest>>>,
    conversations: mpsc::Receiver<Conversation>,
    agent_tunnels: mpsc::Receiver<Carrier>,
    logs: mpsc::Receiver<Streaming<LogStreamData>>,
    pub(super) terminals: mpsc::Receiver<Opened>,
    pub(super) tokens: Arc<Mutex<Tokens>>,
    token: CancellationToken,
}

/// The tokens that a principal issues and accepts: those of a Go principal are valid for minutes.
#[derive(Debug)]
pub(super) struct Tokens {
    pub(super) access: String,
    pub(super) refresh: String,
    /// Calls with an invalid access token.
    pub(super) refused: usize,
    pub(super) refreshed: usize,
}

impl Default for Tokens {
    fn default() -> Self {
        Self {
            access: "header.payload.signature".to_owned(),
            refresh: "header.payload.signature".to_owned(),
            refused: 0,
            refreshed: 0,
        }
    }
}

/// One session.
pub(super) struct Conversation {
    pub(super) authorization: String,
    from: Streaming<Frame>,
    to: Option<mpsc::Sender<Result<Frame, Status>>>,
}

#[derive(Clone)]
struct Services {
    manner: Manner,
    authenticated: Arc<Mutex<Vec<AuthRequest>>>,
    conversations: mpsc::Sender<Conversation>,
    agent_tunnels: mpsc::Sender<Carrier>,
    logs: mpsc::Sender<Streaming<LogStreamData>>,
    tokens: Arc<Mutex<Tokens>>,
}

/// The principal's end of a tunnel, on which it sends requests.
pub(super) type Carrier = SendRequest<UnsyncBoxBody<Bytes, Infallible>>;

impl Principal {
    /// The first agent's request for authentication.
    pub(super) fn asked_first(&self) -> AuthRequest {
        let asked = self.authenticated.lock().unwrap();
        asked.first().cloned().unwrap()
    }

    pub(super) async fn start(authority: &Authority, manner: Manner) -> Self {
        Self::start_at(authority, manner, "127.0.0.1:0".parse().unwrap()).await
    }

    #[expect(clippy::disallowed_methods, reason = "ends with the token of the test")]
    pub(super) async fn start_at(
        authority: &Authority,
        manner: Manner,
        address: SocketAddr,
    ) -> Self {
        let Leaf { chain, key } = authority.leaf("localhost");
        let tls = ServerTlsConfig::new()
            .identity(Identity::from_pem(chain, key))
            .client_ca_root(Certificate::from_pem(authority.pem()));
        let listener = TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (send, conversations) = mpsc::channel(8);
        let (opened, agent_tunnels) = mpsc::channel(8);
        let (begun, logs) = mpsc::channel(8);
        let (shown, terminals) = mpsc::channel(8);
        let authenticated: Arc<Mutex<Vec<AuthRequest>>> = Arc::default();
        let tokens: Arc<Mutex<Tokens>> = Arc::default();
        let services = Services {
            manner,
            tokens: Arc::clone(&tokens),
            authenticated: Arc::clone(&authenticated),
            conversations: send,
            agent_tunnels: opened,
            logs: begun,
        };
        let token = CancellationToken::new();
        let served = Server::builder()
            .tls_config(tls)
            .unwrap()
            .add_service(VersionServer::new(services.clone()))
            .add_service(AuthenticationServer::new(services.clone()))
            .add_service(EventStreamServer::new(services.clone()))
            .add_service(LaneServer::new(services.clone()))
            .add_service(LogStreamServiceServer::new(services))
            .add_service(TerminalStreamServiceServer::new(terminals::Service(shown)))
            .serve_with_incoming(TcpListenerStream::new(listener));
        let stop = token.clone();
        tokio::spawn(async move { stop.run_until_cancelled(served).await.map(Result::ok) });
        Self {
            address,
            authenticated,
            conversations,
            agent_tunnels,
            logs,
            terminals,
            tokens,
            token,
        }
    }

    /// Replaces the access token that the principal issues and accepts.
    pub(super) fn set_access_token(&self, access: &str) {
        let mut tokens = self.tokens.lock().unwrap();
        access.clone_into(&mut tokens.access);
    }

    /// The next tunnel that an agent opens.
    pub(super) async fn agent_tunnel(&mut self) -> Carrier {
        soon("a tunnel", self.agent_tunnels.recv()).await.unwrap()
    }

    /// The next log that an agent sends. The call stays open until its end, even if the test stops reading.
    pub(super) async fn log(&mut self) -> Streaming<LogStreamData> {
        soon("a log", self.logs.recv()).await.unwrap()
    }

    /// The next terminal that an agent opens.
    pub(super) async fn terminal(&mut self) -> Opened {
        soon("a terminal", self.terminals.recv()).await.unwrap()
    }

    /// The next session that an agent opens.
    pub(super) async fn conversation(&mut self) -> Conversation {
        soon("a session", self.conversations.recv()).await.unwrap()
    }

    pub(super) fn stop(&self) {
        self.token.cancel();
    }
}

impl Drop for Principal {
    fn drop(&mut self) {
        self.token.cancel();
    }
}

impl Conversation {
    /// Sends an event.
    pub(super) async fn emit(&self, event: Event) {
        self.emit_raw(Some(event.into_cloud_event(""))).await;
    }

    /// Sends an event without checks, or an empty frame.
    pub(super) async fn emit_raw(&self, event: Option<CloudEvent>) {
        let sent = self.to.as_ref().unwrap().send(Ok(Frame { event })).await;
        assert!(sent.is_ok(), "the session is over");
    }

    /// The next event of the agent.
    pub(super) async fn next(&mut self) -> Event {
        let frame = soon("a frame of the agent", self.from.message())
            .await
            .unwrap();
        let event = frame.expect("the agent closed the stream").event;
        Event::try_from(event.expect("an agent must not send empty frames")).unwrap()
    }

    /// Reads and acknowledges events until one has this verb.
    pub(super) async fn until(&mut self, verb: Verb) -> Event {
        self.until_fits(verb, |_| true).await
    }

    /// Reads and acknowledges events until one has this verb and fits.
    pub(super) async fn until_fits(&mut self, verb: Verb, fits: impl Fn(&Event) -> bool) -> Event {
        self.until_event(|event| event.verb == verb && fits(event))
            .await
    }

    /// Reads and acknowledges events until one has one of these verbs.
    pub(super) async fn until_any(&mut self, verbs: &[Verb]) -> Event {
        self.until_event(|event| verbs.contains(&event.verb)).await
    }

    async fn until_event(&mut self, fits: impl Fn(&Event) -> bool) -> Event {
        // Heartbeats never end, so the whole wait has a bound and not only each step.
        let found = async {
            loop {
                let event = self.next().await;
                if event.target != Target::Ack {
                    self.emit(event.ack()).await;
                }
                if fits(&event) {
                    return event;
                }
            }
        };
        soon("an event of the agent", found).await
    }

    /// Reads and acknowledges events while the test waits for something else: an agent leaves a principal that misses a
    /// few heartbeats.
    pub(super) async fn listens_until<T>(&mut self, waited: impl Future<Output = T>) -> T {
        tokio::select! {
            done = waited => done,
            event = self.until_event(|_| false) => panic!("nothing fits, and yet {event:?} did"),
        }
    }

    /// Reads until the agent acknowledges this event.
    pub(super) async fn acknowledged(&mut self, event_id: &str) -> Event {
        self.until_fits(Verb::Processed, |ack| ack.event_id == event_id)
            .await
    }

    /// Sends an event, and waits until the agent acknowledges it.
    pub(super) async fn deliver(&mut self, event: Event) {
        let id = event.event_id.clone();
        self.emit(event).await;
        self.acknowledged(&id).await;
    }

    /// Waits until the agent closes the stream.
    pub(super) async fn closed(&mut self) {
        soon("the agent's end", async {
            while let Ok(Some(_)) = self.from.message().await {}
        })
        .await;
    }

    /// Ends the session with a status.
    pub(super) async fn end(&self, status: Status) {
        drop(self.to.as_ref().unwrap().send(Err(status)).await);
    }
}

#[tonic::async_trait]
impl Version for Services {
    async fn version(
        &self,
        _request: Request<VersionRequest>,
    ) -> Result<Response<VersionResponse>, Status> {
        let mut answer = VersionResponse {
            version: "argocd-agent-9.8.7".to_owned(),
            ..VersionResponse::default()
        };
        if self.manner == Manner::Proxied {
            answer.nonce = NONCE.into();
            PRINCIPAL_UID.clone_into(&mut answer.principal_uid);
        }
        Ok(Response::new(answer))
    }
}

#[tonic::async_trait]
impl Authentication for Services {
    async fn authenticate(
        &self,
        request: Request<AuthRequest>,
    ) -> Result<Response<AuthResponse>, Status> {
        self.authenticated
            .lock()
            .unwrap()
            .push(request.into_inner());
        let (access_token, refresh_token) = {
            let tokens = self.tokens.lock().unwrap();
            (tokens.access.clone(), tokens.refresh.clone())
        };
        let mut answer = AuthResponse {
            access_token,
            refresh_token,
            version: "9.8.7".to_owned(),
            principal_namespace: "argocd".to_owned(),
            ..AuthResponse::default()
        };
        if self.manner != Manner::Go {
            PRINCIPAL_UID.clone_into(&mut answer.principal_uid);
            "spoke1".clone_into(&mut answer.agent_name);
            answer.capabilities = Capabilities::of_level(1).to_words();
            // The second is a capability of the future.
            answer
                .capabilities
                .extend(["lane", "telepathy"].map(str::to_owned));
        }
        Ok(Response::new(answer))
    }

    async fn refresh_token(
        &self,
        request: Request<RefreshTokenRequest>,
    ) -> Result<Response<AuthResponse>, Status> {
        let mut tokens = self.tokens.lock().unwrap();
        if request.into_inner().refresh_token != tokens.refresh {
            return Err(Status::unauthenticated("authentication failed"));
        }
        tokens.refreshed += 1;
        Ok(Response::new(AuthResponse {
            access_token: tokens.access.clone(),
            ..AuthResponse::default()
        }))
    }
}

#[tonic::async_trait]
impl TunnelService for Services {
    type OpenStream = BoxStream<'static, Result<Chunk, Status>>;

    #[expect(clippy::disallowed_methods, reason = "ends with the connection")]
    async fn open(
        &self,
        request: Request<Streaming<Chunk>>,
    ) -> Result<Response<Self::OpenStream>, Status> {
        let authorization = request.metadata().get("authorization").unwrap();
        assert_eq!(authorization, "header.payload.signature");
        let incoming = request.into_inner();
        let incoming = incoming.map(|it| it.map(|it| it.data).map_err(std::io::Error::other));
        let (send, outgoing) = tunnel::chunks();
        let tunnel = TokioIo::new(Tunnel::new(incoming, send));
        let agent_tunnels = self.agent_tunnels.clone();
        tokio::spawn(async move {
            let shaken = http2::handshake(TokioExecutor::new(), tunnel).await;
            let (carrier, connection) = shaken.unwrap();
            drop(agent_tunnels.send(carrier).await);
            drop(connection.await);
        });
        let chunks = ReceiverStream::new(outgoing).map(|data| Ok(Chunk { data }));
        Ok(Response::new(chunks.boxed()))
    }
}

#[tonic::async_trait]
impl LogStreamService for Services {
    async fn stream_logs(
        &self,
        request: Request<Streaming<LogStreamData>>,
    ) -> Result<Response<LogStreamResponse>, Status> {
        let authorization = request.metadata().get("authorization").unwrap();
        {
            let mut tokens = self.tokens.lock().unwrap();
            if *authorization != *tokens.access {
                tokens.refused += 1;
                return Err(Status::unauthenticated("invalid authentication data"));
            }
        }
        drop(self.logs.send(request.into_inner()).await);
        // The test reads the log; the call must stay open meanwhile.
        std::future::pending().await
    }
}

#[tonic::async_trait]
impl EventStream for Services {
    type SubscribeStream = ReceiverStream<Result<Frame, Status>>;

    async fn subscribe(
        &self,
        request: Request<Streaming<Frame>>,
    ) -> Result<Response<Self::SubscribeStream>, Status> {
        let authorization = request.metadata().get("authorization");
        let authorization = authorization.map(|v| v.to_str().unwrap().to_owned());
        let mut from = request.into_inner();
        if self.manner == Manner::Go {
            // Its headers come with its first message, which it sends only after the agent's first.
            let first = from.message().await?;
            assert!(first.is_some(), "an agent speaks first to a Go principal");
        }
        let (to, events) = mpsc::channel(64);
        let authorization = authorization.unwrap_or_default();
        let conversation = Conversation {
            authorization,
            from,
            to: Some(to),
        };
        drop(self.conversations.send(conversation).await);
        Ok(Response::new(ReceiverStream::new(events)))
    }

    async fn push(
        &self,
        _request: Request<Streaming<Frame>>,
    ) -> Result<Response<PushSummary>, Status> {
        Err(Status::unimplemented("no"))
    }

    async fn ping(&self, _request: Request<PingRequest>) -> Result<Response<PongReply>, Status> {
        Err(Status::unimplemented("no"))
    }
}
