//! Failed requests to the hub's API.

use runtime::error::Chain;

use crate::hub;

/// Why a request for an object failed.
#[derive(Debug, thiserror::Error)]
#[error("{action} {object}")]
pub struct ApiError {
    action: &'static str,
    object: String,
    pub(super) source: Box<kube::Error>,
}

impl ApiError {
    /// A message with the next step, for errors that a retry does not resolve.
    pub fn needs_a_person(&self) -> Option<String> {
        let next = hub::next_step(&self.source)?;
        Some(format!("{}; {next}", Chain(self)))
    }
}

pub(super) fn failed(action: &'static str, object: String) -> impl FnOnce(kube::Error) -> ApiError {
    move |source| ApiError {
        action,
        object,
        source: Box::new(source),
    }
}
