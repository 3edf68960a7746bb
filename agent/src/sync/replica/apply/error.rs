//! Failed writes, and how to react to them.

use protocol::ObjectKey;
use runtime::error::ErrorClass;

use super::WRITE_TIMEOUT;
use crate::sync::api;

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
    /// Who has to act.
    pub(in crate::sync::replica) const fn error_class(&self) -> ErrorClass {
        match self.write() {
            Some(api::Error::Failed { error_class, .. }) => *error_class,
            Some(api::Error::Refused(_)) => ErrorClass::Internal,
            Some(api::Error::NoNamespace(_)) => ErrorClass::User,
            Some(api::Error::Stale | api::Error::Misfit(_)) | None => ErrorClass::Transient,
        }
    }

    /// Whether the API server will never accept this value.
    pub(in crate::sync::replica) const fn is_final(&self) -> bool {
        matches!(self.write(), Some(api::Error::Refused(_)))
    }

    /// Whether the namespace does not exist.
    pub(in crate::sync::replica) const fn misses_namespace(&self) -> bool {
        matches!(self.write(), Some(api::Error::NoNamespace(_)))
    }

    /// Whether the cache was stale; a retry with a newer version may succeed.
    pub(in crate::sync::replica) const fn is_stale(&self) -> bool {
        matches!(
            self.write(),
            Some(api::Error::Stale | api::Error::Misfit(_))
        )
    }

    /// Whether the API server does not report if the object is another one or the value invalid.
    pub(in crate::sync::replica) const fn is_unclear(&self) -> bool {
        matches!(self.write(), Some(api::Error::Misfit(_)))
    }

    const fn write(&self) -> Option<&api::Error> {
        match self {
            Self::Write { source, .. } => Some(source),
            Self::Timeout { .. } => None,
        }
    }
}
