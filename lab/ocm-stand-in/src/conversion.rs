//! Converts ManagedClusterAddOn and ClusterManagementAddOn between `v1alpha1`, the stored version, and `v1beta1`.
//!
//! Pure. Fields that a client of one version wrote must survive a client of the other, apart from the fields
//! that OCM removed (`addOnConfiguration`). Fields that neither version renames pass through unchanged.

mod fill;

use serde_json::{Map, Value, json};

use crate::kinds::words::{INSTALL_NAMESPACE, KUBE_SIGNER, NO_DEFAULT};

const GROUP: &str = "addon.open-cluster-management.io";

/// Converts one object to an `apiVersion` of the add-on group.
pub(crate) fn convert(mut object: Value, wanted: &str) -> Result<Value, String> {
    let current = object["apiVersion"].as_str().unwrap_or_default().to_owned();
    let kind = object["kind"].as_str().unwrap_or_default().to_owned();
    let forward = match (version(&current)?, version(wanted)?) {
        (Version::V1alpha1, Version::V1beta1) => true,
        (Version::V1beta1, Version::V1alpha1) => false,
        (Version::V1alpha1, Version::V1alpha1) | (Version::V1beta1, Version::V1beta1) => {
            return Ok(object);
        }
    };
    match (kind.as_str(), forward) {
        ("ManagedClusterAddOn", true) => add_on_to_v1beta1(&mut object),
        ("ManagedClusterAddOn", false) => add_on_to_v1alpha1(&mut object),
        ("ClusterManagementAddOn", true) => management_to_v1beta1(&mut object),
        ("ClusterManagementAddOn", false) => management_to_v1alpha1(&mut object),
        _ => return Err(format!("no conversion for kind {kind:?}")),
    }
    object["apiVersion"] = json!(wanted);
    fill::fill(&mut object, forward);
    Ok(object)
}

enum Version {
    V1alpha1,
    V1beta1,
}

fn version(api_version: &str) -> Result<Version, String> {
    match api_version
        .strip_prefix(GROUP)
        .and_then(|rest| rest.strip_prefix('/'))
    {
        Some("v1alpha1") => Ok(Version::V1alpha1),
        Some("v1beta1") => Ok(Version::V1beta1),
        Some(_) | None => Err(format!("no conversion for version {api_version:?}")),
    }
}

fn add_on_to_v1beta1(object: &mut Value) {
    if let Some(namespace) = take(object, "/spec", "installNamespace") {
        annotations(object).insert(INSTALL_NAMESPACE.to_owned(), namespace);
    }
    let driver = take(object, "/status", "kubeClientDriver").filter(|driver| *driver != json!(""));
    take(object, "/status", "addOnConfiguration");
    each(object, "/status/registrations", |old| {
        registration_to_v1beta1(old, driver.as_ref());
    });
    each(object, "/status/configReferences", |reference| {
        take(reference, "", "name");
        take(reference, "", "namespace");
    });
}

fn add_on_to_v1alpha1(object: &mut Value) {
    if let Some(namespace) = take(object, "/metadata/annotations", INSTALL_NAMESPACE) {
        if !object["spec"].is_object() {
            object["spec"] = json!({});
        }
        object["spec"]["installNamespace"] = namespace;
    }
    let driver = object
        .pointer("/status/registrations")
        .and_then(Value::as_array)
        .and_then(|all| all.iter().find(|one| one["type"] == "kubeClient"))
        .and_then(|one| one.pointer("/kubeClient/driver"))
        .cloned();
    if let Some(driver) = driver {
        object["status"]["kubeClientDriver"] = driver;
    }
    each(object, "/status/registrations", registration_to_v1alpha1);
    each(object, "/status/configReferences", |reference| {
        let desired = reference["desiredConfig"].clone();
        reference["name"] = json!(desired["name"].as_str().unwrap_or_default());
        if let Some(namespace) = desired["namespace"].as_str() {
            reference["namespace"] = json!(namespace);
        }
    });
}

