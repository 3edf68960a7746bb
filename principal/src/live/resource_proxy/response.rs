//! One request: access check, parsing, and the streamed response of the agent.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use futures::stream;
use http::{
    HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode,
    header::{
        ACCEPT, ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE,
        ETAG, IF_NONE_MATCH, LAST_MODIFIED, RETRY_AFTER, VARY, WARNING,
    },
};
use http_body_util::{BodyExt as _, Limited, StreamBody, combinators::UnsyncBoxBody};
use hyper::body::Incoming;
use live::{
    request::{self, Request as Asked},
    upgrade,
};
use runtime::error::Chain;
use tokio::sync::OwnedSemaphorePermit;

use super::{
    audit::AuditLine,
    caller::{Caller, NoAccess},
    shared::{ProxyClient, Shared},
    terminal::PendingTerminal,
};
use crate::{
    fleet::ClusterName,
    live::{
        dispatch::{self, copy_headers},
        tunnel::{Body, NotAnswered},
        whole,
    },
    transport::listener::slots::{Slot, Slots},
};

/// Correlates the audit lines of a cluster.
const AUDIT_ID: HeaderName = HeaderName::from_static("audit-id");

/// Headers that are forwarded to the cluster, and back.
const ASKED: [HeaderName; 4] = [ACCEPT, ACCEPT_ENCODING, CONTENT_TYPE, IF_NONE_MATCH];
const ANSWERED: [HeaderName; 10] = [
    CACHE_CONTROL,
    CONTENT_ENCODING,
    CONTENT_LENGTH,
    CONTENT_TYPE,
    ETAG,
    LAST_MODIFIED,
    RETRY_AFTER,
    VARY,
    WARNING,
    AUDIT_ID,
];
/// How long an agent may take to begin an answer.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(30);
/// The body limit of an API server.
const LARGEST: usize = 3 << 20;
/// The body limit of a response that Argo CD reads into memory, in bytes. Go's principal has about the same (200 MB).
const LARGEST_RESPONSE: usize = 256 << 20;

