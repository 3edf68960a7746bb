//! An agent that speaks the wire by hand, so that nothing of our own agent hides a mistake.

mod messages;
mod raw_frames;

use std::collections::VecDeque;

use http::{HeaderName, HeaderValue};
use hyper_util::rt::TokioIo;
use protocol::{
    Event, Kind, ObjectKey, Target, Verb,
    payload::{RequestUpdate, SyncedResourceList},
    version::Capabilities,
    wire::{
        authapi::{
            AuthRequest, AuthResponse, RefreshTokenRequest,
            authentication_client::AuthenticationClient,
        },
        cloudevents::CloudEvent,
        eventstreamapi::{Event as Frame, event_stream_client::EventStreamClient},
        versionapi::{VersionRequest, VersionResponse, version_client::VersionClient},
    },
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::mpsc,
};
use tokio_stream::{StreamExt as _, wrappers::ReceiverStream};
use tonic::{
    Request, Status, Streaming,
    codec::CompressionEncoding,
    transport::{Channel, Endpoint},
};

use crate::{
    authority::Leaf,
    world::{BOUND, World, bounded},
};

pub(crate) use messages::{body, replica, report, resync_entry};

/// A connection, usually with a certificate.
pub(crate) struct Caller {
    channel: Channel,
    /// What a mesh puts into each request.
    header: Option<HeaderValue>,
}

/// A session.
pub(crate) struct Agent {
    events: Streaming<Frame>,
    send: mpsc::Sender<Frame>,
    /// What came while something else was waited for.
    waiting: VecDeque<Event>,
    acked: Vec<Event>,
}

pub(crate) fn request() -> AuthRequest {
    AuthRequest {
        method: "mtls".to_owned(),
        mode: "managed".to_owned(),
        version: "0.9.0".to_owned(),
        agent_namespace: "argocd".to_owned(),
        capabilities: Capabilities::of_level(1).to_words(),
        ..AuthRequest::default()
    }
}

impl Caller {
    pub(crate) async fn new(world: &World, leaf: &Leaf) -> Self {
        Self::over(bounded("handshake", world.tls(leaf)).await.unwrap()).await
    }

    pub(crate) async fn without_certificate(world: &World) -> Self {
        let mut anonymous = world.certificate("a").material(&world.authority);
        anonymous.identity = None;
        Self::over(
            bounded("handshake", world.tls_with(&anonymous))
                .await
                .unwrap(),
        )
        .await
    }

    /// Without TLS, with the header that a mesh sets.
    pub(crate) async fn plaintext(world: &World, header: &'static str) -> Self {
        Self {
            header: Some(HeaderValue::from_static(header)),
            ..Self::over(world.tcp().await).await
        }
    }

    async fn over(stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) -> Self {
        let mut stream = Some(TokioIo::new(stream));
        let connector = tower::service_fn(move |_: http::Uri| {
            let once = stream
                .take()
                .ok_or_else(|| std::io::Error::other("connected before"));
            async move { once }
        });
        let endpoint = Endpoint::from_static("http://localhost");
        let channel = bounded("connect", endpoint.connect_with_connector(connector))
            .await
            .unwrap();
        Self {
            channel,
            header: None,
        }
    }

