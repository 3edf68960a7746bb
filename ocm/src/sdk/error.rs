//! What can go wrong in the SDK, and who can put it right.

/// Why a reconcile, or the whole SDK, could not go on.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The hub does not serve the add-on API.
    #[error("the hub does not serve addon.open-cluster-management.io; is OCM installed?")]
    NoAddonApi,
    /// The hub could not be asked what it serves.
    #[error("discover the add-on API")]
    Discover(#[source] Box<kube::Error>),
    /// An object could not be written.
    #[error("{action} {object}")]
    Write {
        /// The verb.
        action: &'static str,
        /// Kind, namespace and name.
        object: String,
        /// Why.
        source: Box<kube::Error>,
    },
    /// An object could not be read.
    #[error("read {object}")]
    Read {
        /// Kind, namespace and name.
        object: String,
        /// Why.
        source: Box<kube::Error>,
    },
    /// A hook of the author failed.
    #[error("{hook} of {cluster}")]
    Hook {
        /// Which.
        hook: &'static str,
        /// For which cluster.
        cluster: String,
        /// Why.
        source: super::HookError,
    },
    /// A certificate could not be made.
    #[error("sign certificate request {request}")]
    Sign {
        /// The request's name.
        request: String,
        /// Why.
        source: super::SigningCaError,
    },
    /// A watch ended, which it never should.
    #[error("the watch of {0} ended")]
    WatchEnded(&'static str),
    /// A task of the SDK panicked.
    #[error("a task of the SDK panicked")]
    Panicked,
}

impl Error {
    /// A word for metrics.
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::NoAddonApi => "NoAddonApi",
            Self::Discover(_) => "DiscoveryFailed",
            Self::Write { .. } => "WriteFailed",
            Self::Read { .. } => "ReadFailed",
            Self::Hook { .. } => "HookFailed",
            Self::Sign { .. } => "SignFailed",
            Self::WatchEnded(_) => "WatchEnded",
            Self::Panicked => "Panicked",
        }
    }

    /// Whether another writer was quicker; the next look at the world puts it right.
    pub fn is_conflict(&self) -> bool {
        match self {
            Self::Write { source, .. } | Self::Read { source, .. } => {
                matches!(source.as_ref(), kube::Error::Api(status) if status.is_conflict())
            }
            Self::NoAddonApi
            | Self::Discover(_)
            | Self::Hook { .. }
            | Self::Sign { .. }
            | Self::WatchEnded(_)
            | Self::Panicked => false,
        }
    }

    /// The error and its causes in one line.
    pub fn chain(&self) -> String {
        chain(self)
    }
}

/// An error and its causes in one line. A cause that has been quoted already is not repeated.
pub(crate) fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let next = error.to_string();
        if !text.contains(&next) {
            text.push_str(": ");
            text.push_str(&next);
        }
        cause = error.source();
    }
    text
}
