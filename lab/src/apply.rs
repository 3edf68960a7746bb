//! Applies YAML to a cluster, like `kubectl apply --server-side`.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use kube::{
    Api, Client,
    api::{DeleteParams, DynamicObject, Patch, PatchParams},
    core::{ApiResource, GroupVersionKind},
    discovery::{self, ApiCapabilities, Scope},
};
use tokio::sync::Mutex;

use crate::wait;

/// The field manager of everything the lab applies.
const MANAGER: &str = "lab";

/// The resources of one cluster by kind.
#[derive(Debug, Default)]
pub(crate) struct Kinds {
    // The known kinds; locked during discovery, so that each kind is requested once.
    known: Mutex<BTreeMap<String, (ApiResource, ApiCapabilities)>>,
}

impl Kinds {
    /// The API of a kind, in a namespace if the kind has them. Waits a while for a kind that is not served yet, as
    /// after its CRD was applied.
    pub(crate) async fn api(
        &self,
        client: &Client,
        kind: &GroupVersionKind,
        namespace: Option<&str>,
    ) -> Result<Api<DynamicObject>> {
        let (resource, capabilities) = self.resource(client, kind).await?;
        Ok(match (capabilities.scope, namespace) {
            (Scope::Cluster, _) => Api::all_with(client.clone(), &resource),
            (Scope::Namespaced, Some(namespace)) => {
                Api::namespaced_with(client.clone(), namespace, &resource)
            }
            (Scope::Namespaced, None) => Api::default_namespaced_with(client.clone(), &resource),
        })
    }

    async fn resource(
        &self,
        client: &Client,
        kind: &GroupVersionKind,
    ) -> Result<(ApiResource, ApiCapabilities)> {
        let key = format!("{}/{} {}", kind.group, kind.version, kind.kind);
        let mut known = self.known.lock().await;
        if let Some(found) = known.get(&key) {
            return Ok(found.clone());
        }
        let look = || async { Ok(discovery::pinned_kind(client, kind).await?) };
        let found = wait::until(&format!("{key} is served"), look, |_| true).await?;
        known.insert(key, found.clone());
        Ok(found)
    }
}

/// Applies every object of a YAML text, dependencies first.
pub(crate) async fn apply(client: &Client, kinds: &Kinds, text: &str) -> Result<()> {
    let mut objects = parse(text)?;
    objects.sort_by_key(rank);
    let parameters = PatchParams::apply(MANAGER).force();
    for object in &objects {
        let (api, name) = locate(client, kinds, object).await?;
        api.patch(&name, &parameters, &Patch::Apply(object))
            .await
            .with_context(|| format!("apply {}", title(object)))?;
    }
    Ok(())
}

/// Deletes every existing object of a YAML text, in the opposite order.
pub(crate) async fn delete(client: &Client, kinds: &Kinds, text: &str) -> Result<()> {
    let mut objects = parse(text)?;
    objects.sort_by_key(|object| std::cmp::Reverse(rank(object)));
    for object in &objects {
        let (api, name) = locate(client, kinds, object).await?;
        match api.delete(&name, &DeleteParams::default()).await {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.is_not_found() => {}
            Err(error) => return Err(error).with_context(|| format!("delete {}", title(object))),
        }
    }
    Ok(())
}

async fn locate(
    client: &Client,
    kinds: &Kinds,
    object: &DynamicObject,
) -> Result<(Api<DynamicObject>, String)> {
    let types = object
        .types
        .as_ref()
        .context("an object without apiVersion and kind")?;
    let kind = GroupVersionKind::try_from(types).context("an apiVersion that cannot be read")?;
    let name = object
        .metadata
        .name
        .clone()
        .context("an object without a name")?;
    let api = kinds
        .api(client, &kind, object.metadata.namespace.as_deref())
        .await?;
    Ok((api, name))
}

/// The objects of a YAML text of several documents; empty documents do not count.
fn parse(text: &str) -> Result<Vec<DynamicObject>> {
    let mut objects = Vec::new();
    for document in documents(text) {
        let value: serde_json::Value = serde_saphyr::from_str(&document)
            .with_context(|| format!("YAML that cannot be read:\n{document}"))?;
        if value.is_null() {
            continue;
        }
        let object = serde_json::from_value(value)
            .with_context(|| format!("not a Kubernetes object:\n{document}"))?;
        objects.push(object);
    }
    Ok(objects)
}

fn documents(text: &str) -> Vec<String> {
    let mut documents = vec![String::new()];
    for line in text.lines() {
        if line.trim_end() == "---" {
            documents.push(String::new());
        } else if let Some(document) = documents.last_mut() {
            document.push_str(line);
            document.push('\n');
        }
    }
    documents.retain(|document| {
        document
            .lines()
            .any(|line| !line.trim().is_empty() && !line.trim_start().starts_with('#'))
    });
    documents
}

/// The position of an object in the order of applying: namespaces and other dependencies first.
fn rank(object: &DynamicObject) -> u8 {
    match object.types.as_ref().map(|types| types.kind.as_str()) {
        Some("Namespace") => 0,
        Some("CustomResourceDefinition") => 1,
        Some("ServiceAccount" | "ConfigMap" | "Secret" | "Role" | "ClusterRole") => 2,
        Some("RoleBinding" | "ClusterRoleBinding" | "Service") => 3,
        Some(_) | None => 4,
    }
}

fn title(object: &DynamicObject) -> String {
    let kind = object
        .types
        .as_ref()
        .map_or("object", |types| types.kind.as_str());
    let name = object.metadata.name.as_deref().unwrap_or("without a name");
    match object.metadata.namespace.as_deref() {
        Some(namespace) => format!("{kind} {namespace}/{name}"),
        None => format!("{kind} {name}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_empty_documents_are_no_objects() -> Result<()> {
        let text =
            "# about\n---\n\n---\napiVersion: v1\nkind: Namespace\nmetadata: {name: a}\n---\n";
        let objects = parse(text)?;
        assert_eq!(
            objects.iter().map(title).collect::<Vec<_>>(),
            ["Namespace a"]
        );
        Ok(())
    }
}
