//! The OLM bundle that `release/olm` makes of the chart, compared with the rules of the format registry+v1 and with the chart.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::PathBuf,
    process::Command,
};

use lab::Tools;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{root, text};

/// The kinds that a bundle of the format registry+v1 may contain (operator-registry, `supported_resources.go`).
const KINDS: [&str; 16] = [
    "ClusterRole",
    "ClusterRoleBinding",
    "ClusterServiceVersion",
    "ConfigMap",
    "ConsoleYAMLSample",
    "CustomResourceDefinition",
    "PodDisruptionBudget",
    "PriorityClass",
    "PrometheusRule",
    "Role",
    "RoleBinding",
    "Secret",
    "Service",
    "ServiceAccount",
    "ServiceMonitor",
    "VerticalPodAutoscaler",
];
const PREFIX: &str = "operators.operatorframework.io.bundle.";

/// A bundle in a folder that ends with it.
struct Bundle {
    folder: TempDir,
}

impl Bundle {
    fn made() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let script = Command::new(root().join("release/olm"))
            .env("OUT", folder.path().join("olm"))
            .env("HELM", helm())
            .output()
            .expect("release/olm");
        assert!(script.status.success(), "{script:?}");
        Self { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join("olm").join(name)
    }

    /// The text of a file.
    fn file(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).expect(name)
    }

    /// The objects by the names of their files. A file has one object.
    fn objects(&self) -> BTreeMap<String, Value> {
        let files = fs::read_dir(self.path("manifests")).expect("manifests");
        let named = files.flatten().map(|file| {
            let name = file.file_name().to_string_lossy().into_owned();
            let text = fs::read_to_string(file.path()).expect("a manifest");
            assert!(!text.contains("\n---\n"), "{name} has two objects");
            let object = serde_saphyr::from_str(&text).expect("YAML");
            (name, object)
        });
        named.collect()
    }

    fn version(&self) -> Value {
        let all = self.objects().into_values();
        let is_version = |kind: &Value| kind == "ClusterServiceVersion";
        let mut versions = all.filter(|it| it.get("kind").is_some_and(is_version));
        let version = versions.next().expect("a ClusterServiceVersion");
        assert!(versions.next().is_none(), "a bundle has one");
        version
    }
}

fn helm() -> PathBuf {
    Tools::ensure_helm().expect("helm")
}

/// The objects of the chart in one namespace with Argo CD, without those that only Helm runs.
fn chart() -> Vec<Value> {
    let chart = lab::helm::chart();
    let sets = "argocd.namespace=argocd,uninstall.enabled=false,placementGenerator.enabled=false";
    let output = Command::new(helm())
        .args(["template", "argocd-agent-addon"])
        .arg(chart)
        .args(["--namespace", "argocd", "--set", sets])
        .output()
        .expect("helm template");
    assert!(output.status.success(), "{output:?}");
    let rendered = String::from_utf8_lossy(&output.stdout).into_owned();
    let documents = rendered.split("\n---\n");
    let objects = documents.map(|it| serde_saphyr::from_str(it).expect("YAML"));
    objects.collect()
}

#[test]
fn bundle_has_the_structure_of_registry_v1() {
    let bundle = Bundle::made();
    let annotations: Value =
        serde_saphyr::from_str(&bundle.file("metadata/annotations.yaml")).expect("YAML");
    let annotations = annotations["annotations"].as_object().expect("annotations");
    for (name, value) in [
        ("mediatype.v1", "registry+v1"),
        ("manifests.v1", "manifests/"),
        ("metadata.v1", "metadata/"),
        ("package.v1", "argocd-agent-addon"),
        ("channels.v1", "alpha"),
        ("channel.default.v1", "alpha"),
    ] {
        assert_eq!(annotations[&format!("{PREFIX}{name}")], value, "{name}");
    }
    let dockerfile = bundle.file("bundle.Dockerfile");
    let labels = dockerfile
        .lines()
        .filter_map(|it| it.strip_prefix("LABEL "));
    let labels = labels.filter_map(|it| it.split_once('='));
    let labels: BTreeMap<_, _> = labels.map(|(key, value)| (key, json!(value))).collect();
    let expected = annotations
        .iter()
        .map(|(key, value)| (key.as_str(), value.clone()));
    assert_eq!(labels, expected.collect::<BTreeMap<_, _>>());
    for folder in ["manifests", "metadata"] {
        let copy = format!("\nCOPY {folder} /{folder}/\n");
        assert!(dockerfile.contains(&copy), "{copy}");
    }

    let mut services = BTreeSet::new();
    for (file, object) in bundle.objects() {
        let kind = object["kind"].as_str().expect("a kind");
        assert!(KINDS.contains(&kind), "{file}: {kind}");
        if kind != "ClusterServiceVersion" {
            let namespace = &object["metadata"]["namespace"];
            assert!(namespace.is_null(), "{file}: OLM sets it");
        }
        if kind == "Service" {
            services.insert(object["metadata"]["name"].to_string());
        }
    }
    let of_chart = chart().into_iter().filter(|it| it["kind"] == "Service");
    let of_chart: BTreeSet<_> = of_chart
        .map(|it| it["metadata"]["name"].to_string())
        .collect();
    assert_eq!(services, of_chart);
}

