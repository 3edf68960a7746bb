use std::collections::BTreeSet;

use live::ui_access::UiAccess;
use ocm::api::addon::{
    ContainerResourceRequirements, CustomizedVariable, NodePlacement, ProxyConfig,
};
use principal::Mode;

use super::*;
use crate::addon::golden;
use crate::addon::{
    manifests::Proxy,
    settings::{PodOptions, ReadGroups, RedisOptions, Tuning},
};

mod fleet;

pub(in crate::addon::argocd_install) fn spoke() -> Spoke {
    Spoke {
        agent_namespace: "agents".to_owned(),
        argocd_namespace: "gitops".to_owned(),
        allowed_namespaces: BTreeSet::from(["team-a".to_owned(), "team-b".to_owned()]),
        mode: Mode::Managed,
        principal: "hub.example.org:8443".parse().unwrap(),
        ca_bundle: "PEM".to_owned(),
        image: "agent:v1".to_owned(),
        log_level: "info".to_owned(),
        ui_access: UiAccess::Read,
        read_groups: ReadGroups::default(),
        placement: NodePlacement::default(),
        proxy: Proxy::default(),
        resources: None,
        traces: None,
        pod: PodOptions::default(),
        redis: RedisOptions::default(),
        tuning: Tuning::default(),
    }
}

pub(in crate::addon::argocd_install) fn rendered(
    keep: bool,
    config: &AddOnDeploymentConfigSpec,
) -> Rendered {
    on(&spoke(), false, keep, config)
}

/// The objects for these settings, on an OpenShift or another cluster.
fn on(
    spoke: &Spoke,
    is_openshift: bool,
    keep: bool,
    config: &AddOnDeploymentConfigSpec,
) -> Rendered {
    let crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "applications.argoproj.io" }, "spec": {},
    });
    let inputs = Inputs {
        spoke,
        image: "argocd:v3".to_owned(),
        redis_image: "redis:8".to_owned(),
        crds: &[Arc::new(crd)],
        keep,
        is_openshift,
        config,
    };
    Templates::embedded().unwrap().render(&inputs).unwrap()
}

fn plain() -> Rendered {
    rendered(false, &AddOnDeploymentConfigSpec::default())
}

/// The specs of the Pods, by the names of their workloads.
fn pods(objects: &[Value]) -> Vec<(&str, &Value)> {
    let workloads = objects
        .iter()
        .filter(|it| it["spec"]["template"].is_object());
    let pods: Vec<_> = workloads
        .map(|it| {
            let name = it["metadata"]["name"].as_str().unwrap();
            (name, &it["spec"]["template"]["spec"])
        })
        .collect();
    // A loop over none would prove nothing.
    assert_eq!(pods.len(), 3);
    pods
}

fn stays(object: &Value) -> bool {
    let annotations = &object["metadata"]["annotations"];
    annotations.get(ocm::keys::DELETION_ORPHAN).is_some()
}

fn names(objects: &[Value], which: impl Fn(&Value) -> bool) -> Vec<String> {
    let objects = objects.iter().filter(|it| which(it));
    let name = |it: &Value| format!("{} {}", it["kind"], it["metadata"]["name"]).replace('"', "");
    objects.map(name).collect()
}

/// All objects, byte for byte; a change of a manifest shows in the review of this file.
#[test]
fn the_rendering_is_the_golden_one() {
    let text = serde_json::to_string_pretty(&plain().manifests).unwrap() + "\n";
    golden::compare("argocd_install/objects/golden.json", &text);
}

#[test]
fn opt_out_removes_argo_cd_programs_and_keeps_user_objects() {
    let objects = plain().manifests;
    let expected = [
        "CustomResourceDefinition applications.argoproj.io",
        "ConfigMap argocd-cm",
        "ConfigMap argocd-cmd-params-cm",
        "ConfigMap argocd-gpg-keys-cm",
        "ConfigMap argocd-ssh-known-hosts-cm",
        "ConfigMap argocd-tls-certs-cm",
        "Secret argocd-secret",
    ];
    assert_eq!(names(&objects, stays), expected);
    let kept = rendered(true, &AddOnDeploymentConfigSpec::default()).manifests;
    // The permissions of the agent are useless without it.
    let of_the_agent = [
        "Role argocd-agent-addon-brought",
        "RoleBinding argocd-agent-addon-brought",
    ];
    assert_eq!(names(&kept, |it| !stays(it)), of_the_agent);
}

