//! The agent, and others that are there. Pure.

use argocd::keys::addon::AGENT;
use diagnosis::{
    facts::Addon,
    object::{full_name, image, label, list, replicas, text},
};
use serde_json::Value;

use super::{
    Checked, Facts, Spoke, failed, is_ready, ok,
    places::{self, is_agent},
    warning,
};
use crate::output::one_line;

/// Other agents, which would write the same Applications.
pub(super) fn others(spoke: &Spoke) -> Checked {
    let programs = spoke.programs.as_ref()?;
    let is_other =
        |it: &&Value| is_agent(it) && argocd::Meta::of(it).name() != AGENT && replicas(it) > 0;
    let Some(other) = programs.iter().find(is_other) else {
        return ok("no other agent runs here");
    };
    let cause = format!("{} ({}) runs here", full_name(other), image(other));
    if places::agent(programs.iter()).is_some_and(|it| replicas(it) > 0) {
        let cause = format!("{cause} beside ours: both write the same Applications");
        return failed(cause, "scale it to 0; docs/migration.md has the steps");
    }
    let next = "scale it to 0 before you enable the add-on; docs/migration.md has the steps";
    warning(cause, next)
}

/// The agent's Deployment.
pub(super) fn agent(facts: &Facts, spoke: &Spoke) -> Checked {
    let Some(agent) = places::agent(spoke.programs.as_ref()?.iter()) else {
        if addon(facts).is_none() {
            return ok("not installed yet; the add-on installs it");
        }
        let cluster = facts.cluster.as_deref().unwrap_or("CLUSTER");
        return failed(
            format!("the add-on is enabled for {cluster}, but its agent is missing"),
            format!(
                "run argocd-agentctl status {cluster} -o wide for the cause; kubectl -n {cluster} get \
                manifestworks on the hub shows the applied works"
            ),
        );
    };
    let (full_name, image) = (full_name(agent), image(agent));
    if is_ready(agent) {
        return ok(format!("{full_name} is ready, image {image}"));
    }
    if replicas(agent) == 0 {
        let next = "the work agent scales it up within minutes; find the controller or user that scales it down";
        return failed(format!("{full_name} is scaled to 0"), next);
    }
    let words = words(spoke).unwrap_or_else(|| "its Pods report no cause".to_owned());
    let cause = format!("{full_name} ({image}) is not ready: {words}");
    failed(cause, next(facts))
}

fn addon(facts: &Facts) -> Option<Addon> {
    facts.hub.as_ref()?.addon().map(Addon::read)
}

fn next(facts: &Facts) -> String {
    if addon(facts).is_some_and(|addon| addon.certificate().is_none()) {
        return "it waits for its certificate from OCM's registration agent: check the log of the registration \
        agent on the cluster, and the condition RegistrationApplied of the add-on"
            .to_owned();
    }
    let namespace = &facts.places.agent;
    format!(
        "kubectl -n {namespace} describe pods on the cluster, and kubectl -n {namespace} logs deploy/{AGENT}"
    )
}

/// The last words of its Pods.
fn words(spoke: &Spoke) -> Option<String> {
    let pods = match &spoke.pods {
        Err(reason) => return Some(reason.clone()),
        Ok(pods) => pods.iter(),
    };
    let ours = pods.filter(|pod| label(pod, "app.kubernetes.io/name") == "argocd-agent-agent");
    ours.filter_map(of_pod).next_back()
}

fn of_pod(pod: &Value) -> Option<String> {
    let container = pod.pointer("/status/containerStatuses/0");
    let condition = |pointer: &str| {
        let state = container?.pointer(pointer)?;
        let code = state.get("exitCode").and_then(Value::as_i64);
        let code = code.map_or_else(String::new, |code| format!("exit code {code}"));
        let words = [text(state, "/reason"), &code, text(state, "/message")];
        let words = words.into_iter().filter(|word| !word.is_empty());
        Some(one_line(&words.collect::<Vec<_>>().join(", ")))
    };
    let ended = condition("/lastState/terminated").or_else(|| condition("/state/terminated"));
    let states = [condition("/state/waiting"), ended];
    let states: Vec<_> = states.into_iter().flatten().collect();
    if !states.is_empty() {
        return Some(states.join("; before that: "));
    }
    // Conditions of Pods are not those of everything else.
    let unscheduled = list(pod, "/status/conditions")
        .iter()
        .find(|it| text(it, "/type") == "PodScheduled" && text(it, "/status") == "False");
    let message = unscheduled?.get("message")?.as_str()?;
    Some(one_line(message))
}