#[test]
fn cluster_service_version_has_the_required_fields() {
    let version = Bundle::made().version();
    let of_chart: Value =
        serde_saphyr::from_str(&text("manifests/hub/Chart.yaml")).expect("Chart.yaml");
    let number = of_chart["version"].as_str().expect("a version");
    assert_eq!(version["apiVersion"], "operators.coreos.com/v1alpha1");
    let name = format!("argocd-agent-addon.v{number}");
    assert_eq!(version["metadata"]["name"], name.as_str());
    let spec = &version["spec"];
    assert_eq!(spec["version"], number);
    let oldest = spec["minKubeVersion"].as_str().expect("a version");
    let oldest = format!(">={oldest}-0");
    assert_eq!(of_chart["kubeVersion"], oldest.as_str());
    for field in ["displayName", "description", "maturity"] {
        assert!(spec[field].is_string(), "{field}");
    }
    assert!(spec["provider"]["name"].is_string());
    let annotations = &version["metadata"]["annotations"];
    assert_eq!(annotations["capabilities"], "Basic Install");
    assert_eq!(annotations["categories"], "Integration & Delivery");

    let modes = spec["installModes"].as_array().expect("modes");
    let modes = modes
        .iter()
        .map(|it| (it["type"].as_str(), &it["supported"]));
    let modes: BTreeMap<_, _> = modes.collect();
    for (mode, supported) in [
        ("OwnNamespace", true),
        ("SingleNamespace", false),
        ("MultiNamespace", false),
        ("AllNamespaces", false),
    ] {
        assert_eq!(modes.get(&Some(mode)), Some(&&json!(supported)), "{mode}");
    }
    assert_eq!(modes.len(), 4);
    // OLM would look for another bundle with a CRD that is required.
    assert!(spec["customresourcedefinitions"].is_null());
    let apis = spec["nativeAPIs"].as_array().expect("APIs");
    for kind in ["ClusterManagementAddOn", "Application"] {
        assert!(apis.iter().any(|it| it["kind"] == kind), "{kind}");
    }
    assert_eq!(spec["install"]["strategy"], "deployment");
}

#[test]
fn cluster_service_version_deploys_the_hub_program_of_the_chart() {
    let version = Bundle::made().version();
    let install = &version["spec"]["install"]["spec"];
    let chart = chart();
    let of_kind = |kind: &str| {
        let kind = kind.to_owned();
        chart.iter().filter(move |it| it["kind"] == kind.as_str())
    };
    let mut deployment = of_kind("Deployment").next().expect("one").clone();
    let deployments = install["deployments"].as_array().expect("a list");
    assert_eq!(deployments.len(), 1);
    let deployed = &deployments[0];
    assert_eq!(deployed["name"], deployment["metadata"]["name"]);
    let container = &mut deployment["spec"]["template"]["spec"]["containers"][0];
    // The namespace of Argo CD is that of the installation.
    assert_eq!(container["args"][0], "--namespace=argocd");
    container["args"][0] = json!("--namespace=$(POD_NAMESPACE)");
    let image = container["image"].clone();
    assert_eq!(deployed["spec"], deployment["spec"]);

    let account = &deployment["spec"]["template"]["spec"]["serviceAccountName"];
    for (field, kind) in [
        ("clusterPermissions", "ClusterRole"),
        ("permissions", "Role"),
    ] {
        let permissions = install[field].as_array().expect("a list");
        assert_eq!(permissions.len(), 1, "{field}");
        assert_eq!(permissions[0]["serviceAccountName"], *account, "{field}");
        let rules = |object: &Value| object["rules"].as_array().cloned().expect("rules");
        let granted = rules(&permissions[0]);
        let of_chart: Vec<Value> = of_kind(kind).flat_map(rules).collect();
        assert_eq!(granted.len(), of_chart.len(), "{field}");
        for rule in &of_chart {
            assert!(granted.contains(rule), "{field}: {rule}");
        }
    }
    let related = version["spec"]["relatedImages"].as_array();
    let related = related.expect("images").iter().map(|it| &it["image"]);
    let agent = container_env(&deployment, "AGENT_IMAGE");
    assert_eq!(related.collect::<Vec<_>>(), [&image, &agent]);
}

/// The value of a variable of the first container.
fn container_env(deployment: &Value, name: &str) -> Value {
    let env = deployment.pointer("/spec/template/spec/containers/0/env");
    let mut env = env.and_then(Value::as_array).into_iter().flatten();
    let found = env.find(|it| it.get("name").is_some_and(|it| it == name));
    let value = found.and_then(|it| it.get("value"));
    value.cloned().expect(name)
}

/// A user finds the objects that a bundle cannot contain, and the order of an uninstallation.
#[test]
fn page_names_the_objects_that_a_bundle_cannot_contain() {
    let page = text("docs/releases.md");
    let (_, section) = page.split_once("\n## OLM bundle\n").expect("the section");
    for template in ["clustermanagementaddon", "addondeploymentconfig"] {
        let file = format!("templates/{template}.yaml");
        assert!(section.contains(&file), "{file}");
        assert!(root().join("manifests/hub").join(&file).exists(), "{file}");
    }
    assert!(section.contains("delete clustermanagementaddons argocd-agent-addon"));
}
