//! Any object of any kind, read and written as JSON.

use std::{fmt, time::Duration};

use anyhow::{Context as _, Result};
use kube::{
    Client,
    api::{
        Api, ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams,
        PropagationPolicy,
    },
};
use serde_json::Value;

use crate::wait;

/// The field manager of whatever a story's user writes.
const USER: &str = "a-user";

/// Where an object is: kind, namespace (none for cluster scope) and name.
#[derive(Clone, Debug)]
pub struct At {
    resource: ApiResource,
    namespace: Option<String>,
    name: String,
}

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.resource.kind)?;
        if let Some(namespace) = &self.namespace {
            write!(f, "{namespace}/")?;
        }
        f.write_str(&self.name)
    }
}

impl At {
    fn new(api: (&str, &str, &str, &str), namespace: Option<&str>, name: &str) -> Self {
        let (group, version, kind, plural) = api;
        let api_version = if group.is_empty() {
            version.to_owned()
        } else {
            format!("{group}/{version}")
        };
        let resource = ApiResource {
            group: group.to_owned(),
            version: version.to_owned(),
            api_version,
            kind: kind.to_owned(),
            plural: plural.to_owned(),
        };
        Self {
            resource,
            namespace: namespace.map(str::to_owned),
            name: name.to_owned(),
        }
    }

    /// An object of any kind, which is named with its plural; `namespace` is none for cluster scope.
    pub fn of(
        api_version: &str,
        (kind, plural): (&str, &str),
        namespace: Option<&str>,
        name: &str,
    ) -> Self {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        Self::new((group, version, kind, plural), namespace, name)
    }

