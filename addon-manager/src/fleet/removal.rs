//! Releases hub Applications that wait for a cluster without an agent.

use std::pin::pin;

use futures::{Stream, TryStreamExt as _};
use kube::{
    Api, Client, ResourceExt as _,
    api::{DynamicObject, Patch, PatchParams},
};
use serde_json::{Value, json};

use super::applications;
use crate::api::{ApiError, failed};

/// Finalizers that make Argo CD wait for the cluster; a suffix after `/` may follow.
const ARGOCD_FINALIZERS: [&str; 3] = [
    "resources-finalizer.argocd.argoproj.io",
    "post-delete-finalizer.argocd.argoproj.io",
    "pre-delete-finalizer.argocd.argoproj.io",
];

/// Removes Argo CD's finalizers from the deleting Applications of a cluster.
///
/// No agent is left that could finish their deletion; the workload stays on the spoke, as always after an opt-out.
pub async fn release_applications(
    client: &Client,
    pages: impl Stream<Item = Result<Vec<DynamicObject>, ApiError>>,
) -> Result<(), ApiError> {
    let mut pages = pin!(pages);
    while let Some(page) = pages.try_next().await? {
        for application in &page {
            if let Some(patch) = released(application) {
                release(client, application, &patch).await?;
            }
        }
    }
    Ok(())
}

async fn release(
    client: &Client,
    application: &DynamicObject,
    patch: &Value,
) -> Result<(), ApiError> {
    let namespace = application.namespace().unwrap_or_default();
    let name = application.name_any();
    let object = format!("Application/{namespace}/{name}");
    let kind = applications::kind();
    let api = Api::<DynamicObject>::namespaced_with(client.clone(), &namespace, &kind);
    let params = PatchParams::default();
    match api.patch(&name, &params, &Patch::Merge(patch)).await {
        Ok(_) => {
            tracing::info!(%object, "released finalizers of a cluster that left");
            Ok(())
        }
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
        Err(error) => Err(failed("release", &object)(error)),
    }
}

/// The patch that removes Argo CD's finalizers from a deleting Application, if it has any.
fn released(application: &DynamicObject) -> Option<Value> {
    application.metadata.deletion_timestamp.as_ref()?;
    let finalizers = application.metadata.finalizers.as_ref()?;
    let kept: Vec<&String> = finalizers.iter().filter(|name| !is_argocds(name)).collect();
    // The resource version is a precondition, so that a finalizer that is added meanwhile is not lost.
    (kept.len() < finalizers.len()).then(|| {
        json!({ "metadata": {
            "finalizers": kept,
            "resourceVersion": application.metadata.resource_version,
        } })
    })
}

fn is_argocds(finalizer: &str) -> bool {
    let name = finalizer.split('/').next().unwrap_or(finalizer);
    ARGOCD_FINALIZERS.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn application(deleting: bool, finalizers: &[&str]) -> DynamicObject {
        let deletion = deleting.then_some("2026-11-20T12:00:00Z");
        serde_json::from_value(json!({
            "apiVersion": "argoproj.io/v1alpha1",
            "kind": "Application",
            "metadata": {
                "name": "a", "resourceVersion": "5",
                "finalizers": finalizers, "deletionTimestamp": deletion,
            },
            "spec": { "destination": { "name": "c" } },
        }))
        .unwrap()
    }

    #[test]
    fn removal_releases_only_argo_cd_finalizers() {
        let waits = application(
            true,
            &[
                "resources-finalizer.argocd.argoproj.io/background",
                "example.org/backup",
            ],
        );
        let patch = released(&waits).unwrap();
        assert_eq!(
            patch["metadata"]["finalizers"],
            json!(["example.org/backup"])
        );
        assert_eq!(patch["metadata"]["resourceVersion"], "5");
    }

    #[test]
    fn an_application_that_is_not_deleting_is_not_touched() {
        let lives = application(false, &["resources-finalizer.argocd.argoproj.io"]);
        assert_eq!(released(&lives), None);
        assert_eq!(released(&application(true, &["example.org/backup"])), None);
    }
}
