//! Sends a live request over the transport that the agent of its cluster has.

use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, Uri};
use http_body_util::{BodyExt as _, combinators::UnsyncBoxBody};

use super::{
    LiveContext,
    tunnel::{Body, NotAnswered, empty},
};
use crate::fleet::ClusterName;

/// Correlates the audit lines of hub and cluster.
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// A request for a target on a cluster, with these headers and the id of its audit line.
pub(super) fn request(
    target: &str,
    headers: HeaderMap,
    id: &str,
    body: Body,
) -> http::Result<Request<Body>> {
    let uri = Uri::builder().scheme("http").authority("spoke");
    let mut request = Request::new(body);
    *request.uri_mut() = uri.path_and_query(target).build()?;
    *request.headers_mut() = headers;
    let id = HeaderValue::from_str(id).ok();
    request.headers_mut().extend(id.map(|id| (REQUEST_ID, id)));
    Ok(request)
}

/// A GET of a target whose parts were checked, so that it can always be written.
pub(super) fn get(target: &str, id: &str) -> Request<Body> {
    let written = request(target, HeaderMap::new(), id, empty());
    written.unwrap_or_else(|_never| Request::new(empty()))
}

/// Copies the headers of these names.
pub(super) fn copy_headers(from: &HeaderMap, to: &mut HeaderMap, names: &[HeaderName]) {
    for name in names {
        for value in from.get_all(name) {
            to.append(name.clone(), value.clone());
        }
    }
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
