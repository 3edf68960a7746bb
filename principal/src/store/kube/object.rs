//! An object as the hub's API server sends it, decoded without a tree of its status.

use std::{borrow::Cow, collections::BTreeMap};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{
    Resource,
    api::{ApiResource, DynamicObject},
    core::DynamicResourceScope,
};
use runtime::kube::Guarded;
use serde::Deserialize;
use serde_json::{Map, value::RawValue};

use crate::store::Packed;

/// An object of a list, a watch or an answer.
///
/// Each field is read by itself: one that cannot be read, as a tree deeper than the decoder's limit of recursion, makes
/// only this object unreadable and not the list.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "BTreeMap<String, Box<RawValue>>")]
pub(super) struct Object {
    metadata: ObjectMeta,
    content: Result<Packed, String>,
}

impl TryFrom<BTreeMap<String, Box<RawValue>>> for Object {
    type Error = serde_json::Error;

    fn try_from(mut fields: BTreeMap<String, Box<RawValue>>) -> Result<Self, Self::Error> {
        let metadata = fields.remove("metadata");
        let metadata = metadata.map(|text| serde_json::from_str(text.get()));
        Ok(Self {
            metadata: metadata.transpose()?.unwrap_or_default(),
            content: packed(fields),
        })
    }
}

fn packed(mut fields: BTreeMap<String, Box<RawValue>>) -> Result<Packed, String> {
    let status = fields.remove("status").map(Box::<str>::from);
    let mut head = Map::new();
    for (name, text) in fields {
        let value = serde_json::from_str(text.get());
        head.insert(name, value.map_err(|error| error.to_string())?);
    }
    Packed::from_parts(head.into(), status)
}

impl Object {
    /// The object without its managed fields.
    pub(super) fn packed(self) -> Result<Packed, String> {
        let Self {
            mut metadata,
            content,
        } = self;
        metadata.managed_fields = None;
        let metadata = serde_json::to_value(metadata).map_err(|error| error.to_string())?;
        Ok(content?.with_metadata(metadata))
    }
}

impl Guarded for Object {
    type Object = Self;

    fn readable(self) -> Result<Self, String> {
        let Self { metadata, content } = self;
        let content = Ok(content?);
        Ok(Self { metadata, content })
    }
}

impl Resource for Object {
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
    use serde_json::{Value, json};

    use super::*;

    fn application(status: &Value) -> Value {
        json!({
            "apiVersion": "argoproj.io/v1alpha1", "kind": "Application",
            "metadata": { "name": "app", "namespace": "spoke1", "uid": "u", "managedFields": [{}] },
            "spec": { "project": "default" },
            "status": status,
        })
    }

    fn nested(depth: usize) -> String {
        format!("{}{}", r#"{"a":"#.repeat(depth), "0") + &"}".repeat(depth)
    }

    #[test]
    fn objects_of_a_list_and_a_watch_are_packed() {
        let object = application(&json!({ "sync": { "status": "Synced" } }));
        let list = json!({ "metadata": { "resourceVersion": "1" }, "items": [object] });
        let list: ObjectList<Object> = serde_json::from_str(&list.to_string()).unwrap();
        let event = format!(r#"{{"type":"MODIFIED","object":{object}}}"#);
        let WatchEvent::Modified(event) =
            serde_json::from_str::<WatchEvent<Object>>(&event).unwrap()
        else {
            panic!("not a change")
        };
        let mut expected = object;
        let metadata = expected["metadata"].as_object_mut().unwrap();
        metadata.remove("managedFields");
        for object in list.items.into_iter().chain([event]) {
            assert_eq!(object.meta().name.as_deref(), Some("app"));
            let packed = object.readable().unwrap().packed().unwrap();
            assert_eq!(packed, Packed::of(expected.clone()));
        }
    }

    /// A user of the hub can write such an object; a list of plain trees fails as a whole.
    #[test]
    fn object_of_deep_fields_does_not_fail_its_list() {
        let good = application(&json!({}));
        let deep = good
            .to_string()
            .replace(r#"{"project":"default"}"#, &nested(200));
        let list = format!(r#"{{"metadata":{{}},"items":[{deep},{good}]}}"#);
        assert!(serde_json::from_str::<ObjectList<DynamicObject>>(&list).is_err());
        let list: ObjectList<Object> = serde_json::from_str(&list).unwrap();
        let readable = |object: &Object| object.clone().readable().is_ok();
        assert_eq!(
            list.items.iter().map(readable).collect::<Vec<_>>(),
            [false, true]
        );
        assert_eq!(list.items[0].meta().uid.as_deref(), Some("u"));
    }
}
