//! The hub's API for the sync engine: a trait, with implementations for Kubernetes and in memory.

use std::fmt::Debug;

use argocd::{Patch, global_projects::GlobalProjects};
use async_trait::async_trait;
use futures::future::BoxFuture;
use live::events::{self, Observed};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::domain::Key;

pub mod kube;
mod packed;

pub use packed::Packed;

#[cfg(any(test, feature = "testing"))]
pub use crate::testing::memory::{self, Memory};

/// Reads and writes the objects of the hub.
#[async_trait]
pub trait Store: Debug + Send + Sync + 'static {
    /// Reports every object of the kinds that are [`Watched`], and all changes, until the token is cancelled.
    ///
    /// Retries during outages. `report` is called in order for each kind and must be quick.
    fn watch(&self, report: Reporter, token: CancellationToken) -> BoxFuture<'static, ()>;

    /// Patches an object as it was in `version`; a [`WriteError::Conflict`] when it has changed since.
    ///
    /// Returns the object after the write.
    async fn patch(
        &self,
        kind: Watched,
        key: &Key,
        version: &str,
        patch: Patch,
    ) -> Result<Packed, WriteError>;

    /// Creates an object; a [`WriteError::Conflict`] when there is one of this name.
    ///
    /// Returns the object after the write.
    async fn create(&self, kind: Watched, object: &Value) -> Result<Packed, WriteError>;

    /// Deletes an object as it was in `version`; a [`WriteError::Conflict`] when it has changed since.
    async fn delete(
        &self,
        kind: Watched,
        key: &Key,
        uid: &str,
        version: &str,
    ) -> Result<(), WriteError>;

    /// The Events of a hub Application that mirror Events of its cluster.
    async fn events(&self, of: &Observed) -> Result<Vec<Value>, WriteError>;

    /// Writes an Event of an Application; a [`WriteError::Conflict`] when there is one of this name.
    async fn note(&self, of: &Observed, write: &events::Write) -> Result<(), WriteError>;

    /// The identity of this principal, created if it is missing.
    async fn principal_uid(&self) -> Result<String, WriteError>;
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
#[derive(Clone, Debug)]
pub enum Report {
    /// The current object, without its managed fields.
    Applied(Watched, Packed),
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
    /// The global projects; none until the first report, which comes before that of any project.
    GlobalProjects(GlobalProjects),
}

/// The watched kinds: Applications of all namespaces, everything else in the Argo CD namespace. Of Secrets only those
/// of repositories, and of `ConfigMap`s only the three with keys.
pub use protocol::Kind as Watched;

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
