//! Maps an API server's answer to a write to an error.

use kube::core::Status;
use kube::core::response::StatusCause;
use runtime::error::{ErrorClass, classify_kube};

use crate::sync::api::Error;

/// The error of a value that is not an object.
pub(super) fn malformed(source: serde_json::Error) -> Error {
    Error::Refused(Box::new(source))
}

/// Maps a failure. The codes in `stale` mean that the writer's version is stale; a missing namespace is a 404 too, but
/// only for a create. An error about an immutable UID means that the object is another one.
pub(super) fn sorted(error: kube::Error, stale: &[u16]) -> Error {
    let error_class = if let kube::Error::Api(status) = &error {
        match status.code {
            code if stale.contains(&code) => return Error::Stale,
            422 if !stale.is_empty() && is_other_object(status) => return Error::Stale,
            404 if is_about_namespace(status) => return Error::NoNamespace(Box::new(error)),
            400 | 413 | 422 => return Error::Refused(Box::new(error)),
            // These may be transient: a namespace or a definition that is being created, an API server that has not
            // read its roles yet.
            403 | 404 => ErrorClass::Transient,
            _ => classify_kube(&error),
        }
    } else {
        classify_kube(&error)
    };
    Error::Failed {
        error_class,
        source: Box::new(error),
    }
}

/// Maps a failure of a JSON patch: the API answers a failed test or path like an invalid value, but without a cause.
pub(super) fn sorted_operations(error: kube::Error) -> Error {
    if let kube::Error::Api(status) = &error
        && status.code == 422
        && causes(status).is_empty()
    {
        return Error::Misfit(Box::new(error));
    }
    sorted(error, &[404, 409])
}

/// A definition that is missing is a 404 too, but not about a namespace.
fn is_about_namespace(status: &Status) -> bool {
    let details = status.details.as_ref();
    details.is_some_and(|details| details.kind == "namespaces")
}

fn is_other_object(status: &Status) -> bool {
    causes(status).iter().any(|it| it.field == "metadata.uid")
}

fn causes(status: &Status) -> &[StatusCause] {
    let details = status.details.as_ref();
    details.map_or(&[], |details| &details.causes)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn answer(code: u16, field: Option<&str>) -> kube::Error {
        let causes = field.map(|field| json!([{ "field": field, "reason": "FieldValueInvalid" }]));
        let status = serde_json::from_value(
            json!({ "code": code, "details": { "causes": causes.unwrap_or(json!([])) } }),
        )
        .unwrap();
        kube::Error::Api(Box::new(status))
    }

    #[test]
    fn a_missing_namespace_is_no_stale_cache() {
        let create = |code| sorted(answer(code, None), &[409]);
        let patch = |code| sorted(answer(code, None), &[404, 409]);
        assert!(matches!(
            create(404),
            Error::Failed {
                error_class: ErrorClass::Transient,
                ..
            }
        ));
        let missing = json!({ "code": 404, "details": { "kind": "namespaces", "name": "team-a" } });
        let missing = kube::Error::Api(Box::new(serde_json::from_value(missing).unwrap()));
        assert!(matches!(sorted(missing, &[409]), Error::NoNamespace(_)));
        assert!(matches!(create(409), Error::Stale));
        assert!(matches!(patch(404), Error::Stale));
    }

    #[test]
    fn an_invalid_value_is_not_mistaken_for_another_object() {
        let patch = |field| sorted(answer(422, field), &[404, 409]);
        assert!(matches!(patch(Some("metadata.uid")), Error::Stale));
        assert!(matches!(patch(Some("spec.project")), Error::Refused(_)));
        assert!(matches!(patch(None), Error::Refused(_)), "of a merge patch");
        let operations = |field| sorted_operations(answer(422, field));
        assert!(matches!(operations(None), Error::Misfit(_)));
        assert!(matches!(
            operations(Some("spec.project")),
            Error::Refused(_)
        ));
    }
}
