//! Group `work.open-cluster-management.io`: objects that OCM applies on a cluster, and its reports
//! about them.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Spec of a ManifestWork.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[kube(
    group = "work.open-cluster-management.io",
    version = "v1",
    kind = "ManifestWork",
    namespaced,
    status = "ManifestWorkStatus",
    derive = "PartialEq",
    derive = "Default",
    schema = "disabled"
)]
#[serde(rename_all = "camelCase", default)]
pub struct ManifestWorkSpec {
    /// The objects.
    pub workload: Workload,
    /// What happens to them when the work is deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delete_option: Option<DeleteOption>,
    /// How single objects are applied and watched.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub manifest_configs: Vec<ManifestConfig>,
}

/// The objects of a work.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Workload {
    /// Whole objects.
    pub manifests: Vec<Value>,
}

/// What happens to the objects when the work is deleted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DeleteOption {
    /// `Foreground`, `Orphan` or `SelectivelyOrphan`.
    pub propagation_policy: String,
    /// For `SelectivelyOrphan`: which objects stay.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selectively_orphans: Option<SelectivelyOrphan>,
}

/// Which objects stay.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SelectivelyOrphan {
    /// An object stays if one of these names it.
    pub orphaning_rules: Vec<ResourceIdentifier>,
}

/// Names an object in a work; namespace and name may have `*` in manifest configs.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(default)]
pub struct ResourceIdentifier {
    /// API group, empty for the core group.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// Plural name of the resource.
    pub resource: String,
    /// Namespace, empty if the resource is cluster-scoped.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Name.
    pub name: String,
}

/// How an object is applied and watched.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ManifestConfig {
    /// Which object.
    pub resource_identifier: ResourceIdentifier,
    /// The values to report.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub feedback_rules: Vec<FeedbackRule>,
    /// `Poll` or `Watch`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub feedback_scrape_type: String,
    /// How it is applied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub update_strategy: Option<UpdateStrategy>,
}

/// The values to report for an object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct FeedbackRule {
    /// `WellKnownStatus` or `JSONPaths`.
    #[serde(rename = "type")]
    pub kind: String,
    /// For `JSONPaths`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub json_paths: Vec<JsonPath>,
}

/// One value to report for an object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct JsonPath {
    /// Name of the value.
    pub name: String,
    /// Version of the object's API, any if empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub version: String,
    /// Where it is, e.g. `.status.phase`.
    pub path: String,
}

/// How an object is applied.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct UpdateStrategy {
    /// `Update`, `CreateOnly`, `ServerSideApply` or `ReadOnly`.
    #[serde(rename = "type")]
    pub kind: String,
    /// For `ServerSideApply`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_side_apply: Option<ServerSideApply>,
}

/// Options of `ServerSideApply`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ServerSideApply {
    /// Take fields from other managers.
    pub force: bool,
    /// Must begin with `work-agent`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub field_manager: String,
}

/// Status of a ManifestWork. The cluster writes it: everything here is a claim.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ManifestWorkStatus {
    /// Conditions of the work as a whole, see [`crate::condition::work`].
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// The objects one by one.
    pub resource_status: ResourceStatus,
}

/// The objects of a work one by one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ResourceStatus {
    /// One entry an object.
    pub manifests: Vec<ManifestCondition>,
}

/// The reported state of one object of a work.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ManifestCondition {
    /// Which object.
    pub resource_meta: ResourceMeta,
    /// Its conditions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// Values that feedback rules requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status_feedback: Option<StatusFeedback>,
}

/// Names an object of a work as it is on the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ResourceMeta {
    /// Place in the work.
    pub ordinal: i32,
    /// API group.
    pub group: String,
    /// API version.
    pub version: String,
    /// Kind.
    pub kind: String,
    /// Plural name of the resource.
    pub resource: String,
    /// Name.
    pub name: String,
    /// Namespace.
    pub namespace: String,
}

/// Values that feedback rules requested.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StatusFeedback {
    /// One entry a value; what is zero or unset on the cluster is missing.
    pub values: Vec<FeedbackValue>,
}

/// A value that a feedback rule requested.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct FeedbackValue {
    /// Its name.
    pub name: String,
    /// The value.
    pub field_value: FieldValue,
}

/// A value; the part that `type` names is set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct FieldValue {
    /// `Integer`, `String`, `Boolean` or `JsonRaw`.
    #[serde(rename = "type")]
    pub kind: String,
    /// A number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub integer: Option<i64>,
    /// A text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub string: Option<String>,
    /// Yes or no.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub boolean: Option<bool>,
    /// JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub json_raw: Option<String>,
}

impl ManifestCondition {
    /// The values by name.
    pub fn values(&self) -> BTreeMap<&str, &FieldValue> {
        let feedback = self.status_feedback.iter();
        let values = feedback.flat_map(|feedback| &feedback.values);
        let named = values.map(|value| (value.name.as_str(), &value.field_value));
        named.collect()
    }

    /// A number by name; what is missing is 0, as the cluster leaves out zeros.
    pub fn integer(&self, name: &str) -> i64 {
        let integer = self.values().get(name).and_then(|value| value.integer);
        integer.unwrap_or_default()
    }
}
