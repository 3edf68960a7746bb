//! The two versions of the add-on API, and the way from one to the other.

use kube::{
    api::{ApiResource, DynamicObject},
    core::GroupVersionKind,
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{
    ClusterManagementAddOn, GROUP, ManagedClusterAddOn, ManagedClusterAddOnStatus, NO_DEFAULT,
};
use crate::keys;

/// A version of the add-on API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// Served by every hub, stored by all.
    V1Alpha1,
    /// Served since OCM 1.2, what its own parts use since 1.3.
    V1Beta1,
}

impl Version {
    /// The version's name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::V1Alpha1 => "v1alpha1",
            Self::V1Beta1 => "v1beta1",
        }
    }

    /// Group and version, as in `apiVersion`.
    pub fn api_version(self) -> String {
        format!("{GROUP}/{}", self.as_str())
    }

    fn resource(self, kind: &str, plural: &str) -> ApiResource {
        let kind = GroupVersionKind::gvk(GROUP, self.as_str(), kind);
        ApiResource::from_gvk_with_plural(&kind, plural)
    }

    /// Where `ManagedClusterAddOns` are, for a dynamic `Api`.
    pub fn managed_cluster_addons(self) -> ApiResource {
        self.resource("ManagedClusterAddOn", "managedclusteraddons")
    }

    /// Where `ClusterManagementAddOns` are, for a dynamic `Api`.
    pub fn cluster_management_addons(self) -> ApiResource {
        self.resource("ClusterManagementAddOn", "clustermanagementaddons")
    }

    /// Reads a `ManagedClusterAddOn`.
    ///
    /// Lenient: an unreadable part counts as absent, so that it does not hide the object.
    pub fn read_addon(self, mut object: DynamicObject) -> ManagedClusterAddOn {
        let data = &mut object.data;
        if self == Self::V1Alpha1 {
            let namespace = data.pointer("/spec/installNamespace");
            if let Some(namespace) = namespace.and_then(Value::as_str) {
                let annotations = object.metadata.annotations.get_or_insert_default();
                annotations.insert(keys::INSTALL_NAMESPACE.to_owned(), namespace.to_owned());
            }
            raise_status(data);
        }
        ManagedClusterAddOn {
            spec: part(data, "spec").unwrap_or_default(),
            status: part(data, "status"),
            metadata: object.metadata,
        }
    }

    /// Reads a `ClusterManagementAddOn`, as leniently as [`Self::read_addon`].
    pub fn read_offer(self, mut object: DynamicObject) -> ClusterManagementAddOn {
        if self == Self::V1Alpha1 {
            raise_offer(&mut object.data);
        }
        ClusterManagementAddOn {
            spec: part(&mut object.data, "spec").unwrap_or_default(),
            status: part(&mut object.data, "status"),
            metadata: object.metadata,
        }
    }

    /// Writes a `ManagedClusterAddOn` (without status) for creation.
    pub fn write_addon(self, addon: &ManagedClusterAddOn) -> Value {
        let mut metadata = json!(addon.metadata);
        let mut spec = json!(addon.spec);
        if self == Self::V1Alpha1
            && let Some(namespace) = metadata
                .get_mut("annotations")
                .and_then(Value::as_object_mut)
                .and_then(|annotations| annotations.remove(keys::INSTALL_NAMESPACE))
            && let Some(spec) = spec.as_object_mut()
        {
            spec.insert("installNamespace".to_owned(), namespace);
        }
        json!({
            "apiVersion": self.api_version(),
            "kind": "ManagedClusterAddOn",
            "metadata": metadata,
            "spec": spec,
        })
    }

    /// Writes the parts of a `ManagedClusterAddOn`'s status that are set.
    pub fn write_status(self, status: &ManagedClusterAddOnStatus) -> Value {
        let mut value = json!(status);
        if self == Self::V1Alpha1 {
            let registrations = value.get_mut("registrations").and_then(Value::as_array_mut);
            for registration in registrations.into_iter().flatten() {
                *registration = lower_registration(registration);
            }
        }
        value
    }

    /// The name that `status.defaultConfigReferences` of a `ClusterManagementAddOn` has.
    pub const fn default_config_references(self) -> &'static str {
        match self {
            Self::V1Alpha1 => "defaultconfigReferences",
            Self::V1Beta1 => "defaultConfigReferences",
        }
    }
}

