use proptest::prelude::*;

use super::*;
use crate::projection::patch_for_spoke;

fn context() -> SpokeContext<'static> {
    SpokeContext {
        argocd_namespace: "gitops",
        principal_namespace: "argocd",
        principal_uid: Some("p1"),
        cluster: "spoke1",
    }
}

fn hub(shared: Shared, data: &Value) -> Value {
    json!({
        "metadata": { "name": shared.name(), "namespace": "argocd", "uid": "u1", "resourceVersion": "7" },
        "data": data,
    })
}

fn desired(shared: Shared, data: &Value) -> Value {
    desired_on_spoke(&hub(shared, data), &context()).unwrap()
}

fn local(shared: Shared, data: &Value) -> Value {
    json!({
        "metadata": { "name": shared.name(), "namespace": "gitops", "uid": "l1", "annotations": { "mine": "x" } },
        "data": data,
    })
}

/// Applies the patch to the live object and checks that no second patch is needed.
fn merged(live: &Value, desired: &Value) -> Value {
    let Some(patch) = patch_for_spoke(live, desired) else {
        return live.clone();
    };
    let after = patch.applied_to(live);
    assert_eq!(patch_for_spoke(&after, desired), None, "a second patch");
    after
}

fn withdrawn(live: &Value) -> Value {
    withdraw_patch(live).map_or_else(|| live.clone(), |patch| patch.applied_to(live))
}

fn hosts(hosts: &[&str]) -> BTreeSet<String> {
    hosts.iter().map(|host| (*host).to_owned()).collect()
}

const ONE: &str = "git.example ssh-ed25519 AAAA";
const TWO: &str = "git.example ssh-rsa BBBB";

#[test]
fn only_entries_of_hosts_that_the_cluster_uses_travel() {
    let tls = hub(
        Shared::TlsCerts,
        &json!({ "git.example": "PEM", "other.example": "PEM" }),
    );
    let used = hosts(&["git.example"]);
    let wire = wire(Shared::TlsCerts, &tls, &used).unwrap();
    assert_eq!(wire["data"], json!({ "git.example": "PEM" }));
    let text = format!("# all\n{ONE}\nother.example ssh-rsa CCCC\n{TWO}\n");
    let ssh = hub(Shared::SshKnownHosts, &json!({ "ssh_known_hosts": text }));
    let wire = super::wire(Shared::SshKnownHosts, &ssh, &used).unwrap();
    assert_eq!(wire["data"]["ssh_known_hosts"], format!("{ONE}\n{TWO}\n"));
    for (shared, hub) in [(Shared::TlsCerts, &tls), (Shared::SshKnownHosts, &ssh)] {
        assert_eq!(super::wire(shared, hub, &hosts(&["nowhere"])), None);
    }
}

#[test]
fn every_cluster_gets_all_gpg_keys() {
    let keys = hub(Shared::GpgKeys, &json!({ "4AEE18F83AFDEB23": "PGP" }));
    let wire = wire(Shared::GpgKeys, &keys, &BTreeSet::new()).unwrap();
    assert_eq!(wire["data"], keys["data"]);
    let none = hub(Shared::GpgKeys, &Value::Null);
    assert!(super::wire(Shared::GpgKeys, &none, &BTreeSet::new()).is_some());
}

#[test]
fn local_entries_stay_and_win() {
    let live = local(Shared::TlsCerts, &json!({ "mine": "L", "both": "L" }));
    let after = merged(
        &live,
        &desired(Shared::TlsCerts, &json!({ "both": "H", "hub": "H" })),
    );
    assert_eq!(
        after["data"],
        json!({ "mine": "L", "both": "L", "hub": "H" })
    );
    assert_eq!(
        after["metadata"]["annotations"][keys::SHARED_ENTRIES],
        "hub"
    );
    assert_eq!(after["metadata"]["annotations"]["mine"], "x");
    assert_eq!(withdrawn(&after), live);
}

#[test]
fn removals_and_changes_of_the_hub_are_applied() {
    let live = local(Shared::GpgKeys, &json!({ "mine": "L" }));
    let live = merged(
        &live,
        &desired(Shared::GpgKeys, &json!({ "a": "1", "b": "1" })),
    );
    let live = merged(&live, &desired(Shared::GpgKeys, &json!({ "b": "2" })));
    assert_eq!(live["data"], json!({ "mine": "L", "b": "2" }));
    let live = merged(&live, &desired(Shared::GpgKeys, &json!({})));
    assert_eq!(live, local(Shared::GpgKeys, &json!({ "mine": "L" })));
}

