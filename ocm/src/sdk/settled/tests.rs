use serde_json::json;

use super::*;
use crate::{
    api::addon::{ConfigSpecHash, Version},
    condition::Verdict,
};

fn named() -> AddOnConfig {
    AddOnConfig {
        group: "addon.open-cluster-management.io".to_owned(),
        resource: "addondeploymentconfigs".to_owned(),
        namespace: "s".to_owned(),
        name: "n".to_owned(),
    }
}

fn supported() -> Vec<ConfigGroupResource> {
    vec![ConfigGroupResource {
        group: named().group,
        resource: named().resource,
    }]
}

fn object() -> Value {
    json!({ "spec": { "agentInstallNamespace": "there" } })
}

fn addon(hash: &str, own: bool) -> ManagedClusterAddOn {
    let mut addon = ManagedClusterAddOn::default();
    if own {
        addon.spec.configs.push(named());
    }
    let status = addon.status.get_or_insert_default();
    let now = jiff::Timestamp::UNIX_EPOCH;
    status
        .conditions
        .push(Verdict::new("Configured", true, "R", "").onto(&[], now));
    status.config_references.push(ConfigReference {
        group: named().group,
        resource: named().resource,
        desired_config: Some(ConfigSpecHash {
            namespace: "s".to_owned(),
            name: "n".to_owned(),
            spec_hash: hash.to_owned(),
        }),
        ..ConfigReference::default()
    });
    addon
}

fn settle_with(
    addon: &ManagedClusterAddOn,
    offer: Option<&ClusterManagementAddOn>,
    placed: &[AddOnConfig],
) -> Result<Settled, Waiting> {
    let configured = Configured {
        addon,
        offer,
        placed,
    };
    settle(configured, &supported(), |_| Some(object()))
}

fn judge(addon: &ManagedClusterAddOn, object: Option<&Value>) -> Result<Settled, Waiting> {
    let offer = ClusterManagementAddOn::default();
    let configured = Configured {
        addon,
        offer: Some(&offer),
        placed: &[],
    };
    settle(configured, &supported(), |_| object.cloned())
}

#[test]
fn a_rolled_out_configuration_is_settled() {
    let hash = spec_hash(&object());
    let settled = judge(&addon(&hash, true), Some(&object())).unwrap();
    let deployment = settled.config.deployment.unwrap();
    assert_eq!(deployment.agent_install_namespace, "there");
    let label = "addondeploymentconfigs.addon.open-cluster-management.io/s/n";
    assert_eq!(
        settled.annotation,
        Some(format!("{{\"{label}\":\"{hash}\"}}"))
    );
}

#[test]
fn of_several_configurations_of_a_kind_the_first_counts() {
    let (first, other) = (
        object(),
        json!({ "spec": { "agentInstallNamespace": "no" } }),
    );
    let mut addon = addon(&spec_hash(&first), true);
    let mut named = named();
    named.name = "other".to_owned();
    addon.spec.configs.push(named);
    let references = &mut addon.status.as_mut().unwrap().config_references;
    let mut second = references[0].clone();
    second.desired_config = Some(ConfigSpecHash {
        namespace: "s".to_owned(),
        name: "other".to_owned(),
        spec_hash: spec_hash(&other),
    });
    references.push(second);
    let offer = ClusterManagementAddOn::default();
    let configured = Configured {
        addon: &addon,
        offer: Some(&offer),
        placed: &[],
    };
    let settled = settle(configured, &supported(), |named| {
        let it = if named.name == "n" { &first } else { &other };
        Some(it.clone())
    });
    let settled = settled.unwrap();
    let deployment = settled.config.deployment.unwrap();
    assert_eq!(deployment.agent_install_namespace, "there");
    // OCM compares the works with all of them.
    assert!(settled.annotation.unwrap().contains("/s/other"));
}

#[test]
fn an_unsettled_configuration_waits_with_its_reason() {
    let hash = spec_hash(&object());
    let name = || "addondeploymentconfigs.addon.open-cluster-management.io/s/n".to_owned();
    let mut unknown = addon(&hash, true);
    unknown.status.as_mut().unwrap().conditions.clear();
    let object = object();
    let cases = [
        (unknown, Some(&object), Waiting::NotConfigured),
        (addon("", true), Some(&object), Waiting::NoHash(name())),
        (addon(&hash, true), None, Waiting::Absent(name())),
        (
            addon("older", true),
            Some(&object),
            Waiting::NotRolledOut(name()),
        ),
        (
            addon(&hash, false),
            Some(&object),
            Waiting::NotOffered(name()),
        ),
    ];
    for (addon, object, waiting) in cases {
        assert_eq!(judge(&addon, object), Err(waiting));
    }
    let without_offer = settle_with(&addon(&hash, false), None, &[]);
    assert_eq!(without_offer, Err(Waiting::NoOffer));
}

