//! Maps an API server's answer to a write to an error.

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
    if is_code(&error, stale) || (!stale.is_empty() && is_other_object(&error)) {
        Error::Stale
    } else if is_missing_namespace(&error) {
        Error::NoNamespace(Box::new(error))
    } else if is_code(&error, &[400, 413, 422]) {
        Error::Refused(Box::new(error))
    } else {
        // 403 and 404 may be transient: a namespace or a definition that is being created, an API server that has not
        // read its roles yet.
        let error_class = if is_code(&error, &[403, 404]) {
            ErrorClass::Transient
        } else {
            classify_kube(&error)
        };
        Error::Failed {
            error_class,
            source: Box::new(error),
        }
    }
}

/// Maps a failure of a JSON patch: the API answers a failed test or path like an invalid value, but without a cause.
pub(super) fn sorted_operations(error: kube::Error) -> Error {
    if has_no_cause(&error) {
        Error::Misfit(Box::new(error))
    } else {
        sorted(error, &[404, 409])
    }
}

fn is_code(error: &kube::Error, codes: &[u16]) -> bool {
    matches!(error, kube::Error::Api(status) if codes.contains(&status.code))
}

/// A definition that is missing is a 404 too, but not about a namespace.
fn is_missing_namespace(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status)
        if status.code == 404 && status.details.as_ref().is_some_and(|it| it.kind == "namespaces"))
}

fn is_other_object(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status)
        if status.code == 422 && causes(status).iter().any(|it| it.field == "metadata.uid"))
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