#[test]
fn edit_of_a_shared_entry_is_reverted() {
    let want = desired(Shared::TlsCerts, &json!({ "hub": "H" }));
    let mut live = merged(&local(Shared::TlsCerts, &json!({})), &want);
    live["data"]["hub"] = "edited".into();
    live["data"]["added"] = "L".into();
    assert_eq!(
        merged(&live, &want)["data"],
        json!({ "hub": "H", "added": "L" })
    );
}

#[test]
fn known_hosts_are_added_line_by_line() {
    let text = "# local\ngit.example ssh-rsa LOCAL\n\nother ssh-rsa XXXX";
    let live = local(Shared::SshKnownHosts, &json!({ "ssh_known_hosts": text }));
    let want = desired(
        Shared::SshKnownHosts,
        &json!({ "ssh_known_hosts": format!("{ONE}\n{TWO}\n") }),
    );
    let after = merged(&live, &want);
    let expected = format!("{text}\n{ONE}\n");
    assert_eq!(
        after["data"]["ssh_known_hosts"], expected,
        "the spoke has an RSA key of its own for that host"
    );
    let back = withdrawn(&after);
    assert_eq!(back["data"]["ssh_known_hosts"], format!("{text}\n"));
    assert_eq!(withdraw_patch(&back), None);
}

#[test]
fn missing_config_map_is_created_with_argo_cds_label() {
    let want = desired(Shared::SshKnownHosts, &json!({ "ssh_known_hosts": ONE }));
    assert_eq!(want["data"]["ssh_known_hosts"], format!("{ONE}\n"));
    assert_eq!(
        want["metadata"]["labels"],
        json!({ keys::PART_OF: "argocd" })
    );
    assert_eq!(patch_for_spoke(&want, &want), None);
    assert!(!is_empty(&want) && is_empty(&desired(Shared::GpgKeys, &Value::Null)));
}

#[test]
fn no_shared_entries_change_nothing() {
    let live = local(Shared::GpgKeys, &Value::Null);
    assert_eq!(merged(&live, &desired(Shared::GpgKeys, &json!({}))), live);
}

#[test]
fn unknown_names_and_values_that_are_no_text_are_rejected() {
    let refused = |object: &Value| desired_on_spoke(object, &context()).unwrap_err();
    let mut object = hub(Shared::TlsCerts, &json!({ "a": 1 }));
    assert_eq!(refused(&object), Unusable::BadData);
    object["metadata"]["name"] = "argocd-cm".into();
    assert_eq!(refused(&object), Unusable::NoName);
}

fn lines() -> impl Strategy<Value = String> {
    let line = prop::sample::select(vec![
        "",
        "# c",
        "h1 ssh-rsa A",
        "h1 ssh-rsa B",
        "h2 ssh-rsa A",
        "h1,h2 ecdsa C",
        " h3 ssh-rsa A ",
        "odd",
    ]);
    (prop::collection::vec(line, 0..5), any::<bool>())
        .prop_map(|(lines, end)| lines.join("\n") + if end { "\n" } else { "" })
}

fn data(shared: Shared) -> BoxedStrategy<Value> {
    if shared == Shared::SshKnownHosts {
        return lines()
            .prop_map(|text| json!({ "ssh_known_hosts": text }))
            .boxed();
    }
    let names = prop::sample::select(vec!["a", "b", "c"]);
    prop::collection::btree_map(names, "[xy]", 0..3)
        .prop_map(|map| json!(map))
        .boxed()
}

/// A shared `ConfigMap`, its local data, and the hub's data over time.
fn histories() -> impl Strategy<Value = (Shared, Value, Vec<Value>)> {
    prop::sample::select(Shared::ALL.to_vec()).prop_flat_map(|shared| {
        let wanted = prop::collection::vec(data(shared), 1..4);
        (Just(shared), data(shared), wanted)
    })
}

proptest! {
    #[test]
    fn local_entries_survive_when_shared_entries_go((shared, mine, wanted) in histories()) {
        let before = local(shared, &mine);
        let entries = shared.split(super::data(&before));
        let mut live = before;
        for data in wanted {
            live = merged(&live, &desired(shared, &data));
            let now = shared.split(super::data(&live));
            for (name, text) in &entries {
                prop_assert_eq!(now.get(name), Some(text));
            }
        }
        let back = withdrawn(&live);
        prop_assert_eq!(shared.split(super::data(&back)), entries);
        prop_assert_eq!(withdraw_patch(&back), None);
    }
}
