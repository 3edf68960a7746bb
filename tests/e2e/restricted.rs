//! Namespaces in which Pod Security, built into kube-apiserver, admits restricted Pods only.

use anyhow::{Context as _, Result, ensure};
use kube::api::{DynamicObject, PostParams};
use lab::{
    product,
    steps::{At, Objects, enrol, workload},
    wait,
};
use serde_json::{Value, json};

use crate::{programs::Program, stage::Stage};

const ENFORCE: &str = "pod-security.kubernetes.io/enforce";
/// Values of the chart with which it has all its Jobs.
const ALL_JOBS: [&str; 2] = ["--set", "argocd.configure=true,redisProxy.enabled=true"];

/// Admits only restricted Pods to a namespace from now on. Pods that run there stay.
pub(crate) async fn restrict(cluster: &Objects, namespace: &str) -> Result<()> {
    label(cluster, namespace, json!("restricted")).await
}

/// Admits all Pods to a namespace again.
pub(crate) async fn release(cluster: &Objects, namespace: &str) -> Result<()> {
    label(cluster, namespace, Value::Null).await
}

async fn label(cluster: &Objects, namespace: &str, level: Value) -> Result<()> {
    let labels = json!({"metadata": {"labels": {ENFORCE: level}}});
    let labelled = cluster.merge(&At::namespace(namespace), labels).await;
    labelled.map(drop)
}

/// Checks that a namespace admits a restricted Pod, and that it refuses the same Pod as privileged one or as root.
pub(crate) async fn refuses_others(cluster: &Objects, namespace: &str) -> Result<()> {
    let admitted = admit(cluster, namespace, pod(&json!({}))).await;
    admitted.context("a restricted Pod is refused")?;
    for (security, part) in [
        (json!({"privileged": true}), "privileged"),
        (json!({"runAsUser": 0}), "runAsUser=0"),
    ] {
        let refused = admit(cluster, namespace, pod(&security)).await;
        let Err(kube::Error::Api(status)) = refused else {
            anyhow::bail!("{namespace} takes a Pod with {part}: {refused:?}");
        };
        let is_expected = status.message.contains("violates PodSecurity")
            && status.message.contains("restricted")
            && status.message.contains(part);
        ensure!(status.code == 403 && is_expected, "{status:?}");
    }
    Ok(())
}

/// A Pod as restricted as it must be, with further fields in the security context of its container.
fn pod(security: &Value) -> Value {
    let mut container = json!({
        "allowPrivilegeEscalation": false,
        "capabilities": {"drop": ["ALL"]},
    });
    if security["privileged"] == true {
        // The API refuses a privileged container without escalation before Pod Security looks at it.
        container["allowPrivilegeEscalation"] = true.into();
    }
    for (field, value) in security.as_object().into_iter().flatten() {
        container[field] = value.clone();
    }
    json!({
        "securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [{"name": "any", "image": workload::IMAGE, "securityContext": container}],
    })
}

/// Creates a Pod as far as admission; nothing is stored.
async fn admit(
    cluster: &Objects,
    namespace: &str,
    spec: Value,
) -> Result<DynamicObject, kube::Error> {
    let at = At::pod(namespace, "admitted");
    let (version, kind) = at.kind();
    let pod = json!({
        "apiVersion": version,
        "kind": kind,
        "metadata": {"name": at.name()},
        "spec": spec,
    });
    let params = PostParams {
        dry_run: true,
        ..Default::default()
    };
    let pod = serde_json::from_value(pod).map_err(kube::Error::SerdeError)?;
    cluster.api(&at).create(&params, &pod).await
}

/// The specs of all Pods of the chart, hooks and tests included, by kind and name.
async fn pods_of_the_chart(stage: &Stage) -> Result<Vec<(String, Value)>> {
    let rendered = product::rendered_with(&stage.lab.helm(), &ALL_JOBS).await?;
    let mut pods = Vec::new();
    for document in rendered.split("\n---\n") {
        let object: Value =
            serde_saphyr::from_str(document).with_context(|| format!("read YAML:\n{document}"))?;
        let kind = object["kind"].as_str().unwrap_or_default();
        let mut spec = match kind {
            "Pod" => object["spec"].clone(),
            "Deployment" | "Job" => object["spec"]["template"]["spec"].clone(),
            _ => continue,
        };
        // Those of hooks exist only while the hooks run.
        spec["serviceAccountName"] = "default".into();
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        pods.push((format!("{kind} {name}"), spec));
    }
    Ok(pods)
}

/// The hub program and the agent run again after their Pods have gone, in namespaces that admit restricted Pods only; the
/// Pods of the chart's hooks are admitted, too. Privileged Pods and Pods of root are refused there.
pub(crate) async fn our_pods_run_where_pod_security_is_restricted(stage: &Stage) -> Result<()> {
    stage.enrolled(1).await?;
    let places = [
        (Program::Manager, &stage.hub, product::NAMESPACE),
        (Program::Agent(1), stage.spoke(1), enrol::AGENT_NAMESPACE),
    ];
    for (program, cluster, namespace) in places {
        restrict(cluster, namespace).await?;
        refuses_others(cluster, namespace).await?;
        let before = program.running(stage).await?;
        program.drain(stage).await?;
        let look = || program.running(stage);
        let what = format!("{program:?} runs again");
        wait::until(&what, look, |now| *now != before).await?;
    }
    enrol::until_available(&stage.hub, "spoke1").await?;

    let pods = pods_of_the_chart(stage).await?;
    let jobs = pods.iter().filter(|(name, _)| name.starts_with("Job "));
    ensure!(jobs.count() > 1, "{pods:?}");
    for (name, spec) in pods {
        let admitted = admit(&stage.hub, product::NAMESPACE, spec).await;
        admitted.with_context(|| format!("the Pod of {name}"))?;
    }
    for (_, cluster, namespace) in places {
        release(cluster, namespace).await?;
    }
    Ok(())
}
