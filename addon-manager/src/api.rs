//! Requests to the hub's API: what several writers share.

use futures::{Stream, stream};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{
    Api, Client,
    api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, Preconditions},
    core::Status,
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
    let metadata = json!({ "uid": uid, "annotations": annotations });
    match patch_metadata(client, version, cluster, &metadata).await {
        Ok(patched) => Ok(Some(patched)),
        Err(error) if is_other_or_gone(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The outcome of [`annotate_unchanged`].
#[derive(Clone, Debug, PartialEq)]
pub enum Annotated {
    /// The annotations are written; the metadata after that.
    Written(Box<ObjectMeta>),
    /// Another client changed the object first, or replaced it. Nothing is written.
    Changed,
    /// The object is gone, or another one.
    Gone,
}

/// Writes annotations of a `ManagedClusterAddOn` of this UID, unless it has another resource version by now.
pub async fn annotate_unchanged(
    client: &Client,
    version: Version,
    cluster: &str,
    (uid, resource_version): (&str, &str),
    annotations: &Value,
) -> Result<Annotated, kube::Error> {
    let metadata = json!({
        "uid": uid, "resourceVersion": resource_version, "annotations": annotations,
    });
    match patch_metadata(client, version, cluster, &metadata).await {
        Ok(patched) => Ok(Annotated::Written(Box::new(patched))),
        Err(kube::Error::Api(status)) if status.is_conflict() => Ok(Annotated::Changed),
        Err(error) if is_other_or_gone(&error) => Ok(Annotated::Gone),
        Err(error) => Err(error),
    }
}

async fn patch_metadata(
    client: &Client,
    version: Version,
    cluster: &str,
    metadata: &Value,
) -> Result<ObjectMeta, kube::Error> {
    let resource = version.managed_cluster_addons();
    let addons = Api::<DynamicObject>::namespaced_with(client.clone(), cluster, &resource);
    let patch = Patch::Merge(json!({ "metadata": metadata }));
    let params = PatchParams::default();
    let patched = addons.patch(keys::ADDON, &params, &patch).await?;
    Ok(patched.metadata)
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
    let kube::Error::Api(status) = error else {
        return false;
    };
    status.is_not_found() || status.is_conflict() || is_other(status)
}

/// Whether an API server refuses a patch because the object has another UID: to it, the patch would change the UID.
fn is_other(status: &Status) -> bool {
    let causes = status.details.iter().flat_map(|it| &it.causes);
    status.is_invalid() && causes.map(|it| &it.field).any(|it| it == "metadata.uid")
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use http::{Request, Response};
    use kube::client::Body;

    use super::*;

    #[test]
    fn permanent_api_errors_have_a_next_step_and_transient_ones_none() {
        let refused = |code: u16, reason: &str| {
            let status = Status::failure("", reason).with_code(code);
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

    fn answer(code: u16, reason: &str, field: &str) -> Value {
        json!({
            "kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": "m",
            "details": { "causes": [{ "reason": "FieldValueInvalid", "message": "immutable", "field": field }] },
        })
    }

    /// A hub that answers every request like this, and the bodies that it gets.
    fn hub(code: u16, answer: Value) -> (Client, Arc<Mutex<Vec<Value>>>) {
        let bodies = Arc::new(Mutex::new(Vec::new()));
        let got = Arc::clone(&bodies);
        let service = tower::service_fn(move |request: Request<Body>| {
            let (got, answer) = (Arc::clone(&got), answer.to_string());
            async move {
                let body = request.into_body().collect_bytes().await.unwrap();
                got.lock()
                    .unwrap()
                    .push(serde_json::from_slice(&body).unwrap());
                let body = Body::from(answer.into_bytes());
                Response::builder().status(code).body(body)
            }
        });
        (Client::new(service, "default"), bodies)
    }

    #[test]
    fn an_api_server_answers_a_patch_with_another_uid_as_invalid() {
        let refused = |code, reason, field| {
            let status = serde_json::from_value(answer(code, reason, field)).unwrap();
            is_other_or_gone(&kube::Error::Api(Box::new(status)))
        };
        assert!(refused(422, "Invalid", "metadata.uid"));
        assert!(refused(409, "Conflict", ""));
        assert!(refused(404, "NotFound", ""));
        assert!(!refused(422, "Invalid", "metadata.annotations"));
        assert!(!refused(400, "BadRequest", "metadata.uid"));
        assert!(!refused(500, "InternalError", ""));
    }

    #[tokio::test]
    async fn annotations_are_written_to_the_version_that_was_read_only() {
        let written = json!({ "metadata": { "name": keys::ADDON, "resourceVersion": "8" } });
        let cases = [
            (200, written, Some(Annotated::Written(Box::default()))),
            (409, answer(409, "Conflict", ""), Some(Annotated::Changed)),
            (
                422,
                answer(422, "Invalid", "metadata.uid"),
                Some(Annotated::Gone),
            ),
            (404, answer(404, "NotFound", ""), Some(Annotated::Gone)),
            (422, answer(422, "Invalid", "spec"), None),
        ];
        for (code, answer, expected) in cases {
            let (client, bodies) = hub(code, answer);
            let annotations = json!({ keys::REVOKED: "stolen" });
            let object = ("uid", "7");
            let done =
                annotate_unchanged(&client, Version::V1Beta1, "c", object, &annotations).await;
            let done = done.ok().map(|done| match done {
                Annotated::Written(_) => Annotated::Written(Box::default()),
                Annotated::Changed | Annotated::Gone => done,
            });
            assert_eq!(done, expected, "{code}");
            let metadata = json!({
                "uid": "uid", "resourceVersion": "7", "annotations": annotations,
            });
            assert_eq!(*bodies.lock().unwrap(), [json!({ "metadata": metadata })]);
        }
    }
}
