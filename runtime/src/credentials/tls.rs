//! The current TLS configuration, swapped at each change of the material.

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use rustls::{ClientConfig, ServerConfig};
use tokio::sync::watch;

use super::config::{ClientAuth, client_config, server_config};
use super::material::{Error, Material};
use crate::error::Chain;
use crate::parts::Spawner;

/// The server configuration in use; clones follow the same material.
#[derive(Debug, Clone)]
pub struct ServerTls(Current<ServerConfig>);

impl ServerTls {
    /// Follows `material`; until it suffices there is no configuration.
    pub fn follow(
        material: watch::Receiver<Arc<Material>>,
        auth: ClientAuth,
        spawner: &Spawner,
    ) -> Self {
        Self(Current::follow(material, spawner, move |material| {
            server_config(material, auth)
        }))
    }

    /// The configuration for the next handshake.
    pub fn current(&self) -> Option<Arc<ServerConfig>> {
        self.0.config.load_full()
    }
}

/// The client configuration in use; clones follow the same material.
#[derive(Debug, Clone)]
pub struct ClientTls(Current<ClientConfig>);

impl ClientTls {
    /// Follows `material`; until it suffices there is no configuration.
    pub fn follow(material: watch::Receiver<Arc<Material>>, spawner: &Spawner) -> Self {
        Self(Current::follow(material, spawner, client_config))
    }

    /// The configuration for the next connection.
    pub fn current(&self) -> Option<Arc<ClientConfig>> {
        self.0.config.load_full()
    }

    /// The material of the current configuration, published after it took effect: a connection that is dialled afterwards
    /// presents this or newer material. Material directly from a source may not be in effect yet.
    pub fn material(&self) -> watch::Receiver<Arc<Material>> {
        self.0.built_from.clone()
    }
}

#[derive(Debug)]
struct Current<C> {
    config: Arc<ArcSwapOption<C>>,
    built_from: watch::Receiver<Arc<Material>>,
}

impl<C> Clone for Current<C> {
    fn clone(&self) -> Self {
        Self {
            config: Arc::clone(&self.config),
            built_from: self.built_from.clone(),
        }
    }
}

impl<C: Send + Sync + 'static> Current<C> {
    fn follow(
        mut material: watch::Receiver<Arc<Material>>,
        spawner: &Spawner,
        build: impl Fn(&Material) -> Result<Arc<C>, Error> + Send + 'static,
    ) -> Self {
        let first = Arc::clone(&material.borrow_and_update());
        let config = Arc::new(ArcSwapOption::new(build(&first).ok()));
        let (notify, built_from) = watch::channel(first);
        let (slot, token) = (Arc::clone(&config), spawner.token().clone());
        spawner.spawn("tls", async move {
            while let Some(Ok(())) = token.run_until_cancelled(material.changed()).await {
                let material = Arc::clone(&material.borrow_and_update());
                match build(&material) {
                    Ok(newer) => {
                        slot.store(Some(newer));
                        notify.send_replace(material);
                    }
                    Err(error) => {
                        tracing::warn!(error = %Chain(&error), "new TLS material is not usable; keeping the old");
                    }
                }
            }
            // A source ends only when the process stops; the current material stays in use.
            token.cancelled().await;
        });
        Self { config, built_from }
    }
}
