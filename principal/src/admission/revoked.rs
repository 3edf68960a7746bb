//! Certificates and clusters that are rejected, however valid they are otherwise.
//!
//! The list is the `ConfigMap` of the Go principal, in Argo CD's namespace on the hub. Its keys count and its values do
//! not: 64 hexadecimal digits are the SHA-256 of a certificate, as `openssl x509 -fingerprint -sha256` prints it without
//! colons; `serial.<hexadecimal digits>` is a serial number, and `cluster.<name>` a cluster with all its certificates.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client};
use runtime::{
    kube::{Event, Watch, watch_trimmed},
    parts::Spawner,
};
use tokio::sync::watch;

use crate::admission::identity::PeerCertificate;

/// The name of the `ConfigMap`, which is upstream's.
pub const CONFIG_MAP: &str = "argocd-agent-tls-blocklist";

/// The revoked certificates and clusters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Revoked {
    /// SHA-256 of certificates, lower case.
    fingerprints: BTreeSet<String>,
    /// Serial numbers, lower case without leading zeros.
    serials: BTreeSet<String>,
    clusters: BTreeSet<String>,
}

impl Revoked {
    /// Reads the keys of the list; logs and ignores keys of another form.
    pub fn read<'a>(keys: impl IntoIterator<Item = &'a str>) -> Self {
        let mut list = Self::default();
        for key in keys {
            let hex =
                |text: &str| !text.is_empty() && text.bytes().all(|it| it.is_ascii_hexdigit());
            if let Some(name) = key.strip_prefix("cluster.") {
                list.clusters.insert(name.to_owned());
            } else if let Some(serial) = key.strip_prefix("serial.").filter(|it| hex(it)) {
                list.serials.insert(number(serial));
            } else if key.len() == 64 && hex(key) {
                list.fingerprints.insert(key.to_ascii_lowercase());
            } else {
                tracing::warn!(key, "ignoring an invalid entry of the revocation list");
            }
        }
        list
    }

    /// Whether a cluster is on the list.
    pub fn has_cluster(&self, cluster: &str) -> bool {
        self.clusters.contains(cluster)
    }

    /// Whether a certificate is on the list.
    pub fn has_certificate(&self, certificate: &PeerCertificate) -> bool {
        let fingerprint = || format!("{:?}", certificate.thumbprint);
        // Most lists are empty, and this runs for every session at every change.
        (!self.fingerprints.is_empty() && self.fingerprints.contains(&fingerprint()))
            || (!self.serials.is_empty() && self.serials.contains(&number(&certificate.serial)))
    }
}

/// A number as text that is the same for the same number.
fn number(hex: &str) -> String {
    let short = hex.trim_start_matches('0');
    if short.is_empty() { "0" } else { short }.to_ascii_lowercase()
}

/// Follows the list. Until it is known, every peer is rejected.
pub fn follow(
    client: Client,
    namespace: &str,
    spawner: &Spawner,
) -> watch::Receiver<Option<Arc<Revoked>>> {
    let (send, list) = watch::channel(None);
    let watched = Watch::<ConfigMap>::new(Api::namespaced(client, namespace))
        .fields(&format!("metadata.name={CONFIG_MAP}"));
    let token = spawner.token().clone();
    spawner.spawn("principal: revocation list", async move {
        let mut now = Revoked::default();
        let mut known = false;
        watch_trimmed(watched, token, |event| {
            match event {
                Event::Applied { object, .. } => {
                    let keys = object.data.iter().flat_map(BTreeMap::keys);
                    let binary = object.binary_data.iter().flat_map(BTreeMap::keys);
                    now = Revoked::read(keys.chain(binary).map(String::as_str));
                }
                Event::Deleted(_) => now = Revoked::default(),
                Event::Synced => known = true,
                // A revoked entry stays revoked until a list without it arrives.
                Event::Rewound => {}
            }
            if known {
                send.send_if_modified(|before| {
                    let differs = before.as_deref() != Some(&now);
                    if differs {
                        *before = Some(Arc::new(now.clone()));
                    }
                    differs
                });
            }
        })
        .await;
    });
    list
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Authority;

    #[test]
    fn a_certificate_is_revoked_by_fingerprint_or_by_serial_and_no_other_is() {
        let authority = Authority::new();
        let [one, other] = ["a", "a"].map(|name| authority.agent(name).peer_certificate());
        let fingerprint = format!("{:?}", one.thumbprint);
        let serial = format!("serial.00{}", one.serial);
        for key in [
            fingerprint.to_ascii_uppercase(),
            fingerprint,
            serial.to_ascii_uppercase().replace("SERIAL", "serial"),
        ] {
            let list = Revoked::read([key.as_str()]);
            assert!(list.has_certificate(&one), "{key}");
            assert!(!list.has_certificate(&other), "{key}");
        }
        assert!(!Revoked::default().has_certificate(&one));
    }

    #[test]
    fn a_cluster_is_revoked_by_its_whole_name() {
        let list = Revoked::read(["cluster.a"]);
        assert!(list.has_cluster("a"));
        assert!(!list.has_cluster("ab"));
    }

    #[test]
    fn invalid_revocation_entry_is_ignored() {
        let list = Revoked::read([
            "",
            "serial.",
            "serial.xyz",
            "0123",
            &"g".repeat(64),
            "Cluster.a",
        ]);
        assert_eq!(list, Revoked::default());
    }
}
