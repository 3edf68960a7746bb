//! Own writes that the watches have not shown yet.

use super::State;
use crate::{
    name::ClusterName,
    sdk::{drive::Key, permissions::Part},
};

/// An own write that has to be seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Expected {
    /// The object of the key itself, in this version as the hub answered.
    Version(String),
    /// A work for the cluster.
    Work {
        /// Where it is.
        namespace: String,
        /// Its name.
        name: String,
        /// As the hub answered.
        version: String,
    },
    /// A work for the cluster that is deleting, or gone.
    NoWork {
        /// Where it is.
        namespace: String,
        /// Its name.
        name: String,
    },
    /// What the cluster's agent may do on the hub.
    Permission {
        /// Which of the two objects.
        part: Part,
        /// As the hub answered; none if it was deleted.
        version: Option<String>,
    },
}

impl Expected {
    pub(super) fn is_seen(&self, state: &State, key: &Key) -> bool {
        match (self, key) {
            (Self::Version(version), key) => own_version(state, key)
                // The object was there when it was written: now it is gone.
                .is_none_or(|seen| reaches(&seen, version)),
            (
                Self::Work {
                    namespace,
                    name,
                    version,
                },
                Key::Cluster(cluster),
            ) => {
                let work = work(state, cluster, namespace, name);
                let gone = state.addons.live().get(cluster).is_none();
                gone || work.is_some_and(|work| reaches(&work.resource_version, version))
            }
            (Self::NoWork { namespace, name }, Key::Cluster(cluster)) => {
                work(state, cluster, namespace, name).is_none_or(|work| work.deleting)
            }
            (Self::Permission { part, version }, Key::Cluster(cluster)) => {
                let live = state
                    .permissions
                    .get(part)
                    .map(|cache| cache.live().get(cluster));
                let seen = live.flatten().and_then(super::Permission::version);
                let gone = state.addons.live().get(cluster).is_none();
                match (seen, version) {
                    (Some(seen), Some(version)) => reaches(seen, version),
                    (None, Some(_)) => gone,
                    (seen, None) => seen.is_none(),
                }
            }
            (
                Self::Work { .. } | Self::NoWork { .. } | Self::Permission { .. },
                Key::Request(_) | Key::Configs,
            ) => true,
        }
    }
}

fn own_version(state: &State, key: &Key) -> Option<String> {
    match key {
        Key::Cluster(cluster) => {
            let addon = state.addons.live().get(cluster)?;
            addon.metadata.resource_version.clone()
        }
        Key::Request(name) => {
            let request = state.request(name)?;
            request.metadata.resource_version.clone()
        }
        Key::Configs => {
            let offer = state.offer.live().get(&())?;
            offer.model.metadata.resource_version.clone()
        }
    }
}

fn work<'a>(
    state: &'a State,
    cluster: &ClusterName,
    namespace: &str,
    name: &str,
) -> Option<&'a super::Work> {
    let key = (cluster.clone(), namespace.to_owned(), name.to_owned());
    state.works.live().get(&key).map(AsRef::as_ref)
}

/// Versions of one resource are numbers that grow. What is not a number cannot be waited for.
fn reaches(seen: &str, wanted: &str) -> bool {
    let number = |text: &str| text.parse::<u64>().ok();
    number(seen)
        .zip(number(wanted))
        .is_none_or(|(seen, wanted)| seen >= wanted)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{
        api::addon::ManagedClusterAddOn,
        sdk::{cache::Change, world::Work},
    };

    fn cluster() -> ClusterName {
        ClusterName::new("c").unwrap()
    }

    fn seeing(version: &str) -> State {
        let mut state = State::default();
        let mut addon = ManagedClusterAddOn::default();
        addon.metadata.resource_version = Some(version.to_owned());
        state
            .addons
            .absorb(Change::Applied(cluster(), Arc::new(addon)));
        let work = Work {
            resource_version: version.to_owned(),
            ..Work::default()
        };
        let key = (cluster(), "c".to_owned(), "w".to_owned());
        state.works.absorb(Change::Applied(key, Arc::new(work)));
        state
    }

    fn is_seen(expected: &Expected, state: &State) -> bool {
        expected.is_seen(state, &Key::Cluster(cluster()))
    }

    #[test]
    fn a_later_version_is_good_enough_and_an_earlier_one_is_not() {
        let name = || "w".to_owned();
        for (seen, wanted, enough) in [("10", "9", true), ("10", "10", true), ("9", "10", false)] {
            let version = || wanted.to_owned();
            let state = seeing(seen);
            assert_eq!(is_seen(&Expected::Version(version()), &state), enough);
            let work = Expected::Work {
                namespace: "c".to_owned(),
                name: name(),
                version: version(),
            };
            assert_eq!(is_seen(&work, &state), enough);
        }
        assert!(is_seen(
            &Expected::Version("opaque".to_owned()),
            &seeing("1")
        ));
    }

    #[test]
    fn nothing_is_waited_for_when_the_add_on_is_gone() {
        let state = State::default();
        assert!(is_seen(&Expected::Version("9".to_owned()), &state));
        let work = Expected::Work {
            namespace: "c".to_owned(),
            name: "w".to_owned(),
            version: "9".to_owned(),
        };
        assert!(is_seen(&work, &state));
        let no_work = |name: &str| Expected::NoWork {
            namespace: "c".to_owned(),
            name: name.to_owned(),
        };
        assert!(!is_seen(&no_work("w"), &seeing("1")));
        assert!(is_seen(&no_work("x"), &seeing("1")));
        let permission = |version: Option<&str>| Expected::Permission {
            part: Part::Role,
            version: version.map(str::to_owned),
        };
        assert!(is_seen(&permission(Some("9")), &state));
        assert!(is_seen(&permission(None), &state));
        assert!(!is_seen(&permission(Some("9")), &seeing("1")));
    }
}
