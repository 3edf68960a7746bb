//! The conditions of a cluster's add-on: [`available`](fn@available) and [`degraded`]. Pure; the time is a parameter.

mod argocd;
mod available;

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use ocm::condition::{Verdict, addon::DEGRADED};
use principal::{
    BlockedDeletion, Mode, Refused, SessionReport, Shed, ShownCertificate, Stuck, Unmirrored,
};

pub use argocd::{
    ARGOCD_MISSING, ARGOCD_NOT_OURS, ARGOCD_UNHEALTHY, ArgoCdFacts, HUB_ARGOCD_UNREADABLE,
};
pub use available::{AvailableVerdict, Facts, applied, available};

use super::settings::Unknown;
use crate::issuer::{
    Certificates,
    expiry::is_overdue,
    rotation::{Progress, Stage},
};

/// A deletion of many objects waits for the confirmation of a user.
pub const MASS_DELETE_BLOCKED: &str = "MassDeleteHeld";

/// The last rendering failed.
pub const CONFIGURATION_INVALID: &str = "ConfigurationInvalid";
/// The configuration has variables that the add-on does not know. It works without them: alone this is no reason for
/// `Degraded` = `True`.
pub const CONFIGURATION_UNKNOWN: &str = "ConfigurationUnknown";
/// The Argo CD cluster Secret cannot be written.
pub const CLUSTER_SECRET_CONFLICT: &str = "ClusterSecretConflict";
/// The `AppProject` of the cluster cannot be written.
pub const CLUSTER_PROJECT_MISSING: &str = "ClusterProjectMissing";
/// Objects of an autonomous cluster are not shown on the hub.
pub const NOT_MIRRORED: &str = "NotMirrored";
/// An administrator has revoked the agent's certificates.
pub const REVOKED: &str = "Revoked";
/// A certificate should have been renewed and was not.
pub const CERTIFICATE_EXPIRING: &str = "CertificateExpiring";
/// A certificate of the hub is invalid, and we must not replace it.
pub const CERTIFICATE_NOT_IN_ORDER: &str = "CertificateNotInOrder";
/// This agent blocks the rotation of the CA.
pub const ROTATION_WAITS: &str = "CertificateRotationWaits";

/// The reasons of `Degraded`, the most urgent first: what blocks everything, then blocked changes that are dangerous, then
/// certificates, then the others.
const URGENCY: &[&str] = &[
    REVOKED,
    CONFIGURATION_INVALID,
    HUB_ARGOCD_UNREADABLE,
    ARGOCD_NOT_OURS,
    ARGOCD_MISSING,
    ARGOCD_UNHEALTHY,
    MASS_DELETE_BLOCKED,
    "ModeChangeHeld",
    CERTIFICATE_EXPIRING,
    CERTIFICATE_NOT_IN_ORDER,
    ROTATION_WAITS,
    "HubWritesFailing",
    "AgentMisbehaves",
    "HubShortOfMemory",
    "ObjectsRefused",
    CLUSTER_SECRET_CONFLICT,
    CLUSTER_PROJECT_MISSING,
    NOT_MIRRORED,
    CONFIGURATION_UNKNOWN,
];

/// A fact that requires an action by a person: a reason of `Degraded`, and the cause with the next step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The reason, one of the list above.
    pub reason: &'static str,
    /// The message.
    pub message: String,
}

/// Makes a finding. The reason is in the list above, which decides its rank.
pub fn finding(reason: &'static str, message: impl Into<String>) -> Finding {
    debug_assert!(URGENCY.contains(&reason), "{reason} has no rank");
    let message = message.into();
    Finding { reason, message }
}

/// A change of mode that waits for the confirmation of a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockedMode {
    /// The mode in use.
    pub recorded: Mode,
    /// The mode that the label asks for.
    pub asked: Mode,
    /// The number of Applications that block it; none if the label alone must not change the mode.
    pub applications: Option<usize>,
}

