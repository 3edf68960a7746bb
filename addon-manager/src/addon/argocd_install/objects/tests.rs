use std::collections::BTreeSet;

use live::ui_access::UiAccess;
use ocm::api::addon::{
    ContainerResourceRequirements, CustomizedVariable, NodePlacement, ProxyConfig,
};
use principal::Mode;

use super::*;
use crate::addon::golden;
use crate::addon::{manifests::Proxy, settings::RedisOptions};

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
        placement: NodePlacement::default(),
        proxy: Proxy::default(),
        resources: None,
        traces: None,
        redis: RedisOptions::default(),
    }
}

fn rendered(keep: bool, config: &AddOnDeploymentConfigSpec) -> Rendered {
    let crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "applications.argoproj.io" }, "spec": {},
    });
    let inputs = Inputs {
        spoke: &spoke(),
        image: "argocd:v3".to_owned(),
        redis_image: "redis:8".to_owned(),
        crds: &[Arc::new(crd)],
        keep,
        config,
    };
    Templates::embedded().unwrap().render(&inputs).unwrap()
}

fn plain() -> Rendered {
    rendered(false, &AddOnDeploymentConfigSpec::default())
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
fn placement_and_resources_reach_every_pod_and_the_proxy_none() {
    let variable = |id: &str| ContainerResourceRequirements {
        container_id: id.to_owned(),
        resources: serde_json::from_value(json!({ "limits": { "memory": "1Gi" } })).unwrap(),
    };
    let config = AddOnDeploymentConfigSpec {
        node_placement: Some(NodePlacement {
            tolerations: serde_json::from_value(json!([{ "operator": "Exists" }])).unwrap(),
            node_selector: [("disk".to_owned(), "fast".to_owned())].into(),
        }),
        proxy_config: Some(ProxyConfig {
            https_proxy: "http://proxy:3128".to_owned(),
            ..ProxyConfig::default()
        }),
        resource_requirements: vec![variable("deployments:argocd-repo-server:*")],
        customized_variables: vec![CustomizedVariable::default()],
        ..AddOnDeploymentConfigSpec::default()
    };
    let objects = rendered(false, &config).manifests;
    assert!(
        !serde_json::to_string(&objects)
            .unwrap()
            .contains("proxy:3128")
    );
    let pods = objects
        .iter()
        .filter(|it| it["spec"]["template"].is_object());
    let mut count = 0;
    for object in pods {
        count += 1;
        let pod = &object["spec"]["template"]["spec"];
        assert_eq!(pod["tolerations"], json!([{ "operator": "Exists" }]));
        assert_eq!(pod["nodeSelector"]["disk"], "fast");
        let limited = pod["containers"][0]["resources"].is_object();
        assert_eq!(limited, object["metadata"]["name"] == "argocd-repo-server");
    }
    assert_eq!(count, 3);
}

#[test]
fn every_container_is_confined_and_further_namespaces_are_admitted() {
    let objects = plain().manifests;
    for object in objects
        .iter()
        .filter(|it| it["spec"]["template"].is_object())
    {
        let pod = &object["spec"]["template"]["spec"];
        for container in pod["containers"].as_array().unwrap() {
            let security = &container["securityContext"];
            assert_eq!(security["readOnlyRootFilesystem"], true, "{container}");
            assert_eq!(security["allowPrivilegeEscalation"], false, "{container}");
            assert_eq!(security["capabilities"], json!({ "drop": ["ALL"] }));
        }
    }
    let text = serde_json::to_string(&objects).unwrap();
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
