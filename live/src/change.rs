//! The bodies of changes by users: parsed, and serialized again for the object that was authorized.
//!
//! Between the authorization and the change, another object of the same name may replace the object. So each change has
//! the UID of the authorized object, and the API server rejects it for any other.

use serde_json::{Map, Value, json};

use crate::request::{Object, Query};

/// The kind of a patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchKind {
    /// RFC 6902.
    Json,
    /// RFC 7386.
    Merge,
    /// Kubernetes' own.
    Strategic,
    /// A server-side apply.
    Apply,
}

/// Why a change is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Bad {
    /// The content type is not that of a patch.
    #[error("the content type is not one of a patch")]
    Kind,
    /// The body is invalid.
    #[error("the body is not one of such a request: {0}")]
    Body(&'static str),
    /// With `copy` a client could copy a value to a visible field, and with `test` it could guess a value.
    #[error("a JSON patch could read a Secret; use a merge patch")]
    Reads,
    /// Argo CD needs server-side apply only to preview an object.
    #[error("server-side apply is allowed as a dry run only")]
    Applies,
    /// An object without an owner belongs to no Application.
    #[error("a created object needs an owner that belongs to an Application")]
    Unowned,
}

impl PatchKind {
    /// From a content type.
    pub fn of(content_type: &str) -> Result<Self, Bad> {
        let kind = content_type.split(';').next().unwrap_or_default().trim();
        let all = [Self::Json, Self::Merge, Self::Strategic, Self::Apply];
        let mut all = all.into_iter();
        all.find(|it| it.as_str() == kind).ok_or(Bad::Kind)
    }

    /// The content type.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Json => "application/json-patch+json",
            Self::Merge => "application/merge-patch+json",
            Self::Strategic => "application/strategic-merge-patch+json",
            Self::Apply => "application/apply-patch+yaml",
        }
    }

    /// The patch, for the object with this UID.
    pub fn tied(
        self,
        body: &[u8],
        uid: &str,
        subject: &Object,
        is_dry: bool,
    ) -> Result<Vec<u8>, Bad> {
        match self {
            Self::Json if subject.is_secret() => Err(Bad::Reads),
            Self::Json => operations(body, uid),
            Self::Merge | Self::Strategic => merge(body, uid),
            // YAML without a UID is safe: a dry run changes no object.
            Self::Apply if is_dry => Ok(body.to_vec()),
            Self::Apply => Err(Bad::Applies),
        }
    }
}

fn operations(body: &[u8], uid: &str) -> Result<Vec<u8>, Bad> {
    let Value::Array(mut operations) = read(body)? else {
        return Err(Bad::Body("a list of operations is wanted"));
    };
    let test = json!({ "op": "test", "path": "/metadata/uid", "value": uid });
    operations.insert(0, test);
    Ok(Value::Array(operations).to_string().into_bytes())
}

fn merge(body: &[u8], uid: &str) -> Result<Vec<u8>, Bad> {
    let mut patch = fields(read(body)?)?;
    let metadata = patch.entry("metadata").or_insert_with(|| json!({}));
    let metadata = metadata.as_object_mut();
    let metadata = metadata.ok_or(Bad::Body("its metadata is none"))?;
    metadata.insert("uid".to_owned(), json!(uid));
    Ok(Value::Object(patch).to_string().into_bytes())
}

/// The options of a deletion, for the object with this UID.
///
/// A client may also send them as parameters, which an API server ignores if there is a body. As the result always has a
/// body, it includes the options of the parameters: otherwise a dry run would delete the object.
pub fn deletion(body: &[u8], query: &Query, uid: &str) -> Result<Vec<u8>, Bad> {
    const KNOWN: [&str; 6] = [
        "kind",
        "apiVersion",
        "propagationPolicy",
        "gracePeriodSeconds",
        "orphanDependents",
        "dryRun",
    ];
    let mut given = parameters(query)?;
    if !body.is_empty() {
        given.extend(fields(read(body)?)?);
    }
    let mut preconditions = Map::from_iter([("uid".to_owned(), json!(uid))]);
    if let Some(asked) = given.remove("preconditions") {
        let asked_uid = asked.get("uid").and_then(Value::as_str);
        if asked_uid.is_some_and(|asked| asked != uid) {
            return Err(Bad::Body("it is about an object that is gone"));
        }
        let version = asked.get("resourceVersion").cloned();
        preconditions.extend(version.map(|it| ("resourceVersion".to_owned(), it)));
    }
    if given.keys().any(|name| !KNOWN.contains(&name.as_str())) {
        return Err(Bad::Body("there is an option that is not known"));
    }
    given.extend([
        ("kind".to_owned(), json!("DeleteOptions")),
        ("apiVersion".to_owned(), json!("v1")),
        ("preconditions".to_owned(), Value::Object(preconditions)),
    ]);
    Ok(Value::Object(given).to_string().into_bytes())
}

