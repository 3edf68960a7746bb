//! Sends a live request over the transport that the agent of its cluster has.

use std::time::Duration;

use http::{HeaderName, HeaderValue, Request, Response, Uri};
use http_body_util::{BodyExt as _, Empty, combinators::UnsyncBoxBody};

use super::{
    LiveContext,
    tunnel::{Body, NotAnswered},
};
use crate::fleet::ClusterName;

/// Correlates the audit lines of hub and cluster.
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// A request for a target on a cluster.
pub(super) fn request(target: &str, body: Body) -> http::Result<Request<Body>> {
    let uri = Uri::builder().scheme("http").authority("spoke");
    let mut request = Request::new(body);
    *request.uri_mut() = uri.path_and_query(target).build()?;
    Ok(request)
}

/// Adds the id of the audit line.
pub(super) fn identify(request: &mut Request<Body>, id: &str) {
    if let Ok(id) = HeaderValue::from_str(id) {
        request.headers_mut().insert(REQUEST_ID, id);
    }
}

/// A GET of a target whose parts were checked, so that it can always be written.
pub(super) fn get(target: &str, id: &str) -> Request<Body> {
    let nothing = || UnsyncBoxBody::new(Empty::new().map_err(|never| match never {}));
    let written = request(target, nothing());
    let mut request = written.unwrap_or_else(|_never| Request::new(nothing()));
    identify(&mut request, id);
    request
}

/// Sends a request to the agent of a cluster, over its tunnel or its session.
///
/// Dropping the future or the response cancels the request.
pub(super) async fn ask(
    live: &LiveContext,
    cluster: &ClusterName,
    request: Request<Body>,
    response_timeout: Duration,
) -> Result<Response<Body>, NotAnswered> {
    if let Some(session) = live.go_requests.session(cluster) {
        return session.ask(request, response_timeout).await;
    }
    let tunnels = &live.tunnels;
    let answered = tunnels.ask(cluster, request, response_timeout).await?;
    Ok(answered.map(|body| UnsyncBoxBody::new(body.map_err(Into::into))))
}
