//! The hub's API as the engine needs it: a trait, so that it can run on something else than Kubernetes.

use std::fmt::Debug;

use argocd::{Patch, masked::Masked};
use futures::future::BoxFuture;
use live::events::{self, Observed};
use runtime::error::ErrorClass;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::domain::Key;

pub mod kube;
pub mod memory;

pub use self::{kube::Kubernetes, memory::Memory};

/// Reads and writes what the hub has.
pub trait Store: Debug + Send + Sync + 'static {
    /// Reports every object of the kinds that are [`Watched`], and all changes, until the token is cancelled.
    ///
    /// Outages are waited out; `report` is called in order for each kind and must be quick.
    fn watch(&self, report: Reporter, token: CancellationToken) -> BoxFuture<'static, ()>;

    /// Patches an object as it was in `version`; a [`WriteError::Conflict`] when it has changed since.
    ///
    /// Returns what the hub has afterwards.
    fn patch<'a>(
        &'a self,
        kind: Watched,
        key: &'a Key,
        version: &'a str,
        patch: Patch,
    ) -> BoxFuture<'a, Result<Value, WriteError>>;

    /// Makes an object; a [`WriteError::Conflict`] when there is one of this name.
    ///
    /// Returns what the hub has afterwards.
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

    /// The Events that the hub has of an Application and that were made of those of its cluster.
    fn events<'a>(&'a self, of: &'a Observed) -> BoxFuture<'a, Result<Vec<Value>, WriteError>>;

    /// Writes an Event of an Application; a [`WriteError::Conflict`] when there is one of this name.
    fn note<'a>(
        &'a self,
        of: &'a Observed,
        write: &'a events::Write,
    ) -> BoxFuture<'a, Result<(), WriteError>>;

    /// The identity of this principal, made where it is missing.
    fn principal_uid(&self) -> BoxFuture<'_, Result<String, WriteError>>;
}

/// Takes in what a watch reports.
pub type Reporter = std::sync::Arc<dyn Fn(Report) + Send + Sync>;

/// What a watch has seen.
#[derive(Clone)]
pub enum Report {
    /// An object is there and looks like this, without its managed fields.
    Applied(Watched, Value),
    /// An object is gone.
    Deleted {
        /// What it was.
        kind: Watched,
        /// Where it was.
        key: Key,
        /// Which one it was.
        uid: String,
        /// Its deletion was watched, as opposed to found out because a list lacks it. Then it counts only together with
        /// the rest of that list, which ends with [`Report::Synced`].
        is_seen: bool,
    },
    /// Everything of this kind that there is has been reported once.
    Synced(Watched),
    /// The hub is back at an earlier state: everything of this kind is reported anew, perhaps in older versions.
    Rewound(Watched),
}

/// The kinds that are watched: Applications of all namespaces, everything else in the Argo CD namespace. Of Secrets
/// only those of repositories, and of `ConfigMap`s only the three with keys.
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

/// Why a write or a read did not happen.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The object has changed since it was read.
    #[error("conflict: the object changed")]
    Conflict,
    /// There is no such object.
    #[error("object not found")]
    NotFound,
    /// The operations do not fit what the hub has. That may only mean that it has changed since it was read.
    #[error("the patch does not fit: {0}")]
    Unfit(String),
    /// The hub does not take it, now or later.
    #[error("the hub rejected it: {0}")]
    Refused(String),
    /// The hub cannot be reached, or has no time.
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

    /// Whose move it is.
    pub const fn error_class(&self) -> ErrorClass {
        match self {
            Self::Conflict | Self::NotFound | Self::Unfit(_) | Self::Unavailable(_) => {
                ErrorClass::Transient
            }
            Self::Refused(_) => ErrorClass::User,
        }
    }
}
