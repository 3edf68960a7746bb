//! TLS material from Secrets of the Kubernetes API.

use std::collections::BTreeMap;
use std::sync::Arc;

use ::kube::{Api, Client};
use k8s_openapi::api::core::v1::Secret;
use tokio::sync::watch;

use super::material::{Material, Pem};
use crate::clock::Clock;
use crate::error::Chain;
use crate::kube::{Event, Watch, watch_trimmed};
use crate::parts::Spawner;

const CHAIN: &str = "tls.crt";
const KEY: &str = "tls.key";

/// The keys of a Secret to use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Take {
    /// `tls.crt` and `tls.key`.
    Identity,
    /// Trusted certificates from these keys, if they exist.
    Roots(&'static [&'static str]),
    /// Trusted certificates from every key but `tls.key`.
    AllRoots,
}

/// Watches one Secret and publishes its valid material.
///
/// The receiver starts empty. A missing or invalid Secret is logged, and the last valid material stays, also after the
/// Secret is deleted.
pub fn watch(
    client: Client,
    namespace: &str,
    name: &str,
    take: Take,
    clock: Clock,
    spawner: &Spawner,
) -> watch::Receiver<Arc<Material>> {
    let (send, receive) = watch::channel(Arc::new(Material::default()));
    let watched = Watch::<Secret>::new(Api::namespaced(client, namespace))
        .fields(&format!("metadata.name={name}"));
    let object = format!("Secret/{namespace}/{name}");
    let token = spawner.token().clone();
    spawner.spawn(format!("credential {object}"), async move {
        let mut last = None;
        let mut there = false;
        watch_trimmed(watched, token, |event| match event {
            Event::Applied { object: secret, .. } => {
                there = true;
                let pem = pem(&secret.data.unwrap_or_default(), &take);
                let content = pem.fingerprint();
                if last == Some(content) {
                    return;
                }
                match Material::parse(&pem, clock.now()) {
                    Ok(material) => {
                        tracing::info!(%object, not_after = ?material.not_after(), "reloaded TLS material");
                        last = Some(content);
                        send.send_replace(Arc::new(material));
                    }
                    Err(error) => {
                        tracing::warn!(%object, error = %Chain(&error), "cannot reload TLS material");
                    }
                }
            }
            Event::Deleted(_) => {
                there = false;
                tracing::warn!(%object, "a Secret with TLS material was deleted; keeping the material");
            }
            Event::Synced if !there => {
                tracing::warn!(%object, "waiting for a Secret with TLS material");
            }
            Event::Synced | Event::Rewound => {}
        })
        .await;
    });
    receive
}

fn pem(data: &BTreeMap<String, k8s_openapi::ByteString>, take: &Take) -> Pem {
    let text = |key: &str| {
        Some(
            data.get(key)
                .map(|value| value.0.clone())
                .unwrap_or_default(),
        )
    };
    match take {
        Take::Identity => Pem {
            chain: text(CHAIN),
            key: text(KEY),
            roots: None,
        },
        Take::Roots(keys) => {
            let texts = keys.iter().filter_map(|key| data.get(*key));
            Pem {
                roots: Some(joined(texts)),
                ..Pem::default()
            }
        }
        Take::AllRoots => {
            let texts = data
                .iter()
                .filter(|(key, _)| *key != KEY)
                .map(|(_, value)| value);
            Pem {
                roots: Some(joined(texts)),
                ..Pem::default()
            }
        }
    }
}

/// Concatenates PEM texts; a text need not end with a new line.
fn joined<'a>(texts: impl Iterator<Item = &'a k8s_openapi::ByteString>) -> Vec<u8> {
    texts.fold(vec![], |mut all, text| {
        all.extend_from_slice(&text.0);
        all.push(b'\n');
        all
    })
}
