use serde_json::json;

use super::*;
use crate::testing::{addon_object, at, fleet, well};

#[test]
fn facts_are_read_from_conditions() {
    let addon = well("paris");
    assert!(addon.is_in_force() && !addon.is_autonomous());
    assert_eq!(addon.version().as_deref(), Some("0.1.0"));
    assert_eq!(
        addon.certificate_expires(),
        Some(at("2026-12-19T12:00:00Z"))
    );
    let revoked = fleet().pop().unwrap();
    assert_eq!(revoked.revoked.as_deref(), Some("laptop stolen"));
    assert_eq!(revoked.certificate_expires(), None);
}

#[test]
fn times_are_read_as_kubernetes_and_as_go_write_them() {
    let expected = Some(at("2026-12-19T12:00:00Z"));
    assert_eq!(time("2026-12-19T12:00:00Z"), expected);
    assert_eq!(time("2026-12-19 12:00:00 +0000 UTC"), expected);
    assert_eq!(time("soon"), None);
}

#[test]
fn unmanaged_or_deleting_add_on_is_not_in_force() {
    let mut object = addon_object("c", "managed", &[]);
    assert!(Addon::read(&object).is_in_force());
    object["metadata"]["deletionTimestamp"] = json!("2026-11-22T11:00:00Z");
    assert!(!Addon::read(&object).is_in_force());
    let mut object = addon_object("c", "managed", &[]);
    object["metadata"]["ownerReferences"] = json!([{"kind": "Placement", "name": "x"}]);
    assert!(!Addon::read(&object).is_in_force());
}

#[test]
fn malformed_values_are_read_as_absent() {
    for object in [
        json!(null),
        json!({"metadata": 1, "status": []}),
        json!({"metadata": {"ownerReferences": {}}, "status": {"conditions": [1, {"type": "A"}]}}),
    ] {
        let addon = Addon::read(&object);
        assert_eq!(addon, Addon::default(), "{object}");
    }
}
