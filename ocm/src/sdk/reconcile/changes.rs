//! What of a report people shall see with `kubectl describe`, too: an Event for each turn to the worse or back. Pure.
//!
//! A condition shows what is; when it was otherwise, and how often, only Events tell.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::report::Report;
use crate::condition::{self, Status, addon};

/// A turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ConditionChange {
    /// To the worse.
    pub(crate) warning: bool,
    /// The reason of the condition.
    pub(crate) reason: String,
    /// The condition's message.
    pub(crate) note: String,
}

/// The turns of what a person looks at first, from what was said to what is said now.
///
/// Only a new reason is one: a message that counts on is none, and neither is what stays well.
pub(crate) fn updates(live: &[Condition], report: &Report) -> Vec<ConditionChange> {
    let stated = report.deploy.iter().flatten().chain(&report.available);
    let turns = stated.filter(|now| {
        let before = condition::find(live, &now.type_);
        match (before.and_then(is_well), is_well(now)) {
            // What OCM says of a cluster that it has lost, or has not heard of yet, is not known either. That an agent has
            // come is worth an Event, that nothing is wrong is not.
            (None, Some(true)) => now.type_ == addon::AVAILABLE,
            (None | Some(true), Some(false)) | (Some(false), Some(true)) => true,
            (_, None) | (Some(true), Some(true)) => false,
            (Some(false), Some(false)) => before.is_some_and(|it| it.reason != now.reason),
        }
    });
    turns
        .map(|now| ConditionChange {
            warning: is_well(now) == Some(false),
            reason: now.reason.clone(),
            note: now.message.clone(),
        })
        .collect()
}

/// Whether a condition says that all is well; none if it is not for us to say, or not known.
fn is_well(condition: &Condition) -> Option<bool> {
    let emits = |status: Status| condition.status == status.as_str();
    let good = match condition.type_.as_str() {
        addon::AVAILABLE => Status::True,
        addon::DEGRADED => Status::False,
        _ => return None,
    };
    (emits(Status::True) || emits(Status::False)).then(|| emits(good))
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::condition::Verdict;

    fn condition(kind: &str, status: bool, reason: &str) -> Condition {
        Verdict::new(kind, status, reason, "why").onto(&[], Timestamp::UNIX_EPOCH)
    }

    /// The reasons of Events when this was said before and that is said now; with a `!` before those that warn.
    fn condition_changes(before: Option<&Condition>, now: Condition) -> Vec<String> {
        let before: Vec<Condition> = before.into_iter().cloned().collect();
        let mut report = Report::default();
        if now.type_ == addon::AVAILABLE {
            report.available = Some(now);
        } else {
            report.deploy = Some(vec![now]);
        }
        let mark =
            |it: ConditionChange| format!("{}{}", if it.warning { "!" } else { "" }, it.reason);
        updates(&before, &report).into_iter().map(mark).collect()
    }

    #[test]
    fn each_turn_is_told_once_and_what_stays_is_not() {
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
        let mut counted_on = away.clone();
        counted_on.message = "why, since longer".to_owned();
        assert_eq!(condition_changes(Some(&away), counted_on), [""; 0]);
        let gone = condition(addon::AVAILABLE, false, "AgentNotDeployed");
        assert_eq!(condition_changes(Some(&away), gone), ["!AgentNotDeployed"]);
    }

    #[test]
    fn that_nothing_is_wrong_is_told_only_after_something_was() {
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
    fn what_others_say_is_not_told_but_that_the_agent_is_back_is() {
        let mut unknown = condition(addon::AVAILABLE, true, "ManagedClusterLeaseUpdateStopped");
        unknown.status = "Unknown".to_owned();
        assert_eq!(condition_changes(None, unknown.clone()), [""; 0]);
        let back = condition(addon::AVAILABLE, true, "AgentConnected");
        assert_eq!(condition_changes(Some(&unknown), back), ["AgentConnected"]);
        let applied = condition(addon::MANIFEST_APPLIED, false, "AddonManifestAppliedFailed");
        assert_eq!(condition_changes(None, applied), [""; 0]);
    }
}
