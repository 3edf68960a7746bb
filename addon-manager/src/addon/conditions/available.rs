//! The condition `Available`: whether the agent of a cluster works. Pure; the time is a parameter.

use std::time::Duration;

use argocd::availability::{
    self, AGENT_CONNECTED, AGENT_DISCONNECTED, AGENT_NEVER_CONNECTED, AGENT_NOT_DEPLOYED,
    AGENT_UNAVAILABLE,
};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use ocm::{
    condition::{self, Status, Verdict, addon::AVAILABLE},
    sdk::WorkReport,
};
use principal::SessionReport;

use crate::hub::implies_past_session;

/// Shorter interruptions are not reported: a restart of the pod, of the principal, of a proxy. A new agent has the
/// same time before its first report.
const GRACE: SignedDuration = SignedDuration::from_secs(60);

/// The facts about one cluster's agent.
#[derive(Clone, Debug, Default)]
pub struct Facts<'a> {
    /// When its ManifestWork was created.
    pub deployed_at: Option<Timestamp>,
    /// Since when an earlier `ManifestWork` is being deleted that must be gone before this one is created.
    pub going_since: Option<Timestamp>,
    /// Whether the cluster has applied it, or the error.
    pub applied: Option<Result<(), String>>,
    /// Whether its Deployment has a ready pod, if the cluster has reported that.
    pub ready: Option<bool>,
    /// Its session.
    pub session: Option<&'a SessionReport>,
    /// Since when this principal accepts connections.
    pub serving_since: Option<Timestamp>,
    /// The address that the agent dials, if it is known.
    pub dials: Option<&'a str>,
    /// The error of the last rendering.
    pub render_error: Option<&'a str>,
    /// The present condition.
    pub live: Option<&'a Condition>,
}

/// A verdict, and when to evaluate it again because it depends on the time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AvailableVerdict {
    /// None writes no condition.
    pub verdict: Option<Verdict>,
    /// None waits for the next change.
    pub recheck: Option<Duration>,
}

impl From<Verdict> for AvailableVerdict {
    fn from(verdict: Verdict) -> Self {
        Self {
            verdict: Some(verdict),
            recheck: None,
        }
    }
}

/// Whether the add-on works on the cluster.
pub fn available(facts: &Facts<'_>, now: Timestamp) -> AvailableVerdict {
    if let (None, Some(since)) = (facts.deployed_at, facts.going_since) {
        return outgoing(facts, since, now);
    }
    if let Some(session) = facts.session.filter(|session| session.connected) {
        return connected(facts, session, now);
    }
    let Some(deployed_at) = facts.deployed_at else {
        let verdict = facts
            .render_error
            .map(|message| unavailable(AGENT_NOT_DEPLOYED, message));
        return verdict.map(Into::into).unwrap_or_default();
    };
    // Disconnected since its session ended, or since it could first connect.
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
    let message = known_before(facts, reason).unwrap_or(message);
    unavailable(reason, &message).into()
}

/// An earlier `ManifestWork` must be deleted first. A healthy work agent needs a moment for that, a broken one does not
/// finish.
fn outgoing(facts: &Facts<'_>, since: Timestamp, now: Timestamp) -> AvailableVerdict {
    let left = GRACE.saturating_sub(now.duration_since(since));
    if left.is_positive() {
        return hold(facts, left);
    }
    let message = format!(
        "an earlier ManifestWork has been in deletion since {since:.0} because the cluster has not removed its \
        objects; the manager creates a new one after that; check the cluster's work agent"
    );
    unavailable(AGENT_NOT_DEPLOYED, &message).into()
}

/// The present message about an agent that this principal has not seen yet. Its author knew more, and a less precise
/// message would cost a write for each absent agent at each start.
fn known_before(facts: &Facts<'_>, reason: &str) -> Option<String> {
    let absent = [AGENT_NEVER_CONNECTED, AGENT_DISCONNECTED, AGENT_UNAVAILABLE];
    let stated = facts
        .live
        .filter(|_| facts.session.is_none() && absent.contains(&reason))?;
    let same = stated.status == "False" && stated.reason == reason;
    // The message is stale if it names another address than the agent dials now.
    let current = facts.dials.is_none_or(|address| {
        stated.message.contains(&named(address)) || reason == AGENT_UNAVAILABLE
    });
    (same && current).then(|| stated.message.clone())
}

