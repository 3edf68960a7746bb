//! `/debug/state` and `/debug/log-level`: for clients inside the Pod only.
//!
//! They share the ports of health and metrics, which every Pod of the cluster may reach, and answer only if both ends of
//! the connection are the loopback address. `kubectl port-forward` connects in this way, so Kubernetes authorizes the
//! client: it needs `create` on `pods/portforward` in the namespace.

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

/// The longest accepted log level.
const LONGEST_LEVEL: usize = 1 << 10;
/// The default and the largest number of entries of a page.
const USUAL: usize = 100;
const MOST: usize = 500;

/// The requested part of a long list.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Page {
    /// Only this cluster.
    pub cluster: Option<String>,
    /// Only names after this one, which was `next` of the previous page.
    pub after: Option<String>,
    /// The largest number of entries.
    limit: Option<usize>,
}

impl Page {
    /// The largest number of entries of the page.
    pub fn limit(&self) -> usize {
        self.limit.unwrap_or(USUAL).clamp(1, MOST)
    }
}

/// Returns the current state of the program. Bounded by the page, and without secrets.
#[derive(Clone, derive_more::Debug)]
#[debug("DebugState")]
pub struct DebugState(Arc<dyn Fn(&Page) -> Value + Send + Sync>);

impl DebugState {
    /// Calls this function for each request.
    pub fn new(state: impl Fn(&Page) -> Value + Send + Sync + 'static) -> Self {
        Self(Arc::new(state))
    }
}

/// Whether both ends of a connection are on the loopback interface.
#[derive(Clone, Copy, Debug)]
pub(super) struct Loopback(bool);

impl Connected<IncomingStream<'_, TcpListener>> for Loopback {
    fn connect_info(stream: IncomingStream<'_, TcpListener>) -> Self {
        let ours = stream.io().local_addr().ok().map(|it| it.ip());
        Self(are_loopback(stream.remote_addr().ip(), ours))
    }
}

/// A sidecar proxy also connects from the loopback address, but in newer meshes not to it.
fn are_loopback(theirs: IpAddr, ours: Option<IpAddr>) -> bool {
    let is_loopback = |address: IpAddr| {
        let address = address.to_canonical();
        // Proxies that hide the client use other addresses of that network.
        address == IpAddr::V4(Ipv4Addr::LOCALHOST) || (address.is_ipv6() && address.is_loopback())
    };
    is_loopback(theirs) && ours.is_some_and(is_loopback)
}

/// The routes, for connections over loopback only.
pub(super) fn router(debug_state: DebugState) -> Router {
    Router::new()
        .route("/debug/state", get(state))
        .with_state(debug_state)
        .route(
            "/debug/log-level",
            get(level).put(set_level).delete(reset_level),
        )
        .route_layer(DefaultBodyLimit::max(LONGEST_LEVEL))
        .route_layer(middleware::from_fn(loopback_only))
}

async fn loopback_only(request: Request, next: Next) -> Response {
    let ends = request.extensions().get::<ConnectInfo<Loopback>>();
    let host = request.headers().get(header::HOST);
    // Against DNS rebinding: a foreign page in the browser of a user who forwards a port has another host name for us.
    let is_local = host.is_none_or(|host| host.to_str().is_ok_and(is_local));
    if is_local && ends.is_some_and(|ConnectInfo(Loopback(is_loopback))| *is_loopback) {
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

async fn state(State(debug_state): State<DebugState>, Query(page): Query<Page>) -> Json<Value> {
    Json((debug_state.0)(&page))
}

async fn level() -> Response {
    levels_after(|_levels| Ok(()))
}

async fn set_level(wanted: String) -> Response {
    levels_after(|levels| levels.set(wanted.trim()))
}

async fn reset_level() -> Response {
    levels_after(|levels| {
        levels.reset();
        Ok(())
    })
}

/// The levels after a change.
fn levels_after(change: impl FnOnce(&Levels) -> Result<(), log::Error>) -> Response {
    let Some(levels) = log::levels() else {
        return (StatusCode::NOT_FOUND, "logging was not set up here").into_response();
    };
    match change(levels) {
        Ok(()) => {
            Json(json!({"level": levels.now(), "atStart": levels.at_start()})).into_response()
        }
        Err(error) => (StatusCode::BAD_REQUEST, Chain(&error).to_string()).into_response(),
    }
}

#[cfg(test)]
mod tests;
