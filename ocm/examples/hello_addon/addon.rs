//! What the author of an add-on writes: answers, in the order of the add-on's life on a cluster.

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
        Addon, Health, HealthInput, HealthMode, HookError, Hosts, Leaving, Registration, Removal,
        RenderError, RenderInput, Rendered, SigningCa, Target, images, workload,
    },
};
use serde_json::json;

use crate::objects;

/// What the manager needs to know. Everything about a single cluster comes with the questions.
pub(crate) struct Hello {
    pub(crate) name: AddonName,
    pub(crate) client: Client,
    pub(crate) hosts: Hosts,
    pub(crate) hook_deadline: Duration,
}

/// The `ConfigMap` in a cluster's namespace on the hub that says whom its agent greets.
pub(crate) const GUEST: &str = "hello";

impl Addon for Hello {
    fn name(&self) -> &AddonName {
        &self.name
    }

    // Step 1, enrolment: who is the agent, and what may it do on the hub?

    /// The agent is a client of the hub's API server. OCM's registration agent asks for its
    /// certificate (or, as it is set up, its token) and keeps it in a Secret on the cluster; the SDK
    /// checks and approves the request. Nothing here has to know which of the two it is.
    fn registrations(&self, _target: Target<'_>) -> Vec<Registration> {
        vec![Registration::KubeClient]
    }

    /// It reads `ConfigMaps`, in its own cluster's namespace only.
    fn hub_permissions(&self) -> Vec<PolicyRule> {
        vec![PolicyRule {
            api_groups: Some(vec![String::new()]),
            resources: Some(vec!["configmaps".to_owned()]),
            verbs: ["get", "list", "watch"].map(str::to_owned).into(),
            ..PolicyRule::default()
        }]
    }

    /// Certificates for the hub's API server are signed by the hub, so there is no CA of ours.
    fn signing_ca(&self, _signer: &str) -> Option<Arc<SigningCa>> {
        None
    }

    /// What the agent needs on the hub before it comes. Asked at every look, so it must be cheap, and
    /// write nothing, when all is there.
    async fn enrolled(&self, target: Target<'_>) -> Result<(), HookError> {
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

    // Step 2, deployment: which objects does a cluster get?

    /// Which clusters may host agents of others. The list is the hub's: the annotation that asks
    /// for a host may have been written by the cluster itself.
    fn hosts(&self) -> Hosts {
        self.hosts.clone()
    }

    /// The objects for one cluster: the same input gives the same objects.
    ///
    /// An `AddOnDeploymentConfig` that somebody edits arrives here when OCM rolls it out to this
    /// cluster, not before.
    fn render(&self, input: RenderInput<'_>) -> Result<Rendered, RenderError> {
        if input.config.variable("QUIET") == Some("yes") {
            return Ok(Rendered::default());
        }
        let mut objects = objects::of_cluster(&self.name, input)?;
        // Node placement, resources, proxies and registries, wherever Pods are made.
        let registries = images::registries(input.config, input.target)?;
        for object in &mut objects {
            workload::configure(object, input.config, &registries);
        }
        Ok(objects.into())
    }

    // Step 3, health: how does the hub know?

    /// The agent renews a lease named `hello` in its namespace, and OCM looks at it.
    fn health_mode(&self) -> HealthMode {
        HealthMode::Lease
    }

    /// `Available` is then OCM's to say. `Degraded` is ours: something needs a person.
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

    // Step 4, farewell.

    /// How long the Job that says goodbye may take. A cluster that is lost cannot run it, and the
    /// add-on must be able to go nevertheless.
    fn hook_deadline(&self) -> Duration {
        self.hook_deadline
    }

    /// Called before hooks run and works go, and again until it says `Proceed`.
    async fn leaving(&self, leaving: &Leaving) -> Result<Removal, HookError> {
        tracing::debug!(cluster = %leaving.cluster, phase = ?leaving.phase, "goodbye");
        Ok(Removal::Proceed)
    }

    /// Called when all is gone: takes away what [`Addon::enrolled`] made on the hub.
    async fn left(&self, cluster: &ClusterName) -> Result<(), HookError> {
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