#[test]
fn all_objects_are_labelled_and_collide_with_no_other_argo_cd() {
    for object in plain().manifests {
        assert_eq!(object["metadata"]["labels"][keys::INSTALLED], "true");
        let kind = object["kind"].as_str().unwrap();
        let name = object["metadata"]["name"].as_str().unwrap();
        match kind {
            "CustomResourceDefinition" => {}
            "ClusterRole" | "ClusterRoleBinding" => {
                assert!(name.starts_with("argocd-agent-addon-"), "{kind} {name}");
            }
            _ => assert_eq!(object["metadata"]["namespace"], "gitops", "{kind} {name}"),
        }
    }
}

#[test]
fn secrets_are_rendered_empty() {
    let objects = plain().manifests;
    let secrets: Vec<_> = objects.iter().filter(|it| it["kind"] == "Secret").collect();
    assert_eq!(secrets.len(), 1);
    assert!(secrets[0].get("data").is_none() && secrets[0].get("stringData").is_none());
}

#[test]
fn changes_of_users_to_argocd_cm_are_not_reverted() {
    let configs = plain().configs;
    let [config] = configs.as_slice() else {
        panic!("{configs:?}");
    };
    assert_eq!(config.resource_identifier.name, "argocd-cm");
    assert_eq!(config.update_strategy.as_ref().unwrap().kind, "CreateOnly");
}

#[test]
fn a_new_version_of_the_hub_changes_the_images_and_nothing_else() {
    let (spoke, config) = (spoke(), AddOnDeploymentConfigSpec::default());
    let with = |image: &str| {
        let inputs = Inputs {
            spoke: &spoke,
            image: image.to_owned(),
            redis_image: "redis:8".to_owned(),
            crds: &[],
            keep: false,
            is_openshift: false,
            config: &config,
        };
        Templates::embedded().unwrap().render(&inputs).unwrap()
    };
    let (before, after) = (with("argocd:v3.2"), with("argocd:v3.3"));
    let text = serde_json::to_string(&before.manifests).unwrap();
    assert_eq!(text.matches("argocd:v3.2").count(), 3);
    let expected = text.replace("argocd:v3.2", "argocd:v3.3");
    assert_eq!(serde_json::to_string(&after.manifests).unwrap(), expected);
}

#[test]
fn placement_resources_and_priority_reach_every_pod() {
    let variable = |id: &str| ContainerResourceRequirements {
        container_id: id.to_owned(),
        resources: serde_json::from_value(json!({ "limits": { "memory": "1Gi" } })).unwrap(),
    };
    let config = AddOnDeploymentConfigSpec {
        node_placement: Some(NodePlacement {
            tolerations: serde_json::from_value(json!([{ "operator": "Exists" }])).unwrap(),
            node_selector: [("disk".to_owned(), "fast".to_owned())].into(),
        }),
        resource_requirements: vec![variable("deployments:argocd-repo-server:*")],
        customized_variables: vec![CustomizedVariable::default()],
        ..AddOnDeploymentConfigSpec::default()
    };
    let important = Spoke {
        pod: PodOptions {
            priority_class: Some("high".to_owned()),
            host_aliases: [("10.0.0.1".parse().unwrap(), vec!["hub".to_owned()])].into(),
        },
        ..spoke()
    };
    let objects = on(&important, false, false, &config).manifests;
    for (name, pod) in pods(&objects) {
        assert_eq!(pod["tolerations"], json!([{ "operator": "Exists" }]));
        assert_eq!(pod["nodeSelector"]["disk"], "fast");
        assert_eq!(pod["priorityClassName"], "high");
        assert_eq!(pod["hostAliases"], Value::Null);
        let limits = &pod["containers"][0]["resources"]["limits"];
        assert_eq!(limits.is_object(), name == "argocd-repo-server");
    }
}

#[test]
fn every_container_requests_resources() {
    let objects = plain().manifests;
    for (name, pod) in pods(&objects) {
        assert_eq!(pod["priorityClassName"], Value::Null);
        for container in containers(pod) {
            for resource in ["cpu", "memory"] {
                let requested = &container["resources"]["requests"][resource];
                assert!(requested.is_string(), "{name}: {container}");
            }
        }
    }
}

