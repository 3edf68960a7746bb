//! The manifests that Argo CD publishes, in the directory of its Go module.

use std::fs;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use super::APPLICATION_SETS;
use crate::Tools;

/// The `ConfigMap` with the settings of Argo CD's programs.
const PARAMETERS: &str = "argocd-cmd-params-cm";
const PROGRESSIVE_SYNCS: &str = "applicationsetcontroller.enable.progressive.syncs";

/// What Argo CD's `core-install.yaml` has but CRDs.
#[derive(Debug)]
pub(super) struct Manifests {
    objects: Vec<Value>,
    crds: Vec<String>,
}

impl Manifests {
    /// Reads them, for Argo CD in a namespace.
    pub(super) fn read(tools: &Tools, namespace: &str) -> Result<Self> {
        let manifests = tools.argocd_module.join("manifests");
        let read = |name: &str| {
            let path = manifests.join(name);
            fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))
        };
        let crds = [
            "application-crd.yaml",
            "appproject-crd.yaml",
            "applicationset-crd.yaml",
        ];
        Ok(Self {
            objects: objects(&read("core-install.yaml")?, namespace)?,
            crds: crds
                .iter()
                .map(|name| read(&format!("crds/{name}")))
                .collect::<Result<_>>()?,
        })
    }

    /// The CRDs, with that of `ApplicationSets`.
    pub(super) fn crds(&self) -> String {
        self.crds.join("\n---\n")
    }

    /// Everything for a cluster that runs applications: all but the `ApplicationSet` controller.
    pub(super) fn core(&self) -> String {
        let crds = self.crds.iter().take(2).cloned();
        crds.chain(self.without(APPLICATION_SETS).map(Value::to_string))
            .collect::<Vec<_>>()
            .join("\n---\n")
    }

    /// Everything for a hub that makes Applications for others: all but the application controller. Progressive syncs
    /// are switched on, as the documentation of Argo CD says.
    pub(super) fn application_sets(&self) -> String {
        let objects = self.without(super::CONTROLLER).cloned().map(|mut object| {
            if object["kind"] == "ConfigMap" && object["metadata"]["name"] == PARAMETERS {
                object["data"] = json!({ PROGRESSIVE_SYNCS: "true" });
            }
            object.to_string()
        });
        objects.collect::<Vec<_>>().join("\n---\n")
    }

    /// All but what belongs to one program.
    fn without(&self, program: &str) -> impl Iterator<Item = &Value> {
        self.objects.iter().filter(move |object| {
            let name = object["metadata"]["name"].as_str();
            name.is_none_or(|name| !name.starts_with(program))
        })
    }

    /// Only what runs.
    pub(super) fn programs(&self) -> String {
        let runs = |object: &&Value| {
            matches!(
                object["kind"].as_str(),
                Some("Deployment" | "StatefulSet" | "Service")
            )
        };
        let programs = self.objects.iter().filter(runs).map(Value::to_string);
        programs.collect::<Vec<_>>().join("\n---\n")
    }
}

/// The objects of `core-install.yaml` but CRDs, in Argo CD's namespace.
fn objects(text: &str, namespace: &str) -> Result<Vec<Value>> {
    let documents = text.split("\n---\n");
    // Before they are read: the CRDs are long, and reading YAML takes its time in a debug build.
    let wanted = documents.filter(|document| {
        !document
            .lines()
            .any(|line| line == "kind: CustomResourceDefinition")
    });
    wanted
        .map(|document| {
            let mut object: Value =
                serde_saphyr::from_str(document).context("read YAML of Argo CD")?;
            let kind = object["kind"].as_str().unwrap_or_default();
            match kind {
                "ClusterRole" => {}
                "ClusterRoleBinding" => object["subjects"][0]["namespace"] = json!(namespace),
                _ => object["metadata"]["namespace"] = json!(namespace),
            }
            Ok(object)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crds_are_left_out_and_the_rest_has_a_namespace_and_its_place() {
        let text = "kind: CustomResourceDefinition\nmetadata:\n  name: x\n---\n\
                    kind: Role\nmetadata:\n  name: argocd-applicationset-controller\n---\n\
                    kind: ClusterRole\nmetadata:\n  name: argocd-application-controller\n---\n\
                    kind: ConfigMap\nmetadata:\n  name: b\n";
        let set = json!({ "kind": "Role", "metadata": { "name": APPLICATION_SETS, "namespace": "here" } });
        let app =
            json!({ "kind": "ClusterRole", "metadata": { "name": super::super::CONTROLLER } });
        let map = json!({ "kind": "ConfigMap", "metadata": { "name": "b", "namespace": "here" } });
        let manifests = Manifests {
            objects: objects(text, "here").unwrap(),
            crds: Vec::new(),
        };
        assert_eq!(manifests.objects, [set.clone(), app.clone(), map.clone()]);
        assert_eq!(manifests.core(), format!("{app}\n---\n{map}"));
        assert_eq!(manifests.application_sets(), format!("{set}\n---\n{map}"));
    }
}
