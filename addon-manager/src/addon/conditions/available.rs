//! Whether the agent of a cluster works: `Available`. Pure; the time is a parameter.

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

/// A gap that is shorter is not worth telling: a restart of the pod, of the principal, of a proxy.
/// It is also how long a new agent has before anything is said of it.
const GRACE: SignedDuration = SignedDuration::from_secs(60);

/// What is known of one cluster's agent.
#[derive(Clone, Debug, Default)]
pub struct Facts<'a> {
    /// When its ManifestWork was made.
    pub deployed_at: Option<Timestamp>,
    /// Since when a `ManifestWork` is being deleted that has to be gone before this one is made.
    pub going_since: Option<Timestamp>,
    /// Whether the cluster has applied it; what is wrong, if something is.
    pub applied: Option<Result<(), String>>,
    /// Whether its Deployment has a ready pod, as far as the cluster has said.
    pub ready: Option<bool>,
    /// Its session.
    pub session: Option<&'a SessionReport>,
    /// Since when this principal could have been reached.
    pub serving_since: Option<Timestamp>,
    /// Where the agent is told to dial, if that is known.
    pub dials: Option<&'a str>,
    /// Why nothing could be rendered.
    pub render_error: Option<&'a str>,
    /// What is said of it now.
    pub live: Option<&'a Condition>,
}

/// A verdict, and when to ask again because it depends on the time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AvailableVerdict {
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
        return AvailableVerdict {
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
    let message = known_before(facts, reason).unwrap_or(message);
    AvailableVerdict {
        verdict: Some(unavailable(reason, &message)),
        recheck: None,
    }
}

/// Nothing is there but what has to go first. That takes a moment on a cluster that works, and lasts on one whose work
/// agent does not.
fn outgoing(facts: &Facts<'_>, since: Timestamp, now: Timestamp) -> AvailableVerdict {
    let left = GRACE.saturating_sub(now.duration_since(since));
    if left.is_positive() {
        return hold(facts, left);
    }
    let message = format!(
        "an earlier ManifestWork has been in deletion since {since:.0} because the cluster has not removed its \
        objects; the manager creates a new one after that; check the cluster's work agent"
    );
    AvailableVerdict {
        verdict: Some(unavailable(AGENT_NOT_DEPLOYED, &message)),
        recheck: None,
    }
}

/// What is said already of an agent that this principal has never heard of: whoever said it knew more, and saying
/// less again would be a write for each absent agent at each start.
fn known_before(facts: &Facts<'_>, reason: &str) -> Option<String> {
    let absent = [AGENT_NEVER_CONNECTED, AGENT_DISCONNECTED, AGENT_UNAVAILABLE];
    let stated = facts
        .live
        .filter(|_| facts.session.is_none() && absent.contains(&reason))?;
    let same = stated.status == "False" && stated.reason == reason;
    // Unless it names another address than the agent dials by now.
    let current = facts.dials.is_none_or(|address| {
        stated.message.contains(&named(address)) || reason == AGENT_UNAVAILABLE
    });
    (same && current).then(|| stated.message.clone())
}

fn connected(facts: &Facts<'_>, session: &SessionReport, now: Timestamp) -> AvailableVerdict {
    if facts.ready == Some(true) {
        let works = availability::works(session.agent_version.as_deref());
        let verdict = Verdict::new(AVAILABLE, true, AGENT_CONNECTED, works);
        return AvailableVerdict {
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
    AvailableVerdict {
        verdict: Some(unavailable(AGENT_UNAVAILABLE, message)),
        recheck: None,
    }
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
        .is_some_and(|live| tells_of_a_session(&live.reason));
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

/// What to do about an agent that runs and is not here.
fn next_step(dials: Option<&str>) -> String {
    let address = dials.map(named).unwrap_or_default();
    format!("check its log, and that it can reach the principal's address{address}")
}

/// With what ends it: one address may begin as another does.
fn named(address: &str) -> String {
    format!(" ({address})")
}

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
fn hold(facts: &Facts<'_>, left: SignedDuration) -> AvailableVerdict {
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
    AvailableVerdict {
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