fn connected(facts: &Facts<'_>, session: &SessionReport, now: Timestamp) -> AvailableVerdict {
    if facts.ready == Some(true) {
        let works = availability::works(session.agent_version.as_deref());
        let verdict = Verdict::new(AVAILABLE, true, AGENT_CONNECTED, works);
        return verdict.into();
    }
    // The session starts some seconds before the feedback of the work agent arrives.
    let left = GRACE.saturating_sub(now.duration_since(session.since));
    if left.is_positive() {
        return hold(facts, left);
    }
    let message = "the agent is connected, but the cluster reports no ready pod of its Deployment";
    unavailable(AGENT_UNAVAILABLE, message).into()
}

fn absence(facts: &Facts<'_>, deployed_at: Timestamp) -> (&'static str, String) {
    match &facts.applied {
        None => {
            let message = format!(
                "the cluster has not reported on the ManifestWork created at {deployed_at:.0}; check its work agent"
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
            "the agent's Deployment has no ready pod; check its Events and the Secret with its certificate; {past}"
        );
        return (AGENT_UNAVAILABLE, message);
    }
    let seen = facts.session.and_then(|session| session.last_seen);
    let before = facts
        .live
        .is_some_and(|live| implies_past_session(&live.reason));
    if seen.is_some() || before {
        return (
            AGENT_DISCONNECTED,
            format!("{past}; {}", next_step(facts.dials)),
        );
    }
    let message = format!(
        "the agent was deployed at {deployed_at:.0}, and {past}; {}",
        next_step(facts.dials)
    );
    (AGENT_NEVER_CONNECTED, message)
}

/// The next step for an agent that runs and does not connect.
fn next_step(dials: Option<&str>) -> String {
    let address = dials.map(named).unwrap_or_default();
    format!("check its log, and that it can reach the principal's address{address}")
}

/// In parentheses, because one address may be a prefix of another.
fn named(address: &str) -> String {
    format!(" ({address})")
}

fn history(facts: &Facts<'_>, deployed_at: Timestamp) -> String {
    let (session, serving_since) = (facts.session, facts.serving_since);
    let seen = session.and_then(|session| session.last_seen);
    let error = session.and_then(|session| session.last_error.as_deref());
    // This principal has no history from before its start.
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

/// Repeats the present condition.
fn hold(facts: &Facts<'_>, left: SignedDuration) -> AvailableVerdict {
    let verdict = facts.live.and_then(|live| {
        let status = match live.status.as_str() {
            "True" => Status::True,
            "False" => Status::False,
            // The hub wrote it while the cluster was lost; we must not repeat it.
            _ => return None,
        };
        Some(Verdict::new(
            AVAILABLE,
            status,
            live.reason.clone(),
            live.message.clone(),
        ))
    });
    // A little later than the end of the grace period.
    let recheck = Duration::try_from(left).unwrap_or_default() + Duration::from_millis(100);
    AvailableVerdict {
        verdict,
        recheck: Some(recheck),
    }
}

fn unavailable(reason: &'static str, message: &str) -> Verdict {
    Verdict::new(AVAILABLE, false, reason, message)
}

/// Whether the cluster has applied the current generation of all works; none if it has not reported.
pub fn applied(works: &[WorkReport]) -> Option<Result<(), String>> {
    let mut verdict = Some(Ok(()));
    for work in works {
        let conditions = &work.status.conditions;
        let stated = condition::find(conditions, condition::work::APPLIED).filter(|it| {
            it.observed_generation
                .is_none_or(|seen| seen == work.generation)
        });
        match stated {
            Some(it) if it.status == "True" => {}
            Some(it) => return Some(Err(it.message.clone())),
            None => verdict = None,
        }
    }
    verdict.filter(|_| !works.is_empty())
}

#[cfg(test)]
mod tests;
