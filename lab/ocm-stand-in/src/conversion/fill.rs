//! The empty values that OCM's webhook leaves in converted objects.
//!
//! It reads objects into structs and writes those, so members that a struct always writes appear although
//! no client set them. A client of the add-on API sees them on every hub with OCM's own webhook: a `null`
//! instead of an object, an empty user, and through the defaults of the CRD the health mode `Lease`.

use serde_json::{Value, json};

use super::each;

/// Adds the same members as OCM's webhook to an object that is already in its new version.
pub(super) fn fill(object: &mut Value, is_v1beta1: bool) {
    default(object, "", "spec", json!({}));
    default(object, "", "status", json!({}));
    if object["kind"] == "ManagedClusterAddOn" {
        fill_add_on(object, is_v1beta1);
    } else {
        fill_management(object, is_v1beta1);
    }
}

fn fill_add_on(object: &mut Value, is_v1beta1: bool) {
    default(object, "/status", "addOnMeta", json!({}));
    default(object, "/status", "healthCheck", json!({}));
    if !is_v1beta1 {
        default(object, "/status", "addOnConfiguration", json!({}));
    }
    each(object, "/status/configReferences", |reference| {
        default(reference, "", "lastObservedGeneration", json!(0));
        fill_reference(reference, &["lastAppliedConfig"]);
    });
    each(object, "/status/registrations", |registration| {
        // Only the one of the two that exists has a subject to fill.
        let places = if is_v1beta1 {
            &["/kubeClient", "/customSigner"][..]
        } else {
            &[""]
        };
        for place in places {
            default(registration, place, "subject", json!({}));
            default(registration, &format!("{place}/subject"), "user", json!(""));
        }
    });
}

fn fill_management(object: &mut Value, is_v1beta1: bool) {
    default(object, "/spec", "addOnMeta", json!({}));
    if !is_v1beta1 {
        default(object, "/spec", "addOnConfiguration", json!({}));
    }
    for key in ["/spec/defaultConfigs", "/spec/supportedConfigs"] {
        each(object, key, |config| {
            default(config, "", "group", json!(""));
        });
    }
    each(object, "/spec/installStrategy/placements", |placement| {
        default(placement, "", "rolloutStrategy", json!({}));
    });
    for key in [
        "/status/defaultConfigReferences",
        "/status/defaultconfigReferences",
    ] {
        each(object, key, |reference| fill_reference(reference, &[]));
    }
    each(object, "/status/installProgressions", |progression| {
        each(progression, "/configReferences", |reference| {
            fill_reference(reference, &["lastKnownGoodConfig", "lastAppliedConfig"]);
        });
    });
}

/// The members of a reference to a configuration, of which `nullable` may be absent altogether.
fn fill_reference(reference: &mut Value, nullable: &[&str]) {
    default(reference, "", "group", json!(""));
    for key in nullable {
        default(reference, "", key, Value::Null);
    }
    for key in [
        "/desiredConfig",
        "/lastKnownGoodConfig",
        "/lastAppliedConfig",
    ] {
        default(reference, key, "specHash", json!(""));
    }
}

/// Sets a member of the object at `pointer`, if there is an object and it has no such member.
fn default(value: &mut Value, pointer: &str, key: &str, wanted: Value) {
    if let Some(map) = value.pointer_mut(pointer).and_then(Value::as_object_mut) {
        map.entry(key).or_insert(wanted);
    }
}
