//! The spoke's API as a trait, so that simulations and benchmarks run without Kubernetes.

use std::fmt::Debug;
use std::sync::Arc;

use argocd::Patch;
use argocd::entries::Shared;
use argocd::masked::Masked;
use futures::future::BoxFuture;
use protocol::{Kind, ObjectKey};
use runtime::error::ErrorClass;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

#[cfg(any(test, feature = "testing"))]
pub use crate::testing::memory::{Memory, Snapshot, Writes};

/// Reads and writes the objects of the spoke.
pub trait Spoke: Debug + Send + Sync + 'static {
    /// Reports every object of a target and all changes, in order, until the token is cancelled.
    ///
    /// It waits for the end of outages; `report` must be quick.
    fn watch(
        &self,
        target: Target,
        report: Reporter,
        token: CancellationToken,
    ) -> BoxFuture<'static, ()>;

    /// Whether the spoke has an object of this name. Asks the API, so it also finds one whose labels hide it from watches.
    fn has<'a>(&'a self, key: &'a ObjectKey) -> Answer<'a, bool>;

    /// Whether the spoke accepts our identity. Asks the API: false only if it answers 401, not if it does not answer.
    ///
    /// It rejects a deleted Pod that still runs, as on a node that lost its connection.
    fn knows_us(&self) -> BoxFuture<'_, bool>;

    /// Creates an object and returns it as the API stored it.
    fn create<'a>(&'a self, key: &'a ObjectKey, object: &'a Value) -> Answer<'a, Value>;

    /// Patches the object with this UID and returns the result.
    fn patch<'a>(&'a self, key: &'a ObjectKey, uid: &'a str, patch: Patch) -> Answer<'a, Value>;

    /// Creates a namespace if it does not exist.
    fn make_namespace<'a>(&'a self, name: &'a str) -> Answer<'a, ()>;

    /// The further namespaces that Argo CD in this namespace watches, from its settings; none if they are not set.
    fn application_namespaces<'a>(&'a self, argocd: &'a str) -> Answer<'a, Option<String>>;

    /// The other field manager that last wrote spec or metadata, as opposed to the status; none if the object does not
    /// record one.
    fn last_writer<'a>(&'a self, key: &'a ObjectKey) -> Answer<'a, Option<String>>;

    /// Deletes the object with this UID. Returns the object if finalizers delay its end.
    fn delete<'a>(&'a self, key: &'a ObjectKey, uid: &'a str) -> Answer<'a, Option<Value>>;
}

/// The API's answer to a request.
pub type Answer<'a, T> = BoxFuture<'a, Result<T, Error>>;

/// The objects of one watch.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Target {
    /// Their kind.
    pub kind: Kind,
    /// Their namespace; none: all namespaces.
    pub namespace: Option<String>,
}

impl Target {
    /// Whether the watch includes this object.
    pub(crate) fn covers(&self, key: &ObjectKey) -> bool {
        let is_there = |namespace: &String| *namespace == key.namespace;
        key.kind == self.kind && self.namespace.as_ref().is_none_or(is_there)
    }
}

/// Receives the reports of a watch.
pub type Reporter = Arc<dyn Fn(Report) + Send + Sync>;

/// The `ConfigMap` of a kind that hub and spoke share.
pub(crate) const fn shared(kind: Kind) -> Option<Shared> {
    match kind {
        Kind::GpgKey => Some(Shared::GpgKeys),
        Kind::TlsCerts => Some(Shared::TlsCerts),
        Kind::SshKnownHosts => Some(Shared::SshKnownHosts),
        Kind::Application | Kind::AppProject | Kind::Repository => None,
    }
}

/// A report of a watch.
#[derive(Clone, derive_more::Debug)]
pub enum Report {
    /// The current object, without its managed fields.
    #[debug("Applied({:?})", Masked(_0))]
    Applied(Value),
    /// An object is gone.
    Gone {
        /// Its key.
        key: ObjectKey,
        /// Its UID.
        uid: String,
        /// The watch saw the deletion; otherwise a list lacks the object.
        is_seen: bool,
    },
    /// The initial list is complete.
    Synced,
    /// The API is back at an earlier state: the watch reports all objects again, perhaps in older versions.
    Rewound,
    /// The API does not serve this kind. Reported once, until the API serves it.
    NotServed,
}

type Source = Box<dyn std::error::Error + Send + Sync>;

/// Why a write failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The object is gone, changed or exists already: the caller's version is stale.
    #[error("the cached object is stale")]
    Stale,
    /// The operations do not fit; the API does not report whether the object is another one or the value is invalid.
    #[error("the patch does not apply to the current object")]
    Misfit(#[source] Source),
    /// The namespace does not exist.
    #[error("its namespace does not exist")]
    NoNamespace(#[source] Source),
    /// The API will never take this value.
    #[error(transparent)]
    Refused(Source),
    /// The write may succeed later.
    #[error("{}", source)]
    Failed {
        /// Who has to act.
        error_class: ErrorClass,
        /// The error of the client.
        source: Source,
    },
}
