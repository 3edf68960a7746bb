//! A terminal: the upgraded connection of the client, joined with a stream of the tunnel.

use std::{io, sync::Arc, time::Duration};

use bytes::Bytes;
use futures::TryStreamExt as _;
use http::{
    HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode,
    header::{CONNECTION, UPGRADE},
};
use http_body_util::BodyExt as _;
use hyper::{body::Incoming, upgrade::OnUpgrade};
use hyper_util::rt::TokioIo;
use live::upgrade::{self, Unfit, Upgrade};
use runtime::{
    error::Chain,
    tunnel::{self, Tunnel},
};
use tokio::{sync::mpsc, time::sleep};

use super::{
    audit::AuditLine,
    shared::{ProxyClient, Shared},
};
use crate::live::{
    dispatch::copy_headers,
    tunnel::{Body, empty, streamed},
};

/// How long a terminal may last.
const LONGEST: Duration = Duration::from_hours(4);

/// A requested terminal that the agent has not opened yet.
pub(super) struct PendingTerminal {
    upgrade: Upgrade,
    client: OnUpgrade,
    send: mpsc::Sender<Bytes>,
}

impl PendingTerminal {
    /// From a request for a terminal; also returns its input as the body of the forwarded request.
    pub(super) fn of(request: &mut Request<Incoming>) -> Result<(Self, Body), Unfit> {
        let headers = request.headers();
        let wanted = headers.get(UPGRADE).and_then(|it| it.to_str().ok());
        let upgrade = Upgrade::asked(wanted, |name| {
            let lines = headers.get_all(name).iter();
            lines.map(|it| it.to_str().unwrap_or("?")).collect()
        })?;
        let (send, input) = tunnel::chunks();
        let ends = Self {
            upgrade,
            client: hyper::upgrade::on(request),
            send,
        };
        Ok((ends, streamed(input)))
    }

    /// Adds the headers of the upgrade that the client requests.
    pub(super) fn ask(&self, from: &HeaderMap, to: &mut HeaderMap) {
        to.insert(
            upgrade::HEADER,
            HeaderValue::from_static(self.upgrade.as_str()),
        );
        copy_headers(from, to, &upgrade::ASKED.map(HeaderName::from_static));
    }

    /// Joins both, until either end closes or the time limit is reached.
    pub(super) fn begin(
        self,
        shared: &Arc<Shared>,
        proxy_client: ProxyClient,
        answered: Response<Body>,
        mut line: AuditLine,
        permits: impl Send + 'static,
    ) -> Response<Body> {
        let (parts, body) = answered.into_parts();
        line.answered(StatusCode::SWITCHING_PROTOCOLS);
        let Self {
            upgrade,
            client,
            send,
        } = self;
        let body = body.into_data_stream().map_err(io::Error::other);
        // The line is written when the stream is dropped, so it has the duration.
        let body = body.inspect_ok(move |chunk| line.carried(chunk.len()));
        let agent = Tunnel::new(body, send);
        let sharing = Arc::clone(shared);
        let carried = async move {
            let _permits = permits;
            let client = match client.await {
                Ok(client) => TokioIo::new(client),
                Err(error) => {
                    return tracing::debug!(error = %Chain(&error), "a terminal failed to start");
                }
            };
            let stop = sharing.live.spawner.token().clone();
            tokio::select! {
                biased;
                () = stop.cancelled() => {}
                () = sharing.credential_ended(&proxy_client) => {}
                () = sleep(LONGEST) => {}
                () = tunnel::join(client, agent) => {}
            }
        };
        shared
            .live
            .spawner
            .background()
            .spawn_short("terminal", carried);
        let mut response = Response::new(empty());
        *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        let headers = response.headers_mut();
        headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
        headers.insert(UPGRADE, HeaderValue::from_static(upgrade.as_str()));
        let names = upgrade::ANSWERED.map(HeaderName::from_static);
        copy_headers(&parts.headers, headers, &names);
        response
    }
}
