//! `/debug/state` and `/debug/log-level`: for whoever may open a connection inside the Pod, and for nobody else.
//!
//! They stand at the same ports as health and metrics, which everybody in the cluster may reach, and answer only where
//! both ends of the connection are the loopback address. `kubectl port-forward` connects like that, so Kubernetes says
//! who may: whoever has `create` on `pods/portforward` of the namespace.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use axum::Router;
use axum::extract::connect_info::{ConnectInfo, Connected};
use axum::extract::{DefaultBodyLimit, Query, Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse as _, Json, Response};
use axum::routing::get;
use axum::serve::IncomingStream;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::error::Chain;
use crate::log::{self, Levels};

/// The longest log level that is read.
const LONGEST_LEVEL: usize = 1 << 10;
/// So many entries on a page unless asked for, and so many at most.
const USUAL: usize = 100;
const MOST: usize = 500;

/// Which part of a long list is wanted.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Page {
    /// Only this cluster.
    pub cluster: Option<String>,
    /// What comes after this name, which was `next` of the page before.
    pub after: Option<String>,
    /// How many at most.
    limit: Option<usize>,
}

impl Page {
    /// How many entries the page has at most.
    pub fn limit(&self) -> usize {
        self.limit.unwrap_or(USUAL).clamp(1, MOST)
    }
}

/// Tells what the program knows at this moment. Bounded by the page, and without secrets.
#[derive(Clone)]
pub struct LookIn(Arc<dyn Fn(&Page) -> Value + Send + Sync>);

impl fmt::Debug for LookIn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LookIn").finish_non_exhaustive()
    }
}

impl LookIn {
    /// Told by this function.
    pub fn new(notify: impl Fn(&Page) -> Value + Send + Sync + 'static) -> Self {
        Self(Arc::new(notify))
    }
}

/// Whether both ends of a connection are on the loopback interface.
#[derive(Clone, Copy, Debug)]
pub(super) struct Near(bool);

impl Connected<IncomingStream<'_, TcpListener>> for Near {
    fn connect_info(stream: IncomingStream<'_, TcpListener>) -> Self {
        let ours = stream.io().local_addr().ok().map(|it| it.ip());
        Self(are_near(stream.remote_addr().ip(), ours))
    }
}

/// A proxy beside the program connects from the loopback address too, but in newer meshes not to it.
fn are_near(theirs: IpAddr, ours: Option<IpAddr>) -> bool {
    let is_loopback = |address: IpAddr| {
        let address = address.to_canonical();
        // The other addresses of that network are those of proxies that hide who came.
        address == IpAddr::V4(Ipv4Addr::LOCALHOST) || (address.is_ipv6() && address.is_loopback())
    };
    is_loopback(theirs) && ours.is_some_and(is_loopback)
}

/// The routes, which only those who are near reach.
pub(super) fn router(look_in: LookIn) -> Router {
    Router::new()
        .route("/debug/state", get(state))
        .with_state(look_in)
        .route(
            "/debug/log-level",
            get(level).put(set_level).delete(reset_level),
        )
        .route_layer(DefaultBodyLimit::max(LONGEST_LEVEL))
        .route_layer(middleware::from_fn(near_only))
}

async fn near_only(request: Request, next: Next) -> Response {
    let near = request.extensions().get::<ConnectInfo<Near>>();
    let host = request.headers().get(header::HOST);
    // A page of somebody else in a browser that forwards a port has another name for us.
    let is_local = host.is_none_or(|host| host.to_str().is_ok_and(is_local));
    if is_local && near.is_some_and(|ConnectInfo(Near(is_near))| *is_near) {
        next.run(request).await
    } else {
        let text = "available inside the Pod only: use kubectl port-forward and localhost";
        (StatusCode::FORBIDDEN, text).into_response()
    }
}

fn is_local(host: &str) -> bool {
    let is_port = |rest: &str| {
        let port = rest.strip_prefix(':').unwrap_or(rest);
        port.chars().all(|it| it.is_ascii_digit())
    };
    ["localhost", "127.0.0.1", "[::1]"]
        .iter()
        .any(|name| host.strip_prefix(name).is_some_and(is_port))
}

async fn state(State(look_in): State<LookIn>, Query(page): Query<Page>) -> Json<Value> {
    Json((look_in.0)(&page))
}

async fn level() -> Response {
    log::levels().map_or_else(no_levels, levels_response)
}

async fn set_level(wanted: String) -> Response {
    let Some(levels) = log::levels() else {
        return no_levels();
    };
    match levels.set(wanted.trim()) {
        Ok(()) => levels_response(levels),
        Err(error) => (StatusCode::BAD_REQUEST, Chain(&error).to_string()).into_response(),
    }
}

async fn reset_level() -> Response {
    let Some(levels) = log::levels() else {
        return no_levels();
    };
    levels.reset();
    levels_response(levels)
}

fn levels_response(levels: &Levels) -> Response {
    Json(json!({"level": levels.now(), "atStart": levels.at_start()})).into_response()
}

fn no_levels() -> Response {
    (StatusCode::NOT_FOUND, "logging was not set up here").into_response()
}

#[cfg(test)]
mod tests;
