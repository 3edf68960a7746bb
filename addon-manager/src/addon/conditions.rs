//! The conditions of a cluster's add-on: [`available`](fn@available) and [`degraded`]. Pure; the time is a parameter.

mod argocd;
mod available;

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use ocm::condition::{Verdict, addon::DEGRADED};
use principal::{
    ArgoCd, BlockedDeletion, HealthProblem, Mode, Refused, ShownCertificate, Stuck, Unmirrored,
};

pub use argocd::{ARGOCD_MISSING, ARGOCD_NOT_OURS, ARGOCD_UNHEALTHY, HUB_ARGOCD_UNREADABLE};
pub use available::{AvailableVerdict, Facts, applied, available, implies_past_session};

use super::argocd_install;
use crate::issuer::{Certificates, expiry::is_overdue, rotation::Stage};

/// A deletion of many objects waits for the confirmation of a user.
pub const MASS_DELETE_BLOCKED: &str = "MassDeleteHeld";

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

/// The facts that may require an action by a person.
#[derive(Clone, Debug, Default)]
pub struct Needs<'a> {
    /// The error of the last rendering.
    pub render_error: Option<&'a str>,
    /// The error of the Argo CD cluster Secret.
    pub secret_error: Option<&'a str>,
    /// The error of the cluster's `AppProject`.
    pub project_error: Option<&'a str>,
    /// A change of mode that waits for a confirmation.
    pub blocked_mode: Option<BlockedMode>,
    /// Deletions that wait for a confirmation.
    pub blocked_deletion: Option<&'a BlockedDeletion>,
    /// Writes to the hub that have failed for some time.
    pub stuck: Option<&'a Stuck>,
    /// A violation of the protocol by the agent.
    pub misconduct: Option<&'a str>,
    /// Objects and commands that the cluster refused.
    pub refused: Option<&'a Refused>,
    /// The Argo CD of the cluster, if its agent reports that.
    pub argocd: Option<ArgoCd>,
    /// The problem that blocks the installation of Argo CD.
    pub installation: Option<&'a argocd_install::Need>,
    /// Why we do not install Argo CD on a cluster that has none.
    pub withheld: Option<argocd_install::Skipped>,
    /// The health problem of an Argo CD that we installed.
    pub argocd_problem: Option<&'a HealthProblem>,
    /// Objects of an autonomous cluster that are not mirrored on the hub.
    pub unmirrored: Option<&'a Unmirrored>,
    /// Whether an administrator has revoked its certificates.
    pub revoked: bool,
    /// The state of the hub's certificates.
    pub hub: Option<&'a Certificates>,
    /// The cluster.
    pub cluster: &'a str,
    /// The certificate that its agent presented last.
    pub certificate: Option<&'a ShownCertificate>,
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

/// The condition `Degraded`: whether a person must act. The most urgent cause is the reason; the message lists all.
pub fn degraded(needs: &Needs<'_>, now: Timestamp) -> Verdict {
    let causes = causes(needs, now);
    let Some((reason, first)) = causes.first() else {
        return Verdict::new(DEGRADED, false, "AsExpected", "no action required").deferrable();
    };
    let others = causes.iter().skip(1);
    let message = others.fold(first.clone(), |stated, (reason, message)| {
        format!("{stated}; also {reason}: {message}")
    });
    Verdict::new(DEGRADED, true, *reason, message)
}

/// All causes that require an action by a person, the most urgent first: causes that block everything, then blocked
/// changes that are dangerous, then the others.
fn causes(needs: &Needs<'_>, now: Timestamp) -> Vec<(&'static str, String)> {
    let Needs {
        render_error,
        secret_error,
        project_error,
        blocked_mode,
        blocked_deletion,
        stuck,
        misconduct,
        refused,
        unmirrored,
        revoked,
        // At most one cause (`argocd::cause`).
        argocd: _,
        installation: _,
        withheld: _,
        argocd_problem: _,
        // Several causes (`certificates`).
        hub: _,
        cluster: _,
        certificate: _,
    } = needs;
    let first = [
        revoked.then(|| (REVOKED, revocation())),
        render_error.map(|message| ("ConfigurationInvalid", message.to_owned())),
        argocd::cause(needs),
        blocked_deletion.map(|blocked| (MASS_DELETE_BLOCKED, mass_delete(blocked))),
        blocked_mode
            .as_ref()
            .map(|blocked| ("ModeChangeHeld", mode_change(blocked))),
    ];
    let then = [
        stuck.map(|stuck| ("HubWritesFailing", hub_writes(stuck))),
        misconduct.map(|misconduct| ("AgentMisbehaves", misbehaves(misconduct))),
        refused.map(|refused| ("ObjectsRefused", objects_refused(refused))),
        secret_error.map(|message| ("ClusterSecretConflict", message.to_owned())),
        project_error.map(|message| ("ClusterProjectMissing", message.to_owned())),
        unmirrored.map(|unmirrored| (NOT_MIRRORED, not_mirrored(unmirrored))),
    ];
    let first = first.into_iter().flatten();
    first
        .chain(certificates(needs, now))
        .chain(then.into_iter().flatten())
        .collect()
}

