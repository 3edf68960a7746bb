//! Applies the objects of one work, each by its update strategy, in an order in which they can succeed.

use std::collections::HashMap;

use anyhow::{Context, Result, anyhow, bail};
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, Patch, PatchParams, PostParams},
    core::GroupVersionKind,
    discovery::Scope,
};
use serde_json::{Value, json};

use super::{
    merge::{merged, owners, without_empty},
    rules::{self, Strategy},
};
use crate::{client, condition::Condition};

/// The outcome of one manifest.
#[derive(Clone, Debug)]
pub(super) struct Outcome {
    /// The `resourceMeta` of its status.
    pub(super) meta: Value,
    /// Its UID if it exists, or why it could not be applied.
    pub(super) result: Result<String, Failure>,
}

#[derive(Clone, Debug)]
pub(super) struct Failure {
    message: String,
    /// A conflict of server-side apply stays one until an object or the work changes.
    is_final: bool,
}

impl Outcome {
    pub(super) const fn is_applied(&self) -> bool {
        self.result.is_ok()
    }

    /// Whether retrying soon is pointless.
    pub(super) fn is_settled(&self) -> bool {
        self.result
            .as_ref()
            .err()
            .is_none_or(|failure| failure.is_final)
    }

    pub(super) fn condition(&self) -> Condition {
        match &self.result {
            Ok(_) => Condition::of(
                "Applied",
                true,
                "AppliedManifestComplete",
                "Apply manifest complete",
            ),
            Err(failure) => {
                let message = format!("Failed to apply manifest: {}", failure.message);
                Condition::of("Applied", false, "AppliedManifestFailed", message)
            }
        }
    }
}

/// Applies objects of any kind with the work agent's rights.
pub(super) struct Applier {
    client: Client,
    /// The resource of each kind: this never changes while a version is served.
    kinds: HashMap<GroupVersionKind, (ApiResource, Scope)>,
}

impl Applier {
    pub(super) fn new(client: Client) -> Self {
        Self {
            client,
            kinds: HashMap::new(),
        }
    }

    /// Applies every manifest of a work, independent of errors of the others, in the work's order.
    pub(super) async fn apply(&mut self, spec: &Value, owner: &Value) -> Vec<Outcome> {
        let manifests = spec
            .pointer("/workload/manifests")
            .and_then(Value::as_array);
        let manifests = manifests.map_or(&[][..], Vec::as_slice);
        let mut order: Vec<(usize, &Value)> = manifests.iter().enumerate().collect();
        order.sort_by_key(|(_, one)| rules::order(one["kind"].as_str().unwrap_or_default()));
        let mut outcomes = Vec::with_capacity(manifests.len());
        for (ordinal, manifest) in order {
            outcomes.push((ordinal, self.one(ordinal, manifest, spec, owner).await));
        }
        outcomes.sort_by_key(|(ordinal, _)| *ordinal);
        outcomes.into_iter().map(|(_, outcome)| outcome).collect()
    }

    async fn one(
        &mut self,
        ordinal: usize,
        manifest: &Value,
        spec: &Value,
        owner: &Value,
    ) -> Outcome {
        let text = |pointer: &str| {
            manifest
                .pointer(pointer)
                .and_then(Value::as_str)
                .unwrap_or_default()
        };
        let (name, namespace) = (text("/metadata/name"), text("/metadata/namespace"));
        let mut meta = json!({
            "ordinal": ordinal, "kind": text("/kind"), "name": name, "namespace": namespace,
            "group": "", "version": "", "resource": "",
        });
        let gvk = gvk(text("/apiVersion"), text("/kind"));
        meta["group"] = json!(gvk.group);
        meta["version"] = json!(gvk.version);
        let api = match self.resolve(&gvk).await {
            Ok((resource, scope)) => {
                meta["resource"] = json!(resource.plural);
                self.api(&resource, &scope, namespace)
            }
            Err(error) => return Outcome::failed(meta, &error),
        };
        let strategy = rules::strategy(spec, &meta);
        let is_ours = strategy != Strategy::ReadOnly && !rules::is_orphan(spec, &meta);
        let result = apply_one(&api, manifest, &strategy, owner, is_ours).await;
        let result = result.map_err(|error| Failure {
            is_final: is_final(&error, &strategy),
            message: client::message_of(&error),
        });
        Outcome { meta, result }
    }

    /// The resource and scope of a kind.
    pub(super) async fn resolve(&mut self, gvk: &GroupVersionKind) -> Result<(ApiResource, Scope)> {
        if let Some(known) = self.kinds.get(gvk) {
            return Ok(known.clone());
        }
        let (resource, capabilities) =
            match kube::discovery::oneshot::pinned_kind(&self.client, gvk).await {
                Ok(found) => found,
                Err(error @ kube::Error::Api(_)) if !is_unknown(&error) => return Err(error.into()),
                Err(kube::Error::Api(_) | kube::Error::Discovery(_)) => {
                    bail!("the server doesn't have a resource type {:?}", gvk.kind)
                }
                Err(error) => return Err(error.into()),
            };
        let known = (resource, capabilities.scope);
        self.kinds.insert(gvk.clone(), known.clone());
        Ok(known)
    }

