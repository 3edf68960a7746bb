//! Errors of the SDK.

/// An error that ended a reconcile, or the SDK.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The hub does not serve the add-on API.
    #[error("the hub does not serve addon.open-cluster-management.io; is OCM installed?")]
    NoAddonApi,
    /// The discovery of the APIs that the hub serves failed.
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
    /// A method of the author's [`Addon`](super::Addon) failed.
    #[error("{hook} of cluster {cluster}")]
    Hook {
        /// The name of the method.
        hook: &'static str,
        /// The name of the cluster.
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
    /// A reconcile timed out.
    #[error("timed out after {} minutes", .0.as_secs().div_euclid(60))]
    Overdue(std::time::Duration),
    /// A watch ended; it should run until shutdown.
    #[error("the watch of {0} ended")]
    WatchEnded(&'static str),
    /// A task of the SDK panicked.
    #[error("a task of the SDK panicked")]
    Panicked,
}

impl Error {
    /// The error of a failed write, for `map_err`.
    pub(crate) fn write(action: &'static str, object: String) -> impl FnOnce(kube::Error) -> Self {
        move |source| Self::Write {
            action,
            object,
            source: Box::new(source),
        }
    }

    /// The error of a failed read, for `map_err`.
    pub(crate) fn read(object: String) -> impl FnOnce(kube::Error) -> Self {
        move |source| Self::Read {
            object,
            source: Box::new(source),
        }
    }

    /// A word for metrics.
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::NoAddonApi => "NoAddonApi",
            Self::Discover(_) => "DiscoveryFailed",
            Self::Write { .. } => "WriteFailed",
            Self::Read { .. } => "ReadFailed",
            Self::Hook { .. } => "HookFailed",
            Self::Sign { .. } => "SignFailed",
            Self::Overdue(_) => "TookTooLong",
            Self::WatchEnded(_) => "WatchEnded",
            Self::Panicked => "Panicked",
        }
    }

    /// Whether another writer was first; the next reconcile resolves it.
    pub fn is_conflict(&self) -> bool {
        match self {
            Self::Write { source, .. } | Self::Read { source, .. } => {
                matches!(source.as_ref(), kube::Error::Api(status) if status.is_conflict())
            }
            _other => false,
        }
    }

    /// Whether the hub timed out or was unavailable, so that a retry may succeed.
    pub fn is_transient(&self) -> bool {
        if matches!(self, Self::Overdue(_)) {
            return true;
        }
        let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(self);
        while let Some(error) = cause {
            if let Some(error) = error.downcast_ref::<kube::Error>() {
                return is_silence(error);
            }
            // `source()` of a boxed error returns the box.
            if let Some(error) = error.downcast_ref::<Box<kube::Error>>() {
                return is_silence(error);
            }
            cause = error.source();
        }
        false
    }

    /// The error and its causes in one line.
    pub fn chain(&self) -> String {
        chain(self)
    }
}

/// The result of a request for an object; `None` if the object is gone.
pub(crate) fn unless_gone<T>(result: kube::Result<T>) -> kube::Result<Option<T>> {
    match result {
        Ok(object) => Ok(Some(object)),
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

fn is_silence(error: &kube::Error) -> bool {
    if let kube::Error::Api(status) = error {
        return status.code >= 500 || status.code == 429;
    }
    matches!(error, kube::Error::HyperError(_) | kube::Error::Service(_))
}

/// An error and its causes in one line, without causes that the text already contains.
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

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    fn write(source: kube::Error) -> Error {
        Error::Write {
            action: "apply",
            object: "x".to_owned(),
            source: Box::new(source),
        }
    }

    fn answer(code: u16) -> kube::Error {
        kube::Error::Api(Status::failure("m", "R").with_code(code).boxed())
    }

    #[test]
    fn an_unavailable_hub_is_transient_and_a_refusal_is_not() {
        let refused = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
        let silent = || kube::Error::Service(Box::new(std::io::Error::other("refused")));
        assert!(write(kube::Error::Service(Box::new(refused))).is_transient());
        assert!(write(answer(503)).is_transient());
        assert!(!write(answer(403)).is_transient());
        let hook = |source| Error::Hook {
            hook: "after_removal",
            cluster: "c".to_owned(),
            source,
        };
        assert!(hook(Box::new(write(silent()))).is_transient());
        assert!(hook(Box::new(silent())).is_transient());
        assert!(!hook("own".into()).is_transient());
    }
}
