//! Names from untrusted input: the constructors check them, so the type proves that a name is valid.

use std::{borrow::Borrow, str::FromStr};

use serde::{Deserialize, Serialize};

/// Why a text is not a name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} is not a DNS label (1 to 63 of a-z, 0-9 and -, beginning and ending with a letter or digit)"
)]
pub struct InvalidName {
    text: String,
}

/// Whether `text` is a DNS-1123 label.
pub fn is_dns_label(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=63).contains(&text.len())
        && text.bytes().all(inner)
        && !text.starts_with('-')
        && !text.ends_with('-')
}

macro_rules! label_name {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[derive(derive_more::Debug, derive_more::Display)]
        #[debug("{_0:?}")]
        #[serde(try_from = "String")]
        pub struct $name(String);

        impl $name {
            /// Checks `text` and wraps it.
            pub fn new(text: impl Into<String>) -> Result<Self, InvalidName> {
                let text = text.into();
                if is_dns_label(&text) { Ok(Self(text)) } else { Err(InvalidName { text }) }
            }

            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl TryFrom<String> for $name {
            type Error = InvalidName;

            fn try_from(text: String) -> Result<Self, Self::Error> {
                Self::new(text)
            }
        }

        impl FromStr for $name {
            type Err = InvalidName;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                Self::new(text)
            }
        }

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }
    };
}

label_name! {
    /// The name of a managed cluster, which is also its namespace on the hub.
    ClusterName
}

label_name! {
    /// The name of an add-on: of its `ClusterManagementAddOn` and of every `ManagedClusterAddOn`.
    AddonName
}

impl AddonName {
    /// The group of this add-on's agent on one cluster.
    pub fn cluster_group(&self, cluster: &ClusterName) -> String {
        format!("system:open-cluster-management:cluster:{cluster}:addon:{self}")
    }

    /// The group of this add-on's agents on all clusters.
    pub fn group(&self) -> String {
        format!("system:open-cluster-management:addon:{self}")
    }

    /// The user name of one agent of this add-on on the hub.
    pub fn user(&self, cluster: &ClusterName, agent: &str) -> String {
        format!("{}:agent:{agent}", self.cluster_group(cluster))
    }

    /// The one DNS name that OCM's registration agent puts into this add-on's requests.
    pub fn dns_name(&self) -> String {
        format!("{self}.addon.open-cluster-management.io")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn invalid_dns_labels_are_refused() {
        for text in [
            "",
            "-a",
            "a-",
            "A",
            "a.b",
            "a/b",
            "a b",
            "ä",
            &"a".repeat(64),
        ] {
            assert!(ClusterName::new(text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_agents_identity_is_spelled_as_ocm_spells_it() {
        let (addon, cluster) = (AddonName::new("a").unwrap(), ClusterName::new("c").unwrap());
        assert_eq!(
            addon.user(&cluster, "a"),
            "system:open-cluster-management:cluster:c:addon:a:agent:a"
        );
        assert_eq!(addon.group(), "system:open-cluster-management:addon:a");
    }

    proptest! {
        #[test]
        fn a_name_survives_the_round_trip(text in "[a-z0-9]([a-z0-9-]{0,20}[a-z0-9])?") {
            let name = ClusterName::new(text.clone()).unwrap();
            let json = serde_json::to_string(&name).unwrap();
            prop_assert_eq!(serde_json::from_str::<ClusterName>(&json).unwrap(), name);
        }
    }
}
