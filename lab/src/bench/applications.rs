//! The Applications of a benchmark: created, changed and deleted many at a time.

use anyhow::{Context as _, Result};
use futures::{FutureExt as _, StreamExt as _, TryStreamExt as _, future::BoxFuture, stream};
use kube::api::{DeleteParams, ListParams};
use serde_json::{Value, json};

use crate::steps::{At, Objects};

/// The number of concurrent writes, which keeps the API server busy.
pub(super) const AT_ONCE: usize = 16;
/// The project of all of them.
pub(super) const PROJECT: &str = "everything";

/// Creates the project that permits every agent everything, with Applications in any namespace.
pub(super) async fn allow(hub: &Objects, namespace: &str) -> Result<()> {
    let body = json!({"spec": {
        "sourceRepos": ["*"],
        "sourceNamespaces": ["*"],
        "destinations": [{"name": "*", "server": "*", "namespace": "*"}],
    }});
    hub.apply(&At::project(namespace, PROJECT), body)
        .await
        .map(drop)
}

/// An Application for an agent, of a typical small size; nothing of it is really deployed.
pub(super) fn body(agent: &str) -> Value {
    json!({"spec": {
        "project": PROJECT,
        "source": {
            "repoURL": "https://git.example.com/team/deployments.git",
            "path": "overlays/production",
            "targetRevision": "v0",
        },
        "destination": {"name": agent, "namespace": "guestbook"},
        "syncPolicy": {"syncOptions": ["CreateNamespace=true"]},
    }})
}

/// A patch of the target revision.
pub(super) fn wanted(revision: &str) -> Value {
    json!({"spec": {"source": {"targetRevision": revision}}})
}

/// The status that Argo CD gives a healthy Application.
pub(super) fn status(revision: &str) -> Value {
    json!({
        "sync": {"status": "Synced", "revision": revision},
        "health": {"status": "Healthy"},
        "sourceType": "Kustomize",
        "summary": {"images": ["registry.example.com/team/guestbook:v5"]},
        "resources": [
            {"version": "v1", "kind": "Service", "namespace": "guestbook", "name": "ui",
             "status": "Synced", "health": {"status": "Healthy"}},
            {"group": "apps", "version": "v1", "kind": "Deployment", "namespace": "guestbook",
             "name": "ui", "status": "Synced", "health": {"status": "Healthy"}},
        ],
    })
}

/// Carries out writes, many at a time; the first error ends it.
pub(super) async fn all<'a>(
    writes: impl Iterator<Item = BoxFuture<'a, Result<Value>>>,
) -> Result<()> {
    let writes = stream::iter(writes).buffer_unordered(AT_ONCE);
    writes.map_ok(drop).try_collect().await
}

/// Creates Applications of an agent in its namespace on the hub.
pub(super) async fn make(hub: &Objects, agent: &str, names: &[String]) -> Result<()> {
    let make = |name: &String| {
        let at = At::application(agent, name);
        async move { hub.apply(&at, body(agent)).await }.boxed()
    };
    all(names.iter().map(make)).await
}

/// Gives Applications a status on their spoke, as Argo CD would.
pub(super) async fn report(
    spoke: &Objects,
    namespace: &str,
    names: &[String],
    revision: &str,
) -> Result<()> {
    let report = |name: &String| {
        let at = At::application(namespace, name);
        let patch = json!({ "status": status(revision) });
        async move { spoke.merge(&at, patch).await }.boxed()
    };
    all(names.iter().map(report)).await
}

/// Deletes all Applications of these namespaces.
pub(super) async fn sweep(cluster: &Objects, namespaces: &[String]) -> Result<()> {
    for namespace in namespaces {
        let applications = cluster.api(&At::application(namespace, ""));
        let swept = applications
            .delete_collection(&DeleteParams::default(), &ListParams::default())
            .await;
        swept
            .map(drop)
            .with_context(|| format!("empty {namespace}"))?;
    }
    Ok(())
}

/// `word-0`, `word-1` and so on.
pub(super) fn names(word: &str, count: usize) -> Vec<String> {
    (0..count)
        .map(|number| format!("{word}-{number}"))
        .collect()
}