/// The options among the parameters, in the form of a body.
fn parameters(query: &Query) -> Result<Map<String, Value>, Bad> {
    let mut options = Map::new();
    for (name, value) in query.pairs() {
        let value = match name {
            "dryRun" => json!([value]),
            "gracePeriodSeconds" => {
                let seconds = value.parse::<i64>();
                json!(seconds.map_err(|_no_number| Bad::Body("gracePeriodSeconds is no number"))?)
            }
            "propagationPolicy" => json!(value),
            _ => continue,
        };
        options.insert(name.to_owned(), value);
    }
    Ok(options)
}

/// The object to create; must match the path.
pub fn creation(body: &[u8], subject: &Object) -> Result<Value, Bad> {
    let object = Value::Object(fields(read(body)?)?);
    let version = if subject.group.is_empty() {
        subject.version.clone()
    } else {
        format!("{}/{}", subject.group, subject.version)
    };
    if object.get("apiVersion").and_then(Value::as_str) != Some(&version) {
        return Err(Bad::Body("it is of another group or version than the path"));
    }
    let namespace = object.pointer("/metadata/namespace");
    let namespace = namespace.and_then(Value::as_str);
    if namespace.is_some_and(|it| subject.namespace.as_deref() != Some(it)) {
        return Err(Bad::Body("it is in another namespace than the path"));
    }
    Ok(object)
}

fn read(body: &[u8]) -> Result<Value, Bad> {
    serde_json::from_slice(body).map_err(|_not_json| Bad::Body("it is no JSON"))
}

