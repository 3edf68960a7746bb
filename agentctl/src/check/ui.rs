//! What the hub's Argo CD needs for the pages of the add-on in its UI. Pure.
//!
//! Nothing of this keeps Applications from being delivered, so none of it is a failure.

use argocd::keys::addon::{FLEET_GUARD, UI_EXTENSION, UI_SECRET};
use diagnosis::object::{list, text};
use jiff::Timestamp;
use serde_json::Value;

use super::{Checked, Facts, Finding, ok, warning};
use crate::ui::{
    CONFIG_KEYS, Configured, EXTENSIONS, EXTENSIONS_DIRECTORY, FORWARDING, FORWARDING_KEY,
    LIST_KEY, POLICY_KEY, configured, is_forwarding, is_mounted, may_invoke, own_forwarding,
    started,
};

/// What was read for the pages, where the hub program serves their data.
#[derive(Clone, Debug)]
pub struct UiFacts {
    /// The Deployment of argocd-server.
    pub server: Option<Value>,
    /// Argo CD's settings.
    pub settings: Result<Option<Value>, String>,
    /// Argo CD's policies.
    pub policies: Result<Option<Value>, String>,
    /// When the token was last written; none if there is no token.
    pub token: Result<Option<Timestamp>, String>,
    /// Whether the `ConfigMap` with the JavaScript exists.
    pub has_javascript: Result<bool, String>,
    /// The guard of the fleet page.
    pub guard: Result<Option<Value>, String>,
    /// Its project.
    pub project: Result<Option<Value>, String>,
}

/// All of it: nothing where the pages are off, and one finding where all is well.
pub(super) fn findings(facts: &Facts) -> Vec<Finding> {
    let Some(read) = &facts.ui else {
        return Vec::new();
    };
    let mut all = Vec::new();
    for look in [
        token, javascript, mount, forwarding, extensions, policies, guard, cluster, age,
    ] {
        all.extend(look(facts, read).unwrap_or_else(|cause| Some(Err(cause))));
    }
    if all.is_empty() {
        let cause = "argocd-server serves the pages of the add-on, and Argo CD's policies let roles call them";
        all.push(ok(cause));
    }
    Finding::each("ui", all).collect()
}

/// A finding if something is not as it should be; an error is why that is unknown.
type Looked = Result<Option<Checked>, String>;

#[expect(clippy::unnecessary_wraps, reason = "a look ends with it")]
fn missing(cause: String, next: String) -> Looked {
    Ok(Some(warning(cause, next)))
}

fn argocd(facts: &Facts) -> &str {
    &facts.settings.routing.argocd_namespace
}

const CHART: &str = "upgrade the chart with ui.enabled=true; it contains it";
const SETUP: &str = "argocd-agentctl hub setup makes it";

fn token(facts: &Facts, read: &UiFacts) -> Looked {
    if read.token.as_ref()?.is_some() {
        return Ok(None);
    }
    let place = format!("{}/{UI_SECRET}", argocd(facts));
    missing(
        format!(
            "the Secret {place} does not exist, so the hub program refuses the requests of the pages"
        ),
        "the leader of the hub program creates it; its log has the cause if it cannot".to_owned(),
    )
}

fn javascript(facts: &Facts, read: &UiFacts) -> Looked {
    if *read.has_javascript.as_ref()? {
        return Ok(None);
    }
    let place = format!("{}/{UI_EXTENSION}", argocd(facts));
    missing(
        format!("the ConfigMap {place} with the pages does not exist"),
        CHART.to_owned(),
    )
}

fn mount(_: &Facts, read: &UiFacts) -> Looked {
    let Some(server) = &read.server else {
        return missing(
            "no argocd-server is found, which would serve the pages".to_owned(),
            "install argocd-server on the hub to use its UI".to_owned(),
        );
    };
    if is_mounted(server) {
        return Ok(None);
    }
    let cause = format!(
        "argocd-server does not serve the pages: the ConfigMap {UI_EXTENSION} is not mounted below {EXTENSIONS_DIRECTORY}"
    );
    missing(cause, SETUP.to_owned())
}

fn forwarding(facts: &Facts, read: &UiFacts) -> Looked {
    let parameters = facts.shared_parameters.as_ref()?;
    let server = read.server.as_ref();
    if is_forwarding(parameters.as_ref(), server) {
        return Ok(None);
    }
    let (flag, name) = FORWARDING;
    let cause = format!(
        "argocd-server forwards no requests of the pages: {FORWARDING_KEY} of the ConfigMap {}/argocd-cmd-params-cm is not true",
        argocd(facts)
    );
    let next = match own_forwarding(server) {
        Some(_) => format!("remove its own flag {flag} or variable {name}, which wins"),
        None => SETUP.to_owned(),
    };
    missing(cause, next)
}

