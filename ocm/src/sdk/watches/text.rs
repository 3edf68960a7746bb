//! An object as the hub's API server sends it, whose fields stay text until the watch reads it.

use std::{borrow::Cow, collections::BTreeMap};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{
    Resource,
    api::{ApiResource, DynamicObject, TypeMeta},
    core::DynamicResourceScope,
};
use serde::Deserialize;
use serde_json::{Map, Value, value::RawValue};

/// An object of a list or a watch, without managed fields.
///
/// The tree of an object takes ten times its text, and the watcher has a whole page of objects in memory. So only one tree
/// exists at a time.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "BTreeMap<String, Box<RawValue>>")]
pub(super) struct Text {
    metadata: ObjectMeta,
    fields: BTreeMap<String, Box<RawValue>>,
}

impl TryFrom<BTreeMap<String, Box<RawValue>>> for Text {
    type Error = serde_json::Error;

    fn try_from(mut fields: BTreeMap<String, Box<RawValue>>) -> Result<Self, Self::Error> {
        let metadata = fields.remove("metadata");
        let metadata = metadata.map(|text| serde_json::from_str(text.get()));
        let mut metadata: ObjectMeta = metadata.transpose()?.unwrap_or_default();
        metadata.managed_fields = None;
        Ok(Self { metadata, fields })
    }
}

impl Text {
    /// The object. A field deeper than the decoder's limit of recursion counts as absent, so that it does not hide the
    /// other objects of a list.
    pub(super) fn decoded(self) -> DynamicObject {
        let fields = self.fields.into_iter();
        let decoded = fields.filter_map(|(name, text)| {
            let value: Value = serde_json::from_str(text.get()).ok()?;
            Some((name, value))
        });
        let mut data: Map<String, Value> = decoded.collect();
        DynamicObject {
            types: types(&mut data),
            metadata: self.metadata,
            data: Value::Object(data),
        }
    }
}

/// Takes out the kind, which objects in lists of built-in kinds have not.
fn types(data: &mut Map<String, Value>) -> Option<TypeMeta> {
    let api_version = data.remove("apiVersion");
    let kind = data.remove("kind");
    Some(TypeMeta {
        api_version: api_version?.as_str()?.to_owned(),
        kind: kind?.as_str()?.to_owned(),
    })
}

impl Resource for Text {
    type DynamicType = ApiResource;
    type Scope = DynamicResourceScope;

    fn kind(kind: &ApiResource) -> Cow<'_, str> {
        DynamicObject::kind(kind)
    }

    fn group(kind: &ApiResource) -> Cow<'_, str> {
        DynamicObject::group(kind)
    }

    fn version(kind: &ApiResource) -> Cow<'_, str> {
        DynamicObject::version(kind)
    }

    fn api_version(kind: &ApiResource) -> Cow<'_, str> {
        DynamicObject::api_version(kind)
    }

    fn plural(kind: &ApiResource) -> Cow<'_, str> {
        DynamicObject::plural(kind)
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

#[cfg(test)]
mod tests {
    use kube::core::{ObjectList, WatchEvent};
    use serde_json::json;

    use super::*;

    fn work() -> Value {
        json!({
            "apiVersion": "work.open-cluster-management.io/v1", "kind": "ManifestWork",
            "metadata": {
                "name": "w", "namespace": "c", "uid": "u", "resourceVersion": "7",
                "labels": { "a": "b" }, "managedFields": [{ "manager": "m", "fieldsV1": { "f:spec": {} } }],
            },
            "spec": { "workload": { "manifests": [{ "kind": "ConfigMap" }] } },
            "status": { "conditions": [] },
        })
    }

    fn trimmed(object: Value) -> DynamicObject {
        let mut object: DynamicObject = serde_json::from_value(object).unwrap();
        object.metadata.managed_fields = None;
        object
    }

    #[test]
    fn objects_of_a_list_and_a_watch_are_equal_to_their_trees() {
        let mut built_in = work();
        for field in ["apiVersion", "kind"] {
            built_in.as_object_mut().unwrap().remove(field);
        }
        for object in [work(), built_in, json!({ "metadata": {} }), json!({})] {
            let list = json!({ "metadata": { "resourceVersion": "1" }, "items": [object] });
            let list: ObjectList<Text> = serde_json::from_str(&list.to_string()).unwrap();
            let event = format!(r#"{{"type":"MODIFIED","object":{object}}}"#);
            let WatchEvent::Modified(event) =
                serde_json::from_str::<WatchEvent<Text>>(&event).unwrap()
            else {
                panic!("not a change")
            };
            for text in list.items.into_iter().chain([event]) {
                assert_eq!(text.meta().managed_fields, None);
                assert_eq!(text.decoded(), trimmed(object.clone()));
            }
        }
    }

    /// A list of plain trees fails as a whole.
    #[test]
    fn deep_field_of_one_object_does_not_fail_the_list() {
        let deep = format!("{}0{}", r#"{"a":"#.repeat(200), "}".repeat(200));
        let deep = work().to_string().replace(r#"{"conditions":[]}"#, &deep);
        let list = format!(r#"{{"metadata":{{}},"items":[{deep},{}]}}"#, work());
        assert!(serde_json::from_str::<ObjectList<DynamicObject>>(&list).is_err());
        let list: ObjectList<Text> = serde_json::from_str(&list).unwrap();
        let statuses = list.items.into_iter().map(|text| {
            let object = text.decoded();
            assert_eq!(object.data["spec"], work()["spec"]);
            object.data.get("status").cloned()
        });
        let statuses: Vec<_> = statuses.collect();
        assert_eq!(statuses, [None, Some(json!({ "conditions": [] }))]);
    }
}
