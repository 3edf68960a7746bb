//! The chart in `manifests/hub`, rendered by the real Helm: its objects, and refused values.
//!
//! The golden files in `tests/rules/chart` are compared as values, without the rules of roles, which the tests
//! `rights::*` compare with the used rights. `UPDATE_GOLDEN=1 cargo test -p tests --test rules` updates them; read the difference.

#![expect(
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test file: every helper is a test's; JSON answers null for what is not there"
)]

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::PathBuf,
};

use lab::helm;
use serde_json::{Value, json};

mod acm;
mod alerts;
mod configure;
mod generator;
mod gitops;
mod long;
mod rendered;
mod reused_values;
mod rights;
mod ui;

use rendered::{GOLDEN, NAMESPACE, RELEASE, everything, objects, one, parsed, pods, run, template};

use crate::shared::updates_golden;

#[test]
fn the_chart_passes_helms_lint() {
    let chart = helm::chart();
    let chart = helm::text(&chart).expect("a path");
    for (name, sets) in GOLDEN {
        let output = run(&["lint", "--strict", chart], sets);
        assert!(output.success, "{name}: {}{}", output.out, output.err);
    }
}

#[test]
fn values_that_cannot_be_are_refused_by_name() {
    for (set, named) in [
        ("replica=2", "replica"),
        ("replicas=many", "replicas"),
        (
            "principal.address=https://hub.example.org",
            "principal.address",
        ),
        ("principal.service.type=External", "principal.service.type"),
        ("principal.service.port=70000", "principal.service.port"),
        (
            "principal.service.ipFamilyPolicy=DualStack",
            "principal.service.ipFamilyPolicy",
        ),
        (
            "principal.service.ipFamilies={v6}",
            "principal.service.ipFamilies",
        ),
        ("argocd.namespace=Argo_CD", "argocd.namespace"),
        ("argocd.configure=yes", "argocd.configure"),
        ("argocd.configure=true", "redisProxy.enabled"),
        ("argocd.configure=true", "ui.enabled"),
        ("ui.enabled=yes", "ui.enabled"),
        ("ui.port=8081", "port"),
        ("ui=true", "ui"),
        ("agent.variables.LOGLEVEL=debug", "LOGLEVEL"),
        ("agent.variables.MODE=manged", "agent.variables.MODE"),
        (
            "agent.variables.REDIS_TLS=true",
            "agent.variables.REDIS_TLS",
        ),
        (
            "agent.variables.UI_READ_GROUPS=*",
            "agent.variables.UI_READ_GROUPS",
        ),
        ("agent.registries[0].source=quay.io", "mirror"),
        ("certificateLife=30", "certificateLife"),
        ("console.launchLink=javascript:0", "console.launchLink"),
        ("backup.label=a/b", "backup.label"),
        ("log.format=xml", "log.format"),
        ("tracing.address=http://otel:4317", "tracing.address"),
        ("tracing.sampleRatio=2", "tracing.sampleRatio"),
        ("redisProxy.networkPolicy=on", "redisProxy.networkPolicy"),
        ("tracing.address=otel:4317", "tracing.caConfigMap"),
        ("uninstall.timeout=forever", "uninstall.timeout"),
        ("placement.enabled=maybe", "placement.enabled"),
        (
            "placementGenerator.serviceAccount=Argo_CD",
            "placementGenerator.serviceAccount",
        ),
        ("images.agent.digest=sha256:1", "images.agent.digest"),
        ("extraArgs={-n x}", "extraArgs"),
    ] {
        let output = template(&[set]);
        assert!(!output.success, "{set} was taken");
        // Helm writes paths with dots or with slashes, as its version likes it.
        let err = output.err.replace('/', ".");
        assert!(err.contains(named), "{set}: {}", output.err);
    }
}

#[test]
fn an_undialable_address_is_refused_with_a_reason() {
    for (address, because) in [
        ("https://hub.example.org", "has a scheme"),
        ("hub.example.org/agents", "has a path"),
        ("hub.example.org 443", "has a blank in it"),
        ("hub.example.org:port", "is no host and no host:port"),
        ("2001:db8::1", "is an IPv6 address without brackets"),
        ("::1", "is an IPv6 address without brackets"),
    ] {
        let output = template(&[&format!("principal.address={address}")]);
        assert!(!output.success, "{address} was taken");
        for part in [because, "Say host or host:port"] {
            assert!(output.err.contains(part), "{address}: {}", output.err);
        }
    }
    for address in [
        "",
        "hub.example.org",
        "10.0.0.1:8443",
        "[2001:db8::1]:443",
        "[2001:db8::1]",
    ] {
        let output = template(&[&format!("principal.address={address}")]);
        assert!(output.success, "{address}: {}", output.err);
    }
}

