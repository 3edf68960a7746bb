use super::*;

fn object(kind: &str, version: &str, rest: &Value) -> Value {
    let mut object = json!({
        "apiVersion": format!("{GROUP}/{version}"),
        "kind": kind,
        "metadata": { "name": "a" },
    });
    for (key, value) in rest.as_object().unwrap() {
        object[key] = value.clone();
    }
    object
}

fn add_on(version: &str, rest: &Value) -> Value {
    object("ManagedClusterAddOn", version, rest)
}

fn management(version: &str, rest: &Value) -> Value {
    object("ClusterManagementAddOn", version, rest)
}

/// Converts, and checks that converting there and back loses nothing of the first conversion.
#[track_caller]
fn converted(object: &Value, to: &str) -> Value {
    let there = convert(object.clone(), &format!("{GROUP}/{to}")).unwrap();
    let from = object["apiVersion"].as_str().unwrap();
    let back = convert(there.clone(), from).unwrap();
    let again = convert(back, &format!("{GROUP}/{to}")).unwrap();
    assert_eq!(again, there, "a round trip changes the object");
    there
}

// These tests expect responses that were recorded from OCM's own webhook.

#[test]
fn an_empty_add_on_gets_the_empty_members_of_its_version() {
    let stored = add_on("v1alpha1", &json!({ "spec": {} }));
    let new = add_on(
        "v1beta1",
        &json!({ "spec": {}, "status": { "addOnMeta": {}, "healthCheck": {} } }),
    );
    assert_eq!(converted(&stored, "v1beta1"), new);

    let part = add_on("v1beta1", &json!({ "status": { "namespace": "x" } }));
    let status = json!({
        "addOnMeta": {}, "addOnConfiguration": {}, "namespace": "x", "healthCheck": {},
    });
    let old = add_on("v1alpha1", &json!({ "spec": {}, "status": status }));
    assert_eq!(converted(&part, "v1alpha1"), old);
}

#[test]
fn an_add_on_read_as_v1beta1_has_the_new_fields() {
    let stored = add_on(
        "v1alpha1",
        &json!({
            "spec": {
                "installNamespace": "i",
                "configs": [{ "group": "g", "resource": "r", "name": "n" }],
            },
            "status": {
                "kubeClientDriver": "csr",
                "registrations": [
                    { "signerName": KUBE_SIGNER },
                    { "signerName": "x.io/y", "subject": {
                        "user": "u", "groups": ["g"], "organizationUnit": ["o"],
                    }},
                ],
                "configReferences": [{
                    "group": "g", "resource": "r", "name": "n",
                    "desiredConfig": { "name": "n", "specHash": "h" },
                }],
            },
        }),
    );
    let mut new = add_on(
        "v1beta1",
        &json!({
            "spec": { "configs": [{ "group": "g", "resource": "r", "name": "n" }] },
            "status": {
                "addOnMeta": {},
                "healthCheck": {},
                "configReferences": [{
                    "group": "g", "resource": "r", "lastObservedGeneration": 0,
                    "desiredConfig": { "name": "n", "specHash": "h" }, "lastAppliedConfig": null,
                }],
                "registrations": [
                    { "type": "kubeClient", "kubeClient": { "subject": { "user": "" }, "driver": "csr" } },
                    { "type": "customSigner", "customSigner": {
                        "signerName": "x.io/y",
                        "subject": { "user": "u", "groups": ["g"], "organizationUnits": ["o"] },
                    }},
                ],
            },
        }),
    );
    new["metadata"]["annotations"] = json!({ INSTALL_NAMESPACE: "i" });
    assert_eq!(converted(&stored, "v1beta1"), new);
}

