//! The conversion webhook of the add-on API, on a port of the loopback.

use std::{convert::Infallible, net::SocketAddr, sync::Arc, time::Duration};

use anyhow::{Context, Result};
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _};
use serde_json::{Value, json};
use tokio::{
    net::{TcpListener, TcpStream},
    task::JoinSet,
};
use tokio_rustls::TlsAcceptor;

use super::pki::Serving;
use crate::{conversion, tasks::Tasks};

/// An API server sends lists in one review; this is far above the lab's needs.
const LARGEST_REVIEW: usize = 64 << 20;
const HANDSHAKE_WITHIN: Duration = Duration::from_secs(10);

/// Serves `/convert` until the tasks end; returns its address.
pub(super) async fn serve(certificate: &Serving, tasks: &mut Tasks) -> Result<SocketAddr> {
    let listener = TcpListener::bind((std::net::Ipv4Addr::LOCALHOST, 0))
        .await
        .context("listen for conversion reviews")?;
    let address = listener.local_addr()?;
    let acceptor = acceptor(certificate)?;
    tasks.spawn(accept(listener, acceptor));
    Ok(address)
}

fn acceptor(certificate: &Serving) -> Result<TlsAcceptor> {
    let chain: Vec<CertificateDer<'static>> =
        CertificateDer::pem_slice_iter(certificate.certificate.as_bytes())
            .collect::<Result<_, _>>()?;
    let key = PrivateKeyDer::from_pem_slice(certificate.key.as_bytes())?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, key)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// Accepts for ever; connections end with this task, which owns them.
async fn accept(listener: TcpListener, acceptor: TlsAcceptor) {
    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        match listener.accept().await {
            Ok((stream, _)) => {
                connections.spawn(connection(stream, acceptor.clone()));
            }
            // Out of descriptors, most likely: wait until some are closed.
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
}

async fn connection(stream: TcpStream, acceptor: TlsAcceptor) {
    let Ok(Ok(tls)) = tokio::time::timeout(HANDSHAKE_WITHIN, acceptor.accept(stream)).await else {
        return;
    };
    let service = hyper::service::service_fn(answer);
    let served = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new())
        .serve_connection(TokioIo::new(tls), service)
        .await;
    if let Err(error) = served {
        tracing::debug!(%error, "a conversion connection ended");
    }
}

async fn answer(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let body = Limited::new(request.into_body(), LARGEST_REVIEW)
        .collect()
        .await;
    let reviewed = body
        .map_err(|error| error.to_string())
        .and_then(|body| serde_json::from_slice(&body.to_bytes()).map_err(|e| e.to_string()))
        .map(|asked: Value| review(&asked));
    let (status, body) = match reviewed {
        Ok(answer) => (StatusCode::OK, answer.to_string()),
        Err(reason) => (StatusCode::BAD_REQUEST, reason),
    };
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    response.headers_mut().insert(
        http::header::CONTENT_TYPE,
        http::HeaderValue::from_static("application/json"),
    );
    Ok(response)
}

/// Answers one ConversionReview.
fn review(asked: &Value) -> Value {
    let request = &asked["request"];
    let wanted = request["desiredAPIVersion"].as_str().unwrap_or_default();
    let objects = request["objects"].as_array().map_or(&[][..], Vec::as_slice);
    let converted: Result<Vec<Value>, String> = objects
        .iter()
        .map(|object| conversion::convert(object.clone(), wanted))
        .collect();
    let mut response = json!({ "uid": request["uid"] });
    match converted {
        Ok(objects) => {
            response["result"] = json!({ "status": "Success" });
            response["convertedObjects"] = Value::Array(objects);
        }
        Err(message) => response["result"] = json!({ "status": "Failure", "message": message }),
    }
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "response": response,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_review_converts_every_object_or_returns_an_error() {
        let review_of = |kind: &str| {
            review(&json!({ "request": {
                "uid": "u",
                "desiredAPIVersion": "addon.open-cluster-management.io/v1beta1",
                "objects": [{
                    "apiVersion": "addon.open-cluster-management.io/v1alpha1", "kind": kind,
                    "metadata": { "name": "a" }, "spec": {},
                }],
            }}))
        };
        let good = review_of("ManagedClusterAddOn");
        assert_eq!(good["response"]["result"]["status"], "Success");
        assert_eq!(good["response"]["uid"], "u");
        assert_eq!(
            good["response"]["convertedObjects"][0]["apiVersion"],
            "addon.open-cluster-management.io/v1beta1"
        );
        let bad = review_of("Pod");
        assert_eq!(bad["response"]["result"]["status"], "Failure");
    }
}
