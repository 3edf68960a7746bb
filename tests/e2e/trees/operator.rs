//! The redis of an Argo CD on the hub that an operator installed.

use anyhow::{Result, ensure};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use lab::{
    product,
    redis::Client,
    steps::{At, enrol::ARGOCD, objects::is_rolled_out},
    wait,
};
use serde_json::{Value, json};

use super::{client, with_proxy};
use crate::stage::Stage;

const INSTANCE: &str = "openshift-gitops";
const REDIS: &str = "openshift-gitops-redis";
const SECRET: &str = "openshift-gitops-redis-initial-password";
const FIRST: &str = "of-the-operator";
const SECOND: &str = "of-the-operator-later";
/// A key of the hub, which the redis proxy forwards.
const KEY: &str = "app|details|of-the-hub";

/// The hub program finds the Service and the Secret of an operator's redis by their names and their owner, forwards to it,
/// and accepts a new password soon after the Secret has it.
pub(crate) async fn hub_program_finds_the_redis_of_an_operator(stage: &Stage) -> Result<()> {
    let hub = &stage.hub;
    let objects = install(stage).await?;
    with_proxy(stage).await?;
    let mut through_proxy = until_accepted(stage, FIRST).await?;
    through_proxy.ask(&["SET", KEY, "value"]).await?;
    let service = hub.read(&At::service(ARGOCD, REDIS)).await?;
    let address = service["spec"]["clusterIP"].as_str().unwrap_or_default();
    let mut direct = Client::at((address, 6379), FIRST).await?;
    let stored = direct.ask(&["GET", KEY]).await?;
    ensure!(stored.as_bytes() == Some(b"value"), "{stored:?}");

    // As after a rotation: the Secret first, then redis.
    hub.apply(&At::secret(ARGOCD, SECRET), password(SECOND))
        .await?;
    direct
        .ask(&["CONFIG", "SET", "requirepass", SECOND])
        .await?;
    let mut rotated = until_accepted(stage, SECOND).await?;
    let found = rotated.ask(&["GET", KEY]).await?;
    ensure!(found.as_bytes() == Some(b"value"), "{found:?}");
    let old = client(stage, FIRST).await.err().map(|it| it.to_string());
    ensure!(
        old.is_some_and(|it| it.contains("WRONGPASS")),
        "the old password is accepted"
    );

    for at in &objects {
        hub.delete(at).await?;
    }
    product::upgrade(&stage.lab.helm(), &["--wait"])
        .await
        .map(drop)
}

/// Waits until the redis proxy accepts this password.
async fn until_accepted(stage: &Stage, password: &str) -> Result<Client> {
    let look = async || {
        let tried = client(stage, password).await;
        Ok(tried.map_err(|it| format!("{it:#}")))
    };
    let accepted = wait::until("the password is accepted", look, Result::is_ok).await?;
    accepted.map_err(anyhow::Error::msg)
}

fn password(text: &str) -> Value {
    json!({"data": {"admin.password": STANDARD.encode(text)}})
}

/// A redis with the names, labels and owner that argocd-operator gives it. There is no such owner: the API server does not know
/// its kind, so the garbage collector keeps the Service.
async fn install(stage: &Stage) -> Result<[At; 3]> {
    let hub = &stage.hub;
    let argocd = stage
        .spoke(1)
        .read(&At::deployment(ARGOCD, "argocd-redis"))
        .await?;
    let image = &argocd["spec"]["template"]["spec"]["containers"][0]["image"];
    let pod_labels = json!({"app.kubernetes.io/name": REDIS});
    let arguments = [
        "--save",
        "",
        "--appendonly",
        "no",
        "--dir",
        "/data",
        "--requirepass",
        FIRST,
    ];
    let pod = json!({
        "terminationGracePeriodSeconds": 5,
        "containers": [{
            "name": "redis", "image": image, "args": arguments,
            "volumeMounts": [{"name": "data", "mountPath": "/data"}],
        }],
        "volumes": [{"name": "data", "emptyDir": {}}],
    });
    let deployment = json!({"spec": {
        "replicas": 1, "selector": {"matchLabels": pod_labels},
        "template": {"metadata": {"labels": pod_labels}, "spec": pod},
    }});
    let owner = json!({
        "apiVersion": "argoproj.io/v1beta1", "kind": "ArgoCD", "name": INSTANCE,
        "uid": "b2b5f2a4-8f0a-4f7f-9b0e-6a3c0f0d3a11",
    });
    let service = json!({
        "metadata": {
            "labels": {
                "app.kubernetes.io/part-of": "argocd", "app.kubernetes.io/managed-by": INSTANCE,
                "app.kubernetes.io/name": REDIS,
            },
            "ownerReferences": [owner],
        },
        "spec": {"selector": pod_labels, "ports": [{"name": "tcp-redis", "port": 6379}]},
    });
    let all = [
        At::secret(ARGOCD, SECRET),
        At::service(ARGOCD, REDIS),
        At::deployment(ARGOCD, REDIS),
    ];
    for (at, object) in all.iter().zip([password(FIRST), service, deployment]) {
        hub.apply(at, object).await?;
    }
    let [_, _, workload] = &all;
    hub.until(workload, "redis runs", wait::BOUND, is_rolled_out)
        .await?;
    Ok(all)
}
