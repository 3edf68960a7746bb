//! Requests to the hub program's API for the UI, as Argo CD's proxy sends them.

use std::{net::Ipv4Addr, time::Duration};

use anyhow::{Context as _, Result};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use http::{HeaderMap, HeaderName, Request, header, response::Parts};
use http_body_util::{BodyExt as _, Empty};
use hyper::{
    body::Bytes,
    client::conn::http1::{self, SendRequest},
};
use hyper_util::rt::TokioIo;
use tokio::{
    net::TcpStream,
    time::{Instant, timeout},
};
use tokio_util::task::AbortOnDropHandle;

use crate::{
    argocd,
    steps::{At, Objects},
    wait,
};

/// The Secret that the hub program shares with argocd-server, and the Application that stands for the fleet.
const SECRET: &str = "argocd-agent-addon-ui";
const GUARD: &str = "argocd-agent-fleet";
const FLEET: &str = "/api/v1/fleet";
const TOKEN: &str = "argocd-agent-token";
const APPLICATION: HeaderName = HeaderName::from_static("argocd-application-name");
const PROJECT: HeaderName = HeaderName::from_static("argocd-project-name");
/// An answer that takes longer is a failure.
const TOO_LONG: Duration = Duration::from_secs(15);

/// The API of one hub program, and the token for it.
pub(super) struct Endpoint {
    port: u16,
    token: String,
}

/// An answer without its body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Answer {
    /// The HTTP status.
    pub(super) status: u16,
    /// The `ETag`.
    pub(super) tag: Option<String>,
    /// The bytes of the body, as they were sent.
    pub(super) bytes: usize,
    /// From the request to the end of the body.
    pub(super) took: Duration,
}

/// How a page asks for the fleet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ask<'a> {
    /// Without compression, which no browser does.
    Plain,
    /// Without an earlier answer.
    First,
    /// With the tag of an earlier answer.
    Again(&'a str),
}

impl Endpoint {
    /// Reads the token, which the hub program creates.
    pub(super) async fn of(hub: &Objects, port: u16) -> Result<Self> {
        let at = At::secret(argocd::NAMESPACE, SECRET);
        let is_there = |secret: &serde_json::Value| secret["data"]["token"].is_string();
        let secret = hub.until(&at, "has a token", wait::BOUND, is_there).await?;
        let encoded = secret["data"]["token"].as_str().unwrap_or_default();
        let token = BASE64_STANDARD.decode(encoded).context("the token")?;
        Ok(Self {
            port,
            token: String::from_utf8(token).context("the token is text")?,
        })
    }

    /// Opens a connection for one request after the other.
    pub(super) async fn connect(&self) -> Result<Connection<'_>> {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).await?;
        stream.set_nodelay(true)?;
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        let carry = async move {
            // The request that fails with it has the reason.
            let _ended = connection.await;
        };
        #[expect(
            clippy::disallowed_methods,
            reason = "ends with its handle, which the connection has"
        )]
        let task = AbortOnDropHandle::new(tokio::spawn(carry));
        Ok(Connection {
            endpoint: self,
            sender,
            _task: task,
        })
    }

    /// Asks for the fleet on a connection of its own.
    pub(super) async fn fleet(&self, ask: Ask<'_>) -> Result<Answer> {
        self.connect().await?.fleet(ask).await
    }

    /// Passes the request of a browser on, with the token, as argocd-server does.
    pub(super) async fn pass(&self, path: &str, headers: &HeaderMap) -> Result<(Parts, Bytes)> {
        let mut request = self.get(path);
        let kept = [
            APPLICATION,
            PROJECT,
            header::ACCEPT_ENCODING,
            header::IF_NONE_MATCH,
        ];
        for name in kept {
            if let Some(value) = headers.get(&name) {
                request = request.header(name, value);
            }
        }
        let request = request.body(Empty::new()).context("a request")?;
        self.connect().await?.send(request).await
    }

    fn get(&self, path: &str) -> http::request::Builder {
        Request::get(path)
            .header(header::HOST, "argocd-agent-addon-ui")
            .header(TOKEN, &self.token)
    }

    fn request(&self, ask: Ask<'_>) -> Result<Request<Empty<Bytes>>> {
        let guard = format!("{}:{GUARD}", argocd::NAMESPACE);
        let mut request = self
            .get(FLEET)
            .header(APPLICATION, guard)
            .header(PROJECT, GUARD);
        if ask != Ask::Plain {
            request = request.header(header::ACCEPT_ENCODING, "gzip");
        }
        if let Ask::Again(tag) = ask {
            request = request.header(header::IF_NONE_MATCH, tag);
        }
        request.body(Empty::new()).context("a request")
    }
}

/// An open connection.
pub(super) struct Connection<'a> {
    endpoint: &'a Endpoint,
    sender: SendRequest<Empty<Bytes>>,
    _task: AbortOnDropHandle<()>,
}

impl Connection<'_> {
    /// Asks for the fleet.
    pub(super) async fn fleet(&mut self, ask: Ask<'_>) -> Result<Answer> {
        let request = self.endpoint.request(ask)?;
        let begin = Instant::now();
        let (head, body) = self.send(request).await?;
        let tag = head.headers.get(header::ETAG);
        Ok(Answer {
            status: head.status.as_u16(),
            tag: tag.and_then(|tag| tag.to_str().ok()).map(str::to_owned),
            bytes: body.len(),
            took: begin.elapsed(),
        })
    }

    async fn send(&mut self, request: Request<Empty<Bytes>>) -> Result<(Parts, Bytes)> {
        let asking = async {
            self.sender.ready().await?;
            let (head, body) = self.sender.send_request(request).await?.into_parts();
            Ok::<_, hyper::Error>((head, body.collect().await?.to_bytes()))
        };
        let answered = timeout(TOO_LONG, asking).await.context("no answer")?;
        answered.context("the connection")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_has_the_headers_that_argocd_server_sends() -> Result<()> {
        let endpoint = Endpoint {
            port: 1,
            token: "shared".to_owned(),
        };
        let first = endpoint.request(Ask::First)?;
        let text = |request: &Request<Empty<Bytes>>, name: &str| {
            let value = request.headers().get(name);
            value.and_then(|value| value.to_str().ok().map(str::to_owned))
        };
        let guard = text(&first, "argocd-application-name");
        assert_eq!(guard.as_deref(), Some("argocd:argocd-agent-fleet"));
        assert_eq!(
            text(&first, "argocd-agent-token").as_deref(),
            Some("shared")
        );
        assert_eq!(text(&first, "accept-encoding").as_deref(), Some("gzip"));
        assert_eq!(text(&first, "if-none-match"), None);
        let again = endpoint.request(Ask::Again("\"a\""))?;
        assert_eq!(text(&again, "if-none-match").as_deref(), Some("\"a\""));
        let plain = endpoint.request(Ask::Plain)?;
        assert_eq!(text(&plain, "accept-encoding"), None);
        Ok(())
    }
}
