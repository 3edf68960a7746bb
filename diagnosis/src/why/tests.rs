use serde_json::json;

use super::*;
use crate::testing::{addon, addon_object, application, facts, to, well};

/// The hops that are not as they should be.
fn troubles(why: &Why) -> Vec<(&'static str, State)> {
    let bad = why.hops.iter().filter(|hop| hop.state != State::Good);
    bad.map(|hop| (hop.hop, hop.state)).collect()
}

fn hop<'a>(why: &'a Why, name: &str) -> &'a Hop {
    why.hops.iter().find(|hop| hop.hop == name).unwrap()
}

#[test]
fn all_hops_of_a_delivered_application_are_good() {
    let why = why(&facts(application("paris", "shop", &to("paris"))));
    assert_eq!((why.verdict, &why.next), (State::Good, &None));
    assert_eq!(troubles(&why), []);
    let hops: Vec<_> = why.hops.iter().map(|it| it.hop).collect();
    let expected = [
        "routing", "name", "project", "cluster", "delivery", "sync", "health",
    ];
    assert_eq!(hops, expected);
}

#[test]
fn the_rule_that_leads_to_a_cluster_is_named() {
    for (namespace, destination, rule) in [
        (
            "paris",
            to("in-cluster"),
            "it is in the namespace of that cluster",
        ),
        (
            "argocd",
            to("paris"),
            "destination has the name of that cluster",
        ),
        (
            "argocd",
            json!({"server": "https://p?agentName=paris", "namespace": "shop"}),
            "destination has the server of that cluster",
        ),
        ("team-a", to("paris"), "its namespace is allowed"),
    ] {
        let why = why(&facts(application(namespace, "shop", &destination)));
        let routing = hop(&why, "routing");
        assert!(routing.text.contains(rule), "{}", routing.text);
        assert_eq!(why.verdict, State::Good);
    }
}

#[test]
fn why_names_destinations_with_live_views_of_the_hub() {
    let server = |url: &str| json!({"server": url, "namespace": "shop"});
    let remedy = "set spec.destination.name to paris";
    let remedy_of_server = "set spec.destination.name to paris and remove spec.destination.server";
    for (destination, expected) in [
        (to("in-cluster"), Some(remedy)),
        (
            server("https://kubernetes.default.svc"),
            Some(remedy_of_server),
        ),
        (
            server("https://kubernetes.default.svc/"),
            Some(remedy_of_server),
        ),
        (to("paris"), None),
        (server("https://p?agentName=paris"), None),
    ] {
        let why = why(&facts(application("paris", "shop", &destination)));
        assert_eq!(why.verdict, State::Good, "{destination}");
        let warns = hop(&why, "routing").text.contains("live views");
        assert_eq!(warns, expected.is_some(), "{destination}");
        let next = why.next.as_deref();
        let is_expected = match expected {
            Some(remedy) => next.is_some_and(|next| next.ends_with(remedy)),
            None => next.is_none(),
        };
        assert!(is_expected, "{destination}: {next:?}");
    }
}

#[test]
fn contradicting_destination_stops_the_way_at_routing() {
    let mut app = application("paris", "shop", &to("berlin"));
    app["status"] = json!({});
    let why = why(&facts(app));
    assert_eq!(troubles(&why), [("routing", State::Bad)]);
}

#[test]
fn why_explains_a_deletion_without_a_cluster() {
    let mut app = application("argocd", "shop", &to("oslo"));
    app["metadata"]["deletionTimestamp"] = json!("2026-11-22T11:59:00Z");
    let why = why(&facts(app));
    assert_eq!(troubles(&why), [("routing", State::Bad)]);
    let next = why.next.unwrap();
    assert!(next.contains("wait for the hub program"), "{next}");
    assert!(!next.contains("  "), "{next}");
}

#[test]
fn why_names_the_project_field_that_denies() {
    let mut app = application("paris", "shop", &to("in-cluster"));
    app["spec"]["destination"]["namespace"] = json!("kube-system");
    let why = why(&facts(app));
    assert_eq!(
        troubles(&why),
        [("project", State::Bad), ("delivery", State::Waiting)]
    );
    let next = why.next.unwrap();
    assert!(
        next.contains("spec.destinations of the AppProject argocd/shop"),
        "{next}"
    );
}