/// Why the principal answers by itself.
#[derive(Debug, thiserror::Error)]
enum Refused {
    #[error(transparent)]
    NoAccess(#[from] NoAccess),
    #[error("this certificate is no longer trusted")]
    Distrusted,
    #[error("the cluster {0} is not enrolled")]
    NotEnrolled(ClusterName),
    #[error("this replica is not active; retry")]
    Standby,
    #[error("the header {0} is not forwarded to clusters")]
    Impersonation(HeaderName),
    #[error(transparent)]
    Unreadable(#[from] request::Unreadable),
    #[error(transparent)]
    Terminal(#[from] upgrade::Unfit),
    #[error("too many concurrent requests {of}; retry")]
    TooMany { of: &'static str },
    #[error(transparent)]
    NotAnswered(#[from] NotAnswered),
    #[error("the request cannot be written")]
    Unwritable(#[from] http::Error),
}

impl Refused {
    /// The status, and a metric label.
    const fn as_status(&self) -> (StatusCode, &'static str) {
        match self {
            Self::NoAccess(_) | Self::Distrusted | Self::NotEnrolled(_) => {
                (StatusCode::UNAUTHORIZED, "unauthorized")
            }
            Self::Standby => (StatusCode::SERVICE_UNAVAILABLE, "standby"),
            Self::Impersonation(_)
            | Self::Unreadable(_)
            | Self::Terminal(upgrade::Unfit::Protocol(_)) => (StatusCode::FORBIDDEN, "forbidden"),
            Self::Terminal(upgrade::Unfit::NoUpgrade) => (StatusCode::BAD_REQUEST, "forbidden"),
            Self::TooMany { .. } | Self::NotAnswered(NotAnswered::Busy) => {
                (StatusCode::TOO_MANY_REQUESTS, "too_many_requests")
            }
            Self::NotAnswered(NotAnswered::NotConnected) => {
                (StatusCode::BAD_GATEWAY, "not_connected")
            }
            Self::NotAnswered(NotAnswered::TimedOut(_)) => (StatusCode::GATEWAY_TIMEOUT, "late"),
            Self::NotAnswered(
                NotAnswered::Lost(_)
                | NotAnswered::Ended
                | NotAnswered::TooLarge
                | NotAnswered::Unreadable(_)
                | NotAnswered::Unexpected,
            ) => (StatusCode::BAD_GATEWAY, "lost"),
            Self::Unwritable(_) => (StatusCode::INTERNAL_SERVER_ERROR, "internal"),
        }
    }
}

/// The permits of a request, until its response is read to the end or dropped.
#[derive(Debug)]
struct Permits {
    _one: OwnedSemaphorePermit,
    _of_cluster: Slot<ClusterName>,
    lasting: Option<Slot<ClusterName>>,
    _terminal: Option<Slot<ClusterName>>,
}

/// The client, the response of the agent, its permits, and the terminal if one was requested.
type Answered = (
    ProxyClient,
    Response<Body>,
    Permits,
    Option<PendingTerminal>,
);

/// Answers one request.
pub(super) async fn answer(
    shared: Arc<Shared>,
    caller: Caller,
    request: Request<Incoming>,
) -> Response<Body> {
    let identified = caller.proxy_client(&shared, request.headers());
    let cluster = identified.as_ref().ok().map(|it| it.cluster.clone());
    let mut line = AuditLine::new(shared.live.metrics.clone(), cluster, &request);
    match ask(&shared, identified, request, &mut line).await {
        Ok((proxy_client, answered, permits, Some(ends)))
            if answered.headers().contains_key(upgrade::HEADER) =>
        {
            ends.begin(&shared, proxy_client, answered, line, permits)
        }
        Ok((proxy_client, answered, permits, _)) => {
            line.answered(answered.status());
            let (parts, mut body) = answered.into_parts();
            if permits.lasting.is_some() {
                body = end_with_credential(body, shared, proxy_client);
            }
            let mut response = Response::new(audit_body(body, line, permits));
            *response.status_mut() = parts.status;
            copy_headers(&parts.headers, response.headers_mut(), &ANSWERED);
            response
        }
        Err(refused) => {
            let (code, word) = refused.as_status();
            let message = Chain(&refused).to_string();
            line.refused(code, word, &message);
            let mut response = whole::refusal(code, &message);
            if code == StatusCode::TOO_MANY_REQUESTS {
                let headers = response.headers_mut();
                headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
            }
            response
        }
    }
}

async fn ask(
    shared: &Shared,
    proxy_client: Result<ProxyClient, NoAccess>,
    mut request: Request<Incoming>,
    line: &mut AuditLine,
) -> Result<Answered, Refused> {
    let proxy_client = proxy_client?;
    check_access(shared, &proxy_client)?;
    if let Some(name) = request
        .headers()
        .keys()
        .find(|it| request::is_impersonation(it.as_str()))
    {
        return Err(Refused::Impersonation(name.clone()));
    }
    let target = request.uri().path_and_query().map_or("", |it| it.as_str());
    let asked = Asked::parse(request.method().as_str(), target)?;
    line.asks(&asked);
    let permits = take_permits(shared, &proxy_client.cluster, &asked)?;
    let opened = asked
        .is_exec()
        .then(|| PendingTerminal::of(&mut request))
        .transpose()?;
    let (parts, body) = request.into_parts();
    let (ends, body) = match opened {
        Some((ends, input)) => (Some(ends), input),
        None => (None, UnsyncBoxBody::new(Limited::new(body, LARGEST))),
    };
    let mut headers = HeaderMap::new();
    copy_headers(&parts.headers, &mut headers, &ASKED);
    if let Some(ends) = &ends {
        ends.ask(&parts.headers, &mut headers);
    }
    let mut onward = dispatch::request(&asked.target(), headers, line.id(), body)?;
    *onward.method_mut() = parts.method;
    let cluster = &proxy_client.cluster;
    let answered = dispatch::ask(&shared.live, cluster, onward, RESPONSE_TIMEOUT).await?;
    let answered = limit_response(&asked, answered, LARGEST_RESPONSE);
    Ok((proxy_client, answered, permits, ends))
}

/// Ends a response that grows beyond the limit, so that no cluster fills the memory of the hub's Argo CD. Watches,
/// terminals and logs are read as a stream and have no limit.
fn limit_response(asked: &Asked, response: Response<Body>, most: usize) -> Response<Body> {
    if asked.is_lasting() || asked.is_log() {
        return response;
    }
    response.map(|body| UnsyncBoxBody::new(Limited::new(body, most)))
}

/// Checked at each request, since connections are long-lived.
fn check_access(shared: &Shared, proxy_client: &ProxyClient) -> Result<(), Refused> {
    let (gate, certificate) = (&shared.live.admission, &proxy_client.certificate);
    if !*gate.active.borrow() {
        return Err(Refused::Standby);
    }
    let revoked = gate.revoked.borrow();
    let list = revoked.as_ref().ok_or(Refused::Standby)?;
    let is_over = certificate.not_after <= shared.live.clock.now();
    if is_over || list.has_certificate(certificate) {
        return Err(Refused::Distrusted);
    }
    let fleet = gate.fleet.borrow();
    if fleet.clusters.contains_key(proxy_client.cluster.as_str()) {
        Ok(())
    } else {
        Err(Refused::NotEnrolled(proxy_client.cluster.clone()))
    }
}

fn take_permits(shared: &Shared, cluster: &ClusterName, asked: &Asked) -> Result<Permits, Refused> {
    let take = |slots: &Slots<ClusterName>, of| {
        let slot = slots.take(cluster.clone());
        slot.ok_or(Refused::TooMany { of })
    };
    let lasting = asked.is_lasting();
    let lasting = lasting.then(|| take(&shared.lasting, "of this cluster that last"));
    let terminal = asked.is_exec();
    let terminal = terminal.then(|| take(&shared.terminals, "of this cluster that are terminals"));
    let one = Arc::clone(&shared.requests).try_acquire_owned();
    Ok(Permits {
        lasting: lasting.transpose()?,
        _terminal: terminal.transpose()?,
        _of_cluster: take(&shared.by_cluster, "of this cluster")?,
        _one: one.map_err(|_none_left| Refused::TooMany {
            of: "of all clusters",
        })?,
    })
}

/// Counts the body; the audit line is written when it has been read to the end or dropped.
fn audit_body(body: Body, mut line: AuditLine, permits: Permits) -> Body {
    let body = body.map_frame(move |frame| {
        let _dropped_with_the_body = &permits;
        line.carried(frame.data_ref().map_or(0, Bytes::len));
        frame
    });
    UnsyncBoxBody::new(body)
}

/// Ends a long response when the credential expires or is revoked.
fn end_with_credential(body: Body, shared: Arc<Shared>, proxy_client: ProxyClient) -> Body {
    let end = async move { shared.credential_ended(&proxy_client).await };
    let frames = stream::unfold(Some((body, Box::pin(end))), |rest| async move {
        let (mut body, mut end) = rest?;
        tokio::select! {
            biased;
            () = &mut end => Some((Err("the credential for this cluster expired or was revoked".into()), None)),
            frame = body.frame() => Some((frame?, Some((body, end)))),
        }
    });
    UnsyncBoxBody::new(StreamBody::new(frames))
}

#[cfg(test)]
mod tests {
    use http_body_util::Full;

    use super::*;

    async fn read(target: &str, bytes: usize) -> Result<usize, String> {
        let asked = Asked::parse("GET", target).unwrap();
        let body = Full::new(Bytes::from(vec![b'x'; bytes])).map_err(|never| match never {});
        let response = limit_response(&asked, Response::new(UnsyncBoxBody::new(body)), 100);
        let body = response.into_body().collect().await;
        body.map(|it| it.to_bytes().len())
            .map_err(|error| error.to_string())
    }

    #[tokio::test]
    async fn endless_response_of_a_cluster_is_cut() {
        let pods = "/api/v1/namespaces/a/pods";
        assert_eq!(read(pods, 100).await, Ok(100));
        assert_eq!(
            read(pods, 101).await,
            Err("length limit exceeded".to_owned())
        );
        for stream in ["?watch=true", "/p/log", "/p/log?follow=true"] {
            assert_eq!(read(&format!("{pods}{stream}"), 101).await, Ok(101));
        }
    }
}