fn fields(value: Value) -> Result<Map<String, Value>, Bad> {
    if let Value::Object(fields) = value {
        Ok(fields)
    } else {
        Err(Bad::Body("an object is wanted"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::Request;

    fn subject(target: &str) -> Object {
        let read = Request::parse("GET", target).unwrap();
        read.object().unwrap().clone()
    }

    fn deployment() -> Object {
        subject("/apis/apps/v1/namespaces/a/deployments/x")
    }

    fn secret() -> Object {
        subject("/api/v1/namespaces/a/secrets/x")
    }

    fn json_of(bytes: &[u8]) -> Value {
        serde_json::from_slice(bytes).unwrap()
    }

    #[test]
    fn a_patch_is_for_the_object_that_was_judged() {
        let tied = |kind: PatchKind, body: &str| {
            kind.tied(body.as_bytes(), "u1", &deployment(), false)
                .map(|bytes| json_of(&bytes))
        };
        for kind in [PatchKind::Merge, PatchKind::Strategic] {
            let patch = tied(kind, r#"{"spec":{"replicas":2}}"#).unwrap();
            assert_eq!(
                patch,
                json!({ "spec": { "replicas": 2 }, "metadata": { "uid": "u1" } })
            );
            let posing = tied(kind, r#"{"metadata":{"uid":"u2","labels":{"a":null}}}"#).unwrap();
            assert_eq!(
                posing,
                json!({ "metadata": { "uid": "u1", "labels": { "a": null } } })
            );
            for bad in ["", "[]", "7", r#"{"metadata":null}"#, r#"{"metadata":[]}"#] {
                assert!(matches!(tied(kind, bad), Err(Bad::Body(_))), "{bad}");
            }
        }
        let operations = tied(PatchKind::Json, r#"[{"op":"remove","path":"/spec"}]"#).unwrap();
        assert_eq!(operations[0]["op"], "test");
        assert_eq!(operations[0]["value"], "u1");
        assert_eq!(operations[1]["op"], "remove");
        assert!(tied(PatchKind::Json, "{}").is_err());
    }

    #[test]
    fn a_secret_is_not_read_by_patching_it() {
        let copies = br#"[{"op":"copy","from":"/data/password","path":"/metadata/annotations/x"}]"#;
        let refused = PatchKind::Json.tied(copies, "u1", &secret(), true);
        assert_eq!(refused, Err(Bad::Reads));
        assert!(PatchKind::Merge.tied(b"{}", "u1", &secret(), false).is_ok());
    }

    #[test]
    fn an_apply_changes_nothing() {
        let tied = |is_dry| PatchKind::Apply.tied(b"kind: Deployment", "u1", &deployment(), is_dry);
        assert_eq!(tied(false), Err(Bad::Applies));
        assert_eq!(tied(true).unwrap(), b"kind: Deployment");
    }

    #[test]
    fn content_types_are_the_four_of_patches() {
        for kind in [
            PatchKind::Json,
            PatchKind::Merge,
            PatchKind::Strategic,
            PatchKind::Apply,
        ] {
            assert_eq!(PatchKind::of(kind.as_str()), Ok(kind));
        }
        let with_more = "application/merge-patch+json; charset=utf-8";
        assert_eq!(PatchKind::of(with_more), Ok(PatchKind::Merge));
        for other in ["", "application/json", "application/apply-patch+cbor"] {
            assert_eq!(PatchKind::of(other), Err(Bad::Kind), "{other}");
        }
    }

    #[test]
    fn a_deletion_is_of_the_object_that_was_judged() {
        let none = Query::default();
        let options = json_of(&deletion(b"", &none, "u1").unwrap());
        assert_eq!(options["preconditions"], json!({ "uid": "u1" }));
        let asked = json!({
            "kind": "DeleteOptions",
            "apiVersion": "meta.k8s.io/v1",
            "propagationPolicy": "Foreground",
            "gracePeriodSeconds": 0,
            "preconditions": { "resourceVersion": "5" },
        });
        let options = json_of(&deletion(asked.to_string().as_bytes(), &none, "u1").unwrap());
        assert_eq!(options["propagationPolicy"], "Foreground");
        assert_eq!(options["gracePeriodSeconds"], 0);
        assert_eq!(
            options["preconditions"],
            json!({ "uid": "u1", "resourceVersion": "5" })
        );
        for bad in [
            r#"{"preconditions":{"uid":"u2"}}"#,
            r#"{"ignoreStoreReadErrorWithClusterBreakingPotential":true}"#,
            "[]",
            "k8s\u{0}",
        ] {
            assert!(deletion(bad.as_bytes(), &none, "u1").is_err(), "{bad}");
        }
    }

    #[test]
    fn deletion_parameters_are_preserved() {
        let target = "/apis/apps/v1/namespaces/a/deployments/x?timeout=5s&dryRun=All&gracePeriodSeconds=0&propagationPolicy=Orphan";
        let query = Request::parse("DELETE", target).unwrap().query;
        let wanted = json!({
            "kind": "DeleteOptions",
            "apiVersion": "v1",
            "dryRun": ["All"],
            "gracePeriodSeconds": 0,
            "propagationPolicy": "Orphan",
            "preconditions": { "uid": "u1" },
        });
        assert_eq!(json_of(&deletion(b"", &query, "u1").unwrap()), wanted);
        let options = deletion(br#"{"propagationPolicy":"Foreground"}"#, &query, "u1");
        let options = json_of(&options.unwrap());
        assert_eq!(options["propagationPolicy"], "Foreground");
        assert_eq!(options["dryRun"], wanted["dryRun"]);
        let soon = Query::from_iter([("gracePeriodSeconds".to_owned(), "soon".to_owned())]);
        assert!(deletion(b"", &soon, "u1").is_err());
    }

    #[test]
    fn created_object_must_match_the_path() {
        let jobs = subject("/apis/batch/v1/namespaces/a/jobs");
        let made = |object: Value| creation(object.to_string().as_bytes(), &jobs);
        let job = json!({ "apiVersion": "batch/v1", "kind": "Job", "metadata": { "name": "x" } });
        assert_eq!(made(job.clone()), Ok(job.clone()));
        for (path, value) in [
            ("/apiVersion", json!("apps/v1")),
            ("/apiVersion", json!(null)),
            ("/metadata", json!({ "name": "x", "namespace": "b" })),
        ] {
            let mut other = job.clone();
            *other.pointer_mut(path).unwrap() = value;
            assert!(made(other).is_err(), "{path}");
        }
        assert!(made(json!([])).is_err());
    }
}