/// The condition `Degraded`: whether a person must act. The most urgent finding is the reason; the message lists all, also
/// unknown variables, which alone need no action.
pub fn degraded(findings: impl IntoIterator<Item = Finding>) -> Verdict {
    let mut findings: Vec<Finding> = findings.into_iter().collect();
    let urgency = |it: &Finding| URGENCY.iter().position(|reason| *reason == it.reason);
    findings.sort_by_key(|it| urgency(it).unwrap_or(URGENCY.len()));
    let is_degraded = findings.iter().any(|it| it.reason != CONFIGURATION_UNKNOWN);
    let mut findings = findings.into_iter();
    let Some(Finding { reason, message }) = findings.next() else {
        return Verdict::new(DEGRADED, false, "AsExpected", "no action required").deferrable();
    };
    let message = findings.fold(message, |stated, Finding { reason, message }| {
        format!("{stated}; also {reason}: {message}")
    });
    Verdict::new(DEGRADED, is_degraded, reason, message)
}

/// Variables of the configuration have no effect.
pub fn unknown_variables(unknown: &Unknown) -> Finding {
    let Unknown { count, names } = unknown;
    let names = with_more(names, *count, ", ");
    let message = format!(
        "variables of the AddOnDeploymentConfig are unknown and have no effect: {names}; correct their names or \
        remove them"
    );
    finding(CONFIGURATION_UNKNOWN, message)
}

/// The findings in the report of an agent.
pub fn reported(session: &SessionReport) -> impl Iterator<Item = Finding> {
    let findings = [
        session.blocked_deletion.as_ref().map(mass_delete),
        session.stuck.as_ref().map(hub_writes),
        session.misconduct.as_deref().map(misbehaves),
        session.shed.as_ref().map(short_of_memory),
        session.refused.as_ref().map(objects_refused),
        session.unmirrored.as_ref().map(not_mirrored),
    ];
    findings.into_iter().flatten()
}

/// A rotation that waits longer is reported.
const ROTATION_GRACE: SignedDuration = SignedDuration::from_mins(10);

/// The certificates of one cluster.
#[derive(Clone, Copy, Debug)]
pub struct CertificateFacts<'a> {
    /// The cluster.
    pub cluster: &'a str,
    /// The certificate that its agent presented last.
    pub shown: Option<&'a ShownCertificate>,
    /// The state of the hub's certificates.
    pub hub: &'a Certificates,
}

impl CertificateFacts<'_> {
    /// The problems of certificates.
    pub fn findings(&self, now: Timestamp) -> impl Iterator<Item = Finding> {
        let overdue = |it: &&ShownCertificate| is_overdue(it.not_before, it.not_after, now);
        let own = self.shown.filter(overdue).map(|ending| {
            format!(
                "the agent's certificate expires at {:.0} and was not renewed; check the condition \
                ClusterCertificateRotated, the cluster's certificate requests on the hub, and its registration agent",
                ending.not_after
            )
        });
        let hub = (!self.hub.overdue.is_empty()).then(|| {
            let overdue = self.hub.overdue.join(", ");
            format!("{overdue}; the add-on did not issue it and cannot renew it: renew it where it was issued")
        });
        let expiring: Vec<String> = own.into_iter().chain(hub).collect();
        let troubles = &self.hub.troubles;
        let waits = self.grace(now).filter(|(_, left)| !left.is_positive());
        let findings = [
            (!expiring.is_empty()).then(|| finding(CERTIFICATE_EXPIRING, expiring.join("; and "))),
            (!troubles.is_empty()).then(|| finding(CERTIFICATE_NOT_IN_ORDER, troubles.join("; "))),
            waits.map(|(rotation, _)| rotation_waits(rotation)),
        ];
        findings.into_iter().flatten()
    }

    /// When to check again whether this agent blocks a rotation for too long.
    pub fn recheck(&self, now: Timestamp) -> Option<Duration> {
        let (_, left) = self.grace(now).filter(|(_, left)| left.is_positive())?;
        Some(Duration::try_from(left).unwrap_or_default() + Duration::from_millis(100))
    }

    /// The rotation that this agent blocks, if any, and the time until we report that.
    fn grace(&self, now: Timestamp) -> Option<(&Progress, SignedDuration)> {
        let rotation = self.hub.rotation.as_ref()?;
        let waited = rotation.waits_for.contains(self.cluster);
        let left = ROTATION_GRACE.saturating_sub(now.duration_since(rotation.since));
        waited.then_some((rotation, left))
    }
}

