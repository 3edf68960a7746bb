//! The hub's API for the sync engine: a trait, with implementations for Kubernetes and in memory.

use std::fmt::Debug;

use argocd::{Patch, masked::Masked};
use futures::future::BoxFuture;
use live::events::{self, Observed};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::domain::Key;

pub mod kube;

pub use self::kube::Kubernetes;
#[cfg(any(test, feature = "testing"))]
pub use crate::testing::memory::{self, Memory};

/// Reads and writes the objects of the hub.
pub trait Store: Debug + Send + Sync + 'static {
    /// Reports every object of the kinds that are [`Watched`], and all changes, until the token is cancelled.
    ///
    /// Retries during outages. `report` is called in order for each kind and must be quick.
    fn watch(&self, report: Reporter, token: CancellationToken) -> BoxFuture<'static, ()>;

    /// Patches an object as it was in `version`; a [`WriteError::Conflict`] when it has changed since.
    ///
    /// Returns the object after the write.
    fn patch<'a>(
        &'a self,
        kind: Watched,
        key: &'a Key,
        version: &'a str,
        patch: Patch,
    ) -> BoxFuture<'a, Result<Value, WriteError>>;

    /// Creates an object; a [`WriteError::Conflict`] when there is one of this name.
    ///
    /// Returns the object after the write.
    fn create<'a>(
        &'a self,
        kind: Watched,
        object: &'a Value,
    ) -> BoxFuture<'a, Result<Value, WriteError>>;

    /// Deletes an object as it was in `version`; a [`WriteError::Conflict`] when it has changed since.
    fn delete<'a>(
        &'a self,
        kind: Watched,
        key: &'a Key,
        uid: &'a str,
        version: &'a str,
    ) -> BoxFuture<'a, Result<(), WriteError>>;

    /// The Events of a hub Application that mirror Events of its cluster.
    fn events<'a>(&'a self, of: &'a Observed) -> BoxFuture<'a, Result<Vec<Value>, WriteError>>;

    /// Writes an Event of an Application; a [`WriteError::Conflict`] when there is one of this name.
    fn note<'a>(
        &'a self,
        of: &'a Observed,
        write: &'a events::Write,
    ) -> BoxFuture<'a, Result<(), WriteError>>;

    /// The identity of this principal, created if it is missing.
    fn principal_uid(&self) -> BoxFuture<'_, Result<String, WriteError>>;
}

/// The next write of an object.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Step {
    /// None: it is up to date, or not ours to write.
    Nothing,
    Create(Value),
    Patch(Patch),
    Delete,
}

/// Receives the reports of a watch.
pub type Reporter = std::sync::Arc<dyn Fn(Report) + Send + Sync>;

/// A report of a watch.
#[derive(Clone)]
pub enum Report {
    /// The current object, without its managed fields.
    Applied(Watched, Value),
    /// An object is gone.
    Deleted {
        /// Its kind.
        kind: Watched,
        /// Its name.
        key: Key,
        /// Its UID.
        uid: String,
        /// The watch saw the deletion. Otherwise a new list does not have the object; the report then counts only
        /// together with the rest of that list, which ends with [`Report::Synced`].
        is_seen: bool,
    },
    /// All objects of this kind have been reported once.
    Synced(Watched),
    /// The hub was restored to an earlier state: all objects of this kind are reported again, perhaps in older
    /// versions.
    Rewound(Watched),
}

/// The watched kinds: Applications of all namespaces, everything else in the Argo CD namespace. Of Secrets only those
/// of repositories, and of `ConfigMap`s only the three with keys.
pub use protocol::Kind as Watched;

impl Debug for Report {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Applied(kind, object) => f
                .debug_tuple("Applied")
                .field(kind)
                .field(&Masked(object))
                .finish(),
            Self::Deleted {
                kind,
                key,
                uid,
                is_seen,
            } => f
                .debug_struct("Deleted")
                .field("kind", kind)
                .field("key", key)
                .field("uid", uid)
                .field("is_seen", is_seen)
                .finish(),
            Self::Synced(kind) => f.debug_tuple("Synced").field(kind).finish(),
            Self::Rewound(kind) => f.debug_tuple("Rewound").field(kind).finish(),
        }
    }
}

/// Why a write or a read failed.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The object has changed since it was read.
    #[error("conflict: the object changed")]
    Conflict,
    /// There is no such object.
    #[error("object not found")]
    NotFound,
    /// The operations do not fit the hub's object, perhaps because it has changed since it was read.
    #[error("the patch does not fit: {0}")]
    Unfit(String),
    /// The hub rejects it, now and later.
    #[error("the hub rejected it: {0}")]
    Refused(String),
    /// The hub cannot be reached, or is overloaded.
    #[error("write to the hub")]
    Unavailable(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl WriteError {
    /// A word for metrics.
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::Conflict => "conflict",
            Self::NotFound => "not_found",
            Self::Unfit(_) => "unfit",
            Self::Refused(_) => "refused",
            Self::Unavailable(_) => "unavailable",
        }
    }
}
