//! A terminal in a Pod: the API upgrades the connection to a stream of bytes, and the handler joins it with the stream of
//! the tunnel. Argo CD and the API server speak their own protocol on it.

use std::io;

use bytes::Bytes;
use futures::{StreamExt as _, TryStreamExt as _};
use http::header::{CONNECTION, UPGRADE};
use http::request::Parts;
use http::{HeaderName, HeaderValue, Request, Response, StatusCode};
use http_body::{Body as HttpBody, Frame};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, StreamBody};
use hyper_util::rt::TokioIo;
use kube::client::Body as KubeBody;
use live::request::Request as Asked;
use live::upgrade::{self, Upgrade};
use runtime::error::Chain;
use runtime::tunnel::{self, Tunnel};
use tokio_stream::wrappers::ReceiverStream;

use super::super::answer::Body;
use super::{ApiHandler, Refused, carry};

impl ApiHandler {
    /// Opens a terminal, if the Pod belongs to an Application.
    pub(super) async fn terminal<B>(
        &self,
        parts: &Parts,
        body: B,
        asked: &Asked,
    ) -> Result<Response<Body>, Refused>
    where
        B: HttpBody<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let text = |value: &'_ HeaderValue| value.to_str().map(str::to_owned).ok();
        let wanted = parts.headers.get(upgrade::HEADER).and_then(text);
        let upgrade = Upgrade::asked(wanted.as_deref(), |name| {
            let lines = parts.headers.get_all(name).iter();
            lines.map(|it| it.to_str().unwrap_or("?")).collect()
        })?;
        if let Some(pod) = asked.object() {
            self.judged(pod).await?;
        }
        let mut onward = Request::builder()
            .method(parts.method.clone())
            .uri(asked.target())
            .header(CONNECTION, "upgrade")
            .header(UPGRADE, upgrade.as_str())
            .body(KubeBody::empty())?;
        let names = upgrade::ASKED.map(HeaderName::from_static);
        carry(&parts.headers, onward.headers_mut(), names);
        let answered = self.api.send(onward).await?;
        if answered.status() != StatusCode::SWITCHING_PROTOCOLS {
            return Ok(answered.map(UnsyncBoxBody::new));
        }
        let (send, outgoing) = tunnel::chunks();
        let outgoing = ReceiverStream::new(outgoing).map(|chunk| Ok(Frame::data(chunk)));
        let mut begun = Response::new(UnsyncBoxBody::new(StreamBody::new(outgoing)));
        let headers = begun.headers_mut();
        headers.insert(upgrade::HEADER, HeaderValue::from_static(upgrade.as_str()));
        let names = upgrade::ANSWERED.map(HeaderName::from_static);
        carry(answered.headers(), headers, names);
        let incoming = body.into_data_stream().map_err(io::Error::other);
        let agent_tunnel = Tunnel::new(incoming, send);
        self.spawner.spawn_short("terminal", async move {
            match hyper::upgrade::on(answered).await {
                Ok(api) => tunnel::join(TokioIo::new(api), agent_tunnel).await,
                Err(error) => tracing::info!(error = %Chain(&error), "a terminal failed to start"),
            }
        });
        Ok(begun)
    }
}
