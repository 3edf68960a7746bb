//! Whether a cluster keeps the Argo CD that we installed when its works are deleted. Pure.
//!
//! OCM's work agent decides by its last apply which objects of a deleted work stay. A `KEEP_ARGOCD` that the cluster has not
//! applied keeps nothing.

use argocd::keys::PART_OF;
use kube::api::DynamicObject;
use ocm::{
    api::addon::{
        AddOnConfig, AddOnDeploymentConfigSpec, ClusterManagementAddOn, GROUP, ManagedClusterAddOn,
    },
    condition,
};
use serde_json::Value;

use super::Install;
use crate::{addon::settings, hub, keys};

/// The value of [`PART_OF`] on objects of the agent, which never stay.
const AGENT: &str = "argocd-agent";

/// The configuration that is in effect for an add-on that no Placement made, as OCM computes it: its own, else the default.
pub fn configuration<'a>(
    addon: &'a ManagedClusterAddOn,
    offer: Option<&'a ClusterManagementAddOn>,
) -> Option<&'a AddOnConfig> {
    let defaults = offer.into_iter().flat_map(|it| it.spec.defaults());
    let mut configs = addon.spec.configs.iter().chain(defaults);
    configs.find(|it| it.group == GROUP && it.resource == hub::DEPLOYMENT_CONFIGS)
}

/// Whether this configuration keeps an Argo CD that we installed. An invalid one is never applied, so it keeps nothing.
pub fn is_asked(config: &AddOnDeploymentConfigSpec) -> bool {
    let installs = settings::installs(config).is_ok_and(|it| it != Install::Never);
    installs && settings::keeps_argocd(config).unwrap_or(false)
}

/// Whether the cluster has applied an Argo CD that stays when these works of it are deleted.
///
/// The cluster writes the status of works; with a lie it only loses its own Argo CD.
pub fn is_kept(works: &[DynamicObject]) -> bool {
    let live = works
        .iter()
        .filter(|work| work.metadata.deletion_timestamp.is_none());
    let mut live = live
        .filter(|work| objects(work).next().is_some())
        .peekable();
    live.peek().is_some() && live.all(|work| is_applied(work) && objects(work).all(stays))
}

/// The objects of Argo CD in a work.
fn objects(work: &DynamicObject) -> impl Iterator<Item = &Value> {
    let manifests = work.data.pointer("/spec/workload/manifests");
    let manifests = manifests.and_then(Value::as_array).into_iter().flatten();
    manifests.filter(|it| {
        let label = |key| mark(it, "/metadata/labels", key);
        label(keys::INSTALLED) == Some("true") && label(PART_OF) != Some(AGENT)
    })
}

fn mark<'a>(object: &'a Value, marks: &str, key: &str) -> Option<&'a str> {
    object.pointer(marks)?.get(key)?.as_str()
}

fn stays(object: &Value) -> bool {
    mark(object, "/metadata/annotations", ocm::keys::DELETION_ORPHAN).is_some()
}

/// Whether the cluster has applied the latest content of a work.
fn is_applied(work: &DynamicObject) -> bool {
    let generation = work.metadata.generation;
    let conditions = work.data.pointer("/status/conditions");
    let mut conditions = conditions.and_then(Value::as_array).into_iter().flatten();
    generation.is_some()
        && conditions.any(|it| {
            let text = |key: &str| it.get(key).and_then(Value::as_str);
            text("type") == Some(condition::work::APPLIED)
                && text("status") == Some(condition::Status::True.as_str())
                && it.get("observedGeneration").and_then(Value::as_i64) == generation
        })
}

#[cfg(test)]
mod tests {
    use ocm::api::addon::{
        ClusterManagementAddOnSpec, CustomizedVariable, ManagedClusterAddOnSpec, NO_DEFAULT,
    };
    use serde_json::json;

    use super::{super::objects::tests::rendered, *};

    fn config(name: &str) -> Value {
        let resource = hub::DEPLOYMENT_CONFIGS;
        json!({ "group": GROUP, "resource": resource, "namespace": "n", "name": name })
    }

    fn variables(all: &[(&str, &str)]) -> AddOnDeploymentConfigSpec {
        let variables = all.iter().map(|(name, value)| CustomizedVariable {
            name: (*name).to_owned(),
            value: (*value).to_owned(),
        });
        AddOnDeploymentConfigSpec {
            customized_variables: variables.collect(),
            ..AddOnDeploymentConfigSpec::default()
        }
    }

    /// A work of generation 2 with these objects, applied in this generation.
    fn work(manifests: &[Value], applied: i64) -> DynamicObject {
        let work = json!({
            "metadata": { "name": "w", "generation": 2 },
            "spec": { "workload": { "manifests": manifests } },
            "status": { "conditions": [
                { "type": "Available", "status": "True", "observedGeneration": 2 },
                { "type": "Applied", "status": "True", "observedGeneration": applied },
            ]},
        });
        serde_json::from_value(work).unwrap()
    }