    /// Its `apiVersion` and kind.
    pub fn kind(&self) -> (&str, &str) {
        (&self.resource.api_version, &self.resource.kind)
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// An Argo CD Application.
    pub fn application(namespace: &str, name: &str) -> Self {
        Self::new(
            ("argoproj.io", "v1alpha1", "Application", "applications"),
            Some(namespace),
            name,
        )
    }

    /// An Argo CD `ApplicationSet`.
    pub fn application_set(namespace: &str, name: &str) -> Self {
        let api = (
            "argoproj.io",
            "v1alpha1",
            "ApplicationSet",
            "applicationsets",
        );
        Self::new(api, Some(namespace), name)
    }

    /// An Argo CD AppProject.
    pub fn project(namespace: &str, name: &str) -> Self {
        Self::new(
            ("argoproj.io", "v1alpha1", "AppProject", "appprojects"),
            Some(namespace),
            name,
        )
    }

    /// A ManagedCluster.
    pub fn cluster(name: &str) -> Self {
        let api = (
            "cluster.open-cluster-management.io",
            "v1",
            "ManagedCluster",
            "managedclusters",
        );
        Self::new(api, None, name)
    }

    /// A `ClusterClaim`, on a spoke.
    pub fn cluster_claim(name: &str) -> Self {
        let api = (
            "cluster.open-cluster-management.io",
            "v1alpha1",
            "ClusterClaim",
            "clusterclaims",
        );
        Self::new(api, None, name)
    }

    /// A `ManagedClusterAddOn`, in the version that users of `clusteradm` write.
    pub fn addon(cluster: &str) -> Self {
        let api = (
            "addon.open-cluster-management.io",
            "v1alpha1",
            "ManagedClusterAddOn",
            "managedclusteraddons",
        );
        Self::new(api, Some(cluster), ADDON)
    }

    /// The `ClusterManagementAddOn`.
    pub fn addon_definition() -> Self {
        let api = (
            "addon.open-cluster-management.io",
            "v1alpha1",
            "ClusterManagementAddOn",
            "clustermanagementaddons",
        );
        Self::new(api, None, ADDON)
    }

    /// An `AddOnDeploymentConfig`.
    pub fn addon_config(namespace: &str, name: &str) -> Self {
        let api = (
            "addon.open-cluster-management.io",
            "v1alpha1",
            "AddOnDeploymentConfig",
            "addondeploymentconfigs",
        );
        Self::new(api, Some(namespace), name)
    }

    /// A Placement.
    pub fn placement(namespace: &str, name: &str) -> Self {
        let api = (
            "cluster.open-cluster-management.io",
            "v1beta1",
            "Placement",
            "placements",
        );
        Self::new(api, Some(namespace), name)
    }

    /// A `PlacementDecision`; with an empty name good for lists only.
    pub fn placement_decision(namespace: &str, name: &str) -> Self {
        let api = (
            "cluster.open-cluster-management.io",
            "v1beta1",
            "PlacementDecision",
            "placementdecisions",
        );
        Self::new(api, Some(namespace), name)
    }

    /// A ManifestWork; with an empty name good for lists only.
    pub fn work(cluster: &str, name: &str) -> Self {
        let api = (
            "work.open-cluster-management.io",
            "v1",
            "ManifestWork",
            "manifestworks",
        );
        Self::new(api, Some(cluster), name)
    }

    /// A Secret.
    pub fn secret(namespace: &str, name: &str) -> Self {
        Self::new(("", "v1", "Secret", "secrets"), Some(namespace), name)
    }

    /// A `ConfigMap`.
    pub fn config_map(namespace: &str, name: &str) -> Self {
        Self::new(("", "v1", "ConfigMap", "configmaps"), Some(namespace), name)
    }

    /// A Service.
    pub fn service(namespace: &str, name: &str) -> Self {
        Self::new(("", "v1", "Service", "services"), Some(namespace), name)
    }

    /// A Deployment.
    pub fn deployment(namespace: &str, name: &str) -> Self {
        Self::new(
            ("apps", "v1", "Deployment", "deployments"),
            Some(namespace),
            name,
        )
    }

    /// A `StatefulSet`.
    pub fn stateful_set(namespace: &str, name: &str) -> Self {
        Self::new(
            ("apps", "v1", "StatefulSet", "statefulsets"),
            Some(namespace),
            name,
        )
    }

    /// A Pod; with an empty name good for lists only.
    pub fn pod(namespace: &str, name: &str) -> Self {
        Self::new(("", "v1", "Pod", "pods"), Some(namespace), name)
    }

    /// A Node; with an empty name good for lists only.
    pub fn node(name: &str) -> Self {
        Self::new(("", "v1", "Node", "nodes"), None, name)
    }

    /// A Lease.
    pub fn lease(namespace: &str, name: &str) -> Self {
        Self::new(
            ("coordination.k8s.io", "v1", "Lease", "leases"),
            Some(namespace),
            name,
        )
    }

    /// A Namespace.
    pub fn namespace(name: &str) -> Self {
        Self::new(("", "v1", "Namespace", "namespaces"), None, name)
    }

    /// A `ServiceAccount`.
    pub fn service_account(namespace: &str, name: &str) -> Self {
        Self::new(
            ("", "v1", "ServiceAccount", "serviceaccounts"),
            Some(namespace),
            name,
        )
    }

    /// A Role.
    pub fn role(namespace: &str, name: &str) -> Self {
        Self::new(
            ("rbac.authorization.k8s.io", "v1", "Role", "roles"),
            Some(namespace),
            name,
        )
    }

    /// A `CertificateSigningRequest`.
    pub fn csr(name: &str) -> Self {
        let api = (
            "certificates.k8s.io",
            "v1",
            "CertificateSigningRequest",
            "certificatesigningrequests",
        );
        Self::new(api, None, name)
    }

    /// An Event of the core group; with an empty name good for lists only.
    pub fn event(namespace: &str) -> Self {
        Self::new(("", "v1", "Event", "events"), Some(namespace), "")
    }
}

/// The add-on's name, for the stories' own reading; the product has it from its own constant.
pub const ADDON: &str = "argocd-agent-addon";

/// The objects of one cluster.
#[derive(Clone)]
pub struct Objects {
    client: Client,
}

impl fmt::Debug for Objects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Objects").finish_non_exhaustive()
    }
}

impl Objects {
    /// Reads and writes with this client's rights.
    pub const fn new(client: Client) -> Self {
        Self { client }
    }

    /// The client's own way to all objects of a kind.
    pub fn everywhere(&self, at: &At) -> Api<DynamicObject> {
        Api::all_with(self.client.clone(), &at.resource)
    }

