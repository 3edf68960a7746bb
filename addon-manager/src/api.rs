//! Requests to the hub's API: what several writers share.

use futures::{Stream, stream};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{
    Api, Client,
    api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, Preconditions},
};
use ocm::api::addon::Version;
use runtime::error::Chain;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::keys;

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
#[error("{action} {object}")]
pub struct ApiError {
    action: &'static str,
    object: String,
    /// The cause.
    pub source: Box<kube::Error>,
}

impl ApiError {
    /// A message with the next step, for errors that a retry does not resolve.
    pub fn needs_a_person(&self) -> Option<String> {
        let next = next_step(&self.source)?;
        Some(format!("{}; {next}", Chain(self)))
    }
}

/// The error of a request; the message is the action and the object.
pub fn failed(action: &'static str, object: &str) -> impl Fn(kube::Error) -> ApiError + use<> {
    let object = object.to_owned();
    move |source| ApiError {
        action,
        object: object.clone(),
        source: Box::new(source),
    }
}

/// The step that resolves an API error, for errors that a retry does not resolve.
pub fn next_step(error: &kube::Error) -> Option<&'static str> {
    let kube::Error::Api(status) = error else {
        return None;
    };
    if status.is_forbidden() {
        // A new program may need a permission that an old chart does not grant.
        return Some(
            "upgrade the Helm release: its chart grants this program the rights that it needs",
        );
    }
    // We write objects by name, so only the kind or the namespace can be missing.
    let no_kind = status.is_not_found();
    no_kind.then_some("install Argo CD on the hub, or set its namespace")
}

/// Lists the selected objects, page by page: `selected` bounds the size of a page.
pub fn pages<K>(
    api: Api<K>,
    selected: ListParams,
) -> impl Stream<Item = Result<Vec<K>, kube::Error>>
where
    K: Clone + DeserializeOwned + std::fmt::Debug,
{
    stream::try_unfold(Some(selected), move |page| {
        let api = api.clone();
        async move {
            let Some(page) = page else {
                return Ok(None);
            };
            let list = api.list(&page).await?;
            let more = list.metadata.continue_.filter(|token| !token.is_empty());
            let more = more.map(|token| page.continue_token(&token));
            Ok(Some((list.items, more)))
        }
    })
}

/// Reads an object by name with a list, for which a watch has the permission already.
pub async fn find<K>(api: &Api<K>, name: &str) -> Result<Option<K>, kube::Error>
where
    K: Clone + DeserializeOwned + std::fmt::Debug,
{
    let named = ListParams::default().fields(&format!("metadata.name={name}"));
    Ok(api.list(&named).await?.items.into_iter().next())
}

/// Writes annotations of a `ManagedClusterAddOn`, and returns its metadata; none if it is gone.
///
/// The UID is a precondition: the patch fails on a later object of the same name.
pub async fn annotate(
    client: &Client,
    version: Version,
    cluster: &str,
    uid: &str,
    annotations: &Value,
) -> Result<Option<ObjectMeta>, kube::Error> {
    let resource = version.managed_cluster_addons();
    let addons = Api::<DynamicObject>::namespaced_with(client.clone(), cluster, &resource);
    let patch = json!({ "metadata": { "uid": uid, "annotations": annotations } });
    let patched = addons
        .patch(keys::ADDON, &PatchParams::default(), &Patch::Merge(&patch))
        .await;
    match patched {
        Ok(patched) => Ok(Some(patched.metadata)),
        Err(error) if is_other_or_gone(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Deletes the object of this name with its UID as a precondition, and returns whether it existed. It is no error if another client deleted or
/// replaced it meanwhile.
pub async fn delete<K>(api: &Api<K>, name: &str, uid: Option<String>) -> Result<bool, kube::Error>
where
    K: Clone + DeserializeOwned + std::fmt::Debug,
{
    let only_this = DeleteParams::default().preconditions(Preconditions {
        uid,
        resource_version: None,
    });
    match api.delete(name, &only_this).await {
        Ok(_) => Ok(true),
        Err(error) if is_other_or_gone(&error) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Whether the object is gone, or replaced by another.
pub fn is_other_or_gone(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.is_not_found() || status.is_conflict())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permanent_api_errors_have_a_next_step_and_transient_ones_none() {
        let refused = |code: u16, reason: &str| {
            let status = kube::core::Status::failure("", reason).with_code(code);
            next_step(&kube::Error::Api(Box::new(status)))
        };
        assert!(
            refused(403, "Forbidden")
                .unwrap()
                .contains("upgrade the Helm release")
        );
        assert!(
            refused(404, "NotFound")
                .unwrap()
                .contains("install Argo CD")
        );
        assert_eq!(refused(409, "Conflict"), None);
        assert_eq!(refused(500, "InternalError"), None);
    }
}
