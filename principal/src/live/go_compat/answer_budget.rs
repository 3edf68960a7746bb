//! Bounds the memory of responses that are not passed on yet, by cluster.

use std::sync::Arc;

use bytes::Bytes;
use http::Response;
use http_body::Frame;
use http_body_util::{BodyExt as _, combinators::UnsyncBoxBody};
use tokio::sync::Semaphore;

use crate::live::tunnel::{Body, NotAnswered};

/// Bytes of responses of one cluster, as received and as passed on.
pub(super) const MAX_BYTES: u32 = 64 << 20;

/// The budget for the responses of one cluster.
#[derive(Debug)]
pub(super) struct AnswerBudget(Arc<Semaphore>);

impl Default for AnswerBudget {
    fn default() -> Self {
        let all = usize::try_from(MAX_BYTES).unwrap_or(Semaphore::MAX_PERMITS);
        Self(Arc::new(Semaphore::new(all)))
    }
}

impl AnswerBudget {
    /// Takes budget for a response, until it is dropped. An empty one exceeded the message limit.
    pub(super) fn take(&self, answer: Bytes) -> Result<Bytes, NotAnswered> {
        if answer.is_empty() {
            return Err(NotAnswered::TooLarge);
        }
        let size = u32::try_from(answer.len()).unwrap_or(u32::MAX);
        let taken = Arc::clone(&self.0).try_acquire_many_owned(size.saturating_mul(2));
        let with = taken.map_err(|_full| NotAnswered::Busy)?;
        Ok(Bytes::from_owner(WithPermit {
            data: answer,
            _with: with,
        }))
    }

    /// Bytes that are left.
    #[cfg(test)]
    pub(super) fn left(&self) -> usize {
        self.0.available_permits()
    }
}

/// Bytes that keep a permit until they are dropped.
struct WithPermit<T> {
    data: Bytes,
    _with: T,
}

impl<T> AsRef<[u8]> for WithPermit<T> {
    fn as_ref(&self) -> &[u8] {
        &self.data
    }
}

/// Keeps the budget of the original bytes until the response is passed on.
pub(super) fn hold_budget(response: Response<Body>, answer: Bytes) -> Response<Body> {
    let hold = move |data| {
        let with = answer.clone();
        Bytes::from_owner(WithPermit { data, _with: with })
    };
    let hold = move |frame: Frame<Bytes>| frame.map_data(&hold);
    response.map(|body| UnsyncBoxBody::new(body.map_frame(hold)))
}
