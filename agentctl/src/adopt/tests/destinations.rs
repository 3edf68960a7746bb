//! What becomes of Applications.

use super::*;

/// What becomes of an Application with one field in its destination, for each cluster that it names.
fn fates(facts: &mut Facts, namespace: &str, field: &str, value: &str) -> Vec<(String, Fate)> {
    let destination = json!({ field: value });
    facts.applications = vec![application(namespace, "shop", &destination)];
    let named = plan(facts).applications.into_iter();
    named.map(|it| (it.cluster, it.fate)).collect()
}

const HUB: &str = "https://kubernetes.default.svc";
const PROXY: &str = "https://proxy:9090?agentName=berlin";

#[test]
fn each_kind_of_destination_is_reported_with_its_fate() {
    let mut facts = paris();
    let slash = format!("{PARIS}/");
    for (namespace, field, value, expected) in [
        ("argocd", "name", "paris", Fate::Reached),
        ("team-a", "name", "paris", Fate::Reached),
        ("paris", "name", "paris", Fate::Reached),
        ("argocd", "name", "prod-paris", Fate::Change),
        ("argocd", "server", PARIS, Fate::Change),
        ("argocd", "server", &slash, Fate::Change),
        ("paris", "server", PARIS, Fate::Change),
        // Its namespace is not allowed, for any destination.
        ("elsewhere", "server", PARIS, Fate::Blocked),
        ("elsewhere", "name", "paris", Fate::Blocked),
    ] {
        let found = fates(&mut facts, namespace, field, value);
        let expected = [("paris".to_owned(), expected)];
        assert_eq!(found, expected, "{namespace} {field} {value}");
    }
    for (field, value) in [("server", HUB), ("name", "unknown"), ("name", "")] {
        assert_eq!(fates(&mut facts, "argocd", field, value), []);
    }
    // A cluster that owns its Applications takes none of the hub's.
    facts.mode = Mode::Autonomous;
    let found = fates(&mut facts, "argocd", "name", "paris");
    assert_eq!(found, [("paris".to_owned(), Fate::Blocked)]);
}

#[test]
fn application_in_cluster_namespace_needs_a_matching_destination() {
    let mut facts = paris();
    let agent = of_agent("cluster-berlin", "berlin", PROXY);
    facts.secrets[0] = secret("push-paris", "paris", PARIS);
    facts.secrets.push(agent);
    for (namespace, field, value, expected) in [
        // From the hub to a cluster.
        ("paris", "server", HUB, Fate::Blocked),
        ("paris", "name", "in-cluster", Fate::Blocked),
        ("paris", "server", "https://unknown", Fate::Blocked),
        // Where there is an agent, that is what it means already.
        ("berlin", "server", HUB, Fate::Reached),
        ("berlin", "name", "in-cluster", Fate::Reached),
        ("berlin", "server", PROXY, Fate::Change),
    ] {
        let found = fates(&mut facts, namespace, field, value);
        let expected = [(namespace.to_owned(), expected)];
        assert_eq!(found, expected, "{namespace} {field} {value}");
    }
    // An Application in the namespace of one cluster that names another is reported for both.
    let both = fates(&mut facts, "berlin", "name", "paris");
    let blocked = |name: &str| (name.to_owned(), Fate::Blocked);
    assert_eq!(both, [blocked("berlin"), blocked("paris")]);
    let found = fates(&mut facts, "argocd", "server", PROXY);
    assert_eq!(found, [("berlin".to_owned(), Fate::Change)]);
}

#[test]
fn a_change_has_its_field_its_value_and_where_it_is_made() {
    let mut facts = paris();
    let mut made = json!({
        "metadata": {
            "namespace": "argocd", "name": "shop",
            "ownerReferences": [{"kind": "ApplicationSet", "name": "shops"}],
            "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "long"},
        },
        "spec": {"destination": {"server": PARIS, "namespace": "shop"}, "source": {"repoURL": "x"}},
    });
    facts.applications = vec![brief(&made)];
    assert!(!facts.applications[0].to_string().contains("long"));
    let found = plan(&facts);
    let it = &found.applications[0];
    assert_eq!(it.made_by.as_deref(), Some("shops"));
    let set = it.set.clone().unwrap();
    assert_eq!(
        set,
        json!({"spec": {"destination": {"name": "paris", "server": null}}})
    );
    assert_eq!(found.clusters[0].state, State::Blocked);
    assert!(found.ready().is_empty() && found.is_blocked());

    // After the reported change it is reached, and nothing else of it changes.
    argocd::patch::merge(&mut made, &set);
    assert_eq!(
        made["spec"]["destination"],
        json!({"name": "paris", "namespace": "shop"})
    );
    facts.applications = vec![brief(&made)];
    let found = plan(&facts);
    assert_eq!(found.applications[0].fate, Fate::Reached);
    assert_eq!(found.ready(), ["paris".to_owned()].into());
    assert!(!found.is_blocked());
}
