//! The condition of a cluster's works, and when the SDK may write `Available`. Pure.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::{HealthMode, WorkReport};
use crate::{
    api::{cluster::ManagedCluster, work::ManifestCondition},
    condition::{self, Status, Verdict},
};

/// Every reason of `ManifestApplied` and `HostingManifestApplied`.
pub(crate) mod reason {
    /// All works are applied.
    pub(crate) const APPLIED: &str = "AddonManifestApplied";
    /// The cluster could not apply a work.
    pub(crate) const FAILED: &str = "AddonManifestAppliedFailed";
    /// The hub rejected a work, or rendering failed.
    pub(crate) const NOT_WRITTEN: &str = "ManifestWorkApplyFailed";
}

/// The condition for all works; `None` while the cluster has not reported each of them.
///
/// A report counts only if it is about the work's newest generation.
pub(crate) fn manifest_applied(kind: &str, works: &[&WorkReport]) -> Option<Verdict> {
    if works.is_empty() {
        return Some(Verdict::new(
            kind,
            true,
            reason::APPLIED,
            "no manifest need to apply",
        ));
    }
    let failed = works.iter().filter(|work| has_failed(work));
    let failed: Vec<_> = failed.flat_map(|work| failures(work)).collect();
    if !failed.is_empty() {
        let names = failed.join("; ");
        let message = format!("failed to apply the manifests of addon: {names}");
        return Some(Verdict::new(kind, false, reason::FAILED, message));
    }
    let all = works.iter().all(|work| answer(work) == Some(true));
    let message = "manifests of addon are applied successfully";
    all.then(|| Verdict::new(kind, true, reason::APPLIED, message))
}

/// Whether the cluster reports that it could not apply this work.
pub(crate) fn has_failed(work: &WorkReport) -> bool {
    answer(work) == Some(false)
}

fn answer(work: &WorkReport) -> Option<bool> {
    let applied = condition::find(&work.status.conditions, condition::work::APPLIED)?;
    if applied.observed_generation != Some(work.generation) {
        return None;
    }
    match applied.status.as_str() {
        "True" => Some(true),
        "False" => Some(false),
        _unknown => None,
    }
}

/// The objects that could not be applied, each with its message; else the message of the work itself.
fn failures(work: &WorkReport) -> Vec<String> {
    let failed = |object: &&ManifestCondition| {
        condition::has(&object.conditions, condition::work::APPLIED, Status::False)
    };
    let objects = work.objects().iter().filter(failed);
    let named: Vec<_> = objects.take(SHOWN).map(describe).collect();
    if named.is_empty() {
        let why = message(&work.status.conditions);
        return vec![format!("{}: {why}", work.name)];
    }
    named
}

/// The most failed objects that a message names.
const SHOWN: usize = 5;

fn describe(object: &ManifestCondition) -> String {
    let meta = &object.resource_meta;
    let why: String = message(&object.conditions).chars().take(300).collect();
    format!("{} {}/{}: {why}", meta.kind, meta.namespace, meta.name)
}

fn message(conditions: &[Condition]) -> &str {
    let applied = condition::find(conditions, condition::work::APPLIED);
    applied.map_or("", |applied| &applied.message)
}

/// The condition when works could not be rendered or written.
pub(crate) fn not_written(kind: &str, message: &str) -> Verdict {
    Verdict::new(kind, false, reason::NOT_WRITTEN, message)
}

/// The condition while the cluster has not reported: the current one, unless that is only about a failed
/// write, which has succeeded since.
pub(crate) fn unanswered(kind: &str, live: &[Condition]) -> Option<Condition> {
    let live = condition::find(live, kind)?;
    (live.reason != reason::NOT_WRITTEN).then(|| live.clone())
}

/// Whether the SDK may write `Available`: not in lease mode, and not while the cluster is lost, since OCM
/// then sets `Available` itself.
pub(crate) fn may_write_available(mode: HealthMode, cluster: &ManagedCluster) -> bool {
    mode == HealthMode::Customized && !cluster.is_lost()
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::api::work::{ManifestWorkStatus, ResourceMeta, ResourceStatus};

    const KIND: &str = condition::addon::MANIFEST_APPLIED;

    fn condition(status: Status, generation: i64) -> Condition {
        let verdict = Verdict::new("Applied", status, "R", "because");
        let mut condition = verdict.onto(&[], Timestamp::UNIX_EPOCH);
        condition.observed_generation = Some(generation);
        condition
    }

    fn work(status: Status, observed: i64) -> WorkReport {
        WorkReport {
            name: "w".to_owned(),
            generation: 2,
            status: ManifestWorkStatus {
                conditions: vec![condition(status, observed)],
                ..ManifestWorkStatus::default()
            },
            ..WorkReport::default()
        }
    }

    fn decide(works: &[WorkReport]) -> Option<(Status, String)> {
        let works: Vec<_> = works.iter().collect();
        manifest_applied(KIND, &works).map(|verdict| (verdict.status, verdict.reason))
    }

    #[test]
    fn all_works_must_be_applied_in_their_newest_generation() {
        let applied = Some((Status::True, reason::APPLIED.to_owned()));
        let failed = Some((Status::False, reason::FAILED.to_owned()));
        let (good, old) = (work(Status::True, 2), work(Status::True, 1));
        let (bad, old_bad) = (work(Status::False, 2), work(Status::False, 1));
        assert_eq!(decide(&[]), applied);
        assert_eq!(decide(std::slice::from_ref(&good)), applied);
        assert_eq!(decide(&[good.clone(), old.clone()]), None);
        assert_eq!(decide(&[good.clone(), old_bad]), None);
        assert_eq!(decide(&[good.clone(), bad.clone()]), failed);
        assert_eq!(decide(&[bad, good]), failed);
        assert_eq!(decide(&[WorkReport::default()]), None);
    }

    #[test]
    fn a_failure_names_the_object() {
        let mut work = work(Status::False, 2);
        work.status.resource_status = ResourceStatus {
            manifests: vec![ManifestCondition {
                resource_meta: ResourceMeta {
                    kind: "Role".to_owned(),
                    namespace: "n".to_owned(),
                    name: "r".to_owned(),
                    ..ResourceMeta::default()
                },
                conditions: vec![condition(Status::False, 2)],
                status_feedback: None,
            }],
        };
        let message = manifest_applied(KIND, &[&work]).unwrap().message;
        assert_eq!(
            message,
            "failed to apply the manifests of addon: Role n/r: because"
        );
    }

    #[test]
    fn only_a_failed_write_is_withdrawn_before_the_cluster_reports() {
        let now = Timestamp::UNIX_EPOCH;
        let live = [not_written(KIND, "x").onto(&[], now)];
        assert_eq!(unanswered(KIND, &live), None);
        let failed = work(Status::False, 2);
        let live = [manifest_applied(KIND, &[&failed]).unwrap().onto(&[], now)];
        assert_eq!(unanswered(KIND, &live).as_ref(), live.first());
    }

    #[test]
    fn available_belongs_to_ocm_while_the_cluster_is_lost() {
        let mut cluster = ManagedCluster::default();
        assert!(may_write_available(HealthMode::Customized, &cluster));
        assert!(!may_write_available(HealthMode::Lease, &cluster));
        let lost = Verdict::new(condition::cluster::AVAILABLE, Status::Unknown, "R", "");
        let lost = lost.onto(&[], Timestamp::UNIX_EPOCH);
        cluster.status.get_or_insert_default().conditions.push(lost);
        assert!(!may_write_available(HealthMode::Customized, &cluster));
    }
}