fn offer(configs: &Value, deleted: bool) -> ClusterManagementAddOn {
    let mut offer = json!({ "metadata": { "name": "a" }, "spec": { "defaultConfigs": configs } });
    if deleted {
        offer["metadata"]["deletionTimestamp"] = json!("2026-11-20T12:00:00Z");
    }
    let offer = serde_json::from_value::<kube::api::DynamicObject>(offer).unwrap();
    Version::V1Beta1.read_offer(offer)
}

/// An offer with a placement that has this configuration.
fn placing(config: &AddOnConfig) -> ClusterManagementAddOn {
    let placement = json!({ "namespace": "p", "name": "p", "configs": [config] });
    let strategy = json!({ "type": "Placements", "placements": [placement] });
    let mut offer = offer(&json!([]), false);
    offer.spec.install_strategy = serde_json::from_value(strategy).unwrap();
    offer
}

#[test]
fn forged_reference_is_reported_and_a_deleting_definition_is_not() {
    let addon = addon(&spec_hash(&object()), false);
    let reason = |offer: &ClusterManagementAddOn| {
        settle_with(&addon, Some(offer), &[])
            .unwrap_err()
            .needs_a_person()
    };
    let nothing = json!([]);
    assert_eq!(
        reason(&offer(&nothing, false)),
        Some("ConfigurationNotOffered")
    );
    assert_eq!(reason(&offer(&nothing, true)), None);
}

#[test]
fn replaced_configuration_waits_for_rollout_silently() {
    let object = object();
    let mut addon = addon(&spec_hash(&object), false);
    let reference = &mut addon.status.as_mut().unwrap().config_references[0];
    reference.last_applied_config = reference.desired_config.clone();
    let mut another = named();
    another.name = "another".to_owned();
    let offer = offer(&json!([another]), false);
    let waiting = settle_with(&addon, Some(&offer), &[]).unwrap_err();
    assert!(matches!(waiting, Waiting::Replaced(_)), "{waiting}");
    assert_eq!(waiting.needs_a_person(), None);
}

#[test]
fn the_addons_own_offer_counts() {
    let offer = offer(&json!([named()]), false);
    let hash = spec_hash(&object());
    assert!(settle_with(&addon(&hash, false), Some(&offer), &[]).is_ok());
}

#[test]
fn without_any_configuration_there_is_no_annotation() {
    let mut addon = addon("", false);
    addon.status.as_mut().unwrap().config_references.clear();
    assert_eq!(judge(&addon, None).unwrap().annotation, None);
}

#[test]
fn missing_reference_waits_instead_of_using_defaults() {
    let mut addon = addon("", true);
    addon.status.as_mut().unwrap().config_references.clear();
    let offer = offer(&json!([]), false);
    let judged = settle_with(&addon, Some(&offer), &[]);
    assert_eq!(judged, Err(Waiting::NotRolledOut(label(&named()))));
    addon.spec.configs.clear();
    let judged = settle_with(&addon, Some(&offer), &[named()]);
    assert_eq!(judged, Err(Waiting::NotRolledOut(label(&named()))));
    assert_eq!(
        settle_with(&addon, Some(&offer), &[]).unwrap().annotation,
        None
    );
    assert_eq!(settle_with(&addon, None, &[]), Err(Waiting::NoOffer));
}

#[test]
fn only_the_configuration_with_precedence_is_accepted() {
    // The status names the default, which a configuration of the placement or of the cluster overrides.
    let mut addon = addon(&spec_hash(&object()), false);
    let mut other = named();
    other.name = "other".to_owned();
    let offer = offer(&json!([named()]), false);
    let waits = Err(Waiting::NotRolledOut(label(&other)));
    let placed = std::slice::from_ref(&other);
    assert_eq!(settle_with(&addon, Some(&offer), placed), waits);
    addon.spec.configs.push(other.clone());
    assert_eq!(settle_with(&addon, Some(&offer), &[]), waits);
    assert_eq!(settle_with(&addon, Some(&offer), &[named()]), waits);
    // The status names the one with precedence.
    addon.spec.configs = vec![named()];
    assert!(settle_with(&addon, Some(&offer), placed).is_ok());
}

#[test]
fn reference_beside_the_expected_ones_waits() {
    let mut addon = addon(&spec_hash(&object()), true);
    let mut other = named();
    other.name = "other".to_owned();
    let offer = offer(&json!([other]), false);
    assert!(settle_with(&addon, Some(&offer), &[]).is_ok());
    let references = &mut addon.status.as_mut().unwrap().config_references;
    let mut second = references[0].clone();
    second.desired_config.as_mut().unwrap().name = "other".to_owned();
    references.push(second);
    let judged = settle_with(&addon, Some(&offer), &[]);
    assert_eq!(judged, Err(Waiting::NotRolledOut(label(&other))));
}

