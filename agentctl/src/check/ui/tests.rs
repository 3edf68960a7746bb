use serde_json::json;

use super::*;
use crate::{
    check::{Outcome, check, tests::facts},
    testing::place,
    ui::{POLICY, config},
};

/// A hub on which argocd-server is set up for the pages.
fn well() -> Facts {
    let mut facts = facts();
    let own = facts.own_namespace.clone();
    let volume = json!({"name": "pages", "configMap": {"name": UI_EXTENSION}});
    let mount = json!({"name": "pages", "mountPath": "/tmp/extensions/pages"});
    let spec = json!({"volumes": [volume], "containers": [{"volumeMounts": [mount]}]});
    let destination = json!({"server": "https://kubernetes.default.svc", "namespace": "argocd"});
    let extensions = CONFIG_KEYS.map(|key| (key.to_owned(), json!(config(&own))));
    let [first, second] = extensions;
    facts.shared_parameters = Ok(Some(json!({"data": {
        "application.namespaces": "paris,berlin", FORWARDING_KEY: "true",
    }})));
    facts.ui = Some(UiFacts {
        server: Some(json!({
            "metadata": {"creationTimestamp": "2026-11-22T08:00:00Z"},
            "spec": {"template": {"spec": spec}},
        })),
        settings: Ok(Some(
            json!({"data": {first.0: first.1, second.0: second.1}}),
        )),
        policies: Ok(Some(json!({"data": {"policy.argocd-agent.csv": POLICY}}))),
        token: Ok(Some("2026-11-22T07:00:00Z".parse().unwrap())),
        has_javascript: Ok(true),
        guard: Ok(Some(
            json!({"spec": {"project": FLEET_GUARD, "destination": destination}}),
        )),
        project: Ok(Some(json!({"spec": {"destinations": [destination]}}))),
    });
    facts
}

fn found(facts: &Facts) -> Vec<(Outcome, String)> {
    let all = findings(facts).into_iter();
    all.map(|it| {
        (
            it.result,
            format!("{}; {}", it.cause, it.next.unwrap_or_default()),
        )
    })
    .collect()
}

#[test]
fn pages_that_are_off_are_no_finding() {
    assert_eq!(found(&facts()), []);
}

#[test]
fn complete_setup_of_the_pages_is_one_finding() {
    let all = found(&well());
    assert_eq!((all.len(), all[0].0), (1, Outcome::Ok), "{all:?}");
}

/// A change after which a piece is missing; a part of its cause, and of the next step.
type Case = (fn(&mut Facts, &mut UiFacts), &'static str, &'static str);

const MISSING: [Case; 14] = [
    (
        |_, ui| ui.token = Ok(None),
        "Secret argocd/argocd-agent-addon-ui",
        "leader",
    ),
    (
        |_, ui| ui.has_javascript = Ok(false),
        "argocd-agent-addon-ui-extension",
        "ui.enabled",
    ),
    (|_, ui| ui.server = None, "no argocd-server", "install"),
    (
        |_, ui| ui.server = Some(json!({})),
        "not mounted",
        "hub setup",
    ),
    (
        |all, _| all.shared_parameters = Ok(Some(json!({}))),
        FORWARDING_KEY,
        "hub setup",
    ),
    (
        |_, ui| {
            let server = ui.server.as_mut().unwrap();
            let container = &mut server["spec"]["template"]["spec"]["containers"][0];
            container["args"] = json!(["--enable-proxy-extension=false"]);
        },
        FORWARDING_KEY,
        "remove its own flag",
    ),
    (
        |_, ui| ui.settings = Ok(None),
        "has no extension.config.argocd-agent",
        "hub setup",
    ),
    (
        |_, ui| ui.settings.as_mut().unwrap().as_mut().unwrap()["data"][LIST_KEY] = json!("["),
        "cannot be read",
        "correct it",
    ),
    (
        |_, ui| ui.policies = Ok(Some(json!({}))),
        "no policy",
        "hub setup",
    ),
    (
        |_, ui| ui.guard = Ok(None),
        "Application argocd/argocd-agent-fleet",
        "chart",
    ),
    (
        |_, ui| ui.project = Ok(None),
        "AppProject argocd/argocd-agent-fleet",
        "chart",
    ),
    (
        |_, ui| ui.project = Ok(Some(json!({}))),
        "not as the chart has it",
        "chart",
    ),
    (
        |_, ui| {
            let settings = ui.settings.as_mut().unwrap().as_mut().unwrap();
            settings["data"]["cluster.inClusterEnabled"] = json!("false");
        },
        "inClusterEnabled",
        "argocd-agentctl status",
    ),
    (
        |_, ui| ui.token = Ok(Some("2026-11-22T09:00:00Z".parse().unwrap())),
        "younger",
        "hub setup restarts",
    ),
];

#[test]
fn each_missing_piece_of_the_pages_has_its_next_step() {
    for (change, cause, next) in MISSING {
        let mut facts = well();
        let mut ui = facts.ui.take().unwrap();
        change(&mut facts, &mut ui);
        facts.ui = Some(ui);
        let all = found(&facts);
        let is_named = |(outcome, text): &(Outcome, String)| {
            *outcome == Outcome::Warning && text.contains(cause) && text.contains(next)
        };
        assert!(
            all.len() == 1 && all.iter().all(is_named),
            "{cause}: {all:#?}"
        );
    }
}

#[test]
fn unread_pieces_of_the_pages_are_unclear() {
    let mut facts = well();
    facts.ui.as_mut().unwrap().policies = Err("you may not".to_owned());
    let all = found(&facts);
    assert_eq!(all, [(Outcome::Unclear, "you may not; ".to_owned())]);
}

#[test]
fn hub_setup_is_offered_for_missing_pieces_of_the_pages() {
    let offered = |facts: &Facts| {
        let format = crate::output::Format::Table;
        let place = place(format, "2026-11-22T12:00:00Z".parse().unwrap());
        let text = crate::output::render(&check(facts), place).unwrap();
        text.contains("Next: argocd-agentctl hub setup")
    };
    let mut facts = well();
    assert!(!offered(&facts));
    facts.ui.as_mut().unwrap().policies = Ok(None);
    assert!(offered(&facts));
}
