//! TLS material from Secrets and `ConfigMap`s of the Kubernetes API.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;

use ::kube::{Api, Client, Resource};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::{ByteString, NamespaceResourceScope};
use serde::de::DeserializeOwned;
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
    let pem = move |secret: Secret| {
        let data = secret.data.unwrap_or_default().into_iter();
        pem(data.map(|(key, value)| (key, value.0)), &take)
    };
    publish(client, (namespace, name), pem, clock, spawner)
}

/// Watches one Secret and publishes the trusted certificates that `roots` makes of its data, as [`watch()`] does.
pub fn watch_roots(
    client: Client,
    namespace: &str,
    name: &str,
    roots: impl Fn(&BTreeMap<String, ByteString>) -> Vec<u8> + Send + 'static,
    clock: Clock,
    spawner: &Spawner,
) -> watch::Receiver<Arc<Material>> {
    let pem = move |secret: Secret| Pem {
        roots: Some(roots(&secret.data.unwrap_or_default())),
        ..Pem::default()
    };
    publish(client, (namespace, name), pem, clock, spawner)
}

/// Watches one `ConfigMap` and publishes the trusted certificates of all its keys, as [`watch()`] does.
pub fn watch_config_map(
    client: Client,
    namespace: &str,
    name: &str,
    clock: Clock,
    spawner: &Spawner,
) -> watch::Receiver<Arc<Material>> {
    let pem = |map: ConfigMap| {
        let data = map.data.unwrap_or_default().into_iter();
        pem(
            data.map(|(key, value)| (key, value.into_bytes())),
            &Take::AllRoots,
        )
    };
    publish(client, (namespace, name), pem, clock, spawner)
}

/// Watches one object, and publishes what `pem` takes from it.
fn publish<K>(
    client: Client,
    (namespace, name): (&str, &str),
    pem: impl Fn(K) -> Pem + Send + 'static,
    clock: Clock,
    spawner: &Spawner,
) -> watch::Receiver<Arc<Material>>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    K: Clone + DeserializeOwned + Debug + Send + Sync + 'static,
{
    let (send, receive) = watch::channel(Arc::new(Material::default()));
    let object = full_name::<K>(namespace, name);
    let mut last = None;
    follow_object(
        client,
        (namespace, name),
        "TLS material",
        spawner,
        move |found: K| {
            let pem = pem(found);
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

/// Watches one object, which has `what`, and calls `handle` for each of its versions.
///
/// The part logs a deleted and a missing object: the owner keeps what it has.
fn follow_object<K>(
    client: Client,
    (namespace, name): (&str, &str),
    what: &'static str,
    spawner: &Spawner,
    mut handle: impl FnMut(K) + Send + 'static,
) where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    K: Clone + DeserializeOwned + Debug + Send + Sync + 'static,
{
    let watched = Watch::<K>::new(Api::namespaced(client, namespace))
        .fields(&format!("metadata.name={name}"));
    let object = full_name::<K>(namespace, name);
    let token = spawner.token().clone();
    spawner.spawn(format!("credential {object}"), async move {
        let mut there = false;
        watch_trimmed(watched, token, |event| match event {
            Event::Applied { object: found, .. } => {
                there = true;
                handle(*found);
            }
            Event::Deleted(_) => {
                there = false;
                tracing::warn!(%object, "an object with {what} was deleted; keeping the {what} that it had");
            }
            Event::Synced if !there => {
                tracing::warn!(%object, "waiting for an object with {what}");
            }
            Event::Synced | Event::Rewound => {}
        })
        .await;
    });
}

/// Kind, namespace and name, for logs.
fn full_name<K: Resource<DynamicType = ()>>(namespace: &str, name: &str) -> String {
    format!("{}/{namespace}/{name}", K::kind(&()))
}

fn pem(data: impl Iterator<Item = (String, Vec<u8>)>, take: &Take) -> Pem {
    let data: BTreeMap<String, Vec<u8>> = data.collect();
    let text = |key: &str| Some(data.get(key).cloned().unwrap_or_default());
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
fn joined<'a>(texts: impl Iterator<Item = &'a Vec<u8>>) -> Vec<u8> {
    texts.fold(vec![], |mut all, text| {
        all.extend_from_slice(text);
        all.push(b'\n');
        all
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roots_are_of_the_chosen_keys_and_never_of_a_private_key() {
        let data = [("ca.crt", "a"), ("other", "b\n"), ("tls.key", "key")];
        let roots = |take: Take| {
            let data = data.map(|(key, text)| (key.to_owned(), text.as_bytes().to_vec()));
            let pem = pem(data.into_iter(), &take);
            assert!(pem.chain.is_none() && pem.key.is_none());
            String::from_utf8(pem.roots.unwrap()).unwrap()
        };
        assert_eq!(roots(Take::AllRoots), "a\nb\n\n");
        assert_eq!(roots(Take::Roots(&["ca.crt", "tls.crt"])), "a\n");
        assert_eq!(roots(Take::Roots(&["tls.crt"])), "");
    }
}
