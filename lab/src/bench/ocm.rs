//! OCM on a hub with simulated clusters, and the add-on on offer there.

use std::time::Duration;

use anyhow::Result;
use lab_ocm_stand_in::{Conversion, Hub, HubConfig, newest_add_on_api, real_binaries};
use serde_json::{Value, json};

use super::crowd::addon;
use crate::{
    Cluster, product,
    steps::{ADDON, At, Objects, objects::has_condition},
    wait,
};

/// The version of the add-on API that the stand-in always serves.
const NEW: &str = "v1beta1";

/// The writer of OCM's objects on the hub.
pub(super) enum Ocm {
    /// The real controllers.
    Real(Hub),
    /// The crowd, as cheaply as possible; the webhook is the stand-in's.
    Played { _conversion: Conversion },
}

/// The OCM of a hub.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Edition {
    /// Whether OCM's own controllers run, which write their part themselves.
    pub(super) is_real: bool,
    /// The newest version of the add-on API: the one that our manager uses.
    pub(super) add_on_api: &'static str,
}

impl Ocm {
    /// The real one, if there is any.
    pub(super) async fn start(hub: &Cluster) -> Result<Self> {
        if real_binaries().is_none() {
            return Self::play(hub).await;
        }
        let config = HubConfig {
            kubeconfig: hub.kubeconfig(),
            dir: hub.dir().join("ocm"),
        };
        Ok(Self::Real(Hub::start(config).await?))
    }

    /// The played one.
    pub(super) async fn play(hub: &Cluster) -> Result<Self> {
        Ok(Self::Played {
            _conversion: Conversion::serve(&hub.kubeconfig()).await?,
        })
    }

    pub(super) fn edition(&self) -> Edition {
        match self {
            Self::Real(_) => Edition {
                is_real: true,
                add_on_api: newest_add_on_api(),
            },
            Self::Played { .. } => Edition {
                is_real: false,
                add_on_api: NEW,
            },
        }
    }

    pub(super) async fn stop(self) {
        if let Self::Real(mut hub) = self {
            hub.stop().await;
        }
    }
}

impl Edition {
    /// `group/version` of the add-on kinds.
    pub(super) fn api_version(self) -> String {
        format!("addon.open-cluster-management.io/{}", self.add_on_api)
    }

    fn is_new(self) -> bool {
        self.add_on_api == NEW
    }

    fn definition(self) -> At {
        let kind = ("ClusterManagementAddOn", "clustermanagementaddons");
        At::of(&self.api_version(), kind, None, ADDON)
    }

    /// The spec of a definition with one default configuration.
    fn spec(self, namespace: &str) -> Value {
        let mut config = json!({
            "group": "addon.open-cluster-management.io", "resource": "addondeploymentconfigs",
        });
        let object = json!({ "namespace": namespace, "name": ADDON });
        let configs = if self.is_new() {
            config["namespace"] = object["namespace"].clone();
            config["name"] = object["name"].clone();
            "defaultConfigs"
        } else {
            config["defaultConfig"] = object;
            "supportedConfigs"
        };
        json!({ "addOnMeta": { "displayName": "Argo CD Agent" }, configs: [config] })
    }

    /// The references to the default configurations in the status of a definition.
    fn references(self) -> &'static str {
        // The two differ in one letter.
        if self.is_new() {
            "defaultConfigReferences"
        } else {
            "defaultconfigReferences"
        }
    }

    /// Creates the chart's objects of OCM's kinds, and the first status of OCM's add-on manager, unless that runs.
    pub(super) async fn offer(self, hub: Cluster) -> Result<()> {
        let namespace = product::NAMESPACE;
        hub.apply(&format!(
            "apiVersion: v1
kind: Namespace
metadata: {{ name: {namespace} }}
---
apiVersion: addon.open-cluster-management.io/v1alpha1
kind: AddOnDeploymentConfig
metadata: {{ name: {ADDON}, namespace: {namespace} }}
spec: {{ agentInstallNamespace: open-cluster-management-agent-addon }}
"
        ))
        .await?;
        let objects = Objects::new(hub.client());
        let spec = json!({ "spec": self.spec(namespace) });
        objects.apply(&self.definition(), spec).await?;
        if self.is_real {
            return Ok(());
        }
        let reference = json!({
            "group": "addon.open-cluster-management.io", "resource": "addondeploymentconfigs",
            "desiredConfig": { "namespace": namespace, "name": ADDON, "specHash": "" },
        });
        let status = json!({ "status": { self.references(): [reference] } });
        objects
            .merge_status(&self.definition(), status)
            .await
            .map(drop)
    }

    /// The owner of all add-ons and their configuration, once the manager has reported its hash: then it has read
    /// everything.
    pub(super) async fn offered(self, hub: Cluster) -> Result<(Value, Value)> {
        let objects = Objects::new(hub.client());
        let references = self.references();
        let hashed = |it: &Value| {
            let hash = &it["status"][references][0]["desiredConfig"]["specHash"];
            hash.as_str().is_some_and(|hash| !hash.is_empty())
        };
        let what = "has the hash of its configuration";
        let offer = objects
            .until(&self.definition(), what, wait::BOUND, hashed)
            .await?;
        let owner = json!({
            "apiVersion": self.api_version(),
            "kind": "ClusterManagementAddOn", "name": ADDON, "uid": offer["metadata"]["uid"],
            "controller": true, "blockOwnerDeletion": true,
        });
        let reference = &offer["status"][references][0];
        Ok((owner, reference["desiredConfig"].clone()))
    }

    /// Waits until the manager has reported for every cluster that its works are applied, and that its agent is missing.
    pub(super) async fn until_reported(self, hub: Cluster, clusters: usize) -> Result<()> {
        let objects = Objects::new(hub.client());
        let addons = objects.everywhere(&addon(self, ""));
        let look = || async {
            let list = addons.list(&kube::api::ListParams::default()).await?;
            let stated = list.items.into_iter().filter(|it| {
                let it = json!({ "status": it.data["status"] });
                has_condition(&it, "ManifestApplied", "True", "")
                    && has_condition(&it, "Available", "False", "")
            });
            Ok(stated.count())
        };
        let bound = Duration::from_mins(15);
        wait::slowly(bound, "all clusters are reported", look, |count| {
            *count == clusters
        })
        .await
        .map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_definition_is_spelt_as_its_version_has_it() {
        let [old, new] = ["v1alpha1", NEW].map(|add_on_api| Edition {
            is_real: true,
            add_on_api,
        });
        assert_eq!(
            new.spec("there")["defaultConfigs"][0]["namespace"],
            json!("there")
        );
        assert_eq!(
            old.spec("there")["supportedConfigs"][0]["defaultConfig"],
            json!({ "namespace": "there", "name": ADDON })
        );
        assert_eq!(new.references(), "defaultConfigReferences");
        assert_eq!(old.references(), "defaultconfigReferences");
        assert_eq!(
            old.api_version(),
            "addon.open-cluster-management.io/v1alpha1"
        );
    }
}
