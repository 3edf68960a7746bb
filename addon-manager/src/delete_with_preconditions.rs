//! Deletes exactly the object that was looked at: never another that has come under its name since.

use kube::{
    Api,
    api::{DeleteParams, Preconditions},
};

/// Deletes the object of this name and UID. Whether it was there: that somebody else deleted it meanwhile, or has put
/// another in its place, is no error.
pub async fn delete<K>(api: &Api<K>, name: &str, uid: Option<String>) -> Result<bool, kube::Error>
where
    K: Clone + serde::de::DeserializeOwned + std::fmt::Debug,
{
    let only_this = DeleteParams {
        preconditions: Some(Preconditions {
            uid,
            resource_version: None,
        }),
        ..DeleteParams::default()
    };
    match api.delete(name, &only_this).await {
        Ok(_) => Ok(true),
        Err(error) if is_other_or_gone(&error) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Not there any more, or not the one that was looked at.
pub fn is_other_or_gone(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.is_not_found() || status.is_conflict())
}
