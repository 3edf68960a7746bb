//! A timeout for responses of the API server.
//!
//! A machine that crashes closes no connection, and the kernel retransmits writes on such a connection for a quarter of
//! an hour. No lower layer detects this: connections use HTTP/1, which has no pings. So this layer bounds the time until
//! a response and the pauses inside of one, and drops the connection with the request.

use std::task::{Context, Poll};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::header::UPGRADE;
use http::{Request, Response, Uri};
use http_body_util::Either;
use tower::{BoxError, Service};
use tower_http::timeout::TimeoutBody;

/// By default an API server times a request out after a minute; this is a little longer, so that its own error comes
/// first. It includes retries of an overloaded API server.
const LIMIT: Duration = Duration::from_secs(65);
/// Subresources that an API server proxies to a kubelet or a Pod, which may be silent for long. The response with the
/// log of a container that logs nothing does not even begin.
const PROXIED: [&str; 5] = ["attach", "exec", "log", "portforward", "proxy"];

/// The API server is silent.
#[derive(Debug, thiserror::Error)]
#[error("the API server timed out after {} seconds", .0.as_secs())]
struct Silent(Duration);

/// Fails a request without a response in time, and a response that stalls.
#[derive(Debug, Clone)]
pub(super) struct ResponseTimeout<S>(pub(super) S);

impl<S, Q, B> Service<Request<Q>> for ResponseTimeout<S>
where
    S: Service<Request<Q>, Response = Response<B>>,
    S::Future: Send + 'static,
    S::Error: Into<BoxError>,
{
    type Response = Response<Either<TimeoutBody<B>, B>>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.0.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, request: Request<Q>) -> Self::Future {
        let limits = Limits::of(&request);
        let answer = self.0.call(request);
        async move {
            let answer = match limits.head {
                Some(limit) => tokio::time::timeout(limit, answer)
                    .await
                    .map_err(|_elapsed| Silent(limit))?,
                None => answer.await,
            };
            Ok(answer.map_err(Into::into)?.map(|body| match limits.pause {
                Some(limit) => Either::Left(TimeoutBody::new(limit, body)),
                None => Either::Right(body),
            }))
        }
        .boxed()
    }
}

/// The timeouts of one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Limits {
    /// Until the head of the response.
    head: Option<Duration>,
    /// Between two pieces of its body.
    pause: Option<Duration>,
}

impl Limits {
    fn of<Q>(request: &Request<Q>) -> Self {
        let is_bounded =
            !request.headers().contains_key(UPGRADE) && !is_proxied(request.uri().path());
        Self {
            head: is_bounded.then_some(LIMIT),
            pause: pause(request.uri()).filter(|_| is_bounded),
        }
    }
}

fn is_proxied(path: &str) -> bool {
    let mut parts = path.trim_start_matches('/').split('/');
    let mut next = || parts.next().unwrap_or_default();
    if (next(), next()) != ("api", "v1") {
        return false;
    }
    let kind = match next() {
        "namespaces" => {
            next();
            next()
        }
        kind => kind,
    };
    next();
    matches!(kind, "pods" | "services" | "nodes") && PROXIED.contains(&next())
}

/// A watch is silent while nothing changes, but ends after its own timeout, if it has one.
fn pause(uri: &Uri) -> Option<Duration> {
    let (mut watches, mut lasts) = (false, None);
    for (key, value) in form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes()) {
        match &*key {
            "watch" => watches = !matches!(&*value, "false" | "0"),
            "timeoutSeconds" => lasts = value.parse().ok().map(Duration::from_secs),
            _ => {}
        }
    }
    if !watches {
        return Some(LIMIT);
    }
    lasts.map(|lasts| lasts.saturating_add(LIMIT))
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::pin::Pin;

    use bytes::Bytes;
    use http_body::{Body, Frame};
    use http_body_util::BodyExt as _;
    use tokio::time::Instant;
    use tower::ServiceExt as _;

    use super::*;

    fn limits(target: &str) -> (Option<u64>, Option<u64>) {
        let Limits { head, pause } = Limits::of(&Request::get(target).body(()).unwrap());
        (head.map(|it| it.as_secs()), pause.map(|it| it.as_secs()))
    }

    #[test]
    fn response_timeout_excludes_proxied_requests() {
        let pods = "/api/v1/namespaces/shop/pods";
        let answered = (Some(65), Some(65));
        let passed_on = (None, None);
        for (target, expected) in [
            (pods.to_owned(), answered),
            (format!("{pods}?limit=100&timeoutSeconds=290"), answered),
            (format!("{pods}/log"), answered),
            (format!("{pods}/front/status"), answered),
            (
                "/api/v1/namespaces/shop/configmaps/x/log".to_owned(),
                answered,
            ),
            (
                "/apis/apps/v1/namespaces/shop/deployments/log".to_owned(),
                answered,
            ),
            ("/version".to_owned(), answered),
            (format!("{pods}?watch=true"), (Some(65), None)),
            (
                format!("{pods}?watch=true&timeoutSeconds=290"),
                (Some(65), Some(355)),
            ),
            (format!("{pods}?watch=false"), answered),
            (format!("{pods}/front/log?follow=true"), passed_on),
            (format!("{pods}/front/exec?command=sh"), passed_on),
            (format!("{pods}/front/proxy/long/way"), passed_on),
            ("/api/v1/nodes/one/proxy/metrics".to_owned(), passed_on),
        ] {
            assert_eq!(limits(&target), expected, "{target}");
        }
        let upgrade = Request::get("/console").header(UPGRADE, "websocket");
        let Limits { head, pause } = Limits::of(&upgrade.body(()).unwrap());
        assert!(head.is_none() && pause.is_none());
    }

    /// A list that stalls after its beginning.
    #[derive(Debug, Default)]
    struct Beginning(bool);

    impl Body for Beginning {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            if std::mem::replace(&mut self.0, true) {
                return Poll::Pending;
            }
            Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(b"{")))))
        }
    }

    async fn read(target: &str) -> Result<(), BoxError> {
        let api = tower::service_fn(|_| async {
            Ok::<_, Infallible>(Response::new(Beginning::default()))
        });
        let request = Request::get(target).body(()).unwrap();
        let answer = ResponseTimeout(api).oneshot(request).await?;
        answer.into_body().collect().await.map(drop)
    }

    #[tokio::test(start_paused = true)]
    async fn stalled_response_times_out_and_a_silent_log_does_not() {
        let begun = Instant::now();
        let failed = read("/api/v1/pods").await.unwrap_err();
        assert_eq!(begun.elapsed().as_secs(), LIMIT.as_secs(), "{failed}");
        let follows = read("/api/v1/namespaces/shop/pods/front/log?follow=true");
        assert!(tokio::time::timeout(LIMIT * 100, follows).await.is_err());
    }
}
