//! The current TLS configuration, swapped at each change of the material.

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use rustls::{ClientConfig, ServerConfig};
use tokio::sync::watch;

use super::config::{ClientAuth, client_config, server_config};
use super::material::{Error, Material};
use crate::error::Chain;
use crate::parts::Spawner;

/// The configuration in use; clones follow the same material.
#[derive(Debug, Clone)]
pub struct Current<C> {
    config: Arc<ArcSwapOption<C>>,
    built_from: watch::Receiver<Arc<Material>>,
}

/// The server configuration in use.
pub type ServerTls = Current<ServerConfig>;

/// The client configuration in use.
pub type ClientTls = Current<ClientConfig>;

impl ServerTls {
    /// Follows `material`; until it suffices there is no configuration.
    pub fn follow(
        material: watch::Receiver<Arc<Material>>,
        auth: ClientAuth,
        spawner: &Spawner,
    ) -> Self {
        Self::build_from(material, spawner, move |material| {
            server_config(material, auth)
        })
    }
}

impl ClientTls {
    /// Follows `material`; until it suffices there is no configuration.
    pub fn follow(material: watch::Receiver<Arc<Material>>, spawner: &Spawner) -> Self {
        Self::build_from(material, spawner, client_config)
    }

    /// The material of the current configuration, published after it took effect: a connection that is dialled afterwards
    /// presents this or newer material. Material directly from a source may not be in effect yet.
    pub fn material(&self) -> watch::Receiver<Arc<Material>> {
        self.built_from.clone()
    }
}

impl<C: Send + Sync + 'static> Current<C> {
    /// The configuration for the next connection.
    pub fn current(&self) -> Option<Arc<C>> {
        self.config.load_full()
    }

    fn build_from(
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
