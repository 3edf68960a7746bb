//! Applies the Pod settings of a configuration to workloads. Pure.

use serde_json::{Map, Value, json};

use super::{Config, images};
use crate::api::addon::{AddOnDeploymentConfigSpec, ImageMirror, NodePlacement, ProxyConfig};

/// Sets node placement, resources, proxies and image registries in a Deployment or another workload;
/// other objects stay unchanged.
///
/// Fields that the configuration does not set keep the author's values. The author must mount the
/// proxy's CA.
pub fn configure(object: &mut Value, config: &Config, registries: &[ImageMirror]) {
    let text = |object: &Value, path: &str| {
        let text = object.pointer(path).and_then(Value::as_str);
        text.unwrap_or_default().to_owned()
    };
    let (kind, name) = (text(object, "/kind"), text(object, "/metadata/name"));
    let Some((resource, path)) = pods_of(&kind) else {
        return;
    };
    let Some(pod) = object.pointer_mut(path).and_then(Value::as_object_mut) else {
        return;
    };
    let none = AddOnDeploymentConfigSpec::default();
    let deployment = config.deployment.as_ref().unwrap_or(&none);
    if let Some(placement) = &deployment.node_placement {
        place(pod, placement);
    }
    for list in ["containers", "initContainers"] {
        let containers = pod.get_mut(list).and_then(Value::as_array_mut);
        let containers = containers.into_iter().flatten();
        for container in containers.filter_map(Value::as_object_mut) {
            if let Some(Value::String(image)) = container.get_mut("image") {
                *image = images::mirrored(image, registries);
            }
            proxy(container, deployment.proxy_config.as_ref());
            resources(container, deployment, [resource, &name]);
        }
    }
}

/// The plural of a workload's kind, and the path of the Pod's spec.
fn pods_of(kind: &str) -> Option<(&'static str, &'static str)> {
    const TEMPLATE: &str = "/spec/template/spec";
    match kind {
        "Deployment" => Some(("deployments", TEMPLATE)),
        "DaemonSet" => Some(("daemonsets", TEMPLATE)),
        "StatefulSet" => Some(("statefulsets", TEMPLATE)),
        "ReplicaSet" => Some(("replicasets", TEMPLATE)),
        "Job" => Some(("jobs", TEMPLATE)),
        "CronJob" => Some(("cronjobs", "/spec/jobTemplate/spec/template/spec")),
        "Pod" => Some(("pods", "/spec")),
        _other => None,
    }
}

fn place(pod: &mut Map<String, Value>, placement: &NodePlacement) {
    if !placement.node_selector.is_empty() {
        let selector = pod.entry("nodeSelector").or_insert_with(|| json!({}));
        for (label, value) in &placement.node_selector {
            if let Some(selector) = selector.as_object_mut() {
                selector.insert(label.clone(), json!(value));
            }
        }
    }
    if !placement.tolerations.is_empty() {
        let tolerations = pod.entry("tolerations").or_insert_with(|| json!([]));
        for toleration in placement.tolerations.iter().map(|it| json!(it)) {
            if let Some(tolerations) = tolerations.as_array_mut()
                && !tolerations.contains(&toleration)
            {
                tolerations.push(toleration);
            }
        }
    }
}

/// Sets the usual proxy variables; the author's own values stay.
fn proxy(container: &mut Map<String, Value>, proxy: Option<&ProxyConfig>) {
    let Some(proxy) = proxy else { return };
    let variables = [
        ("HTTP_PROXY", &proxy.http_proxy),
        ("HTTPS_PROXY", &proxy.https_proxy),
        ("NO_PROXY", &proxy.no_proxy),
    ];
    for (name, value) in variables.into_iter().filter(|(_, value)| !value.is_empty()) {
        let environment = container.entry("env").or_insert_with(|| json!([]));
        if let Some(environment) = environment.as_array_mut()
            && environment
                .iter()
                .all(|it| it.get("name") != Some(&json!(name)))
        {
            environment.push(json!({ "name": name, "value": value }));
        }
    }
}

