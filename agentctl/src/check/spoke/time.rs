//! The clocks of the cluster, the hub and this machine. Pure.

use jiff::SignedDuration;

use super::{Facts, Finding, Outcome};
use crate::{hub::Reading, output::span};

/// What people should know of.
const REPORT_ABOVE: SignedDuration = SignedDuration::from_secs(5);
/// By so much certificates are dated back. A clock that is further behind takes new ones for not valid yet.
const TOLERATED: SignedDuration = SignedDuration::from_mins(5);

/// The cluster's clock beside the hub's, and this machine's beside both.
pub(super) fn findings(facts: &Facts) -> Vec<Finding> {
    let cluster = facts.api.as_ref().ok().and_then(|about| about.clock);
    let hub = facts.hub.as_ref().and_then(|hub| hub.about.as_ref()?.clock);
    let zero = Reading {
        ahead: SignedDuration::ZERO,
        give: SignedDuration::ZERO,
    };
    let mut all = Vec::new();
    match (cluster, hub) {
        (Some(cluster), Some(hub)) => {
            all.push(compare("the cluster", cluster, "the hub", hub));
            all.extend(here("the hub", hub));
        }
        (Some(cluster), None) => all.push(compare("the cluster", cluster, "this machine", zero)),
        // What does not answer has no clock either.
        (None, _) if facts.api.is_err() => all.extend(hub.and_then(|hub| here("the hub", hub))),
        (None, Some(_) | None) => {
            let cause = "the cluster's API does not report its time";
            all.push(Finding::new("clock", Outcome::Unclear, cause));
        }
    }
    all
}

/// Reported only if it is wrong: ages in this output depend on this machine's clock.
fn here(owner: &str, clock: Reading) -> Option<Finding> {
    let finding = beside_ours(owner, clock);
    (finding.result != Outcome::Ok).then_some(finding)
}

/// The hub's clock beside that of this machine, if the hub reports it.
pub(in crate::check) fn from_here(hub: Option<Reading>) -> Option<Finding> {
    hub.map(|clock| beside_ours("the hub", clock))
}

fn beside_ours(owner: &str, clock: Reading) -> Finding {
    let ours = Reading {
        ahead: SignedDuration::ZERO,
        give: SignedDuration::ZERO,
    };
    let mut finding = compare("this machine", ours, owner, clock);
    if finding.result != Outcome::Ok {
        finding.result = Outcome::Warning;
        finding.next = Some(
            "find out which clock is wrong (NTP); ages shown here are off by that much".to_owned(),
        );
    }
    finding
}

/// Only what lies beyond what the reading leaves open is a difference.
fn compare(one: &str, of_one: Reading, other: &str, of_other: Reading) -> Finding {
    let finding = |outcome, cause: String| Finding::new("clock", outcome, cause);
    let apart = of_one.ahead.saturating_sub(of_other.ahead);
    let give = of_one.give.saturating_add(of_other.give);
    let certain = apart.abs().saturating_sub(give);
    let side = if apart.is_negative() {
        "behind"
    } else {
        "ahead of"
    };
    if certain <= REPORT_ABOVE {
        let cause = format!("the clocks of {one} and {other} agree");
        return finding(Outcome::Ok, cause);
    }
    let cause = format!(
        "the clock of {one} is {} {side} that of {other}",
        span(apart.abs())
    );
    let next = "set the clocks of the machines of both control planes (NTP)";
    if certain <= TOLERATED {
        return finding(Outcome::Warning, cause).next(next);
    }
    finding(
        Outcome::Failed,
        format!("{cause}, so that certificates of one are not valid for the other"),
    )
    .next(next)
}
