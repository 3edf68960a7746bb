//! The manifests that Argo CD publishes, in the directory of its Go module.

use std::fs;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use super::APPLICATION_SETS;
use crate::Tools;

/// The `ConfigMap` with the settings of Argo CD's programs.
pub(super) const PARAMETERS: &str = "argocd-cmd-params-cm";
const PROGRESSIVE_SYNCS: &str = "applicationsetcontroller.enable.progressive.syncs";

/// The name under which `install.yaml` has objects that `core-install.yaml` lacks.
const SERVER: &str = "argocd-server";
/// The server's rights where Applications are in other namespaces than Argo CD's.
const ANY_NAMESPACE: [&str; 2] = [
    "../examples/k8s-rbac/argocd-server-applications/argocd-server-rbac-clusterrole.yaml",
    "../examples/k8s-rbac/argocd-server-applications/argocd-server-rbac-clusterrolebinding.yaml",
];

/// The objects of Argo CD's `core-install.yaml` without CRDs, and its server.
#[derive(Debug)]
pub(super) struct Manifests {
    objects: Vec<Value>,
    server: Vec<Value>,
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
            server: {
                let mut documents = vec![only_of(SERVER, &read("install.yaml")?)];
                for name in ANY_NAMESPACE {
                    documents.push(read(name)?);
                }
                objects(&documents.join("\n---\n"), namespace)?
            },
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
    /// are enabled, as Argo CD's documentation describes.
    pub(super) fn application_sets(&self) -> String {
        let objects = self.without(super::CONTROLLER).cloned().map(|mut object| {
            if object["kind"] == "ConfigMap" && object["metadata"]["name"] == PARAMETERS {
                object["data"] = json!({ PROGRESSIVE_SYNCS: "true" });
            }
            object.to_string()
        });
        objects.collect::<Vec<_>>().join("\n---\n")
    }

    /// The server of API and UI, with the rights in other namespaces that Argo CD's documentation of Applications in any
    /// namespace names.
    pub(super) fn server(&self) -> String {
        let objects = self.server.iter().map(Value::to_string);
        objects.collect::<Vec<_>>().join("\n---\n")
    }

    /// The application controller and its rights, for a hub that has the rest.
    pub(super) fn controller(&self) -> String {
        let objects = self.objects.iter();
        let own = objects.filter(|object| is_of(object, super::CONTROLLER));
        own.map(Value::to_string)
            .collect::<Vec<_>>()
            .join("\n---\n")
    }

    /// All objects except those of one program.
    fn without(&self, program: &str) -> impl Iterator<Item = &Value> {
        self.objects
            .iter()
            .filter(move |object| !is_of(object, program))
    }

    /// Only Deployments, `StatefulSets` and Services.
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

/// Whether an object is of a program: its name begins with the name of the program.
fn is_of(object: &Value, program: &str) -> bool {
    let name = object["metadata"]["name"].as_str();
    name.is_some_and(|name| name.starts_with(program))
}

/// The documents about one program, with its name as the name of the object.
fn only_of(program: &str, text: &str) -> String {
    let name = format!("  name: {program}");
    let is_of = |document: &&str| document.lines().any(|line| line.starts_with(&name));
    let documents = text.split("\n---\n").filter(is_of);
    documents.collect::<Vec<_>>().join("\n---\n")
}

/// The objects of a file without CRDs, in Argo CD's namespace.
fn objects(text: &str, namespace: &str) -> Result<Vec<Value>> {
    let documents = text.split("\n---\n");
    // Before parsing: the CRDs are long, and parsing YAML is slow in a debug build.
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
            server: Vec::new(),
            crds: Vec::new(),
        };
        assert_eq!(manifests.objects, [set.clone(), app.clone(), map.clone()]);
        assert_eq!(manifests.core(), format!("{app}\n---\n{map}"));
        assert_eq!(manifests.application_sets(), format!("{set}\n---\n{map}"));
        assert_eq!(manifests.controller(), app.to_string());
    }

    #[test]
    fn documents_of_a_program_are_found_by_its_name() {
        let service = "kind: Service\nmetadata:\n  name: argocd-server";
        let other = "kind: Deployment\nmetadata:\n  name: argocd-redis\nspec:\n  to:\n    name: argocd-server";
        let policy = "kind: NetworkPolicy\nmetadata:\n  name: argocd-server-network-policy\n";
        let text = [service, other, policy].join("\n---\n");
        assert_eq!(only_of(SERVER, &text), format!("{service}\n---\n{policy}"));
    }
}
