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
    let object = format!("Secret/{namespace}/{name}");
    let mut last = None;
    follow_secret(
        client,
        (namespace, name),
        "TLS material",
        spawner,
        move |secret| {
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
        },
    );
    receive
}

/// Watches one Secret, which has `what`, and calls `handle` for each of its versions.
///
/// The part logs a deleted and a missing Secret: the owner keeps what it has.
pub(super) fn follow_secret(
    client: Client,
    (namespace, name): (&str, &str),
    what: &'static str,
    spawner: &Spawner,
    mut handle: impl FnMut(Secret) + Send + 'static,
) {
    let watched = Watch::<Secret>::new(Api::namespaced(client, namespace))
        .fields(&format!("metadata.name={name}"));
    let object = format!("Secret/{namespace}/{name}");
    let token = spawner.token().clone();
    spawner.spawn(format!("credential {object}"), async move {
        let mut there = false;
        watch_trimmed(watched, token, |event| match event {
            Event::Applied { object: secret, .. } => {
                there = true;
                handle(*secret);
            }
            Event::Deleted(_) => {
                there = false;
                tracing::warn!(%object, "a Secret with {what} was deleted; keeping the {what} that it had");
            }
            Event::Synced if !there => {
                tracing::warn!(%object, "waiting for a Secret with {what}");
            }
            Event::Synced | Event::Rewound => {}
        })
        .await;
    });
}

fn pem(data: &BTreeMap<String, k8s_openapi::ByteString>, take: &Take) -> Pem {
    let text = |key: &str| Some(data.get(key).cloned().unwrap_or_default().0);
    let roots = match take {
        Take::Identity => {
            return Pem {
                chain: text(CHAIN),
                key: text(KEY),
                roots: None,
            };
        }
        Take::Roots(keys) => joined(keys.iter().filter_map(|key| data.get(*key))),
        Take::AllRoots => joined(data.iter().filter(|it| it.0 != KEY).map(|it| it.1)),
    };
    Pem {
        roots: Some(roots),
        ..Pem::default()
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
