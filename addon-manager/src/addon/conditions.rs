//! What is said of a cluster: `Available` and `Degraded`. Pure; the time is a parameter.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use ocm::{
    condition::{self, Status, Verdict, addon::AVAILABLE, addon::DEGRADED},
    sdk::WorkReport,
};
use principal::{
    ArgoCd, HeldDeletion, Mode, Refused, SessionReport, ShownCertificate, Stuck, Unmirrored,
};

use crate::issuer::{Certificates, expiry::is_overdue, rotation::Stage};

/// Connected, and its Deployment is available.
pub const AGENT_CONNECTED: &str = "AgentConnected";
/// The objects are not on the cluster.
pub const AGENT_NOT_DEPLOYED: &str = "AgentNotDeployed";
/// The Deployment is there and has no ready pod.
pub const AGENT_UNAVAILABLE: &str = "AgentUnavailable";
/// The pod runs and has never been here.
pub const AGENT_NEVER_CONNECTED: &str = "AgentNeverConnected";
/// It has been here and is away.
pub const AGENT_DISCONNECTED: &str = "AgentDisconnected";

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

/// The cluster has no Argo CD that the agent could serve.
pub const ARGOCD_MISSING: &str = "ArgoCDMissing";
const NO_ARGOCD: &str = "the cluster has no Argo CD: its API does not serve Applications and \
                         AppProjects of argoproj.io; install Argo CD there, and the agent goes on \
                         by itself within seconds";

/// A gap that is shorter is not worth telling: a restart of the pod, of the principal, of a proxy.
/// It is also how long a new agent has before anything is said of it.
const GRACE: SignedDuration = SignedDuration::from_secs(60);

/// What is known of one cluster's agent.
#[derive(Clone, Debug, Default)]
pub struct Facts<'a> {
    /// When its ManifestWork was made.
    pub deployed_at: Option<Timestamp>,
    /// Whether the cluster has applied it; what is wrong, if something is.
    pub applied: Option<Result<(), String>>,
    /// Whether its Deployment has a ready pod, as far as the cluster has said.
    pub ready: Option<bool>,
    /// Its session.
    pub session: Option<&'a SessionReport>,
    /// Since when this principal could have been reached.
    pub serving_since: Option<Timestamp>,
    /// Why nothing could be rendered.
    pub render_error: Option<&'a str>,
    /// What is said of it now.
    pub live: Option<&'a Condition>,
}

/// A verdict, and when to ask again because it depends on the time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Said {
    /// None says nothing at all.
    pub verdict: Option<Verdict>,
    /// None until something happens.
    pub recheck: Option<Duration>,
}

/// Whether this reason of `Available` could only be given after a session.
pub fn tells_of_a_session(reason: &str) -> bool {
    reason == AGENT_CONNECTED || reason == AGENT_DISCONNECTED
}

/// Whether the add-on works on the cluster.
pub fn available(facts: &Facts<'_>, now: Timestamp) -> Said {
    if let Some(session) = facts.session.filter(|session| session.connected) {
        return connected(facts, session, now);
    }
    let Some(deployed_at) = facts.deployed_at else {
        let verdict = facts
            .render_error
            .map(|message| unavailable(AGENT_NOT_DEPLOYED, message));
        return Said {
            verdict,
            recheck: None,
        };
    };
    // Away since it left, or since the moment when it could have come.
    let since = [
        facts.serving_since,
        facts.session.map(|session| session.since),
    ];
    let since = since
        .into_iter()
        .flatten()
        .fold(deployed_at, Timestamp::max);
    let left = GRACE.saturating_sub(now.duration_since(since));
    if left.is_positive() {
        return hold(facts, left);
    }
    let (reason, message) = absence(facts, deployed_at);
    Said {
        verdict: Some(unavailable(reason, &message)),
        recheck: None,
    }
}

fn connected(facts: &Facts<'_>, session: &SessionReport, now: Timestamp) -> Said {
    if facts.ready == Some(true) {
        let verdict = Verdict::new(
            AVAILABLE,
            true,
            AGENT_CONNECTED,
            "the agent is connected and running",
        );
        return Said {
            verdict: Some(verdict),
            recheck: None,
        };
    }
    // Feedback comes some seconds after the fact; the session is quicker.
    let left = GRACE.saturating_sub(now.duration_since(session.since));
    if left.is_positive() {
        return hold(facts, left);
    }
    let message = "the agent is connected, but the cluster reports no ready pod of its Deployment";
    Said {
        verdict: Some(unavailable(AGENT_UNAVAILABLE, message)),
        recheck: None,
    }
}