#[test]
fn an_add_on_read_as_v1alpha1_has_the_old_fields() {
    let new = add_on(
        "v1beta1",
        &json!({
            "spec": {},
            "status": {
                "registrations": [
                    { "type": "kubeClient", "kubeClient": { "driver": "csr" } },
                    { "type": "customSigner", "customSigner": {
                        "signerName": "x.io/y", "subject": { "user": "u" },
                    }},
                ],
                "configReferences": [{
                    "group": "g", "resource": "r", "desiredConfig": { "name": "n", "specHash": "h" },
                }],
            },
        }),
    );
    let old = add_on(
        "v1alpha1",
        &json!({
            "spec": {},
            "status": {
                "addOnMeta": {},
                "addOnConfiguration": {},
                "healthCheck": {},
                "kubeClientDriver": "csr",
                "configReferences": [{
                    "group": "g", "resource": "r", "name": "n", "lastObservedGeneration": 0,
                    "desiredConfig": { "name": "n", "specHash": "h" }, "lastAppliedConfig": null,
                }],
                "registrations": [
                    { "signerName": KUBE_SIGNER, "subject": { "user": "" } },
                    { "signerName": "x.io/y", "subject": { "user": "u" } },
                ],
            },
        }),
    );
    assert_eq!(converted(&new, "v1alpha1"), old);
}

#[test]
fn the_install_namespace_is_an_annotation_only_in_v1beta1() {
    let mut stored = add_on("v1alpha1", &json!({ "spec": { "installNamespace": "i" } }));
    stored["metadata"]["annotations"] = json!({ "mine": "stays" });
    let new = converted(&stored, "v1beta1");
    assert_eq!(new["metadata"]["annotations"][INSTALL_NAMESPACE], "i");
    assert_eq!(new["spec"], json!({}));
    let back = convert(new, &format!("{GROUP}/v1alpha1")).unwrap();
    assert_eq!(back["spec"], stored["spec"]);
    assert_eq!(back["metadata"], stored["metadata"]);
}

#[test]
fn a_management_add_on_names_its_defaults_in_both_versions() {
    let stored = management(
        "v1alpha1",
        &json!({ "spec": {
            "supportedConfigs": [
                { "resource": "r" },
                { "group": "g", "resource": "r", "defaultConfig": { "name": "n" } },
            ],
            "installStrategy": {
                "type": "Placements", "placements": [{ "name": "p", "namespace": "n" }],
            },
        }}),
    );
    let new = management(
        "v1beta1",
        &json!({
            "spec": {
                "addOnMeta": {},
                "defaultConfigs": [
                    { "group": "", "resource": "r", "name": NO_DEFAULT },
                    { "group": "g", "resource": "r", "name": "n" },
                ],
                "installStrategy": { "type": "Placements", "placements": [
                    { "namespace": "n", "name": "p", "rolloutStrategy": {} },
                ]},
            },
            "status": {},
        }),
    );
    assert_eq!(converted(&stored, "v1beta1"), new);
}

#[test]
fn a_management_add_on_keeps_its_progress_in_both_versions() {
    let new = management(
        "v1beta1",
        &json!({
            "spec": { "defaultConfigs": [{ "group": "g", "resource": "r", "name": "n" }] },
            "status": {
                "defaultConfigReferences": [{
                    "group": "g", "resource": "r", "desiredConfig": { "name": "n", "specHash": "" },
                }],
                "installProgressions": [{ "namespace": "n", "name": "p", "configReferences": [
                    { "group": "g", "resource": "r", "desiredConfig": { "name": "n" } },
                ]}],
            },
        }),
    );
    let old = management(
        "v1alpha1",
        &json!({
            "spec": {
                "addOnMeta": {},
                "addOnConfiguration": {},
                "supportedConfigs": [
                    { "group": "g", "resource": "r", "defaultConfig": { "name": "n" } },
                ],
            },
            "status": {
                "defaultconfigReferences": [{
                    "group": "g", "resource": "r", "desiredConfig": { "name": "n", "specHash": "" },
                }],
                "installProgressions": [{ "namespace": "n", "name": "p", "configReferences": [{
                    "group": "g", "resource": "r",
                    "desiredConfig": { "name": "n", "specHash": "" },
                    "lastKnownGoodConfig": null, "lastAppliedConfig": null,
                }]}],
            },
        }),
    );
    assert_eq!(converted(&new, "v1alpha1"), old);
}

#[test]
fn foreign_kinds_and_versions_are_refused() {
    let foreign = json!({ "apiVersion": "apps/v1", "kind": "Deployment" });
    assert!(convert(foreign, "addon.open-cluster-management.io/v1beta1").is_err());
    let template = object("AddOnTemplate", "v1alpha1", &json!({}));
    assert!(convert(template, "addon.open-cluster-management.io/v1beta1").is_err());
}
