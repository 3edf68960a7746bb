//! Why OCM has not set the `ClusterManagementAddOn` as owner of an add-on. Pure.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::{
    api::addon::{ClusterManagementAddOn, ManagedClusterAddOn},
    keys,
    name::AddonName,
};

/// OCM sets the owner of a new add-on in well under a second; after this time it is reported.
const GRACE: SignedDuration = SignedDuration::from_secs(30);

/// What to do about an add-on without its owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Idle {
    /// It is too early to report it.
    Wait(Duration),
    /// Report it: reason and message of an Event.
    Warn(&'static str, String),
}

/// Finds out why the add-on has no owner.
pub(crate) fn idle(
    name: &AddonName,
    addon: &ManagedClusterAddOn,
    offer: Option<&ClusterManagementAddOn>,
    now: Timestamp,
) -> Idle {
    let Some(offer) = offer else {
        let message = format!(
            "ClusterManagementAddOn {name} not found, so the add-on is not installed on this cluster; install the \
            add-on on the hub"
        );
        return Idle::Warn("NoClusterManagementAddOn", message);
    };
    let annotations = offer.metadata.annotations.as_ref();
    let lifecycle = annotations.and_then(|all| all.get(keys::LIFECYCLE));
    if let Some(other) = lifecycle.filter(|it| !["", "addon-manager"].contains(&it.as_str())) {
        let message = format!(
            "the annotation {}={other} on the ClusterManagementAddOn {name} disables OCM for the add-on, so it is \
            not installed on this cluster; remove the annotation",
            keys::LIFECYCLE
        );
        return Idle::Warn("NotManagedByOcm", message);
    }
    let made = addon.metadata.creation_timestamp.as_ref();
    let age = made.map_or(GRACE, |made| now.duration_since(made.0));
    // The hub's clock may be ahead.
    let left = GRACE.saturating_sub(age).min(GRACE);
    match Duration::try_from(left) {
        Ok(left) if !left.is_zero() => Idle::Wait(left),
        Ok(_) | Err(_) => {
            let message = format!(
                "OCM has not set the ClusterManagementAddOn {name} as owner, so the add-on is not installed on \
                this cluster; check that OCM's add-on manager runs on the hub"
            );
            Idle::Warn("NotTakenIn", message)
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn idle_at(second: i64, offer: Option<&ClusterManagementAddOn>) -> Idle {
        let mut addon = ManagedClusterAddOn::default();
        addon.metadata.creation_timestamp = Some(Time(at(1000)));
        idle(&AddonName::new("a").unwrap(), &addon, offer, at(second))
    }

    fn offer(lifecycle: Option<&str>) -> ClusterManagementAddOn {
        let mut offer = ClusterManagementAddOn::default();
        let annotation = lifecycle.map(|it| (keys::LIFECYCLE.to_owned(), it.to_owned()));
        offer.metadata.annotations = Some(annotation.into_iter().collect());
        offer
    }

    #[test]
    fn unmanaged_add_on_is_explained_after_a_delay() {
        let reason = |idle| match idle {
            Idle::Warn(reason, message) => {
                assert!(
                    message.contains("not installed on this cluster"),
                    "{message}"
                );
                reason
            }
            Idle::Wait(left) => panic!("waits {left:?}"),
        };
        assert_eq!(reason(idle_at(1000, None)), "NoClusterManagementAddOn");
        let own = offer(Some("self"));
        assert_eq!(reason(idle_at(1000, Some(&own))), "NotManagedByOcm");
        for lifecycle in [None, Some("addon-manager")] {
            let offer = offer(lifecycle);
            let left = Duration::from_secs(20);
            assert_eq!(idle_at(1010, Some(&offer)), Idle::Wait(left));
            assert_eq!(reason(idle_at(1030, Some(&offer))), "NotTakenIn");
        }
    }

    #[test]
    fn a_clock_that_is_behind_the_hubs_makes_no_long_wait() {
        let left = Duration::from_secs(30);
        assert_eq!(idle_at(-90_000, Some(&offer(None))), Idle::Wait(left));
    }
}