fn absence(facts: &Facts<'_>, deployed_at: Timestamp) -> (&'static str, String) {
    match &facts.applied {
        None => {
            let message = format!(
                "the cluster has not reported on the ManifestWork made at {deployed_at:.0}; look at \
                 its work agent"
            );
            return (AGENT_NOT_DEPLOYED, message);
        }
        Some(Err(reason)) => {
            return (
                AGENT_NOT_DEPLOYED,
                format!("the ManifestWork is not applied: {reason}"),
            );
        }
        Some(Ok(())) => {}
    }
    let past = history(facts, deployed_at);
    if facts.ready != Some(true) {
        let message = format!(
            "the agent's Deployment has no ready pod; look at its events and at the Secret with \
             its certificate; {past}"
        );
        return (AGENT_UNAVAILABLE, message);
    }
    let seen = facts.session.and_then(|session| session.last_seen);
    let before = facts
        .live
        .is_some_and(|live| tells_of_a_session(&live.reason));
    if seen.is_some() || before {
        return (AGENT_DISCONNECTED, format!("{past}; {NEXT_STEP}"));
    }
    let message =
        format!("the agent runs since {deployed_at:.0} at the earliest, and {past}; {NEXT_STEP}");
    (AGENT_NEVER_CONNECTED, message)
}

/// What to do about an agent that runs and is not here.
const NEXT_STEP: &str = "look at its log, and whether it reaches the principal's address";

fn history(facts: &Facts<'_>, deployed_at: Timestamp) -> String {
    let Facts {
        session,
        serving_since,
        ..
    } = facts;
    let seen = session.and_then(|session| session.last_seen);
    let error = session.and_then(|session| session.last_error.as_deref());
    // Of what was before it started this principal knows nothing.
    let seen = match (seen, serving_since.filter(|start| *start > deployed_at)) {
        (Some(at), _) => format!("last seen at {at:.0}"),
        (None, Some(start)) => format!("not seen since this principal started at {start:.0}"),
        (None, None) => "it has never connected".to_owned(),
    };
    match error {
        Some(error) => format!("{seen}, last error: {error}"),
        None => seen,
    }
}

/// Says again what is said now.
fn hold(facts: &Facts<'_>, left: SignedDuration) -> Said {
    let verdict = facts.live.and_then(|live| {
        let status = match live.status.as_str() {
            "True" => Status::True,
            "False" => Status::False,
            // Written by the hub while the cluster was lost; it is not ours to repeat.
            _ => return None,
        };
        Some(Verdict::new(
            AVAILABLE,
            status,
            live.reason.clone(),
            live.message.clone(),
        ))
    });
    // A little later than the end, so that the end is over.
    let recheck = Duration::try_from(left).unwrap_or_default() + Duration::from_millis(100);
    Said {
        verdict,
        recheck: Some(recheck),
    }
}

fn unavailable(reason: &'static str, message: &str) -> Verdict {
    Verdict::new(AVAILABLE, false, reason, message)
}

/// Whether the cluster has applied all works as they are now; none if it has not said.
pub fn applied(works: &[WorkReport]) -> Option<Result<(), String>> {
    let mut verdict = Some(Ok(()));
    for work in works {
        let conditions = &work.status.conditions;
        let said = condition::find(conditions, condition::work::APPLIED).filter(|it| {
            it.observed_generation
                .is_none_or(|seen| seen == work.generation)
        });
        match said {
            Some(it) if it.status == "True" => {}
            Some(it) => return Some(Err(it.message.clone())),
            None => verdict = None,
        }
    }
    verdict.filter(|_| !works.is_empty())
}

/// What may need a person.
#[derive(Clone, Debug, Default)]
pub struct Needs<'a> {
    /// Why nothing could be rendered.
    pub render_error: Option<&'a str>,
    /// Why the Argo CD cluster Secret is not as it should be.
    pub secret_error: Option<&'a str>,
    /// A change of mode that waits.
    pub held_mode: Option<HeldMode>,
    /// Deletions that wait.
    pub held_deletion: Option<&'a HeldDeletion>,
    /// What cannot be written to the hub for some time.
    pub stuck: Option<&'a Stuck>,
    /// What the agent does that no agent should.
    pub misconduct: Option<&'a str>,
    /// What the cluster cannot take or do.
    pub refused: Option<&'a Refused>,
    /// Whether the cluster has an Argo CD, where its agent says so.
    pub argocd: Option<ArgoCd>,
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
pub struct HeldMode {
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
        return Verdict::new(DEGRADED, false, "AsExpected", "nothing needs a person").calm();
    };
    let others = causes.iter().skip(1);
    let message = others.fold(first.clone(), |said, (reason, message)| {
        format!("{said}; besides, {reason}: {message}")
    });
    Verdict::new(DEGRADED, true, *reason, message)
}

/// Everything that needs a person, the most urgent first: what keeps all else from working, then what waits with danger
/// behind it, then what can wait.
fn causes(needs: &Needs<'_>, now: Timestamp) -> Vec<(&'static str, String)> {
    let Needs {
        render_error,
        secret_error,
        held_mode,
        held_deletion,
        stuck,
        misconduct,
        refused,
        argocd,
        unmirrored,
        revoked,
        ..
    } = needs;
    let missing = *argocd == Some(ArgoCd::Missing);
    let all = [
        revoked.then(|| (REVOKED, revocation())),
        render_error.map(|message| ("ConfigurationInvalid", message.to_owned())),
        missing.then(|| (ARGOCD_MISSING, NO_ARGOCD.to_owned())),
        held_deletion.map(|held| (MASS_DELETE_HELD, mass_delete(held))),
        held_mode
            .as_ref()
            .map(|held| ("ModeChangeHeld", mode_change(held))),
        certificates(needs, now),
        stuck.map(|stuck| ("HubWritesFailing", hub_writes(stuck))),
        misconduct.map(|misconduct| ("AgentMisbehaves", misbehaves(misconduct))),
        refused.map(|refused| ("ObjectsRefused", objects_refused(refused))),
        secret_error.map(|message| ("ClusterSecretConflict", message.to_owned())),
        unmirrored.map(|unmirrored| (NOT_MIRRORED, not_mirrored(unmirrored))),
    ];
    all.into_iter().flatten().collect()
}

