//! What is said of a cluster: [`available`](fn@available) and [`degraded`]. Pure; the time is a parameter.

mod argocd;
mod available;

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use ocm::condition::{Verdict, addon::DEGRADED};
use principal::{
    ArgoCd, BlockedDeletion, HealthProblem, Mode, Refused, ShownCertificate, Stuck, Unmirrored,
};

pub use argocd::{ARGOCD_MISSING, ARGOCD_NOT_OURS, ARGOCD_UNHEALTHY, HUB_ARGOCD_UNREADABLE};
pub use available::{AvailableVerdict, Facts, applied, available, tells_of_a_session};

use super::argocd_install;
use crate::issuer::{Certificates, expiry::is_overdue, rotation::Stage};

/// More would be deleted on the cluster than may be without a person's word.
pub const MASS_DELETE_HELD: &str = "MassDeleteHeld";

/// Objects of an autonomous cluster are not shown on the hub.
pub const NOT_MIRRORED: &str = "NotMirrored";
/// A person has revoked the agent's certificates.
pub const REVOKED: &str = "Revoked";
/// A certificate should have been renewed and was not.
pub const CERTIFICATE_EXPIRING: &str = "CertificateExpiring";
/// A certificate of the hub is not as it should be, and not ours to change.
pub const CERTIFICATE_NOT_IN_ORDER: &str = "CertificateNotInOrder";
/// A CA cannot take over from another because of this agent.
pub const ROTATION_WAITS: &str = "CertificateRotationWaits";

/// What may need a person.
#[derive(Clone, Debug, Default)]
pub struct Needs<'a> {
    /// Why nothing could be rendered.
    pub render_error: Option<&'a str>,
    /// Why the Argo CD cluster Secret is not as it should be.
    pub secret_error: Option<&'a str>,
    /// Why the cluster's `AppProject` is not as it should be.
    pub project_error: Option<&'a str>,
    /// A change of mode that waits.
    pub blocked_mode: Option<BlockedMode>,
    /// Deletions that wait.
    pub blocked_deletion: Option<&'a BlockedDeletion>,
    /// What cannot be written to the hub for some time.
    pub stuck: Option<&'a Stuck>,
    /// What the agent does that no agent should.
    pub misconduct: Option<&'a str>,
    /// What the cluster cannot take or do.
    pub refused: Option<&'a Refused>,
    /// Whether the cluster has an Argo CD, where its agent says so.
    pub argocd: Option<ArgoCd>,
    /// What is in the way of an Argo CD of ours there.
    pub installation: Option<&'a argocd_install::Need>,
    /// Why a cluster that has none gets none.
    pub withheld: Option<argocd_install::Skipped>,
    /// What is wrong with an Argo CD of ours there.
    pub ails: Option<&'a HealthProblem>,
    /// What of an autonomous cluster is not shown on the hub.
    pub unmirrored: Option<&'a Unmirrored>,
    /// Whether a person has revoked its certificates.
    pub revoked: bool,
    /// How the certificates of the hub stand.
    pub hub: Option<&'a Certificates>,
    /// The cluster.
    pub cluster: &'a str,
    /// The certificate that its agent showed last.
    pub certificate: Option<&'a ShownCertificate>,
}

/// A change of mode that waits for a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockedMode {
    /// The mode in use.
    pub recorded: Mode,
    /// The mode that the label asks for.
    pub asked: Mode,
    /// The Applications in the way; none where the label must not change the mode by itself.
    pub applications: Option<usize>,
}

/// Whether something needs a person. The most urgent cause is the reason; the message has all of them.
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

/// Everything that needs a person, the most urgent first: what keeps all else from working, then what waits with danger
/// behind it, then what can wait.
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
        // Of these it is one, or none.
        argocd: _,
        installation: _,
        withheld: _,
        ails: _,
        // Of these there may be several causes.
        hub: _,
        cluster: _,
        certificate: _,
    } = needs;
    let first = [
        revoked.then(|| (REVOKED, revocation())),
        render_error.map(|message| ("ConfigurationInvalid", message.to_owned())),
        argocd::cause(needs),
        blocked_deletion.map(|stored| (MASS_DELETE_HELD, mass_delete(stored))),
        blocked_mode
            .as_ref()
            .map(|stored| ("ModeChangeHeld", mode_change(stored))),
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

/// A rotation that lasts longer is worth a look.
const ROTATION_GRACE: SignedDuration = SignedDuration::from_mins(10);

/// What is wrong with certificates, the most pressing first.
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

/// How long this agent may still hold up a rotation before it is told; none when it does not.
fn rotation_grace(needs: &Needs<'_>, now: Timestamp) -> Option<SignedDuration> {
    let rotation = needs.hub?.rotation.as_ref()?;
    let waited = rotation.waits_for.contains(needs.cluster);
    waited.then(|| ROTATION_GRACE.saturating_sub(now.duration_since(rotation.since)))
}

/// When to ask again whether this agent holds up a rotation for too long.
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

fn mode_change(stored: &BlockedMode) -> String {
    let BlockedMode {
        recorded,
        asked,
        applications,
    } = stored;
    let why = applications.map_or_else(
        || {
            "a user created this ManagedClusterAddOn, not the label, and a cluster can write its own labels"
                .to_owned()
        },
        |count| {
            format!(
                "a change moves the ownership of the {count} Applications of this cluster"
            )
        },
    );
    format!(
        "the cluster's label requests mode {asked}, but {recorded} is in use; {why}, so confirm it with the \
        annotation {}={asked} on this ManagedClusterAddOn, or restore the label",
        crate::keys::CONFIRM_MODE
    )
}

fn mass_delete(stored: &BlockedDeletion) -> String {
    let BlockedDeletion {
        names,
        count,
        mirrors,
        digest,
    } = stored;
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

/// The first names, and how many there are besides.
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
