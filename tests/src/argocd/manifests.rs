//! The manifests that Argo CD publishes, in the directory of its Go module.

use std::fs;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use super::NAMESPACE;
use crate::Tools;

/// What Argo CD's `core-install.yaml` has for applications; its `ApplicationSet` controller is left
/// out.
#[derive(Debug)]
pub(super) struct Manifests {
    objects: Vec<Value>,
    crds: Vec<String>,
}

impl Manifests {
    pub(super) fn read(tools: &Tools) -> Result<Self> {
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
            objects: objects(&read("core-install.yaml")?)?,
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

    /// Everything for a cluster that runs applications.
    pub(super) fn core(&self) -> String {
        let crds = self.crds.iter().take(2).cloned();
        crds.chain(self.objects.iter().map(Value::to_string))
            .collect::<Vec<_>>()
            .join("\n---\n")
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
fn objects(text: &str) -> Result<Vec<Value>> {
    let documents = text.split("\n---\n");
    // Before they are read: the CRDs are long, and reading YAML takes its time in a debug build.
    let wanted = documents.filter(|document| {
        let mut lines = document.lines();
        !lines
            .clone()
            .any(|line| line == "kind: CustomResourceDefinition")
            && !lines.any(|line| line.starts_with("  name: argocd-applicationset-controller"))
    });
    wanted
        .map(|document| {
            let mut object: Value =
                serde_saphyr::from_str(document).context("read YAML of Argo CD")?;
            let kind = object["kind"].as_str().unwrap_or_default();
            if !matches!(kind, "ClusterRole" | "ClusterRoleBinding") {
                object["metadata"]["namespace"] = json!(NAMESPACE);
            }
            Ok(object)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_for_application_sets_and_crds_are_left_out_and_the_rest_has_a_namespace() {
        let text = "kind: CustomResourceDefinition\nmetadata:\n  name: x\n---\n\
                    kind: Role\nmetadata:\n  name: argocd-applicationset-controller\n---\n\
                    kind: ClusterRole\nmetadata:\n  name: a\n---\n\
                    kind: ConfigMap\nmetadata:\n  name: b\n";
        let expected = [
            json!({ "kind": "ClusterRole", "metadata": { "name": "a" } }),
            json!({ "kind": "ConfigMap", "metadata": { "name": "b", "namespace": NAMESPACE } }),
        ];
        assert_eq!(objects(text).unwrap(), expected);
    }
}
