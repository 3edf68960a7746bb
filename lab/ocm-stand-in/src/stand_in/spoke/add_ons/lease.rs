//! Checks the leases of add-ons that do not report their health themselves.

use anyhow::Result;
use jiff::{SignedDuration, Timestamp};
use kube::{ResourceExt, api::DynamicObject};

use super::{super::Spoke, registration, set_condition};
use crate::{
    condition::Condition,
    control::Again,
    kinds::{LEASE, MANAGED_CLUSTER_ADD_ON},
    stand_in::times,
};

/// A lease expires after this, regardless of its own duration.
const GRACE: SignedDuration = SignedDuration::from_secs(5 * 60);

pub(super) async fn pass(spoke: Spoke) -> Result<Again> {
    let mut again = None;
    for add_on in spoke.on_hub.within(MANAGED_CLUSTER_ADD_ON, &spoke.cluster) {
        if add_on.data["status"]["healthCheck"]["mode"] == "Customized" {
            continue;
        }
        again = Some(times::ADD_ON_LEASE);
        let wanted = judge(&spoke, &add_on).await?;
        set_condition(&spoke, &add_on, &wanted).await?;
    }
    Ok(again)
}

async fn judge(spoke: &Spoke, add_on: &DynamicObject) -> Result<Condition> {
    let name = add_on.name_any();
    let hosted = registration::is_hosted(add_on);
    let cluster = if hosted {
        &spoke.management
    } else {
        &spoke.registration
    };
    let leases = LEASE.within(cluster, &registration::namespace(add_on));
    let Some(lease) = leases.get_opt(&name).await? else {
        let message = format!("The status of {name} add-on is unknown.");
        let reason = "ManagedClusterAddOnLeaseNotFound";
        return Ok(Condition::new("Available", "Unknown", reason, message));
    };
    let renewed = lease.data["spec"]["renewTime"].as_str();
    let renewed: Option<Timestamp> = renewed.and_then(|time| time.parse().ok());
    let age = renewed.map(|renewed| Timestamp::now().duration_since(renewed));
    Ok(if age.is_some_and(|age| age < GRACE) {
        let message = format!("{name} add-on is available.");
        Condition::of(
            "Available",
            true,
            "ManagedClusterAddOnLeaseUpdated",
            message,
        )
    } else {
        let message = format!("{name} add-on is not available.");
        let reason = "ManagedClusterAddOnLeaseUpdateStopped";
        Condition::of("Available", false, reason, message)
    })
}
