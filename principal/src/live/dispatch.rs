//! Sends a live request over the transport that the agent of its cluster has.

use std::time::Duration;

use http::{Request, Response};
use http_body_util::{BodyExt as _, combinators::UnsyncBoxBody};

use super::{
    LiveContext,
    tunnel::{Body, NotAnswered},
};
use crate::fleet::ClusterName;

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
