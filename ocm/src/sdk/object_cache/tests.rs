//! Which placement decides the configuration of a cluster.

use serde_json::json;

use super::*;
use crate::api::addon::Version;

fn cluster(name: &str) -> ClusterName {
    ClusterName::new(name).unwrap()
}

fn update<K, V>(change: Change<K, V>) -> Update<K, V> {
    let version = None;
    Update { change, version }
}

/// A hub whose add-on has the placements `first` and `last`, each with a configuration of its name.
fn hub(kind: &str) -> State {
    let placement = |name: &str| {
        let config = json!({ "group": "g", "resource": "r", "name": name });
        json!({ "namespace": "p", "name": name, "configs": [config] })
    };
    let raw = json!({ "metadata": { "name": "a" }, "spec": { "installStrategy": {
        "type": kind, "placements": [placement("first"), placement("last")],
    } } });
    let object = serde_json::from_value::<DynamicObject>(raw.clone()).unwrap();
    let model = Arc::new(Version::V1Beta1.read_offer(object));
    let mut state = State::default();
    state
        .offer
        .apply(update(Change::Applied((), Arc::new(Offer { raw, model }))));
    for name in ["one", "both", "none"] {
        let addon = Change::Applied(cluster(name), Arc::default());
        state.addons.apply(update(addon));
    }
    state
}

/// Applies a decision of a placement in namespace `p`, and returns the clusters to wake.
fn decide(state: &mut State, name: &str, placement: &str, clusters: &[&str]) -> Vec<String> {
    let decisions = clusters
        .iter()
        .map(|name| json!({ "clusterName": name, "reason": "" }));
    let decision = json!({
        "metadata": { "namespace": "p", "name": name, "labels": {
            "cluster.open-cluster-management.io/placement": placement,
        } },
        "status": { "decisions": decisions.collect::<Vec<_>>() },
    });
    let decision = serde_json::from_value::<DynamicObject>(decision).unwrap();
    let decision = Arc::new(Decision::read(&decision).unwrap());
    let key = ("p".to_owned(), name.to_owned());
    let changed = state
        .decisions
        .apply(update(Change::Applied(key, decision)));
    let moved = changed
        .iter()
        .flat_map(|(key, before)| state.moved(key, before.as_deref()));
    moved.map(|cluster| cluster.to_string()).collect()
}

fn placed(state: &State, name: &str) -> Vec<String> {
    let configs = state.placed(&cluster(name)).iter();
    configs.map(|config| config.name.clone()).collect()
}

#[test]
fn last_placement_that_selects_a_cluster_configures_it() {
    let mut state = hub("Placements");
    decide(&mut state, "last-1", "last", &["both"]);
    decide(&mut state, "first-1", "first", &["one", "both"]);
    decide(&mut state, "other-1", "other", &["none"]);
    assert_eq!(placed(&state, "one"), ["first"]);
    assert_eq!(placed(&state, "both"), ["last"]);
    assert_eq!(placed(&state, "none"), [""; 0]);
    let mut manual = hub("Manual");
    decide(&mut manual, "first-1", "first", &["one"]);
    assert_eq!(placed(&manual, "one"), [""; 0]);
}

#[test]
fn changed_decision_wakes_only_clusters_that_it_moves() {
    let mut state = hub("Placements");
    assert_eq!(
        decide(&mut state, "first-1", "first", &["one", "both", "foreign"]),
        ["both", "one"]
    );
    assert_eq!(
        decide(&mut state, "first-1", "first", &["one", "none"]),
        ["both", "none"]
    );
    assert_eq!(decide(&mut state, "other-1", "other", &["one"]), [""; 0]);
    assert_eq!(
        decide(&mut state, "first-1", "other", &["one", "none"]),
        ["none", "one"]
    );
}

#[test]
fn configuration_of_a_cluster_is_that_of_its_placement() {
    let mut state = hub("Placements");
    let kind = ConfigGroupResource {
        group: "g".to_owned(),
        resource: "r".to_owned(),
    };
    state.configs.entry(kind).or_default();
    decide(&mut state, "first-1", "first", &["one"]);
    let status = |configured: &str| {
        let reference =
            json!({ "group": "g", "resource": "r", "desiredConfig": { "name": configured } });
        let addon = json!({
            "metadata": { "name": "a", "namespace": "one" },
            "status": {
                "conditions": [{
                    "type": "Configured", "status": "True", "reason": "R", "message": "",
                    "lastTransitionTime": "2026-01-01T00:00:00Z",
                }],
                "configReferences": [reference],
            },
        });
        let addon = serde_json::from_value::<DynamicObject>(addon).unwrap();
        Arc::new(Version::V1Beta1.read_addon(addon))
    };
    let mut configured = |name: &str| {
        let addon = Change::Applied(cluster("one"), status(name));
        state.addons.apply(update(addon));
        let objects = state.configured(&cluster("one")).objects;
        objects.map(|it| it.into_iter().map(|it| it.name).collect::<Vec<_>>())
    };
    assert_eq!(configured("first"), Some(vec!["first".to_owned()]));
    assert_eq!(configured("last"), None);
    assert_eq!(
        state.configured(&cluster("foreign")),
        Configuration::default()
    );
}
