//! Writes that failed, and what that means.

use kube::core::response::StatusCause;
use protocol::ObjectKey;
use runtime::error::{Blame, blame_kube};

use super::WRITE_TIMEOUT;
use crate::metrics::WriteKind;

/// A write that failed.
#[derive(Debug, thiserror::Error)]
pub(in crate::replica) enum Error {
    #[error("{write} {object}")]
    Write {
        write: &'static str,
        object: ObjectKey,
        source: Box<kube::Error>,
    },
    #[error("{write} {object}: no answer in {WRITE_TIMEOUT:?}")]
    Timeout {
        write: &'static str,
        object: ObjectKey,
    },
    #[error("{write} {object}: the cached object is not the newest")]
    Stale {
        write: &'static str,
        object: ObjectKey,
    },
    #[error("patch {object}: its operations do not fit what is there")]
    Misfit {
        object: ObjectKey,
        source: Box<kube::Error>,
    },
    #[error("{write} {object}: the object or the patch is malformed")]
    Malformed {
        write: &'static str,
        object: ObjectKey,
        source: serde_json::Error,
    },
}

impl Error {
    /// Whose move it is.
    pub(in crate::replica) fn blame(&self) -> Blame {
        match self {
            // What is missing or forbidden may be so for a moment only: a namespace or a definition that is on its way,
            // an API server that has not read its roles yet.
            Self::Write { source, .. } if is_code(source, &[403, 404]) => Blame::Weather,
            Self::Write { source, .. } => blame_kube(source),
            Self::Timeout { .. } | Self::Stale { .. } | Self::Misfit { .. } => Blame::Weather,
            Self::Malformed { .. } => Blame::Us,
        }
    }

    /// The API server will never take this value.
    pub(in crate::replica) fn is_final(&self) -> bool {
        match self {
            Self::Write { source, .. } => is_code(source, &[400, 413, 422]),
            Self::Malformed { .. } => true,
            Self::Timeout { .. } | Self::Stale { .. } | Self::Misfit { .. } => false,
        }
    }

    /// The cache was behind; the next look will see more.
    pub(in crate::replica) const fn is_stale(&self) -> bool {
        matches!(self, Self::Stale { .. } | Self::Misfit { .. })
    }

    /// The API server does not say whether the object is another one or the value bad.
    pub(in crate::replica) const fn is_unclear(&self) -> bool {
        matches!(self, Self::Misfit { .. })
    }

    /// Of a JSON patch: a test or a path that is not met is answered as a bad value would be, but
    /// without a cause.
    pub(super) fn of_json_patch(self) -> Self {
        if let Self::Write { object, source, .. } = self {
            if has_no_cause(&source) {
                return Self::Misfit { object, source };
            }
            return Self::Write {
                write: "patch",
                object,
                source,
            };
        }
        self
    }
}

/// A missing namespace is a 404 too, but only for a create. That a UID cannot be changed means that the
/// object is another one.
pub(super) fn is_stale(write: WriteKind, status: &kube::core::Status) -> bool {
    match (write, status.code) {
        (_, 409) | (WriteKind::Patch | WriteKind::Delete, 404) => true,
        (WriteKind::Patch, 422) => causes(status).iter().any(|it| it.field == "metadata.uid"),
        _ => false,
    }
}

fn is_code(error: &kube::Error, codes: &[u16]) -> bool {
    matches!(error, kube::Error::Api(status) if codes.contains(&status.code))
}

fn has_no_cause(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 422 && causes(status).is_empty())
}

fn causes(status: &kube::core::Status) -> &[StatusCause] {
    let details = status.details.as_ref();
    details.map_or(&[], |details| &details.causes)
}

#[cfg(test)]
mod tests {
    use protocol::Kind;
    use serde_json::json;

    use super::*;

    fn answer(code: u16, field: Option<&str>) -> kube::core::Status {
        let causes = field.map(|field| json!([{ "field": field, "reason": "FieldValueInvalid" }]));
        serde_json::from_value(
            json!({ "code": code, "details": { "causes": causes.unwrap_or(json!([])) } }),
        )
        .unwrap()
    }

    #[test]
    fn a_missing_namespace_is_no_stale_cache() {
        assert!(!is_stale(WriteKind::Create, &answer(404, None)));
        assert!(is_stale(WriteKind::Create, &answer(409, None)));
        assert!(is_stale(WriteKind::Patch, &answer(404, None)));
    }

    #[test]
    fn a_bad_value_is_not_taken_for_another_object() {
        assert!(is_stale(
            WriteKind::Patch,
            &answer(422, Some("metadata.uid"))
        ));
        assert!(!is_stale(
            WriteKind::Patch,
            &answer(422, Some("spec.project"))
        ));
        for (field, unclear) in [(Some("spec.project"), false), (None, true)] {
            let error = Error::Write {
                write: "patch",
                object: ObjectKey::new(Kind::Application, "argocd", "app"),
                source: Box::new(kube::Error::Api(Box::new(answer(422, field)))),
            };
            assert!(error.is_final(), "of a merge patch");
            let error = error.of_json_patch();
            assert_eq!((error.is_unclear(), error.is_final()), (unclear, !unclear));
        }
    }
}
