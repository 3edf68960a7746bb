//! `check`: whether this hub has what the add-on needs, and the caller what this program needs; and ([`spoke`]) whether a
//! cluster has what the add-on needs there. Pure.

mod argo_cd;
mod hub;
mod live;
pub mod spoke;

use serde::Serialize;
use serde_json::Value;

pub use argo_cd::{CONTROLLER, Watchers, controllers};
pub use hub::{
    GROUPS, Place as RightPlace, RIGHTS, Right, Served, address_of, addresses, hosts, offer,
};
pub use live::{SERVER, ServerRight};

use crate::{
    hub::Reading,
    labels::{self, Wrong},
    output::{Mood, Place, View, draw, one_line},
    settings::Settings,
};
use spoke::Way;

/// What was read.
#[derive(Clone, Debug)]
pub struct Facts {
    /// The kinds that the hub serves, of the groups that matter.
    pub served: Served,
    /// The `ClusterManagementAddOn`; why it could not be read.
    pub offer: Result<Option<Value>, String>,
    /// The hub program's Deployment.
    pub manager: Result<Option<Value>, String>,
    /// The principal's Service.
    pub service: Result<Option<Value>, String>,
    /// Hosts that agents dial, and whether their names lead somewhere from here.
    pub resolved: Vec<(String, Result<(), String>)>,
    /// The way to the principal from here.
    pub way: Way,
    /// The hub's clock, if its API reports it.
    pub clock: Option<Reading>,
    /// What the caller may do, as the hub says; why it did not.
    pub rights: Vec<(&'static Right, Result<bool, String>)>,
    /// The workloads that may be Argo CD application controllers.
    pub controllers: Result<Vec<Value>, String>,
    /// Argo CD's parameters.
    pub parameters: Result<Option<Value>, String>,
    /// What Argo CD's server may do with Applications of clusters.
    pub server_rights: Vec<ServerRight>,
    /// The cluster Secrets of agents, without what is in them.
    pub secrets: Result<Vec<Value>, String>,
    /// The clusters with the add-on.
    pub clusters: Vec<String>,
    /// Labels of clusters that cannot be followed.
    pub labels: Result<Vec<Wrong>, String>,
    /// The hub program's settings.
    pub settings: Settings,
    /// Its namespace.
    pub own_namespace: String,
}

/// All findings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Findings {
    /// In the order in which they should be looked at.
    pub checks: Vec<Finding>,
}

/// One finding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What was looked at.
    pub check: &'static str,
    /// What was found.
    pub result: Outcome,
    /// The cause, or what is so.
    pub cause: String,
    /// What to do; nothing if it is as it should be.
    pub next: Option<String>,
}

/// What was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// As it should be.
    Ok,
    /// It could not be found out.
    Unclear,
    /// It works, and may not do what is wanted.
    Warning,
    /// It does not work like this.
    Failed,
}

/// What a check found; an error is why it could not find out.
pub(crate) type Checked = Result<Verdict, String>;

/// A finding without the name of its check.
#[derive(Clone, Debug)]
pub struct Verdict {
    result: Outcome,
    cause: String,
    next: Option<String>,
}

impl Verdict {
    fn new(result: Outcome, cause: impl Into<String>, next: impl Into<String>) -> Self {
        Self {
            result,
            cause: cause.into(),
            next: Some(next.into()),
        }
    }
}

#[expect(clippy::unnecessary_wraps, reason = "a check ends with it")]
pub(crate) fn ok(cause: impl Into<String>) -> Checked {
    Ok(Verdict {
        result: Outcome::Ok,
        cause: cause.into(),
        next: None,
    })
}

#[expect(clippy::unnecessary_wraps, reason = "a check ends with it")]
fn unclear(cause: impl Into<String>, next: impl Into<String>) -> Checked {
    Ok(Verdict::new(Outcome::Unclear, cause, next))
}

#[expect(clippy::unnecessary_wraps, reason = "a check ends with it")]
fn warning(cause: impl Into<String>, next: impl Into<String>) -> Checked {
    Ok(Verdict::new(Outcome::Warning, cause, next))
}

#[expect(clippy::unnecessary_wraps, reason = "a check ends with it")]
pub(crate) fn failed(cause: impl Into<String>, next: impl Into<String>) -> Checked {
    Ok(Verdict::new(Outcome::Failed, cause, next))
}

impl Finding {
    pub(crate) fn of((check, checked): (&'static str, Checked)) -> Self {
        let verdict = checked.unwrap_or_else(|cause| Verdict {
            result: Outcome::Unclear,
            cause,
            next: None,
        });
        let Verdict {
            result,
            cause,
            next,
        } = verdict;
        Self {
            check,
            result,
            cause,
            next,
        }
    }
}

/// Looks at everything.
pub fn check(facts: &Facts) -> Findings {
    let mut checks = hub::apis(facts);
    let add_on = [
        ("add-on", offer(&facts.offer)),
        ("hub program", hub::program(facts)),
        ("address", hub::address(facts)),
    ];
    checks.extend(add_on.map(Finding::of));
    checks.extend(hub::names(facts));
    checks.extend(spoke::way_from_here(&facts.way));
    checks.extend(spoke::clock_from_here(facts.clock));
    checks.extend(labels::findings(&facts.labels));
    checks.extend(controllers(Watchers::of(facts)));
    checks.push(Finding::of(("argo cd", argo_cd::parameters(facts))));
    checks.extend(live::findings(facts));
    checks.push(Finding::of(("your rights", hub::rights(facts))));
    Findings { checks }
}

impl Findings {
    /// Whether something does not work.
    pub fn has_failed(&self) -> bool {
        self.checks
            .iter()
            .any(|finding| finding.result == Outcome::Failed)
    }
}

impl View for Findings {
    fn text(&self, place: Place) -> String {
        let rows = self.checks.iter().map(|finding| {
            let (word, mood) = match finding.result {
                Outcome::Ok => ("ok", Mood::Calm),
                Outcome::Unclear => ("unclear", Mood::Warning),
                Outcome::Warning => ("warning", Mood::Warning),
                Outcome::Failed => ("failed", Mood::Bad),
            };
            let cause = match &finding.next {
                Some(next) => format!("{}; {next}", finding.cause),
                None => finding.cause.clone(),
            };
            let cells = [finding.check.to_owned(), word.to_owned(), one_line(&cause)];
            (mood, cells.to_vec())
        });
        draw(&["CHECK", "RESULT", "WHAT"], rows, place.colours)
    }
}

#[cfg(test)]
mod tests;
