//! The key that signs the principal's tokens: read from its file, or from its Secret, which is watched.

use std::{path::Path, sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client};
use principal::JwtKey;
use runtime::{
    error::Chain,
    kube::{Event, Watch, watch_trimmed},
    parts::Spawner,
};
use tokio::{sync::watch, time::timeout};

use crate::issuer::JWT_KEY;

/// The time to read or create the Secret before we log its absence.
const TIME_LIMIT: Duration = Duration::from_secs(5);

/// Why the key is unavailable.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be read.
    #[error("read the token key {0}")]
    Read(String, #[source] std::io::Error),
    /// The file contains no valid key.
    #[error("use the token key {0}")]
    Use(String, #[source] principal::admission::tokens::InvalidKey),
    /// The process stops.
    #[error("stopped while waiting for the token key")]
    Stopped,
}

/// The key in a file, read once.
pub async fn from_file(path: &Path) -> Result<watch::Receiver<Arc<JwtKey>>, Error> {
    let shown = || path.display().to_string();
    let pem = tokio::fs::read(path)
        .await
        .map_err(|error| Error::Read(shown(), error))?;
    let key = JwtKey::from_pem(&pem).map_err(|error| Error::Use(shown(), error))?;
    Ok(watch::channel(Arc::new(key)).1)
}

/// The key in a Secret: waits until the Secret exists, and watches it from then on.
///
/// Tokens of the previous key stay valid, so that a new key disconnects no agent.
pub async fn from_secret(
    client: Client,
    namespace: &str,
    name: &str,
    spawner: &Spawner,
) -> Result<watch::Receiver<Arc<JwtKey>>, Error> {
    let mut found = follow(client, namespace, name, spawner);
    let token = spawner.token().clone();
    let wait = async {
        let late = timeout(TIME_LIMIT, found.wait_for(Option::is_some))
            .await
            .is_err();
        if late {
            tracing::warn!(
                namespace,
                name,
                key = JWT_KEY,
                "waiting for a Secret with the token key"
            );
        }
        found.wait_for(Option::is_some).await
    };
    let first = token
        .run_until_cancelled(wait)
        .await
        .ok_or(Error::Stopped)?;
    let first = first
        .map_err(|_closed| Error::Stopped)?
        .as_ref()
        .map(|known| Arc::clone(&known.key));
    let (published, receiver) = watch::channel(first.ok_or(Error::Stopped)?);
    spawner.spawn("token key in use", async move {
        while let Some(Ok(())) = token.run_until_cancelled(found.changed()).await {
            let key = found
                .borrow_and_update()
                .as_ref()
                .map(|known| Arc::clone(&known.key));
            if let Some(key) = key {
                published.send_replace(key);
            }
        }
        token.cancelled().await;
    });
    Ok(receiver)
}

/// Watches the Secret; an invalid key changes nothing.
fn follow(
    client: Client,
    namespace: &str,
    name: &str,
    spawner: &Spawner,
) -> watch::Receiver<Option<Known>> {
    let (sender, found) = watch::channel(None);
    let watched = Watch::<Secret>::new(Api::namespaced(client, namespace))
        .fields(&format!("metadata.name={name}"));
    let token = spawner.token().clone();
    let following = watch_trimmed(watched, token, move |event| {
        let Event::Applied { object, .. } = event else {
            return;
        };
        let Some(pem) = object.data.as_ref().and_then(|data| data.get(JWT_KEY)) else {
            return;
        };
        match JwtKey::from_pem(&pem.0) {
            Ok(key) => {
                sender.send_modify(|known: &mut Option<Known>| renew(known, &pem.0, key));
            }
            Err(error) => {
                tracing::warn!(error = %Chain(&error), "the token key is not usable");
            }
        }
    });
    spawner.spawn("token key", following);
    found
}

struct Known {
    pem: Vec<u8>,
    key: Arc<JwtKey>,
}

fn renew(known: &mut Option<Known>, pem: &[u8], key: JwtKey) {
    let key = match known {
        Some(before) if before.pem == pem => return,
        Some(before) => key.accepting(&before.key),
        None => key,
    };
    *known = Some(Known {
        pem: pem.to_vec(),
        key: Arc::new(key),
    });
}
