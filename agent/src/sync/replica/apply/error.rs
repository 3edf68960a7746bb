//! Failed writes, and how to react to them.

use std::time::Duration;

use protocol::ObjectKey;
use runtime::error::ErrorClass;

use crate::sync::api;

/// Timeout of one write; a working API server answers in milliseconds.
pub(super) const WRITE_TIMEOUT: Duration = Duration::from_secs(20);
/// The pause while the API server is unavailable or busy.
pub(super) const TRANSIENT_PAUSE: Duration = Duration::from_secs(2);
/// The pause when an administrator has to act first, such as grant a right or install Argo CD.
const PERSON_PAUSE: Duration = Duration::from_secs(15);
/// The pause of a command that waits for another one to end.
pub(in crate::sync::replica) const BUSY_PAUSE: Duration = Duration::from_secs(1);

/// A write that failed.
#[derive(Debug, thiserror::Error)]
#[error("{write} {object}")]
pub(in crate::sync::replica) struct Error {
    pub(super) write: &'static str,
    pub(super) object: ObjectKey,
    pub(super) source: api::Error,
}

impl Error {
    /// The pause before the next attempt.
    pub(super) const fn pause(&self) -> Duration {
        let class = match &self.source {
            api::Error::Failed { error_class, .. } => *error_class,
            api::Error::Refused(_) => ErrorClass::Internal,
            api::Error::NoNamespace(_) => ErrorClass::User,
            api::Error::Stale | api::Error::Misfit(_) => ErrorClass::Transient,
        };
        match class {
            ErrorClass::Transient => TRANSIENT_PAUSE,
            ErrorClass::User | ErrorClass::Internal => PERSON_PAUSE,
        }
    }

    /// Whether the API server will never accept this value.
    pub(super) const fn is_final(&self) -> bool {
        matches!(self.source, api::Error::Refused(_))
    }

    /// Whether the namespace does not exist.
    pub(super) const fn misses_namespace(&self) -> bool {
        matches!(self.source, api::Error::NoNamespace(_))
    }

    /// Whether the cache was stale; a retry with a newer version may succeed.
    pub(super) const fn is_stale(&self) -> bool {
        matches!(self.source, api::Error::Stale | api::Error::Misfit(_))
    }

    /// Whether the API server does not report if the object is another one or the value invalid.
    pub(super) const fn is_unclear(&self) -> bool {
        matches!(self.source, api::Error::Misfit(_))
    }
}