#[test]
fn principal_service_has_the_chosen_ip_families() {
    let families = |sets: &[&str]| {
        let service = one(sets, "Service", "argocd-agent-principal");
        ["ipFamilyPolicy", "ipFamilies"].map(|field| service["spec"][field].clone())
    };
    assert_eq!(families(&[]), [Value::Null, Value::Null]);
    let both = [
        "principal.service.ipFamilyPolicy=PreferDualStack",
        "principal.service.ipFamilies={IPv6,IPv4}",
    ];
    assert_eq!(
        families(&both),
        [json!("PreferDualStack"), json!(["IPv6", "IPv4"])]
    );
}

#[test]
fn a_placement_is_made_in_the_releases_namespace_only() {
    let output = template(&["placement.enabled=true", "placement.namespace=elsewhere"]);
    assert!(!output.success);
    assert!(output.err.contains("placement.create"), "{}", output.err);
}

#[test]
fn rendered_chart_matches_golden_files() {
    let mut differ = Vec::new();
    for (name, sets) in GOLDEN {
        let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
            .join("rules/chart")
            .join(format!("{name}.yaml"));
        let rendered = golden(objects(sets));
        if updates_golden() {
            let text = rendered.values().map(serde_saphyr::to_string);
            let text: Vec<_> = text.map(|it| it.expect("YAML")).collect();
            fs::write(&path, text.join("---\n")).expect("a golden file");
        }
        let kept = fs::read_to_string(&path).unwrap_or_default();
        let kept = kept.split("---\n").filter(|it| !it.trim().is_empty());
        let kept = golden(kept.map(parsed).collect());
        let names: BTreeSet<_> = rendered.keys().chain(kept.keys()).collect();
        for key in names {
            if rendered.get(key) != kept.get(key) {
                let (is, was) = (rendered.get(key), kept.get(key));
                differ.push(format!("{name}: {key}\n  is  {is:?}\n  was {was:?}"));
            }
        }
    }
    assert!(
        differ.is_empty(),
        "if this is meant, UPDATE_GOLDEN=1 updates the files:\n{}",
        differ.join("\n")
    );
}

/// The objects by kind and name, without the fields that other tests check.
fn golden(objects: Vec<Value>) -> BTreeMap<String, Value> {
    let named = objects.into_iter().map(|mut object| {
        let (kind, name) = (&object["kind"], &object["metadata"]["name"]);
        let key = format!(
            "{} {}",
            kind.as_str().unwrap_or("?"),
            name.as_str().unwrap_or("?")
        );
        if let Some(fields) = object.as_object_mut() {
            fields.remove("rules");
        }
        // These are files as they are.
        match key.as_str() {
            "PrometheusRule argocd-agent-addon-manager" => object["spec"].take(),
            "ConfigMap argocd-agent-addon-dashboards"
            | "ConfigMap argocd-agent-addon-ui-extension" => object["data"].take(),
            _ => Value::Null,
        };
        (key, object)
    });
    named.collect()
}

#[test]
fn every_pod_is_confined() {
    let pods = pods();
    assert!(pods.len() >= 3 * GOLDEN.len(), "only {}", pods.len());
    for (name, pod) in pods {
        assert_eq!(pod["securityContext"]["runAsNonRoot"], true, "{name}");
        let container = &pod["containers"][0];
        let security = &container["securityContext"];
        assert_eq!(security["readOnlyRootFilesystem"], true, "{name}");
        assert_eq!(security["allowPrivilegeEscalation"], false, "{name}");
        assert_eq!(
            security["capabilities"],
            json!({ "drop": ["ALL"] }),
            "{name}"
        );
        assert!(!container["resources"].is_null(), "{name}");
    }
}