/// A rotation that lasts longer is worth a look.
const ROTATION_GRACE: SignedDuration = SignedDuration::from_mins(10);

/// What is wrong with certificates, the most pressing first.
fn certificates(needs: &Needs<'_>, now: Timestamp) -> Option<(&'static str, String)> {
    let overdue = |it: &&ShownCertificate| is_overdue(it.not_before, it.not_after, now);
    if let Some(ending) = needs.certificate.filter(overdue) {
        let message = format!(
            "the agent's certificate ends at {:.0} and has not been renewed; look at the condition \
             ClusterCertificateRotated, at the cluster's certificate requests on the hub, and at its \
             registration agent",
            ending.not_after
        );
        return Some((CERTIFICATE_EXPIRING, message));
    }
    let hub = needs.hub?;
    if !hub.overdue.is_empty() {
        let message = format!(
            "{}; it is renewed only by whoever made it",
            hub.overdue.join(", ")
        );
        return Some((CERTIFICATE_EXPIRING, message));
    }
    if !hub.troubles.is_empty() {
        return Some((CERTIFICATE_NOT_IN_ORDER, hub.troubles.join("; ")));
    }
    let left = rotation_grace(needs, now)?;
    (!left.is_positive())
        .then(|| rotation(needs))
        .flatten()
        .map(|message| (ROTATION_WAITS, message))
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
    let lacks = match rotation.stage {
        Stage::Introduced => "has not said that it trusts the next certificate authority",
        Stage::Retiring | Stage::Settled => {
            "has not come with a certificate of the new certificate authority"
        }
    };
    Some(format!(
        "the rotation of the certificate authority waits since {:.0} for this cluster: its agent \
         {lacks}; see to it that it connects, or revoke it with the annotation {} \
         on this ManagedClusterAddOn, or disable the add-on",
        rotation.since,
        crate::keys::REVOKED
    ))
}

fn revocation() -> String {
    format!(
        "a person has revoked the agent's certificates: it is kept out, and its Applications stay as \
         they are; take the annotation {} away to let it in with a new one",
        crate::keys::REVOKED
    )
}

fn hub_writes(stuck: &Stuck) -> String {
    let Stuck { count, example } = stuck;
    format!(
        "what this cluster reports about {count} of its Applications cannot be written to this hub for half a \
         minute and more, so they show an old status, such as {example}; it is tried on"
    )
}

fn misbehaves(misconduct: &str) -> String {
    format!(
        "the agent of this cluster does what no agent should: {misconduct}; its version may be out of range, or \
         somebody else has its certificate"
    )
}

fn objects_refused(refused: &Refused) -> String {
    let Refused { count, names } = refused;
    let names = with_more(names, *count, ", ");
    format!(
        "the cluster refuses {count} objects of this hub, or could not do what was asked of them: {names}; each \
         Application says why in its condition ArgoCDAgentError"
    )
}

fn mode_change(held: &HeldMode) -> String {
    let HeldMode {
        recorded,
        asked,
        applications,
    } = held;
    let why = applications.map_or_else(
        || {
            "a person and not the label made this ManagedClusterAddOn, and a cluster can write its \
             own labels"
                .to_owned()
        },
        |count| {
            format!(
                "a change moves the ownership of Applications, of which this cluster has {count}"
            )
        },
    );
    format!(
        "the cluster's label asks for mode {asked}, and {recorded} is in use; {why}, so confirm it \
         with the annotation {}={asked} on this ManagedClusterAddOn, or set the label back",
        crate::keys::CONFIRM_MODE
    )
}

fn mass_delete(held: &HeldDeletion) -> String {
    let HeldDeletion {
        names,
        count,
        mirrors,
        digest,
    } = held;
    let names = with_more(names, *count, ", ");
    let (what, instead) = if *mirrors {
        (
            format!("this hub shows {count} objects that the cluster does not have any more"),
            "make them again on the cluster",
        )
    } else {
        (
            format!(
                "the cluster holds {count} objects that this hub has delivered and does not know any more"
            ),
            "make them again on the hub",
        )
    };
    format!(
        "{what}, too many to delete them unasked: {names}; {instead}, or confirm that they go with \
         the annotation {}={digest} on this ManagedClusterAddOn",
        crate::keys::CONFIRM_DELETE
    )
}

fn not_mirrored(unmirrored: &Unmirrored) -> String {
    let Unmirrored { count, names } = unmirrored;
    let names = with_more(names, *count, "; ");
    format!("{count} objects of the cluster are not shown on this hub: {names}")
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
