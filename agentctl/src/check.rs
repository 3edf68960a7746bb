//! `check`: whether this hub has what the add-on needs, and the caller what this program needs; and ([`spoke`]) whether a
//! cluster has what the add-on needs there. Pure.

mod argo_cd;
mod hub;
mod live;
mod replicas;
mod rights;
pub mod spoke;
mod ui;

use diagnosis::{labels::Wrong, settings::Settings};
use serde::Serialize;
use serde_json::Value;

pub use argo_cd::{CONTROLLER, controllers, has_own_namespaces, in_effect, watchers};
pub(crate) use argo_cd::{NAMESPACES, REDIS_SERVER};
pub use hub::{GROUPS, RIGHTS, Right, Served, addresses, offer};
pub use live::{SERVER, ServerRight};
pub(crate) use live::{full_address, is_proxy_on, leads_to_us, proxy_address};
pub use rights::{Place as RightPlace, asked};
pub use ui::UiFacts;

use crate::{
    hub::Reading,
    output::{Mood, Place, View, draw, word},
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
    /// The Leases in the hub program's namespace.
    pub leases: Result<Vec<Value>, String>,
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
    /// Argo CD's parameters, as its programs share them.
    pub shared_parameters: Result<Option<Value>, String>,
    /// Argo CD's parameters, as argocd-server has them.
    pub parameters: Result<Option<Value>, String>,
    /// Whether argocd-server has a list of namespaces for itself.
    pub has_own_namespaces: bool,
    /// What Argo CD's server may do with Applications of clusters.
    pub server_rights: Vec<ServerRight>,
    /// What was read for the pages in Argo CD's UI; none if they are off.
    pub ui: Option<UiFacts>,
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

/// A finding whose check is not named yet; an error is why the check could not find out.
pub(crate) type Checked = Result<Finding, String>;

#[expect(clippy::unnecessary_wraps, reason = "a check ends with it")]
pub(crate) fn ok(cause: impl Into<String>) -> Checked {
    Ok(Finding::new(Outcome::Ok, cause, None))
}

#[expect(clippy::unnecessary_wraps, reason = "a check ends with it")]
fn unclear(cause: impl Into<String>, next: impl Into<String>) -> Checked {
    Ok(Finding::new(Outcome::Unclear, cause, Some(next.into())))
}

#[expect(clippy::unnecessary_wraps, reason = "a check ends with it")]
pub(crate) fn warning(cause: impl Into<String>, next: impl Into<String>) -> Checked {
    Ok(Finding::new(Outcome::Warning, cause, Some(next.into())))
}

#[expect(clippy::unnecessary_wraps, reason = "a check ends with it")]
pub(crate) fn failed(cause: impl Into<String>, next: impl Into<String>) -> Checked {
    Ok(Finding::new(Outcome::Failed, cause, Some(next.into())))
}

impl Finding {
    fn new(result: Outcome, cause: impl Into<String>, next: Option<String>) -> Self {
        Self {
            check: "",
            result,
            cause: cause.into(),
            next,
        }
    }

    /// All findings of one check.
    pub(crate) fn each(check: &'static str, all: Vec<Checked>) -> impl Iterator<Item = Self> {
        all.into_iter().map(move |it| Self::of((check, it)))
    }

    pub(crate) fn of((check, checked): (&'static str, Checked)) -> Self {
        let unknown = |cause| Self::new(Outcome::Unclear, cause, None);
        let checked = checked.unwrap_or_else(unknown);
        Self { check, ..checked }
    }
}

/// Looks at everything.
pub fn check(facts: &Facts) -> Findings {
    let mut checks: Vec<_> = Finding::each("api", hub::apis(facts)).collect();
    let add_on = [
        ("add-on", offer(&facts.offer)),
        ("hub program", hub::program(facts)),
        ("replicas", replicas::replicas(facts)),
        ("address", hub::address(facts)),
    ];
    checks.extend(add_on.map(Finding::of));
    checks.extend(Finding::each("name", hub::names(facts)));
    checks.extend(spoke::way_from_here(&facts.way));
    checks.extend(spoke::clock_from_here(facts.clock));
    checks.extend(Finding::each("labels", hub::labels(&facts.labels)));
    let argocd = &facts.settings.routing.argocd_namespace;
    for look in [controllers, watchers] {
        let found = look(
            &facts.controllers,
            &facts.shared_parameters,
            argocd,
            &facts.clusters,
        );
        checks.extend(Finding::each("controllers", found));
    }
    checks.push(Finding::of(("argo cd", argo_cd::parameters(facts))));
    checks.extend(live::findings(facts));
    checks.extend(ui::findings(facts));
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
            let mood = match finding.result {
                Outcome::Ok => Mood::Calm,
                Outcome::Unclear | Outcome::Warning => Mood::Warning,
                Outcome::Failed => Mood::Bad,
            };
            let all = std::iter::once(&finding.cause).chain(&finding.next);
            let all: Vec<_> = all.map(String::as_str).collect();
            let cells = vec![
                finding.check.to_owned(),
                word(finding.result),
                all.join("; "),
            ];
            (mood, cells)
        });
        let table = draw(&["CHECK", "RESULT", "WHAT"], rows, place.colours);
        match live::hint(&self.checks) {
            Some(hint) => format!("{table}\n{hint}\n"),
            None => table,
        }
    }
}

#[cfg(test)]
mod tests;