/// Of several matching requirements the last wins.
fn resources(
    container: &mut Map<String, Value>,
    deployment: &AddOnDeploymentConfigSpec,
    [resource, name]: [&str; 2],
) {
    let own = container.get("name").and_then(Value::as_str);
    let wanted = [resource, name, own.unwrap_or_default()];
    let fits = |id: &str| {
        let parts: Vec<_> = id.split(':').collect();
        let mut pairs = parts.iter().zip(wanted);
        parts.len() == wanted.len() && pairs.all(|(part, it)| *part == "*" || *part == it)
    };
    let mut requirements = deployment.resource_requirements.iter().rev();
    if let Some(found) = requirements.find(|it| fits(&it.container_id)) {
        container.insert("resources".to_owned(), json!(found.resources));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> Config {
        let spec = json!({
            "nodePlacement": {
                "nodeSelector": { "disk": "ssd" }, "tolerations": [{ "key": "x", "operator": "Exists" }],
            },
            "proxyConfig": { "httpsProxy": "http://p", "noProxy": ".svc" },
            "resourceRequirements": [
                { "containerID": "*:*:*", "resources": { "requests": { "cpu": "1" } } },
                { "containerID": "deployments:d:main", "resources": { "requests": { "cpu": "2" } } },
                { "containerID": "jobs:*:*", "resources": { "requests": { "cpu": "3" } } },
            ],
        });
        Config {
            deployment: Some(serde_json::from_value(spec).unwrap()),
            ..Config::default()
        }
    }

    fn deployment() -> Value {
        json!({
            "kind": "Deployment", "metadata": { "name": "d" },
            "spec": { "template": { "spec": {
                "nodeSelector": { "os": "linux" },
                "containers": [{ "name": "main", "image": "quay.io/a:v1",
                    "env": [{ "name": "NO_PROXY", "value": "mine" }] }],
                "initContainers": [{ "name": "setup", "image": "quay.io/b:v1" }],
            } } },
        })
    }

    #[test]
    fn a_workload_gets_the_settings_of_the_configuration_and_keeps_others() {
        let registries = [ImageMirror {
            source: "quay.io".to_owned(),
            mirror: "m.io".to_owned(),
        }];
        let mut object = deployment();
        configure(&mut object, &config(), &registries);
        let pod = &object["spec"]["template"]["spec"];
        assert_eq!(pod["nodeSelector"], json!({ "os": "linux", "disk": "ssd" }));
        assert_eq!(pod["tolerations"].as_array().unwrap().len(), 1);
        let main = &pod["containers"][0];
        assert_eq!(main["image"], "m.io/a:v1");
        assert_eq!(main["resources"]["requests"]["cpu"], "2");
        let variables = json!([
            { "name": "NO_PROXY", "value": "mine" }, { "name": "HTTPS_PROXY", "value": "http://p" },
        ]);
        assert_eq!(main["env"], variables);
        assert_eq!(pod["initContainers"][0]["image"], "m.io/b:v1");
        assert_eq!(
            pod["initContainers"][0]["resources"]["requests"]["cpu"],
            "1"
        );
        let once = object.clone();
        configure(&mut object, &config(), &registries);
        assert_eq!(object, once, "doing it again changes nothing");
    }

    #[test]
    fn objects_without_pods_stay_unchanged() {
        for kind in ["ConfigMap", "Deployment", "CronJob"] {
            let object = json!({ "kind": kind, "metadata": { "name": "d" }, "spec": {} });
            let mut configured = object.clone();
            configure(&mut configured, &config(), &[]);
            assert_eq!(configured, object);
        }
        let mut object = deployment();
        configure(&mut object, &Config::default(), &[]);
        assert_eq!(object, deployment());
    }
}