/// A rotation that waits longer is reported.
const ROTATION_GRACE: SignedDuration = SignedDuration::from_mins(10);

/// The problems of certificates, the most urgent first.
fn certificates(needs: &Needs<'_>, now: Timestamp) -> Vec<(&'static str, String)> {
    let overdue = |it: &&ShownCertificate| is_overdue(it.not_before, it.not_after, now);
    let own = needs.certificate.filter(overdue).map(|ending| {
        format!(
            "the agent's certificate expires at {:.0} and was not renewed; check the condition \
            ClusterCertificateRotated, the cluster's certificate requests on the hub, and its registration agent",
            ending.not_after
        )
    });
    let hub = needs.hub.filter(|hub| !hub.overdue.is_empty()).map(|hub| {
        let overdue = hub.overdue.join(", ");
        format!("{overdue}; the add-on did not issue it and cannot renew it: renew it where it was issued")
    });
    let expiring = own
        .into_iter()
        .chain(hub)
        .collect::<Vec<_>>()
        .join("; and ");
    let expiring = (!expiring.is_empty()).then_some((CERTIFICATE_EXPIRING, expiring));
    let troubles = needs.hub.filter(|hub| !hub.troubles.is_empty());
    let troubles = troubles.map(|hub| (CERTIFICATE_NOT_IN_ORDER, hub.troubles.join("; ")));
    let waits = rotation_grace(needs, now).filter(|left| !left.is_positive());
    let waits = waits.and_then(|_over| Some((ROTATION_WAITS, rotation(needs)?)));
    expiring.into_iter().chain(troubles).chain(waits).collect()
}

/// The time until we report that this agent blocks a rotation; none if it does not block one.
fn rotation_grace(needs: &Needs<'_>, now: Timestamp) -> Option<SignedDuration> {
    let rotation = needs.hub?.rotation.as_ref()?;
    let waited = rotation.waits_for.contains(needs.cluster);
    waited.then(|| ROTATION_GRACE.saturating_sub(now.duration_since(rotation.since)))
}

/// When to check again whether this agent blocks a rotation for too long.
pub fn rotation_recheck(needs: &Needs<'_>, now: Timestamp) -> Option<Duration> {
    let left = rotation_grace(needs, now).filter(SignedDuration::is_positive)?;
    Some(Duration::try_from(left).unwrap_or_default() + Duration::from_millis(100))
}

fn rotation(needs: &Needs<'_>) -> Option<String> {
    let rotation = needs.hub?.rotation.as_ref()?;
    let is_missing = match rotation.stage {
        Stage::Introduced => "has not confirmed that it trusts the next certificate authority",
        Stage::Retiring | Stage::Settled => {
            "has not connected with a certificate of the new certificate authority"
        }
    };
    Some(format!(
        "the rotation of the certificate authority has waited since {:.0} for this cluster: its agent {is_missing}; \
        reconnect the agent, or revoke it with the annotation {} on this ManagedClusterAddOn, or disable the add-on",
        rotation.since,
        crate::keys::REVOKED
    ))
}

fn revocation() -> String {
    format!(
        "a user revoked the agent: its certificates are rejected, and its Applications stay as they are; remove \
        the annotation {} to admit it with a new certificate",
        crate::keys::REVOKED
    )
}

fn hub_writes(stuck: &Stuck) -> String {
    let Stuck { count, example } = stuck;
    format!(
        "the hub has rejected status writes of {count} Applications of this cluster for more than 30s, so their \
        status is stale, such as {example}; retrying"
    )
}

fn misbehaves(misconduct: &str) -> String {
    format!(
        "the agent of this cluster violates the protocol: {misconduct}; check its version, and that no other \
        program uses its certificate"
    )
}

fn objects_refused(refused: &Refused) -> String {
    let Refused { count, names } = refused;
    let names = with_more(names, *count, ", ");
    format!(
        "the cluster refused {count} objects of this hub, or commands on them: {names}; the condition \
        ArgoCDAgentError of each Application has the cause"
    )
}

fn mode_change(blocked: &BlockedMode) -> String {
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
    format!(
        "the cluster's label requests mode {asked}, but {recorded} is in use; {why}, so confirm it with the \
        annotation {}={asked} on this ManagedClusterAddOn, or restore the label",
        crate::keys::CONFIRM_MODE
    )
}

fn mass_delete(blocked: &BlockedDeletion) -> String {
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
    format!(
        "{what}, too many to delete without confirmation: {names}; {instead}, or confirm the deletion with the \
        annotation {}={digest} on this ManagedClusterAddOn",
        crate::keys::CONFIRM_DELETE
    )
}

fn not_mirrored(unmirrored: &Unmirrored) -> String {
    let Unmirrored { count, names } = unmirrored;
    let names = with_more(names, *count, "; ");
    format!("{count} objects of the cluster are not mirrored on this hub: {names}")
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
