//! Deletes an object with its UID as a precondition: never a later object of the same name.

use kube::{
    Api,
    api::{DeleteParams, Preconditions},
};

/// Deletes the object of this name and UID, and returns whether it existed. It is no error if another client deleted or
/// replaced it meanwhile.
pub async fn delete<K>(api: &Api<K>, name: &str, uid: Option<String>) -> Result<bool, kube::Error>
where
    K: Clone + serde::de::DeserializeOwned + std::fmt::Debug,
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
