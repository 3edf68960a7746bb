//! Calls of gRPC over `WebSocket`s, frame by frame and by hand.

use std::io::Write as _;

use bytes::Bytes;
use flate2::{Compression, write::GzEncoder};
use futures::{SinkExt as _, StreamExt as _};
use http::HeaderMap;
use protocol::{
    Event, Target,
    websocket::{END, Frame, read_metadata},
    wire::{
        authapi::{AuthRequest, AuthResponse},
        eventstreamapi::Event as Envelope,
    },
};
use tokio::net::TcpStream;
use tokio_rustls::{TlsConnector, client::TlsStream};
use tokio_tungstenite::{
    WebSocketStream, client_async,
    tungstenite::{
        Message,
        client::IntoClientRequest as _,
        protocol::{CloseFrame, frame::coding::CloseCode},
    },
};

use crate::{
    agent::request,
    authority::Leaf,
    world::{World, bounded},
};

pub(crate) type Stream = TlsStream<TcpStream>;

/// A connection as one of HTTP/1.1: Go's client offers no protocol.
pub(crate) async fn http1(world: &World, leaf: &Leaf) -> Stream {
    let config = runtime::credentials::client_config(&leaf.material(&world.authority)).unwrap();
    let mut config = rustls::ClientConfig::clone(&config);
    config.alpn_protocols.clear();
    let connector = TlsConnector::from(std::sync::Arc::new(config));
    let connected = connector.connect("localhost".try_into().unwrap(), world.tcp().await);
    bounded("handshake", connected).await.unwrap()
}

/// One call over its own socket.
pub(crate) struct Call(pub(crate) WebSocketStream<Stream>);

impl Call {
    pub(crate) async fn open(
        world: &World,
        leaf: &Leaf,
        method: &str,
        headers: &[(&'static str, &str)],
    ) -> Self {
        let mut request = format!("wss://localhost{method}")
            .into_client_request()
            .unwrap();
        let usual = [
            ("sec-websocket-protocol", "grpc-ws"),
            ("content-type", "application/grpc"),
            ("te", "trailers"),
        ];
        for (name, value) in usual.iter().chain(headers) {
            request.headers_mut().insert(*name, value.parse().unwrap());
        }
        let opened = Box::pin(client_async(request, http1(world, leaf).await));
        let (socket, _response) = bounded("upgrade", opened).await.unwrap();
        Self(socket)
    }

    pub(crate) async fn send(&mut self, message: Message) {
        bounded("send", self.0.send(message)).await.unwrap();
    }

    pub(crate) async fn send_message(&mut self, message: &impl prost::Message) {
        self.send_flagged(0, &message.encode_to_vec()).await;
    }

    pub(crate) async fn send_flagged(&mut self, flag: u8, body: &[u8]) {
        let length = u32::try_from(body.len()).unwrap().to_be_bytes();
        let frame = [&[flag], &length[..], body].concat();
        self.send(Message::Binary(frame.into())).await;
    }

    /// The session of a Go agent that compresses.
    pub(crate) async fn session(world: &World, cluster: &str) -> Self {
        let leaf = world.certificate(cluster);
        let mut call = Self::open(world, &leaf, AUTHENTICATE, &[]).await;
        let request = AuthRequest {
            capabilities: Vec::new(),
            ..request()
        };
        call.send_message(&request).await;
        call.end().await;
        call.headers().await;
        let tokens: AuthResponse = call.message().await;
        let headers = [
            ("authorization", tokens.access_token.as_str()),
            ("grpc-encoding", "gzip"),
        ];
        let mut session = Self::open(world, &leaf, SUBSCRIBE, &headers).await;
        session.headers().await;
        session
    }

    /// The next event of this target; each is acknowledged.
    pub(crate) async fn event(&mut self, target: Target) -> Event {
        loop {
            let envelope: Envelope = self.message().await;
            let event = Event::try_from(envelope.event.unwrap()).unwrap();
            if event.target != Target::Ack {
                self.send_message(&envelope_of(event.ack())).await;
            }
            if event.target == target {
                return event;
            }
        }
    }

    pub(crate) async fn end(&mut self) {
        self.send(Message::Binary(Bytes::from_static(&END))).await;
    }

    /// The next frame, or the close that came instead.
    pub(crate) async fn next(&mut self) -> Result<Frame, Option<CloseFrame>> {
        loop {
            match bounded("a message", self.0.next()).await {
                Some(Ok(Message::Binary(bytes))) => return Ok(Frame::read(bytes).unwrap()),
                Some(Ok(Message::Close(close))) => return Err(close),
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                Some(Ok(other)) => panic!("{other:?}"),
                Some(Err(_)) | None => return Err(None),
            }
        }
    }

    pub(crate) async fn headers(&mut self) -> HeaderMap {
        let frame = self.next().await.unwrap();
        let Frame::Metadata(lines) = frame else {
            panic!("{frame:?}")
        };
        read_metadata(&lines).unwrap()
    }

    pub(crate) async fn message<M: prost::Message + Default>(&mut self) -> M {
        let frame = self.next().await.unwrap();
        let Frame::Data(data) = frame else {
            panic!("{frame:?}")
        };
        M::decode(data.slice(5..)).unwrap()
    }

    /// The close code, after skipping other messages.
    pub(crate) async fn code(&mut self) -> Option<CloseCode> {
        loop {
            if let Err(close) = self.next().await {
                return close.map(|close| close.code);
            }
        }
    }
}

pub(crate) fn envelope_of(event: Event) -> Envelope {
    let event = Some(event.into_cloud_event("agent://agent-managed"));
    Envelope { event }
}

pub(crate) fn gzip(message: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(vec![], Compression::fast());
    encoder.write_all(message).unwrap();
    encoder.finish().unwrap()
}

pub(crate) const VERSION: &str = "/versionapi.Version/Version";
pub(crate) const AUTHENTICATE: &str = "/authapi.Authentication/Authenticate";
pub(crate) const SUBSCRIBE: &str = "/eventstreamapi.EventStream/Subscribe";
