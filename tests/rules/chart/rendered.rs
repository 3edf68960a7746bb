//! The chart as Helm renders it with some values.

use std::process::Command;

use lab::{Tools, helm};
use serde_json::Value;

pub(crate) const RELEASE: &str = "argocd-agent-addon";
pub(crate) const NAMESPACE: &str = "the-release";

/// Values that a golden file stands for, beside the defaults.
pub(crate) const GOLDEN: [(&str, &[&str]); 5] = [
    ("default", &[]),
    (
        "placements",
        &[
            "placement.enabled=true",
            "placement.rolloutStrategy.type=Progressive",
            "placement.rolloutStrategy.progressive.maxConcurrency=10%",
            "placement.tolerations[0].key=edge",
            "placement.tolerations[0].operator=Exists",
        ],
    ),
    (
        "placement-of-others",
        &[
            "placement.enabled=true",
            "placement.create=false",
            "placement.namespace=fleet",
            "placement.name=all",
        ],
    ),
    (
        "air-gapped",
        &[
            "images.registry=registry.example.org:5000/mirror/",
            "images.manager.tag=v9",
            "images.agent.digest=sha256:0123456789012345678901234567890123456789012345678901234567890123",
            "images.pullSecrets={pull}",
            "images.pullPolicy=Always",
            "agent.registries[0].mirror=registry.example.org:5000/mirror",
            "agent.registries[0].source=quay.io",
        ],
    ),
    (
        "everything",
        &[
            "argocd.namespace=gitops",
            "argocd.applicationNamespaces={team-a,team-b-*}",
            "argocd.configure=true",
            "principal.address=hub.example.org:8443",
            "principal.service.type=NodePort",
            "principal.service.port=8443",
            "principal.service.nodePort=30443",
            "principal.service.annotations.example\\.org/pool=edge",
            "agent.installNamespace=open-cluster-management-agent-addon",
            "agent.variables.LOG_LEVEL=debug",
            "agent.variables.ARGOCD_NAMESPACE=gitops",
            "agent.nodePlacement.nodeSelector.kind=infra",
            "agent.proxyConfig.httpsProxy=http://proxy.example.org:3128",
            "replicas=2",
            "certificateLife=48h",
            "monitoring.rules.enabled=true",
            "monitoring.rules.agents=true",
            "monitoring.rules.labels.release=prometheus",
            "monitoring.dashboards.enabled=true",
            "log.level=info\\,principal=debug",
            "tracing.address=otel.monitoring.svc:4317",
            "tracing.caConfigMap=otel-ca",
            "tracing.sampleRatio=0.1",
            "extraArgs={--leader-election=true}",
            "extraEnv[0].name=RUST_BACKTRACE,extraEnv[0].value=1",
            "serviceAccount.annotations.example\\.org/role=hub",
            "podAnnotations.example\\.org/scrape=yes",
            "podLabels.team=platform",
            "resources.limits.memory=256Mi",
            "nodeSelector.kind=infra",
            "tolerations[0].key=infra,tolerations[0].operator=Exists",
            "affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight=1",
            "topologySpreadConstraints[0].topologyKey=zone",
            "priorityClassName=system-cluster-critical",
            "podDisruptionBudget.enabled=false",
            "redisProxy.enabled=true",
            "redisProxy.tls=true",
            "redisProxy.networkPolicy=always",
            "ui.enabled=true",
            "placementGenerator.serviceAccount=gitops-applicationset-controller",
            "networkPolicy.enabled=true",
            "networkPolicy.metricsFrom[0].namespaceSelector.matchLabels.name=monitoring",
            "serviceMonitor.enabled=true",
            "uninstall.timeout=30m",
        ],
    ),
];

/// The output of Helm.
pub(crate) struct HelmOutput {
    pub(crate) success: bool,
    pub(crate) out: String,
    pub(crate) err: String,
}

pub(crate) fn run(arguments: &[&str], sets: &[&str]) -> HelmOutput {
    let program = Tools::ensure_helm().expect("helm");
    let home = tempfile::tempdir().expect("a directory");
    let mut command = Command::new(program);
    command.args(arguments).env_clear().env("HOME", home.path());
    for set in sets {
        command.args(["--set", set]);
    }
    let done = command.output().expect("helm runs");
    HelmOutput {
        success: done.status.success(),
        out: String::from_utf8_lossy(&done.stdout).into_owned(),
        err: String::from_utf8_lossy(&done.stderr).into_owned(),
    }
}

/// An API that the chart uses where the hub serves it; `helm template` knows no hub.
const OPTIONAL_API: &str = "admissionregistration.k8s.io/v1/ValidatingAdmissionPolicy";

pub(crate) fn template(sets: &[&str]) -> HelmOutput {
    template_for(&["--api-versions", OPTIONAL_API], sets)
}

/// Renders for a hub without optional APIs.
pub(crate) fn template_for_old_hub(sets: &[&str]) -> HelmOutput {
    template_for(&[], sets)
}

/// Renders with further arguments.
pub(crate) fn template_for(arguments: &[&str], sets: &[&str]) -> HelmOutput {
    let chart = helm::chart();
    let chart = helm::text(&chart).expect("a path");
    let command = ["template", RELEASE, chart, "--namespace", NAMESPACE];
    run(&[&command, arguments].concat(), sets)
}

/// The text of every object.
pub(crate) fn documents(sets: &[&str]) -> Vec<String> {
    let output = template(sets);
    assert!(output.success, "{}", output.err);
    let parts = output
        .out
        .split("\n---\n")
        .map(|it| it.trim_start_matches("---\n").to_owned());
    parts.filter(|part| part.contains("\nkind: ")).collect()
}

pub(crate) fn parsed(document: &str) -> Value {
    serde_saphyr::from_str(document).unwrap_or_else(|error| panic!("{error}:\n{document}"))
}

pub(crate) fn objects(sets: &[&str]) -> Vec<Value> {
    documents(sets).iter().map(|it| parsed(it)).collect()
}

/// One object of a kind and a name.
pub(crate) fn one(sets: &[&str], kind: &str, name: &str) -> Value {
    let all = objects(sets).into_iter();
    let mut found: Vec<_> = all
        .filter(|it| it["kind"] == kind && it["metadata"]["name"] == name)
        .collect();
    assert_eq!(found.len(), 1, "{kind} {name}");
    found.remove(0)
}

/// Everything with every value set of the golden files.
pub(crate) fn everything() -> Vec<Value> {
    GOLDEN.iter().flat_map(|(_, sets)| objects(sets)).collect()
}

/// The Pods, be they on their own or in a Deployment or a Job.
pub(crate) fn pods() -> Vec<(String, Value)> {
    let pod = |object: Value| {
        let name = format!("{} {}", object["kind"], object["metadata"]["name"]);
        let spec = match object["kind"].as_str()? {
            "Pod" => object["spec"].clone(),
            "Deployment" | "Job" => object["spec"]["template"]["spec"].clone(),
            _ => return None,
        };
        Some((name, spec))
    };
    everything().into_iter().filter_map(pod).collect()
}
