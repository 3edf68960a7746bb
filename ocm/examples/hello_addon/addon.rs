//! The implementation of [`Addon`], in the order of the add-on's life cycle on a cluster.

use std::{sync::Arc, time::Duration};

use k8s_openapi::api::{core::v1::ConfigMap, rbac::v1::PolicyRule};
use kube::{
    Api, Client,
    api::{DeleteParams, Patch, PatchParams},
};
use ocm::{
    condition::{Verdict, addon},
    name::{AddonName, ClusterName},
    sdk::{
        Addon, Health, HealthInput, HealthMode, HookError, Hosts, Registration, Removal,
        RemovalInput, RenderError, RenderInput, Rendered, SigningCa, Target, images, workload,
    },
};
use serde_json::json;

use crate::objects;

/// The settings of the manager. The SDK passes everything about a cluster to each method.
pub(crate) struct Hello {
    pub(crate) name: AddonName,
    pub(crate) client: Client,
    pub(crate) hosts: Hosts,
    pub(crate) hook_deadline: Duration,
}

/// The `ConfigMap` in a cluster's namespace on the hub with the name that its agent greets.
pub(crate) const GUEST: &str = "hello";

impl Addon for Hello {
    fn name(&self) -> &AddonName {
        &self.name
    }

    // Step 1, enrolment: the agent's identity, and its permissions on the hub.

    /// The agent is a client of the hub's API server. OCM's registration agent requests its
    /// certificate (or its token, depending on OCM's setup) and keeps it in a Secret on the cluster;
    /// the SDK checks and approves the request. The add-on works with both.
    fn registrations(&self, _target: Target<'_>) -> Vec<Registration> {
        vec![Registration::KubeClient]
    }

    /// The agent reads `ConfigMaps`, in its own cluster's namespace only.
    fn hub_permissions(&self) -> Vec<PolicyRule> {
        vec![PolicyRule {
            api_groups: Some(vec![String::new()]),
            resources: Some(vec!["configmaps".to_owned()]),
            verbs: ["get", "list", "watch"].map(str::to_owned).into(),
            ..PolicyRule::default()
        }]
    }

    /// The hub signs certificates for its own API server, so the add-on needs no CA.
    fn signing_ca(&self, _signer: &str) -> Option<Arc<SigningCa>> {
        None
    }

    /// Creates the objects that the agent needs on the hub. Every reconcile calls it, so it must be
    /// cheap, and write nothing, when they exist.
    async fn prepare_hub(&self, target: Target<'_>) -> Result<(), HookError> {
        let guests = self.guests(target.name);
        if guests.get_metadata_opt(GUEST).await?.is_some() {
            return Ok(());
        }
        let guest = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": GUEST },
            "data": { "name": target.name },
        });
        let params = PatchParams::apply("hello-addon");
        guests.patch(GUEST, &params, &Patch::Apply(&guest)).await?;
        Ok(())
    }

    // Step 2, deployment: the objects of a cluster.

    /// The clusters that may host agents of others. The list must come from the hub, because the
    /// cluster itself may write the annotation that names its host.
    fn hosts(&self) -> Hosts {
        self.hosts.clone()
    }

    /// The objects for one cluster: the same input gives the same objects.
    ///
    /// A change of an `AddOnDeploymentConfig` arrives here when OCM rolls it out to this cluster.
    fn render(&self, input: RenderInput<'_>) -> Result<Rendered, RenderError> {
        if input.config.variable("QUIET") == Some("yes") {
            return Ok(Rendered::default());
        }
        let mut objects = objects::of_cluster(&self.name, input)?;
        // Node placement, resources, proxies and registries of each workload.
        let registries = images::registries(input.config, input.target)?;
        for object in &mut objects {
            workload::configure(object, input.config, &registries);
        }
        Ok(objects.into())
    }

    // Step 3, health.

    /// The agent renews a lease named `hello` in its namespace, and OCM checks it.
    fn health_mode(&self) -> HealthMode {
        HealthMode::Lease
    }

    /// In lease mode OCM sets `Available`. The add-on sets `Degraded` for problems that an administrator
    /// must solve.
    fn conditions(&self, input: HealthInput<'_>) -> Health {
        let degraded = match input.render_error {
            Some(error) => {
                Verdict::new(addon::DEGRADED, true, "WrongConfiguration", &error.message)
            }
            None => Verdict::new(addon::DEGRADED, false, "AsExpected", ""),
        };
        Health {
            verdicts: vec![degraded],
            ..Health::default()
        }
    }

    // Step 4, removal.

    /// How long the pre-delete Job may take. A lost cluster cannot run it, and the removal of the add-on
    /// must complete nevertheless.
    fn hook_deadline(&self) -> Duration {
        self.hook_deadline
    }

    /// Called before hooks run and works are deleted, and again until it returns `Proceed`.
    async fn before_removal(&self, input: &RemovalInput) -> Result<Removal, HookError> {
        tracing::debug!(cluster = %input.cluster, phase = ?input.phase, "goodbye");
        Ok(Removal::Proceed)
    }

    /// Called when all works are gone: deletes the objects that [`Addon::prepare_hub`] created.
    async fn after_removal(&self, cluster: &ClusterName) -> Result<(), HookError> {
        let guests = self.guests(cluster);
        if guests.get_metadata_opt(GUEST).await?.is_some() {
            guests.delete(GUEST, &DeleteParams::default()).await?;
            tracing::info!(%cluster, "gone");
        }
        Ok(())
    }
}

impl Hello {
    fn guests(&self, cluster: &ClusterName) -> Api<ConfigMap> {
        Api::namespaced(self.client.clone(), cluster.as_str())
    }
}