fn registration_to_v1beta1(old: &mut Value, driver: Option<&Value>) {
    let mut subject = old["subject"].as_object().cloned().unwrap_or_default();
    let signer = old["signerName"].clone();
    *old = if signer == KUBE_SIGNER {
        subject.remove("organizationUnit");
        let mut client = Map::new();
        put_unless_empty(&mut client, "subject", subject);
        if let Some(driver) = driver {
            client.insert("driver".to_owned(), driver.clone());
        }
        json!({ "type": "kubeClient", "kubeClient": client })
    } else {
        rename(&mut subject, "organizationUnit", "organizationUnits");
        let mut custom = Map::from_iter([("signerName".to_owned(), signer)]);
        put_unless_empty(&mut custom, "subject", subject);
        json!({ "type": "customSigner", "customSigner": custom })
    };
}

fn registration_to_v1alpha1(new: &mut Value) {
    let (signer, subject) = if new["type"] == "kubeClient" {
        (json!(KUBE_SIGNER), new.pointer("/kubeClient/subject"))
    } else {
        (
            new["customSigner"]["signerName"].clone(),
            new.pointer("/customSigner/subject"),
        )
    };
    let mut subject = subject
        .and_then(Value::as_object)
        .cloned()
        .unwrap_or_default();
    rename(&mut subject, "organizationUnits", "organizationUnit");
    let mut old = Map::from_iter([("signerName".to_owned(), signer)]);
    put_unless_empty(&mut old, "subject", subject);
    *new = Value::Object(old);
}

fn management_to_v1beta1(object: &mut Value) {
    take(object, "/spec", "addOnConfiguration");
    each(object, "/spec/supportedConfigs", |config| {
        let default = take(config, "", "defaultConfig").unwrap_or(Value::Null);
        config["name"] = json!(default["name"].as_str().unwrap_or(NO_DEFAULT));
        if let Some(namespace) = default["namespace"].as_str() {
            config["namespace"] = json!(namespace);
        }
    });
    rename_at(object, "/spec", "supportedConfigs", "defaultConfigs");
    rename_at(
        object,
        "/status",
        "defaultconfigReferences",
        "defaultConfigReferences",
    );
}

fn management_to_v1alpha1(object: &mut Value) {
    each(object, "/spec/defaultConfigs", |config| {
        let name = take(config, "", "name").unwrap_or(Value::Null);
        let namespace = take(config, "", "namespace");
        if let Some(name) = name
            .as_str()
            .filter(|name| !name.is_empty() && *name != NO_DEFAULT)
        {
            config["defaultConfig"] = json!({ "name": name });
            if let Some(namespace) = namespace {
                config["defaultConfig"]["namespace"] = namespace;
            }
        }
    });
    rename_at(object, "/spec", "defaultConfigs", "supportedConfigs");
    rename_at(
        object,
        "/status",
        "defaultConfigReferences",
        "defaultconfigReferences",
    );
}

/// Takes a member out of the object at `pointer`.
fn take(object: &mut Value, pointer: &str, key: &str) -> Option<Value> {
    object.pointer_mut(pointer)?.as_object_mut()?.remove(key)
}

fn each(object: &mut Value, pointer: &str, change: impl FnMut(&mut Value)) {
    if let Some(list) = object.pointer_mut(pointer).and_then(Value::as_array_mut) {
        list.iter_mut().for_each(change);
    }
}

fn rename(object: &mut Map<String, Value>, from: &str, to: &str) {
    if let Some(value) = object.remove(from) {
        object.insert(to.to_owned(), value);
    }
}

fn rename_at(object: &mut Value, pointer: &str, from: &str, to: &str) {
    if let Some(map) = object.pointer_mut(pointer).and_then(Value::as_object_mut) {
        rename(map, from, to);
    }
}

fn put_unless_empty(into: &mut Map<String, Value>, key: &str, value: Map<String, Value>) {
    if !value.is_empty() {
        into.insert(key.to_owned(), Value::Object(value));
    }
}

fn annotations(object: &mut Value) -> &mut Map<String, Value> {
    let annotations = &mut object["metadata"]["annotations"];
    if !annotations.is_object() {
        *annotations = json!({});
    }
    annotations
        .as_object_mut()
        .expect("an object was just put here")
}

#[cfg(test)]
mod tests;