    fn asking<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        if let Some(header) = &self.header {
            let name = HeaderName::from_static("x-forwarded-client-cert");
            let value = header.to_str().unwrap().parse().unwrap();
            request.metadata_mut().insert(
                name.as_str()
                    .parse::<tonic::metadata::AsciiMetadataKey>()
                    .unwrap(),
                value,
            );
        }
        request
    }

    /// For calls that are not among ours here.
    pub(crate) fn channel(&self) -> Channel {
        self.channel.clone()
    }

    pub(crate) async fn version(&self) -> VersionResponse {
        let mut client = VersionClient::new(self.channel.clone());
        let asked = client.version(self.asking(VersionRequest {}));
        bounded("version", asked).await.unwrap().into_inner()
    }

    pub(crate) async fn authenticate(&self, request: AuthRequest) -> Result<AuthResponse, Status> {
        let mut client = AuthenticationClient::new(self.channel.clone());
        bounded("authenticate", client.authenticate(self.asking(request)))
            .await
            .map(tonic::Response::into_inner)
    }

    pub(crate) async fn refresh(&self, token: &str) -> Result<AuthResponse, Status> {
        let mut client = AuthenticationClient::new(self.channel.clone());
        let request = RefreshTokenRequest {
            refresh_token: token.to_owned(),
        };
        bounded("refresh", client.refresh_token(self.asking(request)))
            .await
            .map(tonic::Response::into_inner)
    }

    /// Opens a stream with a token, or with none.
    pub(crate) async fn subscribe(&self, token: Option<&str>) -> Result<Agent, Status> {
        let client = EventStreamClient::new(self.channel.clone());
        self.subscribe_as(client, token).await
    }

    async fn subscribe_as(
        &self,
        mut client: EventStreamClient<Channel>,
        token: Option<&str>,
    ) -> Result<Agent, Status> {
        let (send, frames) = mpsc::channel(64);
        let mut request = self.asking(ReceiverStream::new(frames));
        if let Some(token) = token {
            request
                .metadata_mut()
                .insert("authorization", token.parse().unwrap());
        }
        let events = bounded("subscribe", client.subscribe(request))
            .await?
            .into_inner();
        Ok(Agent {
            events,
            send,
            waiting: VecDeque::new(),
            acked: Vec::new(),
        })
    }
}

impl Agent {
    /// Connects and subscribes; everything that is delivered to it comes as after a first connect.
    pub(crate) async fn of(world: &World, cluster: &str) -> Self {
        Self::with(world, &world.certificate(cluster)).await
    }

    pub(crate) async fn with(world: &World, leaf: &Leaf) -> Self {
        let caller = Caller::new(world, leaf).await;
        let tokens = caller.authenticate(request()).await.unwrap();
        caller.subscribe(Some(&tokens.access_token)).await.unwrap()
    }

    /// Connects and subscribes as a Go agent, and can be called upon to open further streams with the same token.
    pub(crate) async fn go(world: &World, cluster: &str) -> (Self, Channel, String) {
        Self::go_of(world, cluster, "0.9.0").await
    }

    /// The same with an agent of another version.
    pub(crate) async fn go_of(
        world: &World,
        cluster: &str,
        version: &str,
    ) -> (Self, Channel, String) {
        let caller = Caller::new(world, &world.certificate(cluster)).await;
        let request = AuthRequest {
            version: version.to_owned(),
            capabilities: Vec::new(),
            ..request()
        };
        let tokens = caller.authenticate(request).await.unwrap();
        let agent = caller.subscribe(Some(&tokens.access_token)).await.unwrap();
        (agent, caller.channel(), tokens.access_token)
    }

    /// Connects and subscribes as a Go agent that compresses.
    pub(crate) async fn compressing(world: &World, cluster: &str) -> Self {
        let caller = Caller::new(world, &world.certificate(cluster)).await;
        let request = AuthRequest {
            capabilities: Vec::new(),
            ..request()
        };
        let tokens = caller.authenticate(request).await.unwrap();
        let client = EventStreamClient::new(caller.channel())
            .send_compressed(CompressionEncoding::Gzip)
            .accept_compressed(CompressionEncoding::Gzip);
        let token = Some(tokens.access_token.as_str());
        caller.subscribe_as(client, token).await.unwrap()
    }

    /// Connects and subscribes as the agent of a cluster that owns its Applications itself.
    pub(crate) async fn owner(world: &World, cluster: &str) -> Self {
        let caller = Caller::new(world, &world.certificate(cluster)).await;
        let request = AuthRequest {
            mode: "autonomous".to_owned(),
            ..request()
        };
        let tokens = caller.authenticate(request).await.unwrap();
        caller.subscribe(Some(&tokens.access_token)).await.unwrap()
    }

