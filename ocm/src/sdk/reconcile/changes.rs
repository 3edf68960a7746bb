//! Which changes of conditions become Events: each turn to the worse or back. Pure.
//!
//! A condition shows the present; Events show when, and how often, it was different.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::report::Report;
use crate::{
    condition::{self, Status, addon},
    sdk::event::NewEvent,
};

/// The changes of `Available` and `Degraded` from the live conditions to the report.
///
/// Only a new reason counts: neither a new message nor a condition that stays good becomes an Event.
pub(crate) fn updates(live: &[Condition], report: &Report) -> Vec<NewEvent> {
    let conditions = report.deploy.iter().flatten().chain(&report.available);
    let turns = conditions.filter(|now| {
        let before = condition::find(live, &now.type_);
        match (before.and_then(is_well), is_well(now)) {
            // `None` before: unknown, absent, or set by OCM for a lost cluster. The first `Available` is worth an Event,
            // the first `Degraded` = `False` is not.
            (None, Some(true)) => now.type_ == addon::AVAILABLE,
            (None | Some(true), Some(false)) | (Some(false), Some(true)) => true,
            (_, None) | (Some(true), Some(true)) => false,
            (Some(false), Some(false)) => before.is_some_and(|it| it.reason != now.reason),
        }
    });
    turns
        .map(|now| NewEvent {
            warning: is_well(now) == Some(false),
            reason: now.reason.clone(),
            note: now.message.clone(),
        })
        .collect()
}

/// Whether a condition is good; none for other types and for status `Unknown`.
fn is_well(condition: &Condition) -> Option<bool> {
    let is = |status: Status| condition.status == status.as_str();
    let good = match condition.type_.as_str() {
        addon::AVAILABLE => Status::True,
        addon::DEGRADED => Status::False,
        _ => return None,
    };
    (is(Status::True) || is(Status::False)).then(|| is(good))
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::condition::Verdict;

    fn condition(kind: &str, status: bool, reason: &str) -> Condition {
        Verdict::new(kind, status, reason, "why").onto(&[], Timestamp::UNIX_EPOCH)
    }

    /// The reasons of the Events for a change between these conditions, with a `!` before warnings.
    fn condition_changes(before: Option<&Condition>, now: Condition) -> Vec<String> {
        let before: Vec<Condition> = before.into_iter().cloned().collect();
        let mut report = Report::default();
        if now.type_ == addon::AVAILABLE {
            report.available = Some(now);
        } else {
            report.deploy = Some(vec![now]);
        }
        let mark = |it: NewEvent| format!("{}{}", if it.warning { "!" } else { "" }, it.reason);
        updates(&before, &report).into_iter().map(mark).collect()
    }

    #[test]
    fn each_turn_causes_one_event() {
        let (there, away) = (
            condition(addon::AVAILABLE, true, "AgentConnected"),
            condition(addon::AVAILABLE, false, "AgentDisconnected"),
        );
        assert_eq!(condition_changes(None, there.clone()), ["AgentConnected"]);
        assert_eq!(
            condition_changes(Some(&there), away.clone()),
            ["!AgentDisconnected"]
        );
        assert_eq!(
            condition_changes(Some(&away), there.clone()),
            ["AgentConnected"]
        );
        assert_eq!(condition_changes(Some(&there), there.clone()), [""; 0]);
        let mut new_message = away.clone();
        new_message.message = "why, since longer".to_owned();
        assert_eq!(condition_changes(Some(&away), new_message), [""; 0]);
        let gone = condition(addon::AVAILABLE, false, "AgentNotDeployed");
        assert_eq!(condition_changes(Some(&away), gone), ["!AgentNotDeployed"]);
    }

    #[test]
    fn recovery_causes_an_event_only_after_a_failure() {
        let (well, blocked, refused) = (
            condition(addon::DEGRADED, false, "AsExpected"),
            condition(addon::DEGRADED, true, "MassDeleteHeld"),
            condition(addon::DEGRADED, true, "ObjectsRefused"),
        );
        assert_eq!(condition_changes(None, well.clone()), [""; 0]);
        assert_eq!(
            condition_changes(Some(&well), blocked.clone()),
            ["!MassDeleteHeld"]
        );
        assert_eq!(
            condition_changes(Some(&blocked), refused),
            ["!ObjectsRefused"]
        );
        assert_eq!(condition_changes(Some(&blocked), well), ["AsExpected"]);
    }

    #[test]
    fn conditions_of_ocm_cause_no_event_but_the_recovery_does() {
        let mut unknown = condition(addon::AVAILABLE, true, "ManagedClusterLeaseUpdateStopped");
        unknown.status = "Unknown".to_owned();
        assert_eq!(condition_changes(None, unknown.clone()), [""; 0]);
        let back = condition(addon::AVAILABLE, true, "AgentConnected");
        assert_eq!(condition_changes(Some(&unknown), back), ["AgentConnected"]);
        let applied = condition(addon::MANIFEST_APPLIED, false, "AddonManifestAppliedFailed");
        assert_eq!(condition_changes(None, applied), [""; 0]);
    }
}
