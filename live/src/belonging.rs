//! Decides whether an object of a cluster belongs to an Application: users of the hub may change deployed objects only,
//! and with `UI_ACCESS` `applications` see no others.
//!
//! An object names its Application in an annotation or a label, but every client that may write the object may write
//! these. So they are only hints: the status of the Application, which Argo CD on the cluster writes, decides. An object
//! that the status does not list may have an owner that it lists, as a Pod of a `ReplicaSet` of a Deployment.
//!
//! Pure: the caller reads the objects step by step.

use serde_json::Value;

use argocd::name::is_name;
use argocd::object::Meta;
use argocd::{Application, keys};

/// The longest chain of owners that is followed. Workloads of operators of operators have four.
pub const DEEPEST: usize = 6;
/// The most owners of one object that are checked.
const OWNERS: usize = 8;

/// The identity of an object, as in Argo CD's status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity<'a> {
    /// The API group; empty for the core.
    pub group: &'a str,
    /// The kind.
    pub kind: &'a str,
    /// The namespace; empty for a cluster-scoped object.
    pub namespace: &'a str,
    /// The name.
    pub name: &'a str,
}

/// The Application that an object claims.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claimed<'a> {
    /// The namespace; none for that of Argo CD.
    pub namespace: Option<&'a str>,
    /// The name.
    pub name: &'a str,
}

/// The owner that an object claims, or the object that an Event names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Owner<'a> {
    /// The API group; empty for the core.
    pub group: &'a str,
    /// The version.
    pub version: &'a str,
    /// The kind.
    pub kind: &'a str,
    /// The name.
    pub name: &'a str,
    /// The UID: another object of this name is not the owner.
    pub uid: &'a str,
}

impl<'a> Identity<'a> {
    /// The identity of an object from the API server; none for a list.
    pub fn of(object: &'a Value) -> Option<Self> {
        let (group, _) = split_version(object.get("apiVersion")?.as_str()?);
        let meta = Meta::of(object);
        let found = Self {
            group,
            kind: object.get("kind")?.as_str()?,
            namespace: meta.namespace(),
            name: meta.name(),
        };
        (!found.name.is_empty() && !found.kind.is_empty()).then_some(found)
    }

    /// Whether the status of the Application lists it.
    pub fn is_of(&self, application: &Value) -> bool {
        let status = Application::of(application).status();
        let resources = status.and_then(|it| it.get("resources"));
        let mut resources = resources.and_then(Value::as_array).into_iter().flatten();
        resources.any(|resource| {
            let text = |field| resource.get(field).and_then(Value::as_str).unwrap_or("");
            text("group") == self.group
                && text("kind") == self.kind
                && text("namespace") == self.namespace
                && text("name") == self.name
        })
    }
}

impl<'a> Claimed<'a> {
    /// The claims of an object: in Argo CD's annotation, or in the label with which Argo CD tracks there.
    pub fn by(object: &'a Value, label: &str) -> Vec<Self> {
        let meta = Meta::of(object);
        let tracked = meta
            .annotation(keys::TRACKING_ID)
            .and_then(|id| id.split_once(':'))
            .map(|(application, _)| application);
        let mut claims = Vec::new();
        for name in [tracked, meta.label(label)].into_iter().flatten() {
            // Neither names of namespaces nor those of Applications have an underscore.
            let (namespace, name) = name
                .split_once('_')
                .map_or((None, name), |(namespace, name)| (Some(namespace), name));
            let claim = Self { namespace, name };
            if is_name(claim.name)
                && claim.namespace.is_none_or(is_name)
                && !claims.contains(&claim)
            {
                claims.push(claim);
            }
        }
        claims
    }
}

impl<'a> Owner<'a> {
    /// The owners of an object.
    pub fn all_of(object: &'a Value) -> Vec<Self> {
        let owners = object.pointer("/metadata/ownerReferences");
        let owners = owners.and_then(Value::as_array).into_iter().flatten();
        owners.filter_map(Self::read).take(OWNERS).collect()
    }

    /// The object that an Event names, and its namespace; none if it has no UID.
    pub fn involved_in(event: &'a Value) -> Option<(Self, &'a str)> {
        let involved = event.get("involvedObject")?;
        let namespace = involved.get("namespace").and_then(Value::as_str);
        Some((Self::read(involved)?, namespace.unwrap_or_default()))
    }

    fn read(owner: &'a Value) -> Option<Self> {
        let text = |field| owner.get(field).and_then(Value::as_str);
        let (group, version) = split_version(text("apiVersion")?);
        let found = Self {
            group,
            version,
            kind: text("kind")?,
            name: text("name")?,
            uid: text("uid")?,
        };
        (!found.uid.is_empty()).then_some(found)
    }

    /// Whether the object is this one.
    pub fn is(&self, object: &Value) -> bool {
        Meta::of(object).uid() == self.uid
    }

    /// The plural of its kind and whether it is in namespaces, from the list of kinds of its group and version.
    pub fn resource_in(&self, kinds: &'a Value) -> Option<(&'a str, bool)> {
        let resources = kinds.get("resources").and_then(Value::as_array)?;
        resources.iter().find_map(|resource| {
            let plural = resource.get("name")?.as_str()?;
            let kind = resource.get("kind")?.as_str()?;
            let namespaced = resource.get("namespaced")?.as_bool()?;
            // Subresources such as `deployments/scale` have kinds, too.
            (kind == self.kind && !plural.contains('/')).then_some((plural, namespaced))
        })
    }
}