#[test]
fn a_project_that_is_not_there_is_to_be_made_not_changed() {
    let mut facts = facts(application("paris", "shop", &to("in-cluster")));
    facts.project = Ok(None);
    let next = why(&facts).next.unwrap();
    assert!(
        next.starts_with("create the AppProject argocd/shop, or choose another"),
        "{next}"
    );
}

#[test]
fn why_names_the_application_that_holds_the_name() {
    let older = application("paris", "shop", &to("in-cluster"));
    let mut younger = application("argocd", "shop", &to("paris"));
    younger["metadata"]["creationTimestamp"] = json!("2026-11-21T08:00:00Z");
    let mut facts = facts(younger.clone());
    facts.namesakes = vec![younger, older.clone()];
    let found = why(&facts);
    assert_eq!(hop(&found, "name").state, State::Bad);
    assert!(hop(&found, "name").text.contains("namespace paris"));
    facts.application = older;
    assert_eq!(hop(&why(&facts), "name").state, State::Good);
}

#[test]
fn why_shows_refusals_before_stale_status() {
    let mut app = application("paris", "shop", &to("paris"));
    app["status"]["conditions"] = json!([{"type": "ArgoCDAgentError",
        "message": "the namespace shop is terminating", "lastTransitionTime": "2026-11-22T11:59:00Z"}]);
    let why = why(&facts(app));
    assert_eq!(
        troubles(&why),
        [("refused", State::Bad), ("delivery", State::Waiting)]
    );
    assert!(
        why.next
            .as_ref()
            .unwrap()
            .contains("fix the cause in the message on the cluster")
    );
}

#[test]
fn a_change_that_the_cluster_has_not_compared_with_is_not_confirmed() {
    let mut app = application("paris", "shop", &to("in-cluster"));
    app["spec"]["source"]["targetRevision"] = json!("v3");
    assert_eq!(troubles(&why(&facts(app))), [("delivery", State::Waiting)]);
    let mut app = application("paris", "shop", &to("in-cluster"));
    app["spec"]["source"]["helm"] = json!({"parameters": [], "values": ""});
    assert_eq!(
        troubles(&why(&facts(app))),
        [],
        "what is empty is no difference"
    );
    let mut app = application("paris", "shop", &to("in-cluster"));
    app["status"] = json!({});
    assert_eq!(troubles(&why(&facts(app))), [("delivery", State::Waiting)]);
}

#[test]
fn why_compares_the_hydrated_source() {
    let mut app = application("paris", "shop", &to("in-cluster"));
    app["spec"].as_object_mut().unwrap().remove("source");
    app["spec"]["sourceHydrator"] = json!({
        "drySource": {"repoURL": "https://git.example.com/shop.git", "path": "dry", "targetRevision": "HEAD"},
        "syncSource": {"path": "app", "targetBranch": "v2"},
        "hydrateTo": {"targetBranch": "v2-next"},
    });
    assert_eq!(troubles(&why(&facts(app.clone()))), []);
    app["spec"]["sourceHydrator"]["syncSource"]["targetBranch"] = json!("v3");
    assert_eq!(
        troubles(&why(&facts(app.clone()))),
        [("delivery", State::Waiting)]
    );
    app["spec"]["sourceHydrator"]["syncSource"] = json!({
        "repoURL": "https://git.example.com/made.git", "path": "app", "targetBranch": "v2",
    });
    assert_eq!(troubles(&why(&facts(app))), [("delivery", State::Waiting)]);
}

#[test]
fn a_cluster_that_is_away_is_waited_for() {
    let mut facts = facts(application("paris", "shop", &to("in-cluster")));
    let away = (
        "Available",
        "False",
        "AgentDisconnected",
        "last seen at 2026-11-22T11:54:00Z",
        "2026-11-22T11:55:00Z",
    );
    facts.addons = vec![addon("paris", "managed", &[away])].into();
    let why = why(&facts);
    assert_eq!(troubles(&why), [("cluster", State::Waiting)]);
    assert!(
        hop(&why, "cluster").text.contains("AgentDisconnected"),
        "{why:?}"
    );
}

#[test]
fn why_explains_a_revoked_agent_and_restore() {
    let mut facts = facts(application("paris", "shop", &to("in-cluster")));
    let mut out = well("paris");
    out.revoked = Some("laptop stolen".to_owned());
    facts.addons = vec![out].into();
    let why = why(&facts);
    assert_eq!(troubles(&why), [("cluster", State::Bad)]);
    assert!(
        hop(&why, "cluster")
            .text
            .contains("is revoked (laptop stolen)")
    );
    assert!(why.next.unwrap().contains("agent restore paris"));
}

