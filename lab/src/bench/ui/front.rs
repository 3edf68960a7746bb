//! The stand-in for argocd-server between a browser and the hub program: it passes the requests of the extension for the fleet
//! on, with the shared token, for every user.

use std::{net::Ipv4Addr, sync::Arc};

use anyhow::{Context as _, Result};
use axum::{
    Router,
    body::Body,
    extract::{Request, State},
    response::{IntoResponse as _, Response},
};
use http::{StatusCode, header};
use tokio::net::TcpListener;
use tokio_util::task::AbortOnDropHandle;

use super::client::Endpoint;
use crate::{certs::Authority, tls::Tls};

/// The paths of the extension for the fleet.
const EXTENSION: &str = "/extensions/argocd-agent-fleet";
/// The port that the driver of the browser dials, inside the lab.
const PORT: u16 = 443;

/// A server; dropping it ends it.
pub(super) struct Front {
    /// The certificate that a client trusts, PEM.
    pub(super) certificate: String,
    _task: AbortOnDropHandle<()>,
}

impl Front {
    /// Listens on the loopback, under the name `localhost`.
    pub(super) async fn start(endpoint: Arc<Endpoint>) -> Result<Self> {
        // OpenSSL takes a certificate whose subject is its issuer for one that has signed itself.
        let authority = Authority::new("authority of the front")?;
        let pair = authority.serving("front", &["localhost"], &[])?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, PORT)).await;
        let tls = Tls::new(listener.context("listen for the browser")?, &pair)?;
        let router = Router::new().fallback(pass).with_state(endpoint);
        let serving = async move {
            // It ends only with its task.
            drop(axum::serve(tls, router).await);
        };
        #[expect(
            clippy::disallowed_methods,
            reason = "ends with the server, which owns it"
        )]
        let task = AbortOnDropHandle::new(tokio::spawn(serving));
        Ok(Self {
            certificate: authority.pair().cert.clone(),
            _task: task,
        })
    }
}

async fn pass(State(endpoint): State<Arc<Endpoint>>, request: Request) -> Response {
    let Some(path) = behind(request.uri().path()) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    match endpoint.pass(path, request.headers()).await {
        Ok((mut head, body)) => {
            for name in [header::CONNECTION, header::TRANSFER_ENCODING] {
                head.headers.remove(name);
            }
            Response::from_parts(head, Body::from(body))
        }
        Err(error) => (StatusCode::BAD_GATEWAY, format!("{error:#}")).into_response(),
    }
}

/// The path at the hub program, as Argo CD's proxy shortens it.
fn behind(path: &str) -> Option<&str> {
    path.strip_prefix(EXTENSION)
        .filter(|path| path.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_paths_of_the_extension_are_passed_on() {
        let fleet = "/extensions/argocd-agent-fleet/api/v1/fleet";
        assert_eq!(behind(fleet), Some("/api/v1/fleet"));
        for other in ["/api/v1/session", "/extensions/argocd-agent-fleets/api"] {
            assert_eq!(behind(other), None, "{other}");
        }
    }
}
