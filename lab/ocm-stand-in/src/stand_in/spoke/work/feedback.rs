//! Observes applied objects: whether they exist, and the values that the feedback rules of a work request.

use kube::api::DynamicObject;
use serde_json::{Value, json};

use super::{apply::Applier, json_path, rules};
use crate::{client, condition::Condition};

/// The observation of one manifest's object.
#[derive(Clone, Debug, Default)]
pub(super) struct Observed {
    /// None when it is unknown.
    pub(super) exists: Option<bool>,
    pub(super) values: Vec<Value>,
    /// Whether feedback was requested, and its errors.
    asked: bool,
    problems: Vec<String>,
    /// Why it is not known whether the object exists.
    unknown: Option<Unknown>,
}

/// Why it is unknown whether an object exists.
#[derive(Clone, Debug)]
enum Unknown {
    /// The spoke does not serve the kind.
    Kind,
    /// The API server returned an error other than not found.
    Refused(String),
}

impl Observed {
    /// An object without feedback that is there or is not.
    #[cfg(test)]
    pub(super) fn of(exists: bool) -> Self {
        Self {
            exists: Some(exists),
            ..Self::default()
        }
    }

    pub(super) fn availability(&self) -> Condition {
        match self.exists {
            Some(true) => Condition::of(
                "Available",
                true,
                "ResourceAvailable",
                "Resource is available",
            ),
            Some(false) => Condition::of(
                "Available",
                false,
                "ResourceNotAvailable",
                "Resource is not available",
            ),
            None => {
                let (reason, message) = match &self.unknown {
                    Some(Unknown::Kind) => (
                        "IncompleteResourceMeta",
                        "Resource meta is incomplete".to_owned(),
                    ),
                    Some(Unknown::Refused(why)) => (
                        "FetchingResourceFailed",
                        format!("Failed to fetch resource: {why}"),
                    ),
                    None => (
                        "FetchingResourceFailed",
                        "Failed to fetch resource".to_owned(),
                    ),
                };
                Condition::new("Available", "Unknown", reason, message)
            }
        }
    }

    pub(super) fn synced(&self) -> Option<Condition> {
        let kind = "StatusFeedbackSynced";
        if !self.asked {
            // OCM's agent reports that once it could have read values, which is when the object exists.
            return (self.exists == Some(true))
                .then(|| Condition::of(kind, true, "NoStatusFeedbackSynced", ""));
        }
        Some(if self.problems.is_empty() {
            Condition::of(kind, true, "StatusFeedbackSynced", "")
        } else {
            let message = format!(
                "Sync status feedback failed with error {}",
                self.problems.join("; ")
            );
            Condition::of(kind, false, "StatusFeedbackSyncFailed", message)
        })
    }
}

/// Observes the object of each manifest that a work's status lists once.
pub(super) async fn observe(
    applier: &mut Applier,
    spec: &Value,
    manifests: &[Value],
) -> Vec<Observed> {
    let mut all = Vec::with_capacity(manifests.len());
    for manifest in manifests {
        all.push(one(applier, spec, &manifest["resourceMeta"]).await);
    }
    all
}

async fn one(applier: &mut Applier, spec: &Value, meta: &Value) -> Observed {
    let name = meta["name"].as_str().unwrap_or_default();
    let Ok(api) = applier.api_of(meta).await else {
        return Observed {
            unknown: Some(Unknown::Kind),
            ..Observed::default()
        };
    };
    match api.get_opt(name).await {
        Ok(Some(live)) => read(&live, rules::feedback(spec, meta)),
        Ok(None) => Observed {
            exists: Some(false),
            ..Observed::default()
        },
        Err(error) => Observed {
            unknown: Some(Unknown::Refused(client::message_of(&error.into()))),
            ..Observed::default()
        },
    }
}

fn read(live: &DynamicObject, feedback: Option<rules::Feedback>) -> Observed {
    let asked = feedback.is_some();
    let rules::Feedback { paths, problems } = feedback.unwrap_or_default();
    let mut observed = Observed {
        exists: Some(true),
        asked,
        problems,
        ..Observed::default()
    };
    // A path may select metadata as well as other fields.
    let mut object = live.data.clone();
    object["metadata"] = serde_json::to_value(&live.metadata).unwrap_or_default();
    for (name, path) in paths {
        match json_path::first(&object, &path) {
            Ok(Some(value)) => match field(value) {
                Some(field) => observed
                    .values
                    .push(json!({ "name": name, "fieldValue": field })),
                None => observed
                    .problems
                    .push(format!("the type of {name} is not supported")),
            },
            // A missing field is not an error, only absent.
            Ok(None) => {}
            Err(problem) => observed.problems.push(problem),
        }
    }
    observed
}

fn field(value: &Value) -> Option<Value> {
    match value {
        Value::String(text) => Some(json!({ "type": "String", "string": text })),
        Value::Bool(truth) => Some(json!({ "type": "Boolean", "boolean": truth })),
        Value::Number(number) => number
            .as_i64()
            .map(|number| json!({ "type": "Integer", "integer": number })),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absent_fields_are_left_out_and_lists_are_a_problem() {
        let live: DynamicObject = serde_json::from_value(json!({
            "metadata": { "name": "a" },
            "status": { "replicas": 1, "list": [1] },
        }))
        .unwrap();
        let path = |name: &str, path: &str| (name.to_owned(), path.to_owned());
        let paths = vec![
            path("Replicas", ".status.replicas"),
            path("ReadyReplicas", ".status.readyReplicas"),
            path("Name", ".metadata.name"),
            path("List", ".status.list"),
        ];
        let problems = Vec::new();
        let observed = read(&live, Some(rules::Feedback { paths, problems }));
        assert_eq!(
            observed.values,
            [
                json!({ "name": "Replicas", "fieldValue": { "type": "Integer", "integer": 1 } }),
                json!({ "name": "Name", "fieldValue": { "type": "String", "string": "a" } }),
            ]
        );
        assert_eq!(
            observed.synced().unwrap().reason,
            "StatusFeedbackSyncFailed"
        );
        assert_eq!(observed.availability().status, "True");
    }
}