#[test]
fn why_marks_connection_unclear_without_the_hub_program() {
    let mut facts = facts(application("paris", "shop", &to("in-cluster")));
    facts.settings.silent = Some("the hub program does not run".to_owned());
    assert_eq!(troubles(&why(&facts)), [("cluster", State::Unclear)]);
}

#[test]
fn why_explains_a_namespace_that_argo_cd_does_not_watch() {
    let mut app = application("paris", "shop", &to("in-cluster"));
    app["status"] = json!({});
    let next = why(&facts(app)).next.unwrap();
    assert!(
        next.contains("argocd-agentctl check spoke paris --spoke-kubeconfig"),
        "{next}"
    );
}

#[test]
fn why_explains_how_to_opt_in_the_destination() {
    let why = why(&facts(application("argocd", "shop", &to("nuuk"))));
    let next = why.next.unwrap();
    assert!(next.contains("kubectl label managedcluster nuuk"), "{next}");
}

#[test]
fn why_shows_failed_sync_and_argo_cd_errors() {
    let mut app = application("paris", "shop", &to("in-cluster"));
    app["status"]["operationState"]["phase"] = json!("Failed");
    app["status"]["operationState"]["message"] = json!("one or more objects failed to apply");
    app["status"]["conditions"] = json!([{"type": "SyncError", "message": "m"}]);
    let why = why(&facts(app));
    assert_eq!(
        troubles(&why),
        [("sync", State::Bad), ("argo-cd", State::Bad)]
    );
    assert!(hop(&why, "sync").text.contains("failed to apply"));
}

#[test]
fn why_explains_a_sync_into_a_missing_namespace() {
    let mut app = application("paris", "shop", &to("in-cluster"));
    app["status"]["operationState"]["phase"] = json!("Failed");
    for (message, is_missing) in [
        (
            r#"reason: namespaces "orders" not found (retried 2 times)"#,
            true,
        ),
        (r#"deployments.apps "orders" not found"#, false),
        (r#"namespaces "orders" is forbidden"#, false),
        (
            r#"namespaces "orders" is forbidden, secrets "shop" not found"#,
            false,
        ),
        (
            r#"namespaces "a" is forbidden, namespaces "b" not found"#,
            true,
        ),
        (r#"namespaces "orders not found"#, false),
    ] {
        app["status"]["operationState"]["message"] = json!(message);
        let next = why(&facts(app.clone())).next.unwrap();
        assert_eq!(next.contains("CreateNamespace=true"), is_missing, "{next}");
    }
}

#[test]
fn why_explains_a_hub_local_application() {
    let why_local = why(&facts(application("argocd", "shop", &to("in-cluster"))));
    assert_eq!((why_local.cluster, why_local.verdict), (None, State::Good));
    assert!(why_local.next.unwrap().contains("spec.destination.name"));
    let mut app = application("paris", "shop", &to("in-cluster"));
    app["metadata"]["labels"] = json!({argocd::keys::IGNORE_SYNC: "true"});
    let ignored = why(&facts(app));
    assert_eq!((ignored.cluster, ignored.hops.len()), (None, 1));
}

#[test]
fn an_application_for_a_cluster_that_is_not_there_yet_waits() {
    let mut facts = facts(application("argocd", "shop", &to("nuuk")));
    let new = addon_object("nuuk", "managed", &[]);
    let mut addon = Addon::read(&new);
    addon.adopted = false;
    facts.addons.to_mut().push(addon);
    let why = why(&facts);
    assert_eq!(troubles(&why), [("routing", State::Waiting)]);
    assert!(why.next.unwrap().contains("status nuuk"));
}

#[test]
fn why_reports_unreadable_facts_as_unknown() {
    let mut facts = facts(application("paris", "shop", &to("in-cluster")));
    facts.servers = Err("you may not list secrets".to_owned());
    facts.project = Err("you may not list appprojects".to_owned());
    facts.settings.doubt = Some("defaults".to_owned());
    facts.globals_doubt = Some("you may not get configmaps".to_owned());
    let why = why(&facts);
    assert_eq!(why.doubts.len(), 3);
    assert_eq!(troubles(&why), [("project", State::Unclear)]);
}