fn rotation_waits(rotation: &Progress) -> Finding {
    let is_missing = match rotation.stage {
        Stage::Introduced => "has not confirmed that it trusts the next certificate authority",
        Stage::Retiring | Stage::Settled => {
            "has not connected with a certificate of the new certificate authority"
        }
    };
    let message = format!(
        "the rotation of the certificate authority has waited since {:.0} for this cluster: its agent {is_missing}; \
        reconnect the agent, or revoke it with the annotation {} on this ManagedClusterAddOn, or disable the add-on",
        rotation.since,
        crate::keys::REVOKED
    );
    finding(ROTATION_WAITS, message)
}

/// An administrator has revoked the certificates of the agent.
pub fn revoked() -> Finding {
    let message = format!(
        "a user revoked the agent: its certificates are rejected, and its Applications stay as they are; remove \
        the annotation {} to admit it with a new certificate",
        crate::keys::REVOKED
    );
    finding(REVOKED, message)
}

fn hub_writes(stuck: &Stuck) -> Finding {
    let Stuck { count, example } = stuck;
    let message = format!(
        "the hub has rejected status writes of {count} Applications of this cluster for more than 30s, so their \
        status is stale, such as {example}; retrying"
    );
    finding("HubWritesFailing", message)
}

fn misbehaves(misconduct: &str) -> Finding {
    let message = format!(
        "the agent of this cluster violates the protocol: {misconduct}; check its version, and that no other \
        program uses its certificate"
    );
    finding("AgentMisbehaves", message)
}

fn short_of_memory(shed: &Shed) -> Finding {
    let mib = shed.mib;
    let message = format!(
        "the hub program reached its memory limit and ended the session of this cluster, whose unapplied messages took the \
        most memory ({mib} MiB); the agent reconnects after a minute. Raise fleet or resources.limits.memory in the chart's \
        values, or find out why the cluster reports so much"
    );
    finding("HubShortOfMemory", message)
}

fn objects_refused(refused: &Refused) -> Finding {
    let Refused { count, names } = refused;
    let names = with_more(names, *count, ", ");
    let message = format!(
        "the cluster refused {count} objects of this hub, or commands on them: {names}; the condition \
        ArgoCDAgentError of each Application has the cause"
    );
    finding("ObjectsRefused", message)
}

/// The change of mode waits for a confirmation.
pub fn mode_change(blocked: &BlockedMode) -> Finding {
    let BlockedMode {
        recorded,
        asked,
        applications,
    } = blocked;
    let why = match applications {
        None => {
            "a user created this ManagedClusterAddOn, not the label, and a cluster can write its own labels"
                .to_owned()
        }
        Some(count) => {
            format!("a change moves the ownership of the {count} Applications of this cluster")
        }
    };
    let message = format!(
        "the cluster's label requests mode {asked}, but {recorded} is in use; {why}, so confirm it with the \
        annotation {}={asked} on this ManagedClusterAddOn, or restore the label",
        crate::keys::CONFIRM_MODE
    );
    finding("ModeChangeHeld", message)
}

fn mass_delete(blocked: &BlockedDeletion) -> Finding {
    let BlockedDeletion {
        names,
        count,
        mirrors,
        digest,
    } = blocked;
    let names = with_more(names, *count, ", ");
    let (what, instead) = if *mirrors {
        (
            format!("this hub mirrors {count} objects that no longer exist on the cluster"),
            "recreate them on the cluster",
        )
    } else {
        (
            format!("the cluster has {count} objects that this hub delivered and no longer knows"),
            "recreate them on the hub",
        )
    };
    let message = format!(
        "{what}, too many to delete without confirmation: {names}; {instead}, or confirm the deletion with the \
        annotation {}={digest} on this ManagedClusterAddOn",
        crate::keys::CONFIRM_DELETE
    );
    finding(MASS_DELETE_BLOCKED, message)
}

fn not_mirrored(unmirrored: &Unmirrored) -> Finding {
    let Unmirrored { count, names } = unmirrored;
    let names = with_more(names, *count, "; ");
    let message = format!("{count} objects of the cluster are not mirrored on this hub: {names}");
    finding(NOT_MIRRORED, message)
}

/// The first names, and the number of further ones.
fn with_more(names: &[String], count: usize, between: &str) -> String {
    let more = count.saturating_sub(names.len());
    let names = names.join(between);
    if more == 0 {
        names
    } else {
        format!("{names}, and {more} more")
    }
}

#[cfg(test)]
mod tests;
