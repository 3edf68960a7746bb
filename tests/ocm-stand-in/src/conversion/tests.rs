use super::*;

const V1ALPHA1: &str = "addon.open-cluster-management.io/v1alpha1";
const V1BETA1: &str = "addon.open-cluster-management.io/v1beta1";

fn stored_add_on() -> Value {
    json!({
        "apiVersion": V1ALPHA1,
        "kind": "ManagedClusterAddOn",
        "metadata": { "name": "a", "namespace": "c", "annotations": { "mine": "stays" } },
        "spec": {
            "installNamespace": "somewhere",
            "configs": [{ "group": "g", "resource": "r", "name": "n" }],
        },
        "status": {
            "kubeClientDriver": "csr",
            "healthCheck": { "mode": "Customized" },
            "registrations": [
                {
                    "signerName": KUBE_SIGNER,
                    "subject": { "user": "u", "groups": ["g1", "g2"] },
                },
                {
                    "signerName": "example.io/signer",
                    "subject": { "user": "u", "groups": ["g"], "organizationUnit": ["ou"] },
                },
            ],
            "configReferences": [{
                "group": "g", "resource": "r", "name": "n", "namespace": "ns",
                "desiredConfig": { "name": "n", "namespace": "ns", "specHash": "abc" },
            }],
        },
    })
}

#[test]
fn an_add_on_read_as_v1beta1_has_the_new_fields() {
    let new = convert(stored_add_on(), V1BETA1).unwrap();
    assert_eq!(
        new,
        json!({
            "apiVersion": V1BETA1,
            "kind": "ManagedClusterAddOn",
            "metadata": {
                "name": "a",
                "namespace": "c",
                "annotations": { "mine": "stays", INSTALL_NAMESPACE: "somewhere" },
            },
            "spec": { "configs": [{ "group": "g", "resource": "r", "name": "n" }] },
            "status": {
                "healthCheck": { "mode": "Customized" },
                "registrations": [
                    {
                        "type": "kubeClient",
                        "kubeClient": {
                            "driver": "csr",
                            "subject": { "user": "u", "groups": ["g1", "g2"] },
                        },
                    },
                    {
                        "type": "customSigner",
                        "customSigner": {
                            "signerName": "example.io/signer",
                            "subject": {
                                "user": "u", "groups": ["g"], "organizationUnits": ["ou"],
                            },
                        },
                    },
                ],
                "configReferences": [{
                    "group": "g", "resource": "r",
                    "desiredConfig": { "name": "n", "namespace": "ns", "specHash": "abc" },
                }],
            },
        })
    );
}

#[test]
fn an_add_on_survives_the_way_there_and_back() {
    let there = convert(stored_add_on(), V1BETA1).unwrap();
    assert_eq!(convert(there, V1ALPHA1).unwrap(), stored_add_on());
}

#[test]
fn an_add_on_of_v1beta1_survives_being_stored() {
    let new = json!({
        "apiVersion": V1BETA1,
        "kind": "ManagedClusterAddOn",
        "metadata": { "name": "a", "annotations": {} },
        "spec": {},
        "status": { "registrations": [{
            "type": "customSigner",
            "customSigner": { "signerName": "example.io/s", "subject": { "user": "u" } },
        }]},
    });
    let stored = convert(new.clone(), V1ALPHA1).unwrap();
    assert_eq!(convert(stored, V1BETA1).unwrap(), new);
}

#[test]
fn a_management_add_on_survives_the_way_there_and_back() {
    let stored = json!({
        "apiVersion": V1ALPHA1,
        "kind": "ClusterManagementAddOn",
        "metadata": { "name": "a" },
        "spec": {
            "installStrategy": { "type": "Manual" },
            "supportedConfigs": [
                { "group": "g", "resource": "r", "defaultConfig": { "name": "n", "namespace": "ns" } },
                { "group": "g", "resource": "without" },
            ],
        },
        "status": { "defaultconfigReferences": [{ "group": "g", "resource": "r" }] },
    });
    let new = convert(stored.clone(), V1BETA1).unwrap();
    assert_eq!(
        new["spec"]["defaultConfigs"],
        json!([
            { "group": "g", "resource": "r", "name": "n", "namespace": "ns" },
            { "group": "g", "resource": "without", "name": NO_DEFAULT },
        ])
    );
    assert!(new["status"]["defaultConfigReferences"].is_array());
    assert_eq!(convert(new, V1ALPHA1).unwrap(), stored);
}

#[test]
fn a_part_of_an_object_converts_too() {
    // Server-side apply converts the fields of one manager, without the rest.
    let part = json!({
        "apiVersion": V1BETA1, "kind": "ManagedClusterAddOn", "metadata": { "name": "a" },
        "status": { "namespace": "there" },
    });
    let stored = convert(part, V1ALPHA1).unwrap();
    assert_eq!(stored["status"], json!({ "namespace": "there" }));
    assert!(stored.get("spec").is_none());
}

#[test]
fn what_is_not_ours_is_refused() {
    let foreign = json!({ "apiVersion": "apps/v1", "kind": "Deployment" });
    assert!(convert(foreign, V1BETA1).is_err());
    let template = json!({ "apiVersion": V1ALPHA1, "kind": "AddOnTemplate" });
    assert!(convert(template, V1BETA1).is_err());
}
