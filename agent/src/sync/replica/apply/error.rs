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
pub(in crate::sync::replica) enum Error {
    #[error("{write} {object}")]
    Write {
        write: &'static str,
        object: ObjectKey,
        source: api::Error,
    },
    #[error("{write} {object}: timed out after {WRITE_TIMEOUT:?}")]
    Timeout {
        write: &'static str,
        object: ObjectKey,
    },
}

impl Error {
    /// The pause before the next attempt.
    pub(super) const fn pause(&self) -> Duration {
        match self.error_class() {
            ErrorClass::Transient => TRANSIENT_PAUSE,
            ErrorClass::User | ErrorClass::Internal => PERSON_PAUSE,
        }
    }

    /// Who has to act.
    const fn error_class(&self) -> ErrorClass {
        match self.write() {
            Some(api::Error::Failed { error_class, .. }) => *error_class,
            Some(api::Error::Refused(_)) => ErrorClass::Internal,
            Some(api::Error::NoNamespace(_)) => ErrorClass::User,
            Some(api::Error::Stale | api::Error::Misfit(_)) | None => ErrorClass::Transient,
        }
    }

    /// Whether the API server will never accept this value.
    pub(super) const fn is_final(&self) -> bool {
        matches!(self.write(), Some(api::Error::Refused(_)))
    }

    /// Whether the namespace does not exist.
    pub(super) const fn misses_namespace(&self) -> bool {
        matches!(self.write(), Some(api::Error::NoNamespace(_)))
    }

    /// Whether the cache was stale; a retry with a newer version may succeed.
    pub(super) const fn is_stale(&self) -> bool {
        matches!(
            self.write(),
            Some(api::Error::Stale | api::Error::Misfit(_))
        )
    }

    /// Whether the API server does not report if the object is another one or the value invalid.
    pub(super) const fn is_unclear(&self) -> bool {
        matches!(self.write(), Some(api::Error::Misfit(_)))
    }

    const fn write(&self) -> Option<&api::Error> {
        match self {
            Self::Write { source, .. } => Some(source),
            Self::Timeout { .. } => None,
        }
    }
}