#[test]
fn removal_uses_the_configuration_that_the_cluster_still_has() {
    // The cluster has left its placement, so OCM deletes its add-on.
    let mut addon = addon(&spec_hash(&object()), false);
    let offer = placing(&named());
    let waits = Err(Waiting::NotRolledOut(label(&named())));
    assert_eq!(settle_with(&addon, Some(&offer), &[]), waits);
    let now = k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(jiff::Timestamp::UNIX_EPOCH);
    addon.metadata.deletion_timestamp = Some(now);
    assert!(settle_with(&addon, Some(&offer), &[]).is_ok());
}

#[test]
fn cluster_outside_the_batch_keeps_the_previous_reference() {
    // A progressive roll-out replaces the placement's configuration; this cluster still has the earlier one.
    let mut addon = addon(&spec_hash(&object()), false);
    let reference = &mut addon.status.as_mut().unwrap().config_references[0];
    reference.last_applied_config = reference.desired_config.clone();
    let mut next = named();
    next.name = "next".to_owned();
    let offer = placing(&next);
    let judged = settle_with(&addon, Some(&offer), std::slice::from_ref(&next));
    assert_eq!(judged, Err(Waiting::Replaced(label(&named()))));
    // The status follows when OCM reaches the cluster.
    let reference = &mut addon.status.as_mut().unwrap().config_references[0];
    reference.desired_config.as_mut().unwrap().name = "next".to_owned();
    assert!(settle_with(&addon, Some(&offer), &[next]).is_ok());
}

fn template() -> AddOnConfig {
    AddOnConfig {
        group: GROUP.to_owned(),
        resource: "addontemplates".to_owned(),
        namespace: String::new(),
        name: "t".to_owned(),
    }
}

/// An add-on without configurations of its own, whose status names these.
fn claiming(references: &[AddOnConfig]) -> ManagedClusterAddOn {
    let mut addon = addon("h", false);
    let references = references.iter().map(|named| ConfigReference {
        group: named.group.clone(),
        resource: named.resource.clone(),
        desired_config: Some(ConfigSpecHash {
            namespace: named.namespace.clone(),
            name: named.name.clone(),
            spec_hash: "h".to_owned(),
        }),
        ..ConfigReference::default()
    });
    addon.status.as_mut().unwrap().config_references = references.collect();
    addon
}

fn configuration(
    addon: &ManagedClusterAddOn,
    offer: &ClusterManagementAddOn,
    placed: &[AddOnConfig],
) -> Configuration {
    let configured = Configured {
        addon,
        offer: Some(offer),
        placed,
    };
    configured.configuration(&supported())
}

#[test]
fn template_of_the_status_alone_only_delays() {
    let hostile = claiming(&[template()]);
    let nothing = offer(&json!([]), false);
    let judged = configuration(&hostile, &nothing, &[]);
    assert_eq!(judged, Configuration::default());
    // Another placement has the template.
    let judged = configuration(&hostile, &placing(&template()), &[]);
    assert_eq!(judged, Configuration::default());

    let honest = claiming(&[]);
    let judged = configuration(&honest, &placing(&template()), &[template()]);
    assert!(judged.by_template);
    let judged = configuration(&honest, &offer(&json!([template()]), false), &[]);
    assert!(judged.by_template);
    let mut own = honest;
    own.spec.configs.push(template());
    assert!(configuration(&own, &nothing, &[]).by_template);
}

#[test]
fn template_of_a_removed_cluster_counts_if_the_hub_offers_it() {
    let now = k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(jiff::Timestamp::UNIX_EPOCH);
    let mut addon = claiming(&[template()]);
    addon.metadata.deletion_timestamp = Some(now);
    assert!(configuration(&addon, &placing(&template()), &[]).by_template);
    assert!(!configuration(&addon, &placing(&named()), &[]).by_template);
}

mod hostile_status {
    use proptest::prelude::*;

    use super::*;

    fn other() -> AddOnConfig {
        AddOnConfig {
            name: "other".to_owned(),
            ..named()
        }
    }

    proptest! {
        #[test]
        fn hostile_status_selects_no_configuration(
            references in prop::collection::vec(0usize..4, 0..4), is_configured: bool, own: bool,
        ) {
            let foreign = AddOnConfig { name: "foreign".to_owned(), ..named() };
            let known = [named(), other(), foreign, template()];
            let references: Vec<_> = references.iter().map(|number| known[*number].clone()).collect();
            let mut addon = claiming(&references);
            if !is_configured {
                addon.status.as_mut().unwrap().conditions.clear();
            }
            let expected = if own { named() } else { other() };
            addon.spec.configs = own.then(named).into_iter().collect();
            let offer = offer(&json!([other()]), false);
            let judged = configuration(&addon, &offer, &[]);
            prop_assert!(!judged.by_template);
            if let Some(objects) = judged.objects {
                prop_assert_eq!(objects, [expected]);
            }
        }
    }
}