#[test]
fn memory_of_the_hub_program_fits_the_fleet() {
    let memory = |sets: &[&str]| {
        let deployment = one(sets, "Deployment", "argocd-agent-addon-manager");
        let resources = &deployment["spec"]["template"]["spec"]["containers"][0]["resources"];
        ["requests", "limits"].map(|it| resources[it]["memory"].as_str().map(str::to_owned))
    };
    let of = |request: &str, limit: &str| [Some(request.to_owned()), Some(limit.to_owned())];
    assert_eq!(memory(&[]), of("99Mi", "2048Mi"));
    let large = ["fleet.clusters=5000", "fleet.applications=50000"];
    assert_eq!(memory(&large), of("1821Mi", "4666Mi"));
    let set = [
        "resources.requests.memory=1Gi",
        "resources.limits.memory=3Gi",
    ];
    assert_eq!(memory(&set), of("1Gi", "3Gi"));
    assert_eq!(
        memory(&["resources.limits.memory=80Mi", large[0]]),
        of("64Mi", "80Mi")
    );
    assert_eq!(memory(&["resources=null"]), [None, None]);
    let unlimited = memory(&["resources.limits=null", "fleet=null"]);
    assert_eq!(unlimited, [Some("64Mi".to_owned()), None]);
}

#[test]
fn the_pod_is_selected_by_its_services_and_by_nothing_of_the_hooks() {
    let manager = "argocd-agent-addon-manager";
    let deployment = one(&[], "Deployment", manager);
    let labels = &deployment["spec"]["template"]["metadata"]["labels"];
    assert!(selects(
        &deployment["spec"]["selector"]["matchLabels"],
        labels
    ));
    let mut principal = one(&[], "Service", "argocd-agent-principal")["spec"]["selector"].clone();
    let active = "argocd-agent.open-cluster-management.io/active";
    assert_eq!(principal[active], "true");
    if let Some(selector) = principal.as_object_mut() {
        selector.remove(active);
    }
    let health = one(&[], "Service", manager)["spec"]["selector"].clone();
    let job = one(&[], "Job", "argocd-agent-addon-uninstall");
    let hook = &job["spec"]["template"]["metadata"]["labels"];
    for selector in [&principal, &health] {
        assert!(
            selects(selector, labels),
            "{selector} does not select {labels}"
        );
        assert!(!selects(selector, hook), "{selector} selects {hook}");
    }
    let container = &deployment["spec"]["template"]["spec"]["containers"][0];
    assert!(!container["readinessProbe"].is_null() && !container["livenessProbe"].is_null());
}

/// Double braces in alerts and dashboards are not Helm's: rendering must not change them.
#[test]
fn alerts_and_dashboards_are_the_files() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../manifests/hub/monitoring");
    let read = |name: &str| fs::read_to_string(folder.join(name)).expect(name);
    let groups = |name: &str| parsed(&read(name))["groups"].clone();
    let rule = |sets: &[&str]| one(sets, "PrometheusRule", "argocd-agent-addon-manager");
    let alone = rule(&["monitoring.rules.enabled=true"]);
    assert_eq!(alone["spec"]["groups"], groups("hub.yaml"));
    let both = rule(&[
        "monitoring.rules.enabled=true",
        "monitoring.rules.agents=true",
        "monitoring.rules.labels.release=prometheus",
    ]);
    let all = [groups("hub.yaml"), groups("agent.yaml")];
    let all: Vec<Value> = all
        .iter()
        .filter_map(Value::as_array)
        .flatten()
        .cloned()
        .collect();
    assert_eq!(both["spec"]["groups"], Value::from(all));
    assert_eq!(both["metadata"]["labels"]["release"], "prometheus");

    let sets = ["monitoring.dashboards.enabled=true"];
    let map = one(&sets, "ConfigMap", "argocd-agent-addon-dashboards");
    assert_eq!(map["metadata"]["labels"]["grafana_dashboard"], "1");
    let data = map["data"].as_object().expect("dashboards");
    assert_eq!(data.len(), 3);
    for (name, board) in data {
        let file = name.strip_prefix("argocd-agent-").expect("whose it is");
        let board = board.as_str().expect("a text");
        assert_eq!(
            board.trim(),
            read(&format!("dashboards/{file}")).trim(),
            "{name}"
        );
    }
    let unasked = objects(&[]).into_iter().filter(|it| {
        it["kind"] == "PrometheusRule" || it["metadata"]["name"] == map["metadata"]["name"]
    });
    assert_eq!(unasked.count(), 0);
}

fn selects(selector: &Value, labels: &Value) -> bool {
    let selector = selector.as_object().expect("a selector");
    !selector.is_empty() && selector.iter().all(|(key, value)| labels[key] == *value)
}

