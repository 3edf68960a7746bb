//! The admin endpoint: `/livez`, `/readyz`, `/healthz` and `/metrics`; and for clients inside the Pod `/debug/…`.
//!
//! `/livez` answers as long as the process runs. `/readyz` names the missing conditions. `/healthz` has the meaning of
//! the Go implementation; each program decides it.

use std::future::IntoFuture as _;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use tokio_util::sync::CancellationToken;

use crate::metrics::Registry;
use crate::net;
use crate::ready::Readiness;

mod debug;

use debug::Loopback;
pub use debug::{DebugState, Page};

/// Why the admin endpoint does not serve.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Cannot listen on the address.
    #[error("listen on {address} for health and metrics")]
    Listen {
        /// The configured address.
        address: SocketAddr,
        /// The error of the system.
        source: io::Error,
    },
    /// The server failed.
    #[error("serve health and metrics")]
    Serve(#[source] io::Error),
}

/// Why a request to another program's admin endpoint failed.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// The address is invalid.
    #[error("{0:?} is not host:port")]
    Address(String, #[source] http::uri::InvalidUri),
    /// The request to this address failed.
    #[error("ask {0}")]
    Ask(String, #[source] hyper_util::client::legacy::Error),
    /// The response of this address is incomplete or too long.
    #[error("read the answer of {0}")]
    Read(String, #[source] axum::Error),
}

/// Asks the admin endpoint of another program for its readiness. Returns the missing conditions; none if it is ready.
///
/// # Errors
/// The request failed.
pub async fn ask_ready(address: &str) -> Result<Option<String>, AskError> {
    let asked = || address.to_owned();
    let uri = format!("http://{address}/readyz").parse();
    let uri = uri.map_err(|source| AskError::Address(asked(), source))?;
    let client = Client::builder(TokioExecutor::new()).build_http::<Body>();
    let answer = client.get(uri).await;
    let answer = answer.map_err(|source| AskError::Ask(asked(), source))?;
    let (status, body) = (answer.status(), Body::new(answer.into_body()));
    let text = to_bytes(body, LONGEST_ANSWER).await;
    let text = text.map_err(|source| AskError::Read(asked(), source))?;
    Ok((!status.is_success()).then(|| String::from_utf8_lossy(&text).trim().to_owned()))
}

/// The longest accepted response.
const LONGEST_ANSWER: usize = 64 << 10;

/// Decides `/healthz`.
pub type Healthz = Arc<dyn Fn() -> bool + Send + Sync>;

/// The data that the endpoint serves.
#[derive(Clone, derive_more::Debug)]
pub struct AdminState {
    /// Decides `/readyz`.
    pub readiness: Readiness,
    /// Encoded at `/metrics`.
    #[debug(skip)]
    pub registry: Registry,
    /// Decides `/healthz`: 200 when true, else 503.
    #[debug(skip)]
    pub healthz: Healthz,
    /// Serves `/debug/state`, to clients inside the Pod.
    #[debug(skip)]
    pub debug_state: DebugState,
}

/// An admin endpoint that is bound to its address, and serves on the runtime that runs [`Admin::serve`].
#[derive(Debug)]
pub struct Admin {
    listener: TcpListener,
    state: AdminState,
}

impl Admin {
    /// Binds the address, so that a port in use is an error at start-up.
    ///
    /// # Errors
    /// Cannot listen on the address.
    pub async fn bind(address: SocketAddr, state: AdminState) -> Result<Self, Error> {
        let bound = net::bind(address).await;
        let listener = bound
            .and_then(tokio::net::TcpListener::into_std)
            .map_err(|source| Error::Listen { address, source })?;
        Ok(Self { listener, state })
    }

    /// The bound address, with the actual port instead of 0.
    ///
    /// # Errors
    /// The system does not return it.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until `token` is cancelled, then finishes open requests.
    ///
    /// # Errors
    /// The server failed.
    pub async fn serve(self, token: CancellationToken) -> Result<(), Error> {
        let service = router(self.state).into_make_service_with_connect_info::<Loopback>();
        let listener = tokio::net::TcpListener::from_std(self.listener).map_err(Error::Serve)?;
        axum::serve(listener, service)
            .with_graceful_shutdown(token.cancelled_owned())
            .into_future()
            .await
            .map_err(Error::Serve)
    }
}

fn router(state: AdminState) -> Router {
    Router::new()
        .route("/livez", get(|| async { "ok" }))
        .route("/readyz", get(readyz))
        .route("/healthz", get(healthz))
        .route("/metrics", get(metrics))
        .with_state(state.clone())
        .merge(debug::router(state.debug_state))
}

async fn readyz(State(state): State<AdminState>) -> Response {
    let missing = state.readiness.missing();
    let problem = format!("not ready: {}", missing.join(", "));
    ok_or(missing.is_empty(), problem)
}

async fn healthz(State(state): State<AdminState>) -> Response {
    ok_or((state.healthz)(), "not healthy".to_owned())
}

fn ok_or(is_ok: bool, problem: String) -> Response {
    if is_ok {
        "ok".into_response()
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, problem).into_response()
    }
}

async fn metrics(State(state): State<AdminState>) -> Response {
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    state.registry.encode().map_or_else(
        |_error| StatusCode::INTERNAL_SERVER_ERROR.into_response(),
        |text| ([(header::CONTENT_TYPE, kind)], text).into_response(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::{Body, to_bytes};
    use http::Request;
    use tower::ServiceExt as _;

    async fn answer(state: &AdminState, path: &str) -> (u16, String) {
        let request = Request::get(path).body(Body::empty()).unwrap();
        let response = router(state.clone()).oneshot(request).await.unwrap();
        let status = response.status().as_u16();
        let body = to_bytes(response.into_body(), 1 << 20).await.unwrap();
        (status, String::from_utf8(body.to_vec()).unwrap())
    }

    fn state(healthy: bool) -> AdminState {
        AdminState {
            readiness: Readiness::new(),
            registry: Registry::new(),
            healthz: Arc::new(move || healthy),
            debug_state: DebugState::new(|_page| serde_json::Value::Null),
        }
    }

    #[tokio::test]
    async fn readiness_names_the_missing_conditions() {
        let state = state(true);
        let caches = state.readiness.register("caches");
        assert_eq!(
            answer(&state, "/readyz").await,
            (503, "not ready: caches".to_owned())
        );
        caches.set(true);
        assert_eq!(answer(&state, "/readyz").await, (200, "ok".to_owned()));
    }

    #[tokio::test]
    async fn program_decides_healthz_but_not_livez() {
        let state = state(false);
        assert_eq!(answer(&state, "/healthz").await.0, 503);
        assert_eq!(answer(&state, "/livez").await.0, 200);
        let (status, text) = answer(&state, "/metrics").await;
        assert_eq!((status, text.ends_with("# EOF\n")), (200, true));
    }
}
