//! How soon a change of an object wakes its cluster. Pure.
//!
//! A cluster may write its ManagedCluster's labels, and the status of its ManagedCluster, of its add-on and of its works, at
//! any rate.

use crate::{
    api::{addon::ManagedClusterAddOn, cluster::ManagedCluster},
    sdk::{object_cache::Work, queue::Wake},
};

/// For a change of a ManagedCluster.
pub(super) fn of_cluster(before: Option<&ManagedCluster>, now: Option<&ManagedCluster>) -> Wake {
    let Some((before, now)) = before.zip(now) else {
        return Wake::Now;
    };
    if cluster_on_hub(before) != cluster_on_hub(now) {
        Wake::Now
    } else if before.conditions() == now.conditions() {
        Wake::Labels
    } else {
        Wake::Status
    }
}

/// The part of a ManagedCluster that the cluster may not change at any rate.
fn cluster_on_hub(cluster: &ManagedCluster) -> impl PartialEq + '_ {
    let metadata = &cluster.metadata;
    (&cluster.spec, &metadata.uid, &metadata.deletion_timestamp)
}

/// For a change of the add-on on a cluster.
pub(super) fn of_addon(
    before: Option<&ManagedClusterAddOn>,
    now: Option<&ManagedClusterAddOn>,
) -> Wake {
    let both = before.zip(now);
    let is_status = both.is_some_and(|(before, now)| addon_on_hub(before) == addon_on_hub(now));
    if is_status { Wake::Status } else { Wake::Now }
}

/// The part of an add-on that its cluster may not write.
fn addon_on_hub(addon: &ManagedClusterAddOn) -> impl PartialEq + '_ {
    let metadata = &addon.metadata;
    (
        &addon.spec,
        &metadata.uid,
        &metadata.deletion_timestamp,
        &metadata.annotations,
        &metadata.labels,
        &metadata.finalizers,
        &metadata.owner_references,
    )
}

/// For a change of a work.
pub(super) fn of_work(before: Option<&Work>, now: Option<&Work>) -> Wake {
    let both = before.zip(now);
    let is_status = both.is_some_and(|(before, now)| work_on_hub(before) == work_on_hub(now));
    if is_status { Wake::Status } else { Wake::Now }
}

/// The part of a work that its cluster may not write; a work agent may write the finalizers.
fn work_on_hub(work: &Work) -> impl PartialEq + '_ {
    (
        &work.digest,
        work.report.generation,
        work.report.created,
        work.deleting,
        &work.annotation,
        &work.owner,
        &work.hosted_label,
    )
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::*;
    use crate::{
        api::{addon::AddOnConfig, cluster::ClusterClaim},
        condition::Verdict,
    };

    fn condition() -> k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition {
        let verdict = Verdict::new("ManagedClusterConditionAvailable", false, "R", "");
        verdict.onto(&[], jiff::Timestamp::UNIX_EPOCH)
    }

    #[test]
    fn changes_that_a_cluster_may_repeat_are_paced() {
        let mut before = ManagedCluster::default();
        before.spec.hub_accepts_client = true;
        let wake = |now: &ManagedCluster| of_cluster(Some(&before), Some(now));
        let mut flapped = before.clone();
        let label = [("env".to_owned(), "dev".to_owned())];
        flapped.metadata.labels = Some(label.clone().into());
        flapped.metadata.annotations = Some(label.into());
        let (name, value) = ("region".to_owned(), "eu".to_owned());
        let claim = ClusterClaim { name, value };
        let status = flapped.status.get_or_insert_default();
        status.cluster_claims.push(claim);
        assert_eq!(wake(&flapped), Wake::Labels);

        let mut lost = flapped.clone();
        let status = lost.status.get_or_insert_default();
        status.conditions.push(condition());
        assert_eq!(wake(&lost), Wake::Status);

        let mut refused = flapped.clone();
        refused.spec.hub_accepts_client = false;
        let mut deleting = flapped.clone();
        deleting.metadata.deletion_timestamp = Some(Time(jiff::Timestamp::UNIX_EPOCH));
        let mut recreated = flapped;
        recreated.metadata.uid = Some("another".to_owned());
        for now in [refused, deleting, recreated] {
            assert_eq!(wake(&now), Wake::Now, "{now:?}");
        }
        assert_eq!(of_cluster(None, Some(&before)), Wake::Now);
        assert_eq!(of_cluster(Some(&before), None), Wake::Now);
    }

    #[test]
    fn only_the_status_of_an_add_on_is_paced() {
        let before = ManagedClusterAddOn::default();
        let wake = |now: &ManagedClusterAddOn| of_addon(Some(&before), Some(now));
        let mut flipped = before.clone();
        flipped.metadata.resource_version = Some("2".to_owned());
        let status = flipped.status.get_or_insert_default();
        status.conditions.push(condition());
        assert_eq!(wake(&flipped), Wake::Status);

        let mut annotated = flipped.clone();
        annotated.metadata.annotations = Some([("a".to_owned(), "b".to_owned())].into());
        let mut configured = flipped.clone();
        configured.spec.configs.push(AddOnConfig::default());
        let mut deleting = flipped;
        deleting.metadata.deletion_timestamp = Some(Time(jiff::Timestamp::UNIX_EPOCH));
        for now in [annotated, configured, deleting] {
            assert_eq!(wake(&now), Wake::Now, "{now:?}");
        }
        assert_eq!(of_addon(None, Some(&before)), Wake::Now);
    }

    #[test]
    fn only_status_and_finalizers_of_a_work_are_paced() {
        let before = Work::default();
        let wake = |now: &Work| of_work(Some(&before), Some(now));
        let mut flipped = before.clone();
        flipped.resource_version = "2".to_owned();
        flipped.finalizers.push("f".to_owned());
        flipped.report.status.conditions.push(condition());
        assert_eq!(wake(&flipped), Wake::Status);

        let mut edited = flipped.clone();
        edited.digest = "edited".to_owned();
        let mut deleting = flipped;
        deleting.deleting = true;
        for now in [edited, deleting] {
            assert_eq!(wake(&now), Wake::Now, "{now:?}");
        }
        assert_eq!(of_work(Some(&before), None), Wake::Now);
    }
}
