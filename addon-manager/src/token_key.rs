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
use tokio::{
    sync::{oneshot, watch},
    time::timeout,
};

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
    let wait = async {
        if let Ok(found) = timeout(TIME_LIMIT, &mut found).await {
            return found;
        }
        tracing::warn!(
            namespace,
            name,
            key = JWT_KEY,
            "waiting for a Secret with the token key"
        );
        found.await
    };
    let found = spawner.token().run_until_cancelled(wait).await;
    found.and_then(Result::ok).ok_or(Error::Stopped)
}

/// Watches the Secret, and returns the key once there is one; an invalid key changes nothing.
fn follow(
    client: Client,
    namespace: &str,
    name: &str,
    spawner: &Spawner,
) -> oneshot::Receiver<watch::Receiver<Arc<JwtKey>>> {
    let (first, found) = oneshot::channel();
    let (mut first, mut known) = (Some(first), None::<Known>);
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
            Ok(_) if known.as_ref().is_some_and(|known| known.pem == pem.0) => {}
            Ok(key) => {
                let keys = if let Some(Known { keys, .. }) = known.take() {
                    let key = key.accepting(&keys.borrow());
                    keys.send_replace(Arc::new(key));
                    keys
                } else {
                    let (keys, receiver) = watch::channel(Arc::new(key));
                    // An error means that the process stops.
                    drop(first.take().map(|first| first.send(receiver)));
                    keys
                };
                let pem = pem.0.clone();
                known = Some(Known { pem, keys });
            }
            Err(error) => {
                tracing::warn!(error = %Chain(&error), "the token key is not usable");
            }
        }
    });
    spawner.spawn("token key", following);
    found
}

/// The key in use, and the text that it was read from.
struct Known {
    pem: Vec<u8>,
    keys: watch::Sender<Arc<JwtKey>>,
}
