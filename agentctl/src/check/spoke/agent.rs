//! The agent, and others that are there. Pure.

use argocd::keys::addon::AGENT;
use serde_json::Value;

use super::{
    Facts, Finding, Outcome, Spoke, full_name, image, is_ready,
    places::{self, is_agent},
    running, wanted,
};
use crate::{facts::CERTIFICATE_ROTATED, output::one_line};

/// Other agents, which would write the same Applications.
pub(super) fn others(spoke: &Spoke) -> Finding {
    let finding = |outcome, cause: String| Finding::new("other agents", outcome, cause);
    if let Err(reason) = &spoke.programs {
        return finding(Outcome::Unclear, reason.clone());
    }
    let others = running(spoke).filter(|it| is_agent(it) && argocd::Meta::of(it).name() != AGENT);
    let others: Vec<_> = others.filter(|it| wanted(it) > 0).collect();
    let Some(other) = others.first() else {
        return finding(Outcome::Ok, "no other agent runs here".to_owned());
    };
    let ours = places::agent(running(spoke)).is_some_and(|it| wanted(it) > 0);
    let cause = format!("{} ({}) runs here", full_name(other), image(other));
    let next = "scale it to 0 before you enable the add-on; docs/migration.md has the steps";
    if ours {
        let cause = format!("{cause} beside ours: both write the same Applications");
        return finding(Outcome::Failed, cause)
            .next("scale it to 0; docs/migration.md has the steps");
    }
    finding(Outcome::Warning, cause).next(next)
}

/// The agent's Deployment.
pub(super) fn agent(facts: &Facts, spoke: &Spoke) -> Finding {
    let finding = |outcome, cause: String| Finding::new("agent", outcome, cause);
    if let Err(reason) = &spoke.programs {
        return finding(Outcome::Unclear, reason.clone());
    }
    let addon = facts.hub.as_ref().map(|hub| hub.addon.as_ref());
    let Some(agent) = places::agent(running(spoke)) else {
        let cluster = facts.cluster.as_deref().unwrap_or("CLUSTER");
        return match addon {
            Some(Ok(Some(_))) => finding(
                Outcome::Failed,
                format!("the add-on is enabled for {cluster}, but its agent is missing"),
            )
            .next(format!(
                "run argocd-agentctl status {cluster} -o wide for the cause; kubectl -n {cluster} get \
                manifestworks on the hub shows the applied works"
            )),
            Some(Ok(None) | Err(_)) | None => finding(
                Outcome::Ok,
                "not installed yet; the add-on installs it".to_owned(),
            ),
        };
    };
    let (full_name, image) = (full_name(agent), image(agent));
    if is_ready(agent) {
        return finding(Outcome::Ok, format!("{full_name} is ready, image {image}"));
    }
    if wanted(agent) == 0 {
        return finding(Outcome::Failed, format!("{full_name} is scaled to 0"))
            .next("the work agent scales it up within minutes; find the controller or user that scales it down");
    }
    let words = words(spoke).unwrap_or_else(|| "its Pods report no cause".to_owned());
    let cause = format!("{full_name} ({image}) is not ready: {words}");
    finding(Outcome::Failed, cause).next(next(facts))
}

fn next(facts: &Facts) -> String {
    let addon = facts
        .hub
        .as_ref()
        .and_then(|hub| hub.addon.as_ref().ok()?.as_ref());
    let certificate = addon.and_then(|(addon, _)| addon.condition(CERTIFICATE_ROTATED));
    if addon.is_some() && certificate.is_none_or(|condition| condition.status != "True") {
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
        Ok(pods) => pods,
    };
    let ours = pods
        .iter()
        .filter(|pod| super::label(pod, "app.kubernetes.io/name") == "argocd-agent-agent");
    ours.filter_map(of_pod).next_back()
}

fn of_pod(pod: &Value) -> Option<String> {
    let container = pod.pointer("/status/containerStatuses/0");
    let condition = |pointer: &str| {
        let state = container?.pointer(pointer)?;
        let text = |key: &str| state.get(key).and_then(Value::as_str).unwrap_or_default();
        let code = state.get("exitCode").and_then(Value::as_i64);
        let code = code
            .map(|code| format!("exit code {code}"))
            .unwrap_or_default();
        let words = [text("reason"), &code, text("message")];
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
    let raw = pod.pointer("/status/conditions").and_then(Value::as_array);
    let unscheduled = raw.into_iter().flatten().find(|it| {
        it.get("type").and_then(Value::as_str) == Some("PodScheduled")
            && it.get("status").and_then(Value::as_str) == Some("False")
    });
    let message = unscheduled?.get("message")?.as_str()?;
    Some(one_line(message))
}