fn part<T: DeserializeOwned>(data: &mut Value, name: &str) -> Option<T> {
    let part = data.get_mut(name)?.take();
    serde_json::from_value(part).ok()
}

/// Turns registrations of v1alpha1 into those of v1beta1.
fn raise_status(data: &mut Value) {
    let driver = data.pointer("/status/kubeClientDriver").cloned();
    let registrations = data
        .pointer_mut("/status/registrations")
        .and_then(Value::as_array_mut);
    for registration in registrations.into_iter().flatten() {
        *registration = raise_registration(registration, driver.as_ref());
    }
}

fn raise_registration(old: &Value, driver: Option<&Value>) -> Value {
    let signer = old.get("signerName").cloned().unwrap_or_default();
    let mut subject = old.get("subject").cloned().unwrap_or_default();
    rename(&mut subject, "organizationUnit", "organizationUnits");
    if signer == keys::KUBE_SIGNER {
        if let Some(subject) = subject.as_object_mut() {
            subject.remove("organizationUnits");
        }
        let client = without_nulls(json!({ "subject": subject, "driver": driver }));
        json!({ "type": super::KUBE_CLIENT, "kubeClient": client })
    } else {
        let signer = without_nulls(json!({ "signerName": signer, "subject": subject }));
        json!({ "type": super::CUSTOM_SIGNER, "customSigner": signer })
    }
}

/// Turns a registration of v1beta1 into one of v1alpha1.
fn lower_registration(new: &Value) -> Value {
    if let Some(client) = new.get("kubeClient") {
        let subject = client.get("subject").cloned();
        return without_nulls(json!({ "signerName": keys::KUBE_SIGNER, "subject": subject }));
    }
    let subject = new.pointer("/customSigner/subject");
    let mut subject = subject.cloned().unwrap_or_default();
    rename(&mut subject, "organizationUnits", "organizationUnit");
    let signer = new.pointer("/customSigner/signerName").cloned();
    without_nulls(json!({ "signerName": signer, "subject": subject }))
}

/// Turns spec and status of a v1alpha1 `ClusterManagementAddOn` into those of v1beta1.
fn raise_offer(data: &mut Value) {
    if let Some(status) = data.get_mut("status") {
        rename(status, "defaultconfigReferences", "defaultConfigReferences");
    }
    let Some(spec) = data.get_mut("spec").and_then(Value::as_object_mut) else {
        return;
    };
    let Some(Value::Array(supported)) = spec.remove("supportedConfigs") else {
        return;
    };
    let defaults = supported.iter().map(|config| {
        let text = |path| {
            config
                .pointer(path)
                .and_then(Value::as_str)
                .unwrap_or_default()
        };
        let name = Some(text("/defaultConfig/name")).filter(|name| !name.is_empty());
        json!({
            "group": text("/group"),
            "resource": text("/resource"),
            "namespace": text("/defaultConfig/namespace"),
            "name": name.unwrap_or(NO_DEFAULT),
        })
    });
    let defaults = defaults.collect();
    spec.insert("defaultConfigs".to_owned(), Value::Array(defaults));
}

fn rename(value: &mut Value, from: &str, to: &str) {
    if let Some(object) = value.as_object_mut()
        && let Some(moved) = object.remove(from)
    {
        object.insert(to.to_owned(), moved);
    }
}

