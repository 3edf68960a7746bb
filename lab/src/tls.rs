//! A listener with TLS, for servers that run in this process.

use std::{net::SocketAddr, sync::Arc};

use anyhow::{Context as _, Result};
use axum::serve::Listener;
use rustls::{
    ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::{TlsAcceptor, server::TlsStream};

use crate::certs::Pair;

/// A listener for `axum::serve`.
pub(crate) struct Tls {
    listener: TcpListener,
    acceptor: TlsAcceptor,
}

impl Tls {
    /// Serves with this certificate.
    pub(crate) fn new(listener: TcpListener, pair: &Pair) -> Result<Self> {
        let chain = vec![CertificateDer::from_pem_slice(pair.cert.as_bytes())?];
        let key = PrivateKeyDer::from_pem_slice(pair.key.as_bytes())?;
        let config = ServerConfig::builder()
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .context("a certificate to serve with")?;
        Ok(Self {
            listener,
            acceptor: TlsAcceptor::from(Arc::new(config)),
        })
    }
}

impl Listener for Tls {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            let (stream, peer) = Listener::accept(&mut self.listener).await;
            // A client that does not trust the certificate ends the handshake here.
            if let Ok(stream) = self.acceptor.accept(stream).await {
                return (stream, peer);
            }
        }
    }

    fn local_addr(&self) -> std::io::Result<Self::Addr> {
        self.listener.local_addr()
    }
}
