use proptest::prelude::*;

use super::*;

fn adc() -> ConfigGroupResource {
    ConfigGroupResource {
        group: "addon.open-cluster-management.io".to_owned(),
        resource: "addondeploymentconfigs".to_owned(),
    }
}

fn reference(hash: &str) -> Value {
    json!({
        "group": "addon.open-cluster-management.io",
        "resource": "addondeploymentconfigs",
        "lastObservedGeneration": 0,
        "desiredConfig": { "namespace": "s", "name": "n", "specHash": hash },
        "unknownField": "survives",
    })
}

fn live(config: &AddOnConfig) -> Option<Live> {
    (config.name == "n").then(|| Live {
        hash: "h".to_owned(),
        generation: 3,
    })
}

#[test]
fn the_hash_is_the_one_that_go_finds() {
    let object = json!({
        "apiVersion": "addon.open-cluster-management.io/v1alpha1",
        "kind": "AddOnDeploymentConfig",
        "metadata": { "name": "n" },
        "spec": { "agentInstallNamespace": "open-cluster-management-agent-addon" },
        "status": {},
    });
    assert!(
        spec_hash(&object).starts_with("d18a79b7"),
        "{}",
        spec_hash(&object)
    );
}

#[test]
fn text_is_escaped_as_go_escapes_it() {
    let value = json!({ "b": "<a href=\"x\">&\u{2028}\u{2029}\n\u{1}", "a": [1, 2.5, 1.0, null] });
    let text = r#"{"a":[1,2.5,1,null],"b":"\u003ca href=\"x\"\u003e\u0026\u2028\u2029\n\u0001"}"#;
    assert_eq!(canonical(&value), text.as_bytes());
}

#[test]
fn floats_are_written_as_go_writes_them() {
    let cases = [
        (1e21, "1e+21"),
        (1.5e-7, "1.5e-7"),
        (0.0, "0"),
        (1e20, "100000000000000000000"),
    ];
    for (float, text) in cases {
        assert_eq!(go_float(float), text);
    }
}

#[test]
fn hashes_go_into_defaults_and_progressions_and_nothing_else_changes() {
    let offer = json!({
        "metadata": { "resourceVersion": "7" },
        "status": {
            "defaultConfigReferences": [reference("")],
            "installProgressions": [{ "name": "p", "configReferences": [reference("old")] }],
        },
    });
    let patch = offer_patch(Version::V1Beta1, &offer, &[adc()], live).unwrap();
    assert_eq!(patch["metadata"]["resourceVersion"], "7");
    let written = &patch["status"]["installProgressions"][0]["configReferences"][0];
    assert_eq!(written["desiredConfig"]["specHash"], "h");
    assert_eq!(written["lastObservedGeneration"], 3);
    assert_eq!(written["unknownField"], "survives");

    let mut settled = offer;
    settled["status"] = patch["status"].clone();
    assert_eq!(
        offer_patch(Version::V1Beta1, &settled, &[adc()], live),
        None
    );
}

#[test]
fn v1alpha1_has_its_own_spelling_of_the_defaults() {
    let offer = json!({
        "metadata": { "resourceVersion": "7" },
        "status": { "defaultconfigReferences": [reference("")] },
    });
    assert_eq!(offer_patch(Version::V1Beta1, &offer, &[adc()], live), None);
    let patch = offer_patch(Version::V1Alpha1, &offer, &[adc()], live).unwrap();
    assert!(patch["status"]["defaultconfigReferences"].is_array());
}

#[test]
fn an_absent_or_unsupported_configuration_is_left_alone() {
    let offer = json!({
        "metadata": { "resourceVersion": "7" },
        "status": { "defaultConfigReferences": [reference("")] },
    });
    assert_eq!(
        offer_patch(Version::V1Beta1, &offer, &[adc()], |_| None),
        None
    );
    assert_eq!(offer_patch(Version::V1Beta1, &offer, &[], live), None);
}

#[test]
fn only_the_clusters_own_configurations_are_hashed_on_its_addon() {
    let config = json!({
        "group": adc().group, "resource": adc().resource, "namespace": "s", "name": "n",
    });
    let mut addon = json!({
        "metadata": { "resourceVersion": "7" },
        "spec": { "configs": [] },
        "status": { "configReferences": [reference("")] },
    });
    assert_eq!(addon_patch(&addon, &[adc()], live), None);
    addon["spec"]["configs"] = json!([config]);
    let patch = addon_patch(&addon, &[adc()], live).unwrap();
    let written = &patch["status"]["configReferences"][0]["desiredConfig"]["specHash"];
    assert_eq!(written, "h");
}

proptest! {
    #[test]
    fn canonical_text_is_json_of_the_same_value(string in ".*", number in any::<i64>()) {
        let value = json!({ "s": string, "n": number, "nested": { "z": [], "a": {} } });
        prop_assert_eq!(serde_json::from_slice::<Value>(&canonical(&value)).unwrap(), value);
    }
}
