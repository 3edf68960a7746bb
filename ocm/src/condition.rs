//! Conditions: find, build, merge. The time is a parameter.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

/// Types of conditions on a `ManagedClusterAddOn`.
pub mod addon {
    /// The add-on works on the cluster.
    pub const AVAILABLE: &str = "Available";
    /// The add-on has a problem that an administrator must solve.
    pub const DEGRADED: &str = "Degraded";
    /// The desired configurations are known (written by OCM).
    pub const CONFIGURED: &str = "Configured";
    /// The roll-out is under way (written by OCM).
    pub const PROGRESSING: &str = "Progressing";
    /// The agent's registration is described in the status.
    pub const REGISTRATION_APPLIED: &str = "RegistrationApplied";
    /// The add-on's works are applied on the cluster.
    pub const MANIFEST_APPLIED: &str = "ManifestApplied";
    /// The add-on's works are applied on the cluster that hosts the agent.
    pub const HOSTING_MANIFEST_APPLIED: &str = "HostingManifestApplied";
    /// The cluster that the add-on names as host may host the agent.
    pub const HOSTING_CLUSTER_VALIDITY: &str = "HostingClusterValidity";
    /// The hooks that run before the removal of the add-on have completed.
    pub const HOOK_MANIFEST_COMPLETED: &str = "HookManifestCompleted";
}

/// Types of conditions on a ManagedCluster.
pub mod cluster {
    /// The hub accepts the cluster.
    pub const ACCEPTED: &str = "HubAcceptedManagedCluster";
    /// The cluster has joined.
    pub const JOINED: &str = "ManagedClusterJoined";
    /// The cluster's agent renews its lease.
    pub const AVAILABLE: &str = "ManagedClusterConditionAvailable";
}

/// Types of conditions on a ManifestWork and on each of its manifests.
pub mod work {
    /// The objects were applied.
    pub const APPLIED: &str = "Applied";
    /// The objects exist.
    pub const AVAILABLE: &str = "Available";
}

/// The status of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// `True`
    True,
    /// `False`
    False,
    /// `Unknown`
    Unknown,
}

impl Status {
    /// The text that Kubernetes uses.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

impl From<bool> for Status {
    fn from(yes: bool) -> Self {
        if yes { Self::True } else { Self::False }
    }
}

/// A desired condition, without times; [`onto`](Self::onto) merges it with the current conditions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The condition's type, e.g. `Available`.
    pub kind: String,
    /// Its status.
    pub status: Status,
    /// A word in camel case.
    pub reason: String,
    /// For people. Leave out numbers that change often: each change is a write.
    pub message: String,
    /// While the condition is absent, it causes no write of its own but joins the next one.
    pub deferrable: bool,
}

impl Verdict {
    /// A verdict that is written as soon as it differs from the current condition.
    pub fn new(
        kind: impl Into<String>,
        status: impl Into<Status>,
        reason: impl Into<String>,
        message: impl Into<String>,
    ) -> Self {
        Self {
            kind: kind.into(),
            status: status.into(),
            reason: reason.into(),
            message: message.into(),
            deferrable: false,
        }
    }

    /// Lets the first appearance of the condition wait for another write (e.g. `Degraded` = `False`).
    #[must_use]
    pub fn deferrable(mut self) -> Self {
        self.deferrable = true;
        self
    }

    /// Makes the condition, keeping `lastTransitionTime` of `live` unless the status changes.
    pub fn onto(&self, live: &[Condition], now: Timestamp) -> Condition {
        let before = find(live, &self.kind).filter(|c| c.status == self.status.as_str());
        let mut message = self.message.clone();
        message.truncate(message.floor_char_boundary(MESSAGE_LIMIT));
        Condition {
            type_: self.kind.clone(),
            status: self.status.as_str().to_owned(),
            reason: self.reason.clone(),
            message,
            last_transition_time: before.map_or(Time(now), |c| c.last_transition_time.clone()),
            observed_generation: None,
        }
    }
}

/// The longest message that the API accepts.
const MESSAGE_LIMIT: usize = 32_768;

/// The condition of a type.
pub fn find<'a>(conditions: &'a [Condition], kind: &str) -> Option<&'a Condition> {
    conditions.iter().find(|c| c.type_ == kind)
}

/// Whether the condition is there and `True`.
pub fn is_true(conditions: &[Condition], kind: &str) -> bool {
    has(conditions, kind, Status::True)
}

/// Whether the condition is there with this status.
pub fn has(conditions: &[Condition], kind: &str, status: Status) -> bool {
    find(conditions, kind).is_some_and(|c| c.status == status.as_str())
}

/// Whether two conditions have the same type, status, reason and message; times do not count.
pub fn same(a: &Condition, b: &Condition) -> bool {
    (&a.type_, &a.status, &a.reason, &a.message) == (&b.type_, &b.status, &b.reason, &b.message)
}

/// Whether the live conditions have this one; times do not count.
pub fn is_reported(condition: &Condition, live: &[Condition]) -> bool {
    find(live, &condition.type_).is_some_and(|live| same(condition, live))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn the_transition_time_moves_with_the_status_only() {
        let first = Verdict::new("Available", true, "Good", "").onto(&[], at(1));
        let live = [first];
        let same_status = Verdict::new("Available", true, "Other", "text").onto(&live, at(2));
        assert_eq!(same_status.last_transition_time, Time(at(1)));
        let other_status = Verdict::new("Available", false, "Bad", "").onto(&live, at(3));
        assert_eq!(other_status.last_transition_time, Time(at(3)));
    }

    #[test]
    fn a_message_that_is_too_long_is_cut_at_a_character() {
        let condition = Verdict::new("A", true, "R", "é".repeat(20_000)).onto(&[], at(1));
        assert_eq!(condition.message.len(), MESSAGE_LIMIT);
    }
}