    /// The client's own way to the objects beside this one.
    pub fn api(&self, at: &At) -> Api<DynamicObject> {
        match &at.namespace {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, &at.resource),
            None => Api::all_with(self.client.clone(), &at.resource),
        }
    }

    /// The object, if it is there.
    pub async fn get(&self, at: &At) -> Result<Option<Value>> {
        let object = self
            .api(at)
            .get_opt(&at.name)
            .await
            .with_context(|| format!("read {at}"))?;
        object
            .map(|object| serde_json::to_value(object).context("object to JSON"))
            .transpose()
    }

    /// The object, which has to be there.
    pub async fn read(&self, at: &At) -> Result<Value> {
        self.get(at)
            .await?
            .with_context(|| format!("{at} does not exist"))
    }

    /// All objects of the kind in the namespace, with a label selector (empty: all).
    pub async fn list(&self, at: &At, labels: &str) -> Result<Vec<Value>> {
        let list = self
            .api(at)
            .list(&ListParams::default().labels(labels))
            .await;
        let list = list.with_context(|| format!("list {}s", at.resource.kind))?;
        list.items
            .into_iter()
            .map(|object| serde_json::to_value(object).context("object to JSON"))
            .collect()
    }

    /// Makes the object or changes it, as `kubectl apply --server-side` would.
    pub async fn apply(&self, at: &At, mut object: Value) -> Result<Value> {
        object["apiVersion"] = at.resource.api_version.clone().into();
        object["kind"] = at.resource.kind.clone().into();
        object["metadata"]["name"] = at.name.clone().into();
        if let Some(namespace) = &at.namespace {
            object["metadata"]["namespace"] = namespace.clone().into();
        }
        let params = PatchParams::apply(USER).force();
        let applied = self
            .api(at)
            .patch(&at.name, &params, &Patch::Apply(&object))
            .await;
        Ok(serde_json::to_value(
            applied.with_context(|| format!("apply {at}"))?,
        )?)
    }

    /// Merges a patch into the object, as `kubectl patch --type=merge` would.
    pub async fn merge(&self, at: &At, patch: Value) -> Result<Value> {
        let params = PatchParams {
            field_manager: Some(USER.to_owned()),
            ..Default::default()
        };
        let merged = self
            .api(at)
            .patch(&at.name, &params, &Patch::Merge(&patch))
            .await;
        Ok(serde_json::to_value(
            merged.with_context(|| format!("patch {at}"))?,
        )?)
    }

    /// Merges a patch into the object's status.
    pub async fn merge_status(&self, at: &At, patch: Value) -> Result<Value> {
        let params = PatchParams {
            field_manager: Some(USER.to_owned()),
            ..Default::default()
        };
        let merged = self
            .api(at)
            .patch_status(&at.name, &params, &Patch::Merge(&patch))
            .await;
        Ok(serde_json::to_value(
            merged.with_context(|| format!("patch the status of {at}"))?,
        )?)
    }

    /// Deletes the object; it is fine if it is gone already.
    pub async fn delete(&self, at: &At) -> Result<()> {
        self.delete_with(at, &DeleteParams::default()).await
    }

    async fn delete_with(&self, at: &At, params: &DeleteParams) -> Result<()> {
        match self.api(at).delete(&at.name, params).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
            Err(error) => Err(error).with_context(|| format!("delete {at}")),
        }
    }

    /// Kills a Pod: no grace, as when its node loses power. It is fine if it is gone already.
    pub async fn kill(&self, at: &At) -> Result<()> {
        let params = DeleteParams {
            grace_period_seconds: Some(0),
            ..DeleteParams::default()
        };
        self.delete_with(at, &params).await
    }

    /// Deletes the object and leaves alone what it owns, as `kubectl delete --cascade=orphan` does.
    pub async fn orphan(&self, at: &At) -> Result<()> {
        let params = DeleteParams {
            propagation_policy: Some(PropagationPolicy::Orphan),
            ..DeleteParams::default()
        };
        self.delete_with(at, &params).await
    }

    /// Waits until the object fits; the last state seen is part of the error.
    pub async fn until(
        &self,
        at: &At,
        what: &str,
        within: Duration,
        fits: impl Fn(&Value) -> bool,
    ) -> Result<Value> {
        let what = format!("{at}: {what}");
        let look = || async { Ok(Seen(self.get(at).await?.unwrap_or(Value::Null))) };
        wait::until_within(within, &what, look, |seen: &Seen| fits(&seen.0))
            .await
            .map(|seen| seen.0)
    }

    /// Waits until the object does not exist.
    pub async fn until_gone(&self, at: &At, within: Duration) -> Result<()> {
        self.until(at, "is gone", within, Value::is_null)
            .await
            .map(drop)
    }

    /// Waits until the object exists.
    pub async fn until_there(&self, at: &At, within: Duration) -> Result<Value> {
        self.until(at, "is there", within, |object| !object.is_null())
            .await
    }
}

/// An object as a person wants to see it when it does not fit yet.
struct Seen(Value);

impl fmt::Debug for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_null() {
            return f.write_str("it does not exist");
        }
        let mut brief = self.0.clone();
        if let Some(metadata) = brief["metadata"].as_object_mut() {
            metadata.remove("managedFields");
        }
        write!(f, "{brief:#}")
    }
}

/// The status of a condition: `True`, `False`, `Unknown`, or nothing if it is not there.
pub fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    object["status"]["conditions"]
        .as_array()?
        .iter()
        .find(|condition| condition["type"] == kind)
}

/// Whether a condition has this status and, unless empty, this reason.
pub fn has_condition(object: &Value, kind: &str, status: &str, reason: &str) -> bool {
    condition(object, kind)
        .is_some_and(|c| c["status"] == status && (reason.is_empty() || c["reason"] == reason))
}
