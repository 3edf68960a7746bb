//! The objects of an Argo CD on one spoke: `manifests/spoke/argocd`, filled. Pure.

use std::{collections::BTreeMap, sync::Arc};

use ocm::{
    api::{
        addon::AddOnDeploymentConfigSpec,
        work::{ManifestConfig, ResourceIdentifier, UpdateStrategy},
    },
    sdk::{Config, Rendered, workload},
};
use serde_json::{Value, json};

use crate::{
    addon::{
        manifests::Spoke,
        template::{Error, Template},
    },
    keys,
};

/// What the agent may do beside it; of no use without the agent.
const FOR_THE_AGENT: &str = "argocd/agent.yaml";

/// The files, in the order in which they must exist; each has several objects.
const FILES: [(&str, &str); 5] = [
    (
        FOR_THE_AGENT,
        include_str!("../../../../manifests/spoke/argocd/agent.yaml"),
    ),
    (
        "argocd/config.yaml",
        include_str!("../../../../manifests/spoke/argocd/config.yaml"),
    ),
    (
        "argocd/redis.yaml",
        include_str!("../../../../manifests/spoke/argocd/redis.yaml"),
    ),
    (
        "argocd/repo-server.yaml",
        include_str!("../../../../manifests/spoke/argocd/repo-server.yaml"),
    ),
    (
        "argocd/controller.yaml",
        include_str!("../../../../manifests/spoke/argocd/controller.yaml"),
    ),
];

/// Made once; what people write into it stays.
const FOR_PEOPLE: &str = "argocd-cm";

/// By this label the klusterlet knows where to copy its image pull secret.
const ADDON_NAMESPACE: &str = "addon.open-cluster-management.io/namespace";

/// What differs from one spoke to the next.
#[derive(Clone, Debug)]
pub struct Brought<'a> {
    /// Its settings.
    pub spoke: &'a Spoke,
    /// Argo CD's image, after registries were applied.
    pub image: String,
    /// That of redis.
    pub redis_image: String,
    /// The definitions of Argo CD's kinds; none where they are left to others.
    pub crds: &'a [Arc<Value>],
    /// Whether it stays when the add-on goes.
    pub keep: bool,
    /// Node placement and resources.
    pub config: &'a AddOnDeploymentConfigSpec,
}

/// The parsed manifests.
#[derive(Clone, Debug)]
pub struct Templates(Vec<Template>);

impl Templates {
    /// Parses the files built into this program.
    pub fn embedded() -> Result<Self, Error> {
        let documents = FILES
            .into_iter()
            .flat_map(|(name, text)| text.split("\n---\n").map(move |document| (name, document)));
        documents
            .map(|(name, text)| Template::parse(name, text))
            .collect::<Result<_, _>>()
            .map(Self)
    }

    /// The objects for one spoke: definitions first.
    pub fn render(&self, installed: &Brought<'_>) -> Result<Rendered, Error> {
        let Brought {
            spoke,
            image,
            redis_image,
            crds,
            keep,
            config,
        } = installed;
        let further: Vec<&str> = spoke.further_namespaces().map(String::as_str).collect();
        let values = BTreeMap::from([
            ("AGENT_NAMESPACE", spoke.agent_namespace.clone()),
            ("ARGOCD_NAMESPACE", spoke.argocd_namespace.clone()),
            ("APPLICATION_NAMESPACES", further.join(",")),
            ("ARGOCD_IMAGE", image.clone()),
            ("REDIS_IMAGE", redis_image.clone()),
        ]);
        // The proxy is for the agent's way to the hub; Argo CD's programs talk to each other.
        let pods = Config {
            deployment: Some(AddOnDeploymentConfigSpec {
                proxy_config: None,
                ..(*config).clone()
            }),
            ..Config::default()
        };
        let mut manifests: Vec<Value> = crds.iter().map(|crd| orphan(Value::clone(crd))).collect();
        for template in &self.0 {
            let mut object = template.fill(&values)?;
            workload::configure(&mut object, &pods, &[]);
            let stays = *keep && template.name() != FOR_THE_AGENT;
            manifests.push(if stays { orphan(object) } else { object });
        }
        Ok(Rendered {
            manifests: manifests.into_iter().map(marked).collect(),
            configs: vec![for_people(&spoke.argocd_namespace)],
        })
    }
}

/// The agent's objects, and beside them those of Argo CD, if it is brought.
///
/// Its images may come from where a pull secret is asked for, so the klusterlet shall copy that one here, too.
pub fn beside(mut objects: Vec<Value>, installed: Rendered, spoke: &Spoke) -> Rendered {
    let Rendered { manifests, configs } = installed;
    if !manifests.is_empty() {
        let namespace = |it: &&mut Value| {
            it.pointer("/kind") == Some(&json!("Namespace"))
                && it.pointer("/metadata/name") == Some(&json!(spoke.argocd_namespace))
        };
        if let Some(namespace) = objects.iter_mut().find(namespace) {
            *namespace = with(namespace.take(), "labels", ADDON_NAMESPACE, "true");
        }
    }
    objects.extend(manifests);
    Rendered {
        manifests: objects,
        configs,
    }
}

fn for_people(namespace: &str) -> ManifestConfig {
    ManifestConfig {
        resource_identifier: ResourceIdentifier {
            group: String::new(),
            resource: "configmaps".to_owned(),
            namespace: namespace.to_owned(),
            name: FOR_PEOPLE.to_owned(),
        },
        update_strategy: Some(UpdateStrategy {
            kind: "CreateOnly".to_owned(),
            server_side_apply: None,
        }),
        ..ManifestConfig::default()
    }
}

/// The object stays when the add-on goes.
fn orphan(object: Value) -> Value {
    with(object, "annotations", ocm::keys::DELETION_ORPHAN, "")
}

/// By this the agent knows what is ours.
fn marked(object: Value) -> Value {
    with(object, "labels", keys::INSTALLED, "true")
}

fn with(mut object: Value, marks: &str, key: &str, value: &str) -> Value {
    let metadata = object.get_mut("metadata").and_then(Value::as_object_mut);
    let marks = metadata.map(|it| it.entry(marks).or_insert_with(|| json!({})));
    if let Some(marks) = marks.and_then(Value::as_object_mut) {
        marks.insert(key.to_owned(), json!(value));
    }
    object
}

#[cfg(test)]
pub(super) mod tests;
