use principal::{Certificates, Enrolment};
use serde_json::json;

use super::*;

fn ours() -> AddonName {
    AddonName::new(keys::ADDON).unwrap()
}

#[test]
fn typed_add_on_is_read_like_its_json() {
    let object = json!({
        "apiVersion": "addon.open-cluster-management.io/v1beta1", "kind": "ManagedClusterAddOn",
        "metadata": {
            "name": keys::ADDON, "namespace": "paris", "deletionTimestamp": "2026-11-22T11:00:00Z",
            "annotations": {keys::MODE: "managed", keys::REVOKED: "stolen", keys::REKEY: "1"},
            "ownerReferences": [{
                "apiVersion": "addon.open-cluster-management.io/v1beta1",
                "kind": "ClusterManagementAddOn", "name": keys::ADDON, "uid": "u", "controller": true,
            }],
        },
        "spec": {},
        "status": {"conditions": [{
            "type": "Available", "status": "True", "reason": "AgentConnected", "message": "m",
            "lastTransitionTime": "2026-11-22T10:00:00Z",
        }]},
    });
    let typed: ManagedClusterAddOn = serde_json::from_value(object.clone()).unwrap();
    let found = addon(&typed, &ClusterName::new("paris").unwrap(), &ours());
    assert_eq!(found, Addon::read(&object));
    assert!(found.adopted && found.revoked.is_some() && found.deleting.is_some());
}

#[test]
fn label_without_effect_is_judged_like_its_json() {
    for (value, accepted, deleting) in [
        ("managed", true, false),
        ("autonomous", true, false),
        ("manged", true, false),
        ("", true, false),
        ("manged", false, false),
        ("manged", true, true),
    ] {
        let mut object = json!({
            "apiVersion": "cluster.open-cluster-management.io/v1", "kind": "ManagedCluster",
            "metadata": {"name": "rome", "labels": {keys::MODE: value}},
            "spec": {"hubAcceptsClient": accepted},
        });
        if deleting {
            object["metadata"]["deletionTimestamp"] = json!("2026-11-22T11:00:00Z");
        }
        let typed: ManagedCluster = serde_json::from_value(object.clone()).unwrap();
        assert_eq!(wrong(&typed), Wrong::read(&object), "{value:?}");
    }
}

#[test]
fn routes_and_servers_are_those_of_the_enrolled_clusters() {
    let enrolment = |mode, server: Option<&str>| Enrolment {
        mode,
        server: server.map(str::to_owned),
        since: None,
        fresh: false,
        confirm_delete: None,
        shares_unscoped: None,
        certificates: Certificates::All,
    };
    let fleet = Fleet {
        clusters: BTreeMap::from([
            (
                "paris".to_owned(),
                enrolment(Mode::Managed, Some("https://p")),
            ),
            ("oslo".to_owned(), enrolment(Mode::Autonomous, None)),
        ]),
    };
    let found = routes(&fleet);
    assert_eq!(found.by_server("https://p"), Some("paris"));
    assert!(found.is_autonomous("oslo") && !found.is_autonomous("paris"));
    let names = ["oslo", "paris", "rome"].map(str::to_owned).into();
    let expected = [("paris".to_owned(), "https://p".to_owned())];
    assert_eq!(servers(&fleet, &names), expected.into());
}
