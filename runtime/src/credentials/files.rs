//! TLS material from files, such as a mounted Secret.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::material::{Error as MaterialError, Material, Pem};
use crate::clock::Clock;
use crate::error::Chain;
use crate::parts::Spawner;

/// Volumes of Secrets change about once a minute at most, and reading three small files is cheap.
pub const POLL_INTERVAL: Duration = Duration::from_secs(3);

/// Paths of the files; parts without a path are not used.
#[derive(Debug, Clone, Default)]
pub struct Paths {
    /// The leaf and its intermediates.
    pub chain: Option<PathBuf>,
    /// The private key.
    pub key: Option<PathBuf>,
    /// Trusted certificates.
    pub roots: Option<PathBuf>,
}

/// Why files cannot be used.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("read {path:?}")]
    ReadFile { path: PathBuf, source: io::Error },
    #[error("check the TLS material in {paths:?}")]
    Check {
        paths: Vec<PathBuf>,
        source: MaterialError,
    },
}

/// Reads the files now, and again after each change of their content.
///
/// The receiver starts with the current files, or empty. A missing or invalid file is logged once, and the last valid
/// material stays.
pub async fn watch(
    paths: Paths,
    clock: Clock,
    spawner: &Spawner,
) -> watch::Receiver<Arc<Material>> {
    let (send, receive) = watch::channel(Arc::new(Material::default()));
    let mut reader = Reader {
        paths,
        clock,
        last: None,
        complaint: None,
    };
    if let Some(material) = reader.read().await {
        send.send_replace(Arc::new(material));
    }
    let token = spawner.token().clone();
    spawner.spawn("credential files", async move {
        let mut ticks = tokio::time::interval(POLL_INTERVAL);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        while token.run_until_cancelled(ticks.tick()).await.is_some() {
            if let Some(material) = reader.read().await {
                tracing::info!(not_after = ?material.not_after(), "reloaded TLS material");
                send.send_replace(Arc::new(material));
            }
        }
    });
    receive
}

struct Reader {
    paths: Paths,
    clock: Clock,
    /// Fingerprint of the current material.
    last: Option<u64>,
    /// The last logged error, so that it is logged once.
    complaint: Option<String>,
}

impl Reader {
    /// Reads the files; none if they are unchanged or invalid.
    async fn read(&mut self) -> Option<Material> {
        let read = self.read_files().await;
        let checked = read.and_then(|pem| {
            let content = pem.fingerprint();
            if self.last == Some(content) {
                return Ok(None);
            }
            let material = Material::parse(&pem, self.clock.now()).map_err(|source| {
                let Paths { chain, key, roots } = self.paths.clone();
                Error::Check {
                    paths: [chain, key, roots].into_iter().flatten().collect(),
                    source,
                }
            })?;
            Ok(Some((content, material)))
        });
        match checked {
            Ok(new) => {
                self.complaint = None;
                let (content, material) = new?;
                self.last = Some(content);
                Some(material)
            }
            Err(error) => {
                let complaint = Chain(&error).to_string();
                if self.complaint.as_ref() != Some(&complaint) {
                    tracing::warn!(error = %complaint, "cannot reload TLS material");
                    self.complaint = Some(complaint);
                }
                None
            }
        }
    }

    async fn read_files(&self) -> Result<Pem, Error> {
        let Paths { chain, key, roots } = &self.paths;
        Ok(Pem {
            chain: read(chain.as_ref()).await?,
            key: read(key.as_ref()).await?,
            roots: read(roots.as_ref()).await?,
        })
    }
}

async fn read(path: Option<&PathBuf>) -> Result<Option<Vec<u8>>, Error> {
    let Some(path) = path else { return Ok(None) };
    tokio::fs::read(path)
        .await
        .map(Some)
        .map_err(|source| Error::ReadFile {
            path: path.clone(),
            source,
        })
}