/// Group and version, of `apps/v1` or `v1`.
fn split_version(text: &str) -> (&str, &str) {
    text.split_once('/').unwrap_or(("", text))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn deployment() -> Value {
        json!({
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {
                "name": "front",
                "namespace": "shop",
                "uid": "u1",
                "labels": { "app.kubernetes.io/instance": "other" },
                "annotations": { keys::TRACKING_ID: "spoke1_web:apps/Deployment:shop/front" },
            },
        })
    }

    fn application(resource: &Value) -> Value {
        json!({ "metadata": { "name": "web" }, "status": { "resources": [
            { "version": "v1", "kind": "Service", "namespace": "shop", "name": "front" },
            resource,
        ] } })
    }

    #[test]
    fn application_owns_exactly_the_resources_of_its_status() {
        let object = deployment();
        let identity = Identity::of(&object).unwrap();
        let listed = json!({ "group": "apps", "version": "v1", "kind": "Deployment", "namespace": "shop", "name": "front" });
        assert!(identity.is_of(&application(&listed)));
        for (field, other) in [
            ("group", "extensions"),
            ("kind", "StatefulSet"),
            ("namespace", "shop2"),
            ("name", "fron"),
        ] {
            let mut other_one = listed.clone();
            other_one[field] = json!(other);
            assert!(!identity.is_of(&application(&other_one)), "{field}");
        }
        for application in [
            json!({}),
            json!({ "status": { "resources": "all" } }),
            json!([]),
        ] {
            assert!(!identity.is_of(&application));
        }
        let role =
            json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "shop" } });
        let listed = json!({ "kind": "Namespace", "name": "shop" });
        assert!(Identity::of(&role).unwrap().is_of(&application(&listed)));
    }

    #[test]
    fn a_list_is_no_object() {
        for other in [
            json!({ "apiVersion": "v1", "kind": "PodList", "metadata": {}, "items": [] }),
            json!({ "kind": "Pod", "metadata": { "name": "a" } }),
            json!(null),
        ] {
            assert_eq!(Identity::of(&other), None, "{other}");
        }
    }

    #[test]
    fn object_claims_its_application_in_label_or_annotation() {
        let object = deployment();
        let claims = Claimed::by(&object, keys::INSTANCE);
        let claimed: Vec<_> = claims.iter().map(|it| (it.namespace, it.name)).collect();
        assert_eq!(claimed, [(Some("spoke1"), "web"), (None, "other")]);
        for bad in [
            "",
            "a/b:x",
            "../x:y",
            "a b:c",
            "x,metadata.name!=y:z",
            "_:x",
            "_a:x",
            "a_:x",
            "A:b",
        ] {
            let object = json!({ "metadata": { "annotations": { keys::TRACKING_ID: bad } } });
            assert_eq!(Claimed::by(&object, keys::INSTANCE), [], "{bad}");
        }
    }

    #[test]
    fn an_event_names_its_object_with_a_uid() {
        let involved = json!({ "apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop",
            "name": "front", "uid": "u1", "fieldPath": "spec" });
        let event = json!({ "involvedObject": involved });
        let (object, namespace) = Owner::involved_in(&event).unwrap();
        assert_eq!(
            (object.group, object.name, namespace),
            ("apps", "front", "shop")
        );
        assert!(object.is(&deployment()));
        for field in ["apiVersion", "kind", "name", "uid"] {
            for bad in [json!(null), json!(7)] {
                let mut event = event.clone();
                event["involvedObject"][field] = bad;
                assert_eq!(Owner::involved_in(&event), None, "{field}");
            }
        }
        let no_uid = json!({ "involvedObject": { "apiVersion": "v1", "kind": "Pod", "name": "a", "uid": "" } });
        for event in [
            no_uid,
            json!({}),
            json!([]),
            json!({ "involvedObject": "front" }),
        ] {
            assert_eq!(Owner::involved_in(&event), None, "{event}");
        }
    }

    #[test]
    fn an_owner_is_the_very_object_and_not_one_of_its_name() {
        let owner =
            json!({ "apiVersion": "apps/v1", "kind": "Deployment", "name": "front", "uid": "u1" });
        let child = json!({ "metadata": { "ownerReferences": [owner, { "kind": "Half" }, 7] } });
        let owners = Owner::all_of(&child);
        let [owner] = owners.as_slice() else {
            panic!("{owners:?}");
        };
        assert!(owner.is(&deployment()));
        let mut newer = deployment();
        newer["metadata"]["uid"] = json!("u2");
        assert!(!owner.is(&newer) && !owner.is(&json!({})));
        let kinds = json!({ "resources": [
            { "name": "deployments/scale", "kind": "Deployment", "namespaced": true },
            { "name": "deployments", "kind": "Deployment", "namespaced": true },
        ] });
        assert_eq!(owner.resource_in(&kinds), Some(("deployments", true)));
        assert_eq!(owner.resource_in(&json!({})), None);
        let crowd: Vec<_> = (0..100)
            .map(|uid| json!({ "apiVersion": "v1", "kind": "Pod", "name": "a", "uid": uid.to_string() }))
            .collect();
        let crowded = json!({ "metadata": { "ownerReferences": crowd } });
        assert_eq!(Owner::all_of(&crowded).len(), OWNERS);
    }
}