    /// The same, after an empty resync.
    pub(crate) async fn empty(world: &World, cluster: &str) -> Self {
        let mut agent = Self::of(world, cluster).await;
        agent.holds(&[]).await;
        agent
    }

    /// Answers the principal's resync request with these objects.
    pub(crate) async fn holds(&mut self, objects: &[RequestUpdate]) {
        self.event(Target::Resync, Verb::RequestResourceResync)
            .await;
        for object in objects {
            self.send(Event::request_update(object)).await;
        }
        self.ends(objects).await;
    }

    /// Ends the resync with these objects.
    pub(crate) async fn ends(&self, objects: &[RequestUpdate]) {
        let entries = objects
            .iter()
            .map(|it| (it.kind.as_str(), it.name.as_str(), it.uid.as_str()));
        let list = SyncedResourceList {
            checksum: argocd::digest::list_checksum(entries),
            ..SyncedResourceList::default()
        };
        self.send(Event::request_synced_resource_list(&list)).await;
    }

    pub(crate) async fn send(&self, event: Event) {
        self.send_raw(event.into_cloud_event("agent://agent-managed"))
            .await;
    }

    pub(crate) async fn send_raw(&self, event: CloudEvent) {
        self.send_frame(Frame { event: Some(event) }).await;
    }

    pub(crate) async fn send_frame(&self, frame: Frame) {
        bounded("send", self.send.send(frame)).await.unwrap();
    }

    /// Sends an event and waits for its acknowledgement.
    pub(crate) async fn send_and_ack(&mut self, event: Event) -> Event {
        let id = event.event_id.clone();
        self.send(event).await;
        bounded("acknowledgement", async {
            loop {
                if let Some(at) = self.acked.iter().position(|ack| ack.event_id == id) {
                    return self.acked.remove(at);
                }
                let event = self.read().await.unwrap();
                self.waiting.extend(event);
            }
        })
        .await
    }

    /// The next event of this kind; others wait. Everything is acknowledged.
    pub(crate) async fn event(&mut self, target: Target, verb: Verb) -> Event {
        let context = format!("{verb} of {target}");
        self.first(&context, |event| {
            event.target == target && event.verb == verb
        })
        .await
    }

    /// The next event about an object of this name, of any kind.
    pub(crate) async fn about(&mut self, name: &str) -> Event {
        self.first(name, |event| {
            event.object().is_some_and(|key| key.name == name)
        })
        .await
    }

    async fn first(&mut self, context: &str, fits: impl Fn(&Event) -> bool) -> Event {
        let finding = async {
            loop {
                if let Some(at) = self.waiting.iter().position(&fits) {
                    return self.waiting.remove(at).unwrap();
                }
                let event = self.read().await.unwrap();
                self.waiting.extend(event);
            }
        };
        let found = tokio::time::timeout(BOUND, finding).await;
        assert!(
            found.is_ok(),
            "{context}: not within {BOUND:?}; what came: {:#?}",
            self.waiting
        );
        found.unwrap()
    }

    /// Unread events of this kind.
    pub(crate) fn unread(&self, kind: Kind) -> Vec<&Event> {
        self.waiting
            .iter()
            .filter(|event| event.target == Target::Object(kind))
            .collect()
    }

    /// The status with which the stream ends.
    pub(crate) async fn end(&mut self) -> Status {
        bounded("end", async {
            loop {
                match self.read().await {
                    Ok(_event) => {}
                    Err(status) => return status,
                }
            }
        })
        .await
    }

    async fn read(&mut self) -> Result<Option<Event>, Status> {
        let frame = self.events.message().await?;
        let frame = frame.ok_or_else(|| Status::ok("the stream has ended"))?;
        let event = Event::try_from(frame.event.expect("an event is never empty")).unwrap();
        if event.target == Target::Ack {
            self.acked.push(event);
            return Ok(None);
        }
        let ack = event.ack().into_cloud_event("agent://agent-managed");
        // A session that ends takes no more; its end is read next.
        drop(self.send.send(Frame { event: Some(ack) }).await);
        Ok(Some(event))
    }
}
