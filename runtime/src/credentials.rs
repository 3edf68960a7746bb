//! TLS material that rotates: read, checked, swapped as a whole.
//!
//! A source ([`files`] or [`secrets`]) publishes checked [`Material`]; [`ServerTls`] and [`ClientTls`] turn each new one
//! into a configuration. Certificate, key, trust and session state are swapped together, so that no TLS session of an old
//! trust is resumed. Invalid material never replaces valid material.
//!
//! ```text
//!   files::watch ──┐
//!                  ├─> watch<Arc<Material>> ─> ServerTls::current() at each handshake
//!   secrets::watch ┘        (combine)     └──> ClientTls::current() at each dial
//! ```

use std::sync::Arc;

use tokio::sync::watch;

use crate::parts::Spawner;

mod config;
pub mod files;
pub mod login;
mod material;
pub mod secrets;
mod tls;

pub use config::{ClientAuth, client_config, server_config};
pub use material::{
    Error, Identity, KeyId, Material, Pem, Roots, Signature, fingerprint, provider,
};
pub use tls::{ClientTls, Current, ServerTls};

/// Combines the certificate of one source with the trusted roots of another.
pub fn combine(
    mut identity: watch::Receiver<Arc<Material>>,
    mut roots: watch::Receiver<Arc<Material>>,
    spawner: &Spawner,
) -> watch::Receiver<Arc<Material>> {
    fn both(identity: &Material, roots: &Material) -> Arc<Material> {
        Arc::new(Material {
            identity: identity.identity.clone(),
            roots: roots.roots.clone(),
        })
    }
    let (send, receive) = watch::channel(both(&identity.borrow(), &roots.borrow()));
    let token = spawner.token().clone();
    spawner.spawn("credentials", async move {
        loop {
            let changed = tokio::select! {
                biased;
                () = token.cancelled() => return,
                changed = identity.changed() => changed,
                changed = roots.changed() => changed,
            };
            if changed.is_err() {
                // A source ends only when the process stops; the current material stays in use.
                token.cancelled().await;
                return;
            }
            let newer = both(&identity.borrow_and_update(), &roots.borrow_and_update());
            send.send_replace(newer);
        }
    });
    receive
}

#[cfg(test)]
mod tests;
