//! The settings of the fleet in the objects of an installed Argo CD. Pure.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::addon::settings::Tuning;

/// The `ConfigMap` of Argo CD's settings.
pub(super) const CM: &str = argocd::keys::SETTINGS;
/// The `ConfigMap` of its programs' parameters.
const PARAMETERS: &str = "argocd-cmd-params-cm";
/// The repo server, and its Deployment.
const REPO_SERVER: &str = "argocd-repo-server";

/// Sets the settings that concern this object.
pub(super) fn configure(object: &mut Value, tuning: &Tuning) {
    let text = |path: &str| {
        let text = object.pointer(path).and_then(Value::as_str);
        text.unwrap_or_default().to_owned()
    };
    let (kind, name) = (text("/kind"), text("/metadata/name"));
    match (kind.as_str(), name.as_str()) {
        ("ConfigMap", CM) => add(object, tuning.cm.as_ref()),
        ("ConfigMap", PARAMETERS) => add(object, Some(&tuning.parameters)),
        ("StatefulSet" | "Deployment", program) => {
            set(object, &tuning.environment(program));
            if let Some(replicas) = tuning.repo_servers.filter(|_| program == REPO_SERVER) {
                let replicas = json!({ "spec": { "replicas": replicas } });
                argocd::patch::merge(object, &replicas);
            }
        }
        _other => {}
    }
}

/// Adds these keys to a `ConfigMap`; they replace those of the manifest.
fn add(map: &mut Value, keys: Option<&BTreeMap<String, String>>) {
    if let Some(keys) = keys {
        argocd::patch::merge(map, &json!({ "data": keys }));
    }
}

/// Sets variables of a program, in place of those of the manifest.
fn set(workload: &mut Value, variables: &[(&'static str, &str)]) {
    let env = workload.pointer_mut("/spec/template/spec/containers/0/env");
    let Some(env) = env.and_then(Value::as_array_mut) else {
        return;
    };
    for (name, value) in variables {
        env.retain(|known| known.get("name") != Some(&json!(name)));
        env.push(json!({ "name": name, "value": value }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workload(kind: &str, name: &str) -> Value {
        json!({
            "kind": kind, "metadata": { "name": name },
            "spec": { "replicas": 1, "template": { "spec": { "containers": [{ "env": [
                { "name": "REDIS_PASSWORD", "value": "x" },
                { "name": "ARGOCD_RECONCILIATION_TIMEOUT", "valueFrom": { "configMapKeyRef": {} } },
            ] }] } } },
        })
    }

    fn map(name: &str) -> Value {
        json!({ "kind": "ConfigMap", "metadata": { "name": name }, "data": { "resource.exclusions": "ours" } })
    }

    fn configured(mut object: Value, tuning: &Tuning) -> Value {
        configure(&mut object, tuning);
        object
    }

    fn of(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        let pairs = pairs.iter();
        pairs
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect()
    }

    fn tuning() -> Tuning {
        Tuning {
            cm: Some(of(&[("timeout.reconciliation", "300s")])),
            parameters: of(&[("controller.status.processors", "50")]),
            repo_servers: Some(3),
        }
    }

    #[test]
    fn unset_settings_and_other_objects_change_nothing() {
        for object in [
            map(CM),
            map(PARAMETERS),
            workload("StatefulSet", "argocd-application-controller"),
            workload("Deployment", REPO_SERVER),
        ] {
            assert_eq!(configured(object.clone(), &Tuning::default()), object);
        }
        for object in [
            json!({}),
            map("argocd-tls-certs-cm"),
            workload("Deployment", "argocd-redis"),
            json!({ "kind": "Service", "metadata": { "name": REPO_SERVER }, "spec": {} }),
            json!({ "kind": "StatefulSet", "metadata": { "name": "argocd-application-controller" } }),
        ] {
            assert_eq!(configured(object.clone(), &tuning()), object);
        }
    }

    #[test]
    fn settings_of_the_fleet_win_over_those_of_the_manifest() {
        let data = |map: Value| configured(map, &tuning())["data"].take();
        let expected = json!({ "resource.exclusions": "ours", "timeout.reconciliation": "300s" });
        assert_eq!(data(map(CM)), expected);
        let expected =
            json!({ "resource.exclusions": "ours", "controller.status.processors": "50" });
        assert_eq!(data(map(PARAMETERS)), expected);
        let other = Tuning {
            cm: Some(of(&[("resource.exclusions", "theirs")])),
            ..Tuning::default()
        };
        let own = configured(map(CM), &other);
        assert_eq!(own["data"], json!({ "resource.exclusions": "theirs" }));
        let without_data = json!({ "kind": "ConfigMap", "metadata": { "name": PARAMETERS } });
        let expected = json!({ "controller.status.processors": "50" });
        assert_eq!(data(without_data), expected);
    }

    #[test]
    fn programs_get_their_variables_once_and_as_values() {
        let env = |kind, name| {
            let mut object = configured(workload(kind, name), &tuning());
            object["spec"]["template"]["spec"]["containers"][0]["env"].take()
        };
        let password = json!({ "name": "REDIS_PASSWORD", "value": "x" });
        let timeout = json!({ "name": "ARGOCD_RECONCILIATION_TIMEOUT", "value": "300s" });
        let processors =
            json!({ "name": "ARGOCD_APPLICATION_CONTROLLER_STATUS_PROCESSORS", "value": "50" });
        let controller = env("StatefulSet", "argocd-application-controller");
        assert_eq!(controller, json!([password, processors, timeout]));
        assert_eq!(env("Deployment", REPO_SERVER), json!([password, timeout]));
    }

    #[test]
    fn only_the_repo_server_gets_replicas() {
        for (kind, name, replicas) in [
            ("Deployment", REPO_SERVER, 3),
            ("Deployment", "argocd-redis", 1),
            ("StatefulSet", "argocd-application-controller", 1),
        ] {
            let object = configured(workload(kind, name), &tuning());
            assert_eq!(object["spec"]["replicas"], replicas, "{name}");
        }
    }
}
