//! Own writes that the watches have not shown yet.

use tokio::time::Instant;

use super::State;
use crate::name::ClusterName;

/// An own write that has to be seen.
#[derive(Clone, Debug)]
pub(crate) enum Expected {
    /// The add-on in this version.
    Addon {
        /// As the hub answered.
        resource_version: String,
        /// Afterwards it does not matter any more.
        until: Instant,
    },
    /// A work in this version.
    Work {
        /// Its name.
        name: String,
        /// As the hub answered.
        resource_version: String,
        /// Afterwards it does not matter any more.
        until: Instant,
    },
    /// A work that is deleting, or gone.
    NoWork {
        /// Its name.
        name: String,
        /// Afterwards it does not matter any more.
        until: Instant,
    },
}

impl Expected {
    pub(super) fn is_seen(&self, state: &State, cluster: &ClusterName, now: Instant) -> bool {
        match self {
            Self::Addon {
                resource_version,
                until,
            } => {
                let addon = state.addons.live().get(cluster);
                let seen = addon.and_then(|addon| addon.metadata.resource_version.as_deref());
                *until <= now || reaches(seen, resource_version)
            }
            Self::Work {
                name,
                resource_version,
                until,
            } => {
                let work = state.works.live().get(&(cluster.clone(), name.clone()));
                let seen = work.map(|work| work.resource_version.as_str());
                *until <= now || reaches(seen, resource_version)
            }
            Self::NoWork { name, until } => {
                let work = state.works.live().get(&(cluster.clone(), name.clone()));
                *until <= now || work.is_none_or(|work| work.deleting)
            }
        }
    }
}

/// Versions of one resource are numbers that grow. One that is not a number cannot be waited for.
fn reaches(seen: Option<&str>, wanted: &str) -> bool {
    let number = |text: &str| text.parse::<u64>().ok();
    let Some(wanted) = number(wanted) else {
        return true;
    };
    seen.is_some_and(|seen| number(seen).is_none_or(|seen| seen >= wanted))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_later_version_is_good_enough_and_an_earlier_one_is_not() {
        assert!(reaches(Some("10"), "9"));
        assert!(reaches(Some("10"), "10"));
        assert!(!reaches(Some("9"), "10"));
        assert!(!reaches(None, "10"));
        assert!(reaches(None, "opaque"));
    }

    #[test]
    fn patience_ends() {
        let now = Instant::now();
        let cluster = ClusterName::new("c").unwrap();
        let addon = Expected::Addon {
            resource_version: "1".to_owned(),
            until: now,
        };
        assert!(addon.is_seen(&State::default(), &cluster, now));
        let later = now - std::time::Duration::from_secs(1);
        assert!(!addon.is_seen(&State::default(), &cluster, later));
    }
}