fn extensions(facts: &Facts, read: &UiFacts) -> Looked {
    let settings = read.settings.as_ref()?.as_ref();
    let data = settings.and_then(|it| it.get("data"));
    for (name, key) in EXTENSIONS.into_iter().zip(CONFIG_KEYS) {
        let (wrong, next) = match configured(data, name, &facts.own_namespace) {
            Configured::Right => continue,
            Configured::Absent => (format!("has no {key}"), SETUP.to_owned()),
            Configured::Wrong => (
                format!("has another backend or token in {key}"),
                SETUP.to_owned(),
            ),
            Configured::WrongInList => (
                format!("has another backend or token for {name} in {LIST_KEY}"),
                format!("remove {name} from there, and run argocd-agentctl hub setup"),
            ),
            Configured::Twice => (
                format!(
                    "has both {key} and {name} in {LIST_KEY}, so argocd-server serves no extension"
                ),
                format!("remove {name} from {LIST_KEY}"),
            ),
            Configured::Unreadable(cause) => (
                format!(
                    "has a {LIST_KEY} that cannot be read, so argocd-server serves no extension: {cause}"
                ),
                "correct it".to_owned(),
            ),
        };
        let place = argocd(facts);
        return missing(format!("the ConfigMap {place}/argocd-cm {wrong}"), next);
    }
    Ok(None)
}

fn policies(facts: &Facts, read: &UiFacts) -> Looked {
    let policies = read.policies.as_ref()?.as_ref();
    let mut both = EXTENSIONS.iter();
    if both.any(|it| may_invoke(policies, it)) {
        return Ok(None);
    }
    let place = argocd(facts);
    missing(
        format!(
            "no policy in the ConfigMap {place}/argocd-rbac-cm lets a role call the pages, so not even administrators may"
        ),
        format!(
            "argocd-agentctl hub setup lets Argo CD's own roles, unless {POLICY_KEY} is there; docs/ui.md has the lines for \
            other roles"
        ),
    )
}

/// Whether argocd-server can authorise requests for the fleet by the guard.
fn guard(facts: &Facts, read: &UiFacts) -> Looked {
    let place = format!("{}/{FLEET_GUARD}", argocd(facts));
    for (kind, object) in [("Application", &read.guard), ("AppProject", &read.project)] {
        if object.as_ref()?.is_none() {
            let cause = format!(
                "the {kind} {place} does not exist, by which argocd-server authorises the fleet page"
            );
            return missing(cause, CHART.to_owned());
        }
    }
    let guard = read.guard.as_ref()?.as_ref();
    let destination = guard.and_then(|it| it.pointer("/spec/destination"));
    let destination = destination.cloned().unwrap_or_default();
    let project = read.project.as_ref()?.as_ref();
    let admitted = project.map_or(&[][..], |it| list(it, "/spec/destinations"));
    let is_same = |it: &Value| {
        ["/server", "/namespace"]
            .iter()
            .all(|field| text(it, field) == text(&destination, field))
    };
    let is_in_project = guard.is_some_and(|it| text(it, "/spec/project") == FLEET_GUARD);
    if is_in_project && admitted.iter().any(is_same) {
        return Ok(None);
    }
    let cause = format!(
        "the Application {place} is not as the chart has it, so argocd-server refuses the fleet page: its project has to be \
        {FLEET_GUARD}, and to admit its destination"
    );
    missing(cause, CHART.to_owned())
}

/// argocd-server authorises by the destination of the guard, which is the hub.
fn cluster(facts: &Facts, read: &UiFacts) -> Looked {
    let settings = read.settings.as_ref()?.as_ref();
    let enabled = settings.and_then(|it| it.get("data")?.get("cluster.inClusterEnabled")?.as_str());
    if enabled != Some("false") {
        return Ok(None);
    }
    let place = argocd(facts);
    missing(
        format!(
            "cluster.inClusterEnabled of the ConfigMap {place}/argocd-cm is false, so argocd-server refuses the fleet page"
        ),
        "set it to true, or look at the fleet with argocd-agentctl status".to_owned(),
    )
}

/// argocd-server keeps the token with which it has started.
fn age(facts: &Facts, read: &UiFacts) -> Looked {
    let Some(server) = &read.server else {
        return Ok(None);
    };
    let started = started(server);
    let written = *read.token.as_ref()?;
    if !is_mounted(server) || started.is_none() || written <= started {
        return Ok(None);
    }
    let place = argocd(facts);
    missing(
        format!(
            "the Secret {place}/{UI_SECRET} is younger than the last restart of argocd-server, which may use an earlier token"
        ),
        "argocd-agentctl hub setup restarts it; where Argo CD's operator deploys it, replace its Pods".to_owned(),
    )
}

#[cfg(test)]
mod tests;