    fn argocd(keep: bool) -> Vec<Value> {
        rendered(keep, &AddOnDeploymentConfigSpec::default()).manifests
    }

    #[test]
    fn own_configuration_precedes_the_default_of_the_hub() {
        let offer = |name: &str| ClusterManagementAddOn {
            spec: ClusterManagementAddOnSpec {
                default_configs: serde_json::from_value(json!([config(name)])).unwrap(),
                ..ClusterManagementAddOnSpec::default()
            },
            ..ClusterManagementAddOn::default()
        };
        let other = json!({ "group": "x", "resource": "y", "name": "z" });
        let own = json!([other, config("own")]);
        let cases = [
            (own.clone(), Some(offer("default")), Some("own")),
            (own, None, Some("own")),
            (json!([other]), Some(offer("default")), Some("default")),
            (json!([]), Some(offer("default")), Some("default")),
            (json!([]), Some(offer(NO_DEFAULT)), None),
            (json!([]), Some(offer("")), None),
            (json!([]), None, None),
        ];
        for (configs, offer, expected) in cases {
            let addon = ManagedClusterAddOn {
                spec: ManagedClusterAddOnSpec {
                    configs: serde_json::from_value(configs).unwrap(),
                },
                ..ManagedClusterAddOn::default()
            };
            let found = configuration(&addon, offer.as_ref());
            assert_eq!(found.map(|it| it.name.as_str()), expected);
        }
    }

    #[test]
    fn only_a_valid_request_for_an_installed_argo_cd_counts() {
        let cases: [(&[(&str, &str)], bool); 6] = [
            (&[("KEEP_ARGOCD", "true")], true),
            (&[("KEEP_ARGOCD", "true"), ("INSTALL_ARGOCD", "true")], true),
            (
                &[("KEEP_ARGOCD", "true"), ("INSTALL_ARGOCD", "false")],
                false,
            ),
            (&[("KEEP_ARGOCD", "yes")], false),
            (&[("KEEP_ARGOCD", "false")], false),
            (&[], false),
        ];
        for (given, expected) in cases {
            assert_eq!(is_asked(&variables(given)), expected, "{given:?}");
        }
    }

    #[test]
    fn argo_cd_stays_once_all_its_objects_are_applied_so() {
        let (kept, lost) = (argocd(true), argocd(false));
        let agent = json!({ "kind": "Deployment", "metadata": { "name": "agent" } });
        assert!(is_kept(&[work(&kept, 2)]));
        assert!(is_kept(&[
            work(&kept, 2),
            work(std::slice::from_ref(&agent), 1)
        ]));
        assert!(!is_kept(&[work(&kept, 1)]), "an earlier content is applied");
        assert!(!is_kept(&[work(&lost, 2)]));
        assert!(!is_kept(&[work(&kept, 2), work(&lost, 2)]));
        assert!(!is_kept(&[work(&kept, 2), work(&kept, 1)]));
        assert!(!is_kept(&[]));
        assert!(!is_kept(&[work(&[agent], 2)]), "no Argo CD yet");
        let mut deleting = work(&kept, 2);
        let deleted = json!({ "deletionTimestamp": "2026-01-01T00:00:00Z", "generation": 2 });
        deleting.metadata = serde_json::from_value(deleted).unwrap();
        assert!(!is_kept(&[deleting]));
        // Each single object of Argo CD counts.
        for (number, object) in lost.iter().enumerate() {
            let mut mixed = kept.clone();
            mixed[number] = object.clone();
            let same = *object == kept[number];
            assert_eq!(is_kept(&[work(&mixed, 2)]), same, "{object}");
        }
    }

    #[test]
    fn hostile_work_keeps_nothing() {
        let hostile = [
            json!({}),
            json!({ "spec": { "workload": { "manifests": "x" } } }),
            json!({ "spec": { "workload": { "manifests": [1, null, {}, { "metadata": 1 }] } } }),
        ];
        for data in hostile {
            let work = DynamicObject {
                data,
                ..work(&[], 2)
            };
            assert!(!is_kept(&[work]));
        }
        for conditions in [
            json!(1),
            json!([1, {}]),
            json!([{ "type": "Applied", "status": "True" }]),
        ] {
            let mut work = work(&argocd(true), 2);
            work.data["status"]["conditions"] = conditions;
            assert!(!is_kept(&[work]));
        }
        let mut failed = work(&argocd(true), 2);
        failed.data["status"]["conditions"][1]["status"] = json!("False");
        assert!(!is_kept(&[failed]));
        let mut unnumbered = work(&argocd(true), 2);
        unnumbered.metadata.generation = None;
        unnumbered.data["status"]["conditions"][1]["observedGeneration"] = Value::Null;
        assert!(!is_kept(&[unnumbered]));
    }
}