    /// The API for the object of a status entry.
    pub(super) async fn api_of(&mut self, meta: &Value) -> Result<Api<DynamicObject>> {
        let text = |key: &str| meta[key].as_str().unwrap_or_default();
        if text("kind").is_empty() {
            let gvk = GroupVersionKind::gvk(text("group"), text("version"), "");
            let resource = ApiResource::from_gvk_with_plural(&gvk, text("resource"));
            let scope = if text("namespace").is_empty() {
                Scope::Cluster
            } else {
                Scope::Namespaced
            };
            return Ok(self.api(&resource, &scope, text("namespace")));
        }
        let gvk = GroupVersionKind::gvk(text("group"), text("version"), text("kind"));
        let (resource, scope) = self.resolve(&gvk).await?;
        Ok(self.api(&resource, &scope, text("namespace")))
    }

    fn api(&self, resource: &ApiResource, scope: &Scope, namespace: &str) -> Api<DynamicObject> {
        match scope {
            Scope::Namespaced => Api::namespaced_with(self.client.clone(), namespace, resource),
            Scope::Cluster => Api::all_with(self.client.clone(), resource),
        }
    }
}

impl Outcome {
    fn failed(meta: Value, error: &anyhow::Error) -> Self {
        let failure = Failure {
            message: client::message_of(error),
            is_final: false,
        };
        Self {
            meta,
            result: Err(failure),
        }
    }
}

fn is_unknown(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 404)
}

fn gvk(api_version: &str, kind: &str) -> GroupVersionKind {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    GroupVersionKind::gvk(group, version, kind)
}

fn is_final(error: &anyhow::Error, strategy: &Strategy) -> bool {
    matches!(strategy, Strategy::ServerSideApply { force: false, .. })
        && matches!(error.downcast_ref(), Some(kube::Error::Api(status)) if status.is_conflict())
}

async fn apply_one(
    api: &Api<DynamicObject>,
    manifest: &Value,
    strategy: &Strategy,
    owner: &Value,
    is_ours: bool,
) -> Result<String> {
    let name = manifest["metadata"]["name"]
        .as_str()
        .context("a manifest without a name")?;
    let live = match strategy {
        Strategy::ServerSideApply { manager, force } => {
            let how = PatchParams {
                force: *force,
                ..PatchParams::apply(manager)
            };
            let live = api.patch(name, &how, &Patch::Apply(manifest)).await?;
            own(api, live, owner, is_ours).await?
        }
        Strategy::ReadOnly => api.get(name).await?,
        Strategy::CreateOnly => match api.get_opt(name).await? {
            Some(live) => own(api, live, owner, is_ours).await?,
            None => create(api, manifest, owner, is_ours).await?,
        },
        Strategy::Update => match api.get_opt(name).await? {
            Some(live) => update(api, live, manifest, owner, is_ours).await?,
            None => create(api, manifest, owner, is_ours).await?,
        },
    };
    live.metadata
        .uid
        .ok_or_else(|| anyhow!("an object without a UID"))
}

async fn create(
    api: &Api<DynamicObject>,
    manifest: &Value,
    owner: &Value,
    is_ours: bool,
) -> Result<DynamicObject> {
    let mut manifest = manifest.clone();
    if is_ours {
        manifest["metadata"]["ownerReferences"] = json!([owner]);
    }
    Ok(api
        .create(&PostParams::default(), &serde_json::from_value(manifest)?)
        .await?)
}

/// Writes the whole object if it differs: the work agent may update CRDs but not patch them.
async fn update(
    api: &Api<DynamicObject>,
    live: DynamicObject,
    manifest: &Value,
    owner: &Value,
    is_ours: bool,
) -> Result<DynamicObject> {
    let before = serde_json::to_value(&live)?;
    let mut after = merged(&before, manifest);
    after["metadata"]["ownerReferences"] = owners(&before, owner, is_ours);
    if without_empty(&before) == without_empty(&after) {
        return Ok(live);
    }
    let name = live.metadata.name.unwrap_or_default();
    Ok(api
        .replace(
            &name,
            &PostParams::default(),
            &serde_json::from_value(after)?,
        )
        .await?)
}

/// Adds or removes the reference to our AppliedManifestWork.
async fn own(
    api: &Api<DynamicObject>,
    live: DynamicObject,
    owner: &Value,
    is_ours: bool,
) -> Result<DynamicObject> {
    let before = serde_json::to_value(&live)?;
    let wanted = owners(&before, owner, is_ours);
    if before
        .pointer("/metadata/ownerReferences")
        .unwrap_or(&json!([]))
        == &wanted
    {
        return Ok(live);
    }
    let patch = json!({ "metadata": {
        "resourceVersion": live.metadata.resource_version, "ownerReferences": wanted,
    }});
    let name = live.metadata.name.unwrap_or_default();
    Ok(api
        .patch(&name, &PatchParams::default(), &Patch::Merge(&patch))
        .await?)
}
