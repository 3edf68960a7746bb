use serde_json::json;

use super::*;

pub(in crate::addon::argocd_install) fn deployment(
    component: &str,
    container: &str,
    image: &str,
) -> Deployment {
    let object = json!({
        "metadata": {
            "name": format!("release-argocd-{component}"),
            "labels": { "app.kubernetes.io/part-of": "argocd", "app.kubernetes.io/component": component },
        },
        "spec": { "selector": {}, "template": { "spec": { "containers": [
            { "name": "sidecar", "image": "other:1" }, { "name": container, "image": image },
        ] } } },
        "status": { "replicas": 1, "updatedReplicas": 1, "availableReplicas": 1 },
    });
    serde_json::from_value(object).unwrap()
}

fn crd(name: &str) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": name, "uid": "u", "resourceVersion": "1", "annotations": { "a": "b" } },
        "spec": {
            "group": "argoproj.io", "scope": "Namespaced", "conversion": { "strategy": "None" },
            "versions": [{ "name": "v1alpha1", "schema": { "openAPIV3Schema": {
                "description": "long", "type": "object",
                "properties": {
                    "description": { "type": "string", "description": "long" },
                    "list": { "type": "array", "items": { "type": "object", "description": "long",
                        "default": { "description": "a value" } } },
                    "map": { "additionalProperties": { "description": "long", "type": "string" } },
                    "either": { "anyOf": [{ "type": "integer", "description": "long" }, { "type": "string" }] },
                },
            } } }],
        },
        "status": { "storedVersions": ["v1alpha1"] },
    })
}

pub(in crate::addon::argocd_install) fn crds() -> Vec<Value> {
    CRDS.iter().map(|name| crd(name)).collect()
}

#[test]
fn image_comes_from_server_or_repo_server() {
    let server = || deployment("server", "argocd-server", "argocd:v3");
    let repo_server = || deployment("repo-server", "repo-server", "argocd:v2");
    let image = |all: Vec<Deployment>| Pattern::of(&Hub::with(all, &crds())).map(|it| it.image);
    assert_eq!(image(vec![repo_server(), server()]).unwrap(), "argocd:v3");
    assert_eq!(image(vec![repo_server()]).unwrap(), "argocd:v2");
    let other = deployment("notifications-controller", "x", "argocd:v1");
    assert!(image(vec![other]).is_err());
}

#[test]
fn a_version_that_does_not_run_on_the_hub_is_no_pattern() {
    let version = |image: &str, generation: i64, status: Value| {
        let mut it = deployment("server", "argocd-server", image);
        it.metadata.generation = Some(generation);
        it.status = serde_json::from_value(status).unwrap();
        it
    };
    let image = |all: Vec<Deployment>| {
        Pattern::of(&Hub::with(all, &crds()))
            .ok()
            .map(|it| it.image)
    };
    let runs = |image: &str| {
        let status = json!({ "observedGeneration": 1, "replicas": 2, "updatedReplicas": 2, "availableReplicas": 1 });
        version(image, 1, status)
    };
    for status in [
        json!(null),
        // Not observed by the controller; image pull fails and old Pods still serve; all Pods are new and none available.
        json!({ "observedGeneration": 1, "replicas": 2, "updatedReplicas": 2, "availableReplicas": 2 }),
        json!({ "observedGeneration": 2, "replicas": 3, "updatedReplicas": 1, "availableReplicas": 2 }),
        json!({ "observedGeneration": 2, "replicas": 2, "updatedReplicas": 2 }),
    ] {
        let next = || version("argocd:tpyo", 2, status.clone());
        assert_eq!(image(vec![next()]), None, "{status}");
        let then = image(vec![runs("argocd:v3"), next()]);
        assert_eq!(then.as_deref(), Some("argocd:v3"), "{status}");
    }
    let next = json!({ "observedGeneration": 2, "replicas": 1, "updatedReplicas": 1, "availableReplicas": 1 });
    let then = image(vec![runs("argocd:v3"), version("argocd:v4", 2, next)]);
    assert_eq!(then.as_deref(), Some("argocd:v4"));
}

#[test]
fn redis_image_comes_from_the_hub_unless_it_runs_a_proxy() {
    let with = |redis: Deployment| {
        let server = deployment("server", "argocd-server", "argocd:v3");
        Pattern::of(&Hub::with(vec![server, redis], &crds()))
            .unwrap()
            .redis_image
    };
    assert_eq!(with(deployment("redis", "redis", "mine:8")), "mine:8");
    assert_eq!(with(deployment("redis", "haproxy", "haproxy:3")), REDIS);
}

#[test]
fn missing_parts_of_the_hub_are_named_with_the_next_step() {
    let missing_part = Pattern::of(&Hub::with(Vec::new(), &[crd(CRDS[0])])).unwrap_err();
    let message = missing_part.to_string();
    for part in [
        CRDS[1],
        "a Deployment of argocd-server",
        "is missing",
        "INSTALL_ARGOCD",
    ] {
        assert!(message.contains(part), "{part}: {message}");
    }
    assert!(!message.contains(CRDS[0]), "{message}");
    let unread = Pattern::of(&Hub::default()).unwrap_err().to_string();
    assert!(unread.contains("upgrade the Helm release"), "{unread}");
}

#[test]
fn a_crd_loses_its_descriptions_and_the_hubs_own_fields() {
    let stripped = definition(&crd("applications.argoproj.io")).unwrap();
    assert_eq!(
        stripped["metadata"],
        json!({ "name": "applications.argoproj.io" })
    );
    assert!(stripped.get("status").is_none());
    let text = stripped.to_string();
    assert!(
        !text.contains("long") && !text.contains("conversion"),
        "{text}"
    );
    let schema = &stripped["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    assert_eq!(schema["description"], INSTALLED_KIND);
    // A property of that name, and a value, stay.
    assert_eq!(
        schema["properties"]["description"],
        json!({ "type": "string" })
    );
    let default = &schema["properties"]["list"]["items"]["default"];
    assert_eq!(default["description"], "a value");
}

#[test]
fn the_real_crds_fit_into_a_manifestwork_many_times() {
    for file in ["application-crd.yaml", "appproject-crd.yaml"] {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../lab/crds/argocd/");
        let text = std::fs::read_to_string(format!("{folder}{file}")).unwrap();
        let crd: Value = serde_saphyr::from_str(&text).unwrap();
        let size = definition(&crd).unwrap().to_string().len();
        assert!((1_000..100_000).contains(&size), "{file}: {size}");
    }
}

#[test]
fn crds_of_older_and_newer_versions_are_accepted() {
    // A later version beside today's: both are kept, and both are marked as ours.
    let mut later = crd("applications.argoproj.io");
    let today = later["spec"]["versions"][0].clone();
    later["spec"]["versions"] = json!([today, today]);
    later["spec"]["versions"][1]["name"] = "v1beta1".into();
    let stripped = definition(&later).unwrap();
    for version in stripped["spec"]["versions"].as_array().unwrap() {
        assert_eq!(
            version["schema"]["openAPIV3Schema"]["description"],
            INSTALLED_KIND
        );
    }
    // An old version without a schema has no place for the mark and stays unchanged.
    let mut old = crd("applications.argoproj.io");
    old["spec"]["versions"] = json!([{ "name": "v1alpha1", "served": true }]);
    let stripped = definition(&old).unwrap();
    assert_eq!(stripped["spec"]["versions"], old["spec"]["versions"]);
    // Other values are rejected.
    for odd in [
        json!({}),
        json!({ "metadata": { "name": "x" } }),
        Value::Null,
    ] {
        assert_eq!(definition(&odd), None, "{odd}");
    }
}