#[test]
fn every_object_has_release_labels_and_a_namespace() {
    for object in everything() {
        let (kind, metadata) = (
            object["kind"].as_str().unwrap_or_default(),
            &object["metadata"],
        );
        let labels = &metadata["labels"];
        assert_eq!(labels["app.kubernetes.io/instance"], RELEASE, "{metadata}");
        assert_eq!(
            labels["app.kubernetes.io/part-of"], "argocd-agent",
            "{metadata}"
        );
        assert_eq!(labels["app.kubernetes.io/managed-by"], "Helm", "{metadata}");
        let everywhere = [
            "ClusterRole",
            "ClusterRoleBinding",
            "ClusterManagementAddOn",
            "ValidatingAdmissionPolicy",
            "ValidatingAdmissionPolicyBinding",
        ];
        let namespace = metadata["namespace"].as_str();
        match namespace {
            None => assert!(everywhere.contains(&kind), "{kind} {metadata}"),
            Some(NAMESPACE) => assert!(!everywhere.contains(&kind), "{metadata}"),
            // Rights there, a way to the redis that is there, the ConfigMap of the Placement generator, and that of the pages
            // in the UI with the guard of the fleet.
            Some("argocd" | "gitops") => {
                let kinds = ["NetworkPolicy", "ConfigMap", "Application", "AppProject"];
                assert!(
                    kind.starts_with("Role") || kinds.contains(&kind),
                    "{metadata}"
                );
            }
            Some(other) => panic!("{kind} in {other}"),
        }
    }
}

#[test]
fn all_of_it_can_be_in_the_namespace_of_argo_cd() {
    let output = objects(&[&format!("argocd.namespace={NAMESPACE}")]);
    let names = output
        .iter()
        .map(|it| format!("{} {}", it["kind"], it["metadata"]["name"]));
    let mut seen = BTreeSet::new();
    let twice: Vec<_> = names.filter(|it| !seen.insert(it.clone())).collect();
    assert!(twice.is_empty(), "{twice:?}");
}

#[test]
fn the_images_follow_registry_tag_and_digest() {
    let images = |sets: &[&str]| {
        let deployment = one(sets, "Deployment", "argocd-agent-addon-manager");
        let container = deployment["spec"]["template"]["spec"]["containers"][0].clone();
        let env = container["env"].as_array().cloned().unwrap_or_default();
        let agent = env.into_iter().find(|it| it["name"] == "AGENT_IMAGE");
        (
            container["image"].clone(),
            agent.unwrap_or_default()["value"].clone(),
        )
    };
    let (manager, agent) = images(&[]);
    assert_eq!(
        manager,
        "quay.io/open-cluster-management/argocd-addon-manager:v0.1.0"
    );
    assert_eq!(
        agent,
        "quay.io/open-cluster-management/argocd-addon-agent:v0.1.0"
    );
    let digest = format!("sha256:{}", "a".repeat(64));
    let set = format!("images.agent.digest={digest}");
    let (manager, agent) = images(&[
        "images.registry=r.example.org/m",
        "images.manager.tag=v2",
        &set,
    ]);
    assert_eq!(manager, "r.example.org/m/argocd-addon-manager:v2");
    assert_eq!(
        agent,
        format!("r.example.org/m/argocd-addon-agent@{digest}")
    );
}

#[test]
fn the_placement_tolerates_lost_clusters_and_sees_all() {
    let sets = &["placement.enabled=true"];
    let placement = one(sets, "Placement", "argocd-agent-addon");
    let tolerations = placement["spec"]["tolerations"].to_string();
    for taint in ["unreachable", "unavailable"] {
        assert!(tolerations.contains(&format!("cluster.open-cluster-management.io/{taint}")));
    }
    let selector = placement["spec"]["predicates"].to_string();
    assert!(selector.contains("argocd-agent.open-cluster-management.io/mode"));
    let binding = one(sets, "ManagedClusterSetBinding", "global");
    assert_eq!(binding["spec"]["clusterSet"], "global");
}

#[test]
fn both_install_styles_differ_in_their_strategy_only() {
    let name = "argocd-agent-addon";
    let styles: [&[&str]; 2] = [&[], &["placement.enabled=true"]];
    let [mut manual, mut placements] = styles.map(|sets| one(sets, "ClusterManagementAddOn", name));
    assert_eq!(manual["spec"]["installStrategy"]["type"], "Manual");
    assert_eq!(placements["spec"]["installStrategy"]["type"], "Placements");
    for offer in [&mut manual, &mut placements] {
        offer["spec"]["installStrategy"].take();
    }
    assert_eq!(manual, placements);
}