fn without_nulls(mut value: Value) -> Value {
    if let Some(object) = value.as_object_mut() {
        object.retain(|_, value| !value.is_null());
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(value: Value) -> DynamicObject {
        serde_json::from_value(value).unwrap()
    }

    fn alpha() -> DynamicObject {
        object(json!({
            "apiVersion": "addon.open-cluster-management.io/v1alpha1",
            "kind": "ManagedClusterAddOn",
            "metadata": { "name": "a", "namespace": "c" },
            "spec": { "installNamespace": "there" },
            "status": {
                "kubeClientDriver": "csr",
                "registrations": [
                    { "signerName": "kubernetes.io/kube-apiserver-client",
                      "subject": { "user": "u", "groups": ["g"] } },
                    { "signerName": "foo.io/x",
                      "subject": { "user": "v", "groups": [], "organizationUnit": ["o"] } },
                ],
                "configReferences": [{
                    "group": "g", "resource": "r", "name": "n", "namespace": "s",
                    "lastObservedGeneration": 2,
                    "desiredConfig": { "name": "n", "namespace": "s", "specHash": "h" },
                }],
            },
        }))
    }

    fn beta() -> DynamicObject {
        object(json!({
            "apiVersion": "addon.open-cluster-management.io/v1beta1",
            "kind": "ManagedClusterAddOn",
            "metadata": { "name": "a", "namespace": "c", "annotations": {
                "addon.open-cluster-management.io/v1alpha1-install-namespace": "there" } },
            "spec": {},
            "status": {
                "registrations": [
                    { "type": "kubeClient", "kubeClient": {
                        "driver": "csr", "subject": { "user": "u", "groups": ["g"] } } },
                    { "type": "customSigner", "customSigner": { "signerName": "foo.io/x",
                        "subject": { "user": "v", "organizationUnits": ["o"] } } },
                ],
                "configReferences": [{
                    "group": "g", "resource": "r",
                    "lastObservedGeneration": 2,
                    "desiredConfig": { "name": "n", "namespace": "s", "specHash": "h" },
                }],
            },
        }))
    }

    #[test]
    fn both_versions_read_as_one_model() {
        assert_eq!(
            Version::V1Alpha1.read_addon(alpha()),
            Version::V1Beta1.read_addon(beta())
        );
    }

    #[test]
    fn a_status_written_for_v1alpha1_reads_back() {
        let mut addon = Version::V1Beta1.read_addon(beta());
        let status = addon.status.take().unwrap();
        let written = Version::V1Alpha1.write_status(&status);
        assert_eq!(
            written.pointer("/registrations/1/signerName"),
            Some(&json!("foo.io/x"))
        );
        let mut again = alpha();
        again.data["status"]["registrations"] = written["registrations"].clone();
        assert_eq!(Version::V1Alpha1.read_addon(again).status, Some(status));
    }

    #[test]
    fn the_install_namespace_is_written_where_the_version_has_it() {
        let addon = Version::V1Beta1.read_addon(beta());
        let written = Version::V1Alpha1.write_addon(&addon);
        assert_eq!(written["spec"], json!({ "installNamespace": "there" }));
        let written = Version::V1Beta1.write_addon(&addon);
        assert_eq!(written["spec"], json!({}));
    }

    #[test]
    fn an_unreadable_status_does_not_hide_the_object() {
        let mut object = beta();
        object.data["status"] = json!({ "registrations": "nonsense" });
        let addon = Version::V1Beta1.read_addon(object);
        assert_eq!(addon.metadata.name.as_deref(), Some("a"));
        assert_eq!(addon.status, None);
    }

    #[test]
    fn a_supported_config_without_default_gets_the_reserved_name() {
        let offer = Version::V1Alpha1.read_offer(object(json!({
            "apiVersion": "addon.open-cluster-management.io/v1alpha1",
            "kind": "ClusterManagementAddOn",
            "metadata": { "name": "a" },
            "spec": { "supportedConfigs": [
                { "group": "g", "resource": "r" },
                { "group": "g", "resource": "q", "defaultConfig": { "name": "n", "namespace": "s" } },
            ] },
            "status": { "defaultconfigReferences": [{ "group": "g", "resource": "q" }] },
        })));
        let names: Vec<_> = offer
            .spec
            .default_configs
            .iter()
            .map(|c| c.name.as_str())
            .collect();
        assert_eq!(names, [NO_DEFAULT, "n"]);
        assert_eq!(offer.status.unwrap().default_config_references.len(), 1);
        assert_eq!(offer.spec.install_strategy.kind, "Manual");
    }
}
