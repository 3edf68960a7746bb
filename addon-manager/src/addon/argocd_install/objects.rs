//! Renders the objects of an Argo CD on one spoke from `manifests/spoke/argocd`. Pure.

use std::{collections::BTreeMap, sync::Arc};

use ocm::{
    api::{
        addon::AddOnDeploymentConfigSpec,
        work::{ManifestConfig, ResourceIdentifier, UpdateStrategy},
    },
    sdk::{Config, Rendered, workload},
};
use serde_json::{Value, json};

use super::{proxy, tuning};
use crate::{
    addon::{
        manifests::Spoke,
        template::{Error, Template, embedded},
    },
    keys,
};

/// The permissions of the agent; useless without the agent.
const FOR_THE_AGENT: &str = "argocd/agent.yaml";

/// The further certificates to trust; omitted where there are none.
const PROXY_CA: &str = "argocd/proxy-ca.yaml";

/// The files in the order of creation; most have several objects.
const FILES: [(&str, &str); 6] = [
    embedded!("argocd/agent.yaml"),
    embedded!("argocd/proxy-ca.yaml"),
    embedded!("argocd/config.yaml"),
    embedded!("argocd/redis.yaml"),
    embedded!("argocd/repo-server.yaml"),
    embedded!("argocd/controller.yaml"),
];

/// The klusterlet copies its image pull secret into namespaces with this label.
const ADDON_NAMESPACE: &str = "addon.open-cluster-management.io/namespace";

/// The input of a rendering.
#[derive(Clone, Debug)]
pub struct Inputs<'a> {
    /// Its settings.
    pub spoke: &'a Spoke,
    /// Argo CD's image, with image registries applied.
    pub image: String,
    /// The image of redis.
    pub redis_image: String,
    /// Argo CD's CRDs; empty if another owner manages them.
    pub crds: &'a [Arc<Value>],
    /// Whether Argo CD stays when the add-on is removed.
    pub keep: bool,
    /// Whether the cluster is an OpenShift, which chooses the users of Pods itself.
    pub is_openshift: bool,
    /// Node placement and resources.
    pub config: &'a AddOnDeploymentConfigSpec,
}

/// The parsed manifests.
#[derive(Clone, Debug)]
pub struct Templates(Vec<Template>);

impl Templates {
    /// Parses the files built into this program.
    pub fn embedded() -> Result<Self, Error> {
        Template::all(&FILES).map(Self)
    }

    /// Renders the objects for one spoke, CRDs first.
    pub fn render(&self, inputs: &Inputs<'_>) -> Result<Rendered, Error> {
        let spoke = inputs.spoke;
        let further: Vec<&str> = spoke.further_namespaces().map(String::as_str).collect();
        let values = BTreeMap::from([
            ("AGENT_NAMESPACE", spoke.agent_namespace.clone()),
            ("ARGOCD_NAMESPACE", spoke.argocd_namespace.clone()),
            ("APPLICATION_NAMESPACES", further.join(",")),
            ("ARGOCD_IMAGE", inputs.image.clone()),
            ("REDIS_IMAGE", inputs.redis_image.clone()),
            ("PROXY_CA", spoke.proxy.ca.clone()),
        ]);
        // Only the programs that need the proxy get it, with exceptions for destinations within the cluster.
        let pods = Config {
            deployment: Some(AddOnDeploymentConfigSpec {
                proxy_config: None,
                ..inputs.config.clone()
            }),
            ..Config::default()
        };
        let crds = inputs.crds.iter();
        let mut manifests: Vec<Value> = crds.map(|crd| orphan(Value::clone(crd))).collect();
        let has_ca = proxy::has_ca(&spoke.proxy);
        for template in self.0.iter().filter(|it| has_ca || it.name() != PROXY_CA) {
            let mut object = template.fill(&values)?;
            workload::configure(&mut object, &pods, &[]);
            proxy::configure(&mut object, &spoke.proxy);
            tuning::configure(&mut object, &spoke.tuning);
            if let Some(pod) = object.pointer_mut("/spec/template/spec") {
                argocd::patch::merge(pod, &spoke.pod.for_argocd());
                if inputs.is_openshift {
                    take_user(pod);
                }
            }
            let stays = inputs.keep && template.name() != FOR_THE_AGENT;
            manifests.push(if stays { orphan(object) } else { object });
        }
        Ok(Rendered {
            manifests: manifests.into_iter().map(marked).collect(),
            configs: configs(spoke),
        })
    }
}

/// Leaves the choice of a Pod's user to the cluster. OpenShift refuses users outside of the range of the namespace; elsewhere
/// redis needs one, since its image would run as root.
fn take_user(pod: &mut Value) {
    let security = pod.get_mut("securityContext");
    if let Some(security) = security.and_then(Value::as_object_mut) {
        security.remove("runAsUser");
    }
}

/// Appends the objects of Argo CD, if there are any, to those of the agent.
///
/// Its images may need a pull secret, so the klusterlet copies that one to Argo CD's namespace, too.
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

/// Without settings of the fleet `argocd-cm` is created once, and changes by users stay. With them it is applied like the
/// other objects: its keys are ours, and all others stay.
fn configs(spoke: &Spoke) -> Vec<ManifestConfig> {
    let once = ManifestConfig {
        resource_identifier: ResourceIdentifier {
            group: String::new(),
            resource: "configmaps".to_owned(),
            namespace: spoke.argocd_namespace.clone(),
            name: tuning::CM.to_owned(),
        },
        update_strategy: Some(UpdateStrategy {
            kind: "CreateOnly".to_owned(),
            server_side_apply: None,
        }),
        ..ManifestConfig::default()
    };
    let is_ours = spoke.tuning.cm.is_some();
    (!is_ours).then_some(once).into_iter().collect()
}

/// Keeps the object when the add-on is removed.
fn orphan(object: Value) -> Value {
    with(object, "annotations", ocm::keys::DELETION_ORPHAN, "")
}

/// The agent recognizes our objects by this label.
fn marked(object: Value) -> Value {
    with(object, "labels", keys::INSTALLED, "true")
}

fn with(mut object: Value, marks: &str, key: &str, value: &str) -> Value {
    argocd::patch::merge(&mut object, &json!({"metadata": {marks: {key: value}}}));
    object
}

#[cfg(test)]
pub(super) mod tests;