#[test]
fn proxy_reaches_the_programs_that_connect_to_the_outside() {
    let with = |ca: &str| {
        let behind = Spoke {
            proxy: Proxy {
                https: "http://proxy:3128".to_owned(),
                ca: ca.to_owned(),
                ..Proxy::default()
            },
            ..spoke()
        };
        // As OCM's own field, which would reach redis, too.
        let config = AddOnDeploymentConfigSpec {
            proxy_config: Some(ProxyConfig {
                https_proxy: "http://proxy:3128".to_owned(),
                ..ProxyConfig::default()
            }),
            ..AddOnDeploymentConfigSpec::default()
        };
        on(&behind, false, false, &config).manifests
    };
    let maps = |objects: &[Value]| names(objects, |it| it["data"]["ca.crt"] == "PROXY PEM");
    for ca in ["", "PROXY PEM"] {
        let objects = with(ca);
        for (name, pod) in pods(&objects) {
            let text = pod.to_string();
            let uses = name != "argocd-redis";
            assert_eq!(text.matches("proxy:3128").count(), usize::from(uses));
            assert_eq!(text.contains("NO_PROXY"), uses, "{name}");
            assert_eq!(text.contains("SSL_CERT_FILE"), uses && !ca.is_empty());
        }
        assert_eq!(maps(&objects).len(), usize::from(!ca.is_empty()));
    }
    // The volume names the ConfigMap that is rendered.
    let objects = with("PROXY PEM");
    let name = maps(&objects).concat().replace("ConfigMap ", "");
    let text = serde_json::to_string(&objects).unwrap();
    assert_eq!(text.matches(&format!(r#""name":"{name}""#)).count(), 3);
    assert!(
        !serde_json::to_string(&plain().manifests)
            .unwrap()
            .contains("NO_PROXY")
    );
}

/// All containers of a Pod.
fn containers(pod: &Value) -> impl Iterator<Item = &Value> {
    let init = pod["initContainers"].as_array().into_iter().flatten();
    init.chain(pod["containers"].as_array().unwrap())
}

/// A security setting of a container, else of its Pod.
fn security<'a>(pod: &'a Value, container: &'a Value, field: &str) -> &'a Value {
    let own = &container["securityContext"][field];
    if own.is_null() {
        &pod["securityContext"][field]
    } else {
        own
    }
}

/// The standard `restricted` of Pod Security, and on OpenShift the users of `restricted-v2`.
#[test]
fn pods_are_restricted_and_openshift_chooses_their_users() {
    let behind = Spoke {
        proxy: Proxy {
            https: "https://proxy:3128".to_owned(),
            ca: "PEM".to_owned(),
            ..Proxy::default()
        },
        ..spoke()
    };
    for is_openshift in [false, true] {
        let config = AddOnDeploymentConfigSpec::default();
        let objects = on(&behind, is_openshift, false, &config).manifests;
        for (name, pod) in pods(&objects) {
            for field in ["hostNetwork", "hostPID", "hostIPC"] {
                assert!(pod[field].is_null(), "{name}");
            }
            for volume in pod["volumes"].as_array().into_iter().flatten() {
                let kinds = ["configMap", "emptyDir"];
                assert!(kinds.iter().any(|it| volume[it].is_object()), "{volume}");
            }
            for container in containers(pod) {
                let of = |field| security(pod, container, field);
                assert_eq!(of("runAsNonRoot"), true, "{container}");
                assert_eq!(of("readOnlyRootFilesystem"), true, "{container}");
                assert_eq!(of("allowPrivilegeEscalation"), false, "{container}");
                assert_eq!(of("capabilities"), &json!({ "drop": ["ALL"] }));
                assert_eq!(of("seccompProfile")["type"], "RuntimeDefault");
                // The image of redis would run as root.
                let fixed = name == "argocd-redis" && !is_openshift;
                let expected = if fixed { json!(999) } else { Value::Null };
                assert_eq!(of("runAsUser"), &expected, "{container}");
            }
        }
    }
}

#[test]
fn further_namespaces_are_admitted() {
    let text = serde_json::to_string(&plain().manifests).unwrap();
    assert_eq!(text.matches("team-a,team-b").count(), 2);
}

#[test]
fn the_namespace_gets_the_pull_secret_only_where_something_is_pulled() {
    let namespace =
        || json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "gitops" } });
    let with = beside(vec![namespace()], plain(), &spoke());
    let labels = &with.manifests[0]["metadata"]["labels"];
    assert_eq!(labels["addon.open-cluster-management.io/namespace"], "true");
    assert!(with.manifests.len() > 20 && !with.configs.is_empty());
    let without = beside(vec![namespace()], Rendered::default(), &spoke());
    assert_eq!(without.manifests, [namespace()]);
}
