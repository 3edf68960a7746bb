//! The hub's Argo CD as the pattern for spokes: its version and its CRDs. Pure.

use std::{fmt, sync::Arc};

use argocd::keys::addon::INSTALLED_KIND;
use k8s_openapi::api::apps::v1::Deployment;
use serde_json::{Map, Value};

use super::follow::Hub;

/// The CRDs that a spoke needs. `ApplicationSet` is not among them: an `ApplicationSet` on the hub makes Applications for
/// managed clusters, and an autonomous cluster that uses them has its own Argo CD.
pub const CRDS: [&str; 2] = ["applications.argoproj.io", "appprojects.argoproj.io"];

/// The image if the hub runs no redis: as in Argo CD 3.2's own manifests.
const REDIS: &str = "public.ecr.aws/docker/library/redis:8.2.2-alpine";

/// The parts that are copied from the hub.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    /// Argo CD's image, of the hub's version.
    pub image: String,
    /// The image of redis.
    pub redis_image: String,
    /// The CRDs, without descriptions.
    pub crds: Vec<Arc<Value>>,
}

/// The missing parts of the pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    missing: Vec<String>,
    unread: bool,
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let missing = self.missing.join(" and ");
        let (verb, next) = if self.unread {
            (
                "cannot be read",
                "upgrade the Helm release; its chart grants this program the missing right",
            )
        } else {
            (
                "is missing",
                "install Argo CD there, or set its namespace (the chart's argocd.namespace), or set INSTALL_ARGOCD \
                to false and install Argo CD on the cluster yourself",
            )
        };
        write!(
            f,
            "the cluster has no Argo CD; the add-on would install the hub's version, but {missing} {verb}: {next}"
        )
    }
}

impl Pattern {
    /// Reads the pattern from the hub.
    pub fn of(hub: &Hub) -> Result<Self, Missing> {
        let image = image(hub);
        let crds: Vec<_> = CRDS.iter().map(|name| hub.crd(name)).collect();
        let mut missing: Vec<String> = CRDS
            .iter()
            .zip(&crds)
            .filter(|(_, crd)| crd.is_none())
            .map(|(name, _)| format!("the definition {name}"))
            .collect();
        if image.is_none() {
            missing.push(
                "a Deployment of argocd-server or argocd-repo-server that is rolled out".to_owned(),
            );
        }
        match image {
            Some(image) if missing.is_empty() => Ok(Self {
                image,
                redis_image: redis(hub).unwrap_or_else(|| REDIS.to_owned()),
                crds: crds.into_iter().flatten().collect(),
            }),
            _ => Err(Missing {
                missing,
                unread: !hub.is_listed(),
            }),
        }
    }
}

/// The image of the server, else of the repo server; every way to install Argo CD labels them.
fn image(hub: &Hub) -> Option<String> {
    ["server", "repo-server"].into_iter().find_map(|component| {
        let full = format!("argocd-{component}");
        container(hub, component, &[&full, component])
    })
}

/// The image of redis. With high availability the Deployment is a proxy, and its container has another name.
fn redis(hub: &Hub) -> Option<String> {
    container(hub, "redis", &["redis", "argocd-redis"])
}

fn container(hub: &Hub, component: &str, names: &[&str]) -> Option<String> {
    let is_of = |it: &&Deployment| {
        let labels = it.metadata.labels.as_ref();
        let label = labels.and_then(|labels| labels.get("app.kubernetes.io/component"));
        label.is_some_and(|label| label == component)
    };
    let found = hub.deployments().find(is_of)?;
    let pod = found.spec.template.spec.as_ref()?;
    let mut containers = pod.containers.iter();
    let found = containers.find(|it| names.contains(&it.name.as_str()))?;
    found.image.clone()
}

/// A CRD for another cluster: without the fields that the hub's API server sets, and without descriptions, which are
/// most of its size.
pub fn definition(crd: &Value) -> Option<Value> {
    let name = crd.pointer("/metadata/name")?.as_str()?;
    let mut spec = crd.get("spec")?.clone();
    // The hub's conversion webhook does not exist on a spoke.
    if let Some(spec) = spec.as_object_mut() {
        spec.remove("conversion");
    }
    let versions = spec.get_mut("versions").and_then(Value::as_array_mut);
    for version in versions.into_iter().flatten() {
        if let Some(schema) = version.pointer_mut("/schema/openAPIV3Schema") {
            strip(schema);
            // This identifies our CRD when the cluster enrols again.
            if let Some(schema) = schema.as_object_mut() {
                schema.insert("description".to_owned(), INSTALLED_KIND.into());
            }
        }
    }
    Some(serde_json::json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": { "name": name },
        "spec": spec,
    }))
}

/// Removes the descriptions of a schema. A property may have the name `description` itself.
fn strip(schema: &mut Value) {
    let Some(fields) = schema.as_object_mut() else {
        return;
    };
    fields.remove("description");
    for (name, value) in fields {
        match name.as_str() {
            "properties" | "patternProperties" | "definitions" => {
                let properties = value.as_object_mut().into_iter().flat_map(Map::values_mut);
                properties.for_each(strip);
            }
            "items" | "additionalProperties" | "not" => strip(value),
            "allOf" | "anyOf" | "oneOf" => {
                let all = value.as_array_mut().into_iter().flatten();
                all.for_each(strip);
            }
            // Values of objects, such as defaults: they contain no schema.
            _ => {}
        }
    }
}

#[cfg(test)]
pub(super) mod tests;
