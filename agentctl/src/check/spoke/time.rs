//! The clocks of the cluster, the hub and this machine. Pure.

use jiff::SignedDuration;

use super::{Checked, Facts, Finding, Outcome, failed, ok, warning};
use crate::{hub::Reading, output::span};

/// What people should know of.
const REPORT_ABOVE: SignedDuration = SignedDuration::from_secs(5);
/// By so much certificates are dated back. A clock that is further behind takes new ones for not valid yet.
const TOLERATED: SignedDuration = SignedDuration::from_mins(5);

/// The cluster's clock beside the hub's, and this machine's beside both.
pub(super) fn findings(facts: &Facts) -> Vec<Finding> {
    let cluster = facts.api.as_ref().ok().and_then(|about| about.clock);
    let hub = facts.hub.as_ref().and_then(|hub| hub.about.clock);
    // Reported only if it is wrong: ages in this output depend on this machine's clock.
    let here = from_here(hub).filter(|it| it.result != Outcome::Ok);
    let cluster = match (cluster, hub) {
        (Some(cluster), Some(hub)) => Some(compare("the cluster", cluster, "the hub", hub)),
        (Some(cluster), None) => Some(compare("the cluster", cluster, "this machine", OURS)),
        // What does not answer has no clock either.
        (None, _) if facts.api.is_err() => None,
        (None, _) => {
            let reason = "the cluster's API does not report its time".to_owned();
            return vec![Finding::of(("clock", Err(reason)))];
        }
    };
    let cluster = cluster.map(|it| Finding::of(("clock", it)));
    cluster.into_iter().chain(here).collect()
}

/// The clock of this machine, beside which the others are read.
const OURS: Reading = Reading {
    ahead: SignedDuration::ZERO,
    give: SignedDuration::ZERO,
};

/// The hub's clock beside that of this machine, if the hub reports it.
pub(in crate::check) fn from_here(hub: Option<Reading>) -> Option<Finding> {
    let mut finding = Finding::of(("clock", compare("this machine", OURS, "the hub", hub?)));
    if finding.result != Outcome::Ok {
        finding.result = Outcome::Warning;
        finding.next = Some(
            "find out which clock is wrong (NTP); ages shown here are off by that much".to_owned(),
        );
    }
    Some(finding)
}

/// Only what lies beyond what the reading leaves open is a difference.
fn compare(one: &str, of_one: Reading, other: &str, of_other: Reading) -> Checked {
    let apart = of_one.ahead.saturating_sub(of_other.ahead);
    let give = of_one.give.saturating_add(of_other.give);
    let certain = apart.abs().saturating_sub(give);
    if certain <= REPORT_ABOVE {
        return ok(format!("the clocks of {one} and {other} agree"));
    }
    let side = if apart.is_negative() {
        "behind"
    } else {
        "ahead of"
    };
    let apart = span(apart.abs());
    let cause = format!("the clock of {one} is {apart} {side} that of {other}");
    let next = "set the clocks of the machines of both control planes (NTP)";
    if certain <= TOLERATED {
        return warning(cause, next);
    }
    let cause = format!("{cause}, so that certificates of one are not valid for the other");
    failed(cause, next)
}
