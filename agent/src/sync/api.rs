//! The spoke's API as the engine needs it: a trait, so that it can run on something else than Kubernetes.

use std::fmt::{self, Debug};
use std::sync::Arc;

use argocd::Patch;
use argocd::entries::Shared;
use argocd::masked::Masked;
use futures::future::BoxFuture;
use protocol::{Kind, ObjectKey};
use runtime::error::ErrorClass;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

mod kube;
mod memory;

pub use self::kube::Kubernetes;
pub use memory::{Memory, Writes};

/// Reads and writes what the spoke has.
pub trait Spoke: Debug + Send + Sync + 'static {
    /// Reports every object of a target and all changes, in order, until the token is cancelled.
    ///
    /// Outages are waited out; `report` must be quick.
    fn watch(
        &self,
        target: Target,
        report: Reporter,
        token: CancellationToken,
    ) -> BoxFuture<'static, ()>;

    /// Whether the spoke has an object of this name, asked now; also one whose labels keep watches from telling of it.
    fn has<'a>(&'a self, key: &'a ObjectKey) -> BoxFuture<'a, Result<bool, Error>>;

    /// Whether the spoke knows who we are, asked now: no only if it says so, and not when it does not answer.
    ///
    /// A Pod that was deleted and goes on running, on a node that does not hear of it, is not known any more.
    fn knows_us(&self) -> BoxFuture<'_, bool>;

    /// Makes an object and returns what the spoke has made of it.
    fn create<'a>(
        &'a self,
        key: &'a ObjectKey,
        object: &'a Value,
    ) -> BoxFuture<'a, Result<Value, Error>>;

    /// Patches the object with this UID and returns what the spoke has afterwards.
    fn patch<'a>(
        &'a self,
        key: &'a ObjectKey,
        uid: &'a str,
        patch: Patch,
    ) -> BoxFuture<'a, Result<Value, Error>>;

    /// Makes a namespace; it is fine if it is there already.
    fn make_namespace<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<(), Error>>;

    /// The namespaces besides its own that Argo CD looks at, as its settings have them; none if they do not say.
    fn application_namespaces<'a>(
        &'a self,
        argocd_namespace: &'a str,
    ) -> BoxFuture<'a, Result<Option<String>, Error>>;

    /// The field manager that last wrote what an owner writes, as opposed to a status, and is not ours; none if the
    /// object does not say.
    fn last_writer<'a>(
        &'a self,
        key: &'a ObjectKey,
    ) -> BoxFuture<'a, Result<Option<String>, Error>>;

    /// Deletes the object with this UID. Answers with what it is now, if something has to be done before it goes.
    fn delete<'a>(
        &'a self,
        key: &'a ObjectKey,
        uid: &'a str,
    ) -> BoxFuture<'a, Result<Option<Value>, Error>>;
}

/// What one watch is about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Target {
    /// What.
    pub kind: Kind,
    /// Where; none: everywhere.
    pub namespace: Option<String>,
}

impl Target {
    /// Whether an object is among those it is about.
    pub(crate) fn covers(&self, key: &ObjectKey) -> bool {
        let is_there = |namespace: &String| *namespace == key.namespace;
        key.kind == self.kind && self.namespace.as_ref().is_none_or(is_there)
    }
}

/// Takes in what a watch reports.
pub type Reporter = Arc<dyn Fn(Report) + Send + Sync>;

/// Which of the `ConfigMap`s a kind is that hub and spoke fill together.
pub(crate) const fn shared(kind: Kind) -> Option<Shared> {
    match kind {
        Kind::GpgKey => Some(Shared::GpgKeys),
        Kind::TlsCerts => Some(Shared::TlsCerts),
        Kind::SshKnownHosts => Some(Shared::SshKnownHosts),
        Kind::Application | Kind::AppProject | Kind::Repository => None,
    }
}

/// What a watch has seen.
#[derive(Clone)]
pub enum Report {
    /// An object is there and looks like this, without its managed fields.
    Applied(Value),
    /// An object is gone.
    Gone {
        /// What it was.
        key: ObjectKey,
        /// Which one it was.
        uid: String,
        /// Its deletion was watched, as opposed to found out because it is not there any more.
        is_seen: bool,
    },
    /// Everything that there is has been reported once.
    Synced,
    /// The API is back at an earlier state: everything is reported anew, perhaps in older versions.
    Rewound,
    /// The API does not serve this kind, as far as its answer tells. Told once, until it does.
    NotServed,
}

impl Debug for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Applied(object) => f.debug_tuple("Applied").field(&Masked(object)).finish(),
            Self::Gone { key, uid, is_seen } => f
                .debug_struct("Gone")
                .field("key", key)
                .field("uid", uid)
                .field("is_seen", is_seen)
                .finish(),
            Self::Synced => f.write_str("Synced"),
            Self::Rewound => f.write_str("Rewound"),
            Self::NotServed => f.write_str("NotServed"),
        }
    }
}

type Source = Box<dyn std::error::Error + Send + Sync>;

/// Why a write did not happen.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Gone, changed or there already: whoever asked did not know the newest.
    #[error("the cached object is stale")]
    Stale,
    /// The operations do not fit; the API does not say whether the object is another one or the value bad.
    #[error("the patch does not apply to the current object")]
    Misfit(#[source] Source),
    /// The namespace is not there.
    #[error("its namespace does not exist")]
    NoNamespace(#[source] Source),
    /// The API will never take this value.
    #[error(transparent)]
    Refused(Source),
    /// Not now.
    #[error("{}", source)]
    Failed {
        /// Whose move it is.
        error_class: ErrorClass,
        /// What happened.
        source: Source,
    },
}
