//! A whole add-on in one file, as a tutorial.
//!
//! The add-on `hello` runs an agent for every cluster that has it. The agent reads its greeting from a
//! `ConfigMap` in its cluster's namespace on the hub, renews a lease on its cluster while it is well,
//! and says goodbye before it goes. It may also run on another cluster than the one it greets.
//!
//! To see it at work, with a kubeconfig of an OCM hub:
//!
//! 1. Offer the add-on:
//!    ```yaml
//!    apiVersion: addon.open-cluster-management.io/v1alpha1
//!    kind: ClusterManagementAddOn
//!    metadata: { name: hello }
//!    spec: { addOnMeta: { displayName: Hello } }
//!    ```
//! 2. Run its manager: `HOSTS=big-one cargo run -p ocm --features sdk --example hello_addon`
//! 3. Switch it on for a cluster: `clusteradm addon enable --names hello --clusters c1`
//! 4. Look: `clusteradm get addon hello -o tree`, and `kubectl get role,rolebinding -n c1`.
//! 5. Move the agent to another cluster:
//!    `kubectl annotate mca -n c1 hello addon.open-cluster-management.io/hosting-cluster-name=big-one`
//! 6. Switch it off and see the hook run: `clusteradm addon disable --names hello --clusters c1`

use std::{collections::BTreeSet, env, sync::Arc, time::Duration};

use futures::StreamExt as _;
use k8s_openapi::api::rbac::v1::PolicyRule;
use ocm::{
    condition::{Verdict, addon},
    keys,
    name::{AddonName, ClusterName},
    sdk::{
        Addon, Health, HealthInput, HealthMode, HookError, Hosts, Leaving, Metrics, Registration,
        Removal, RenderError, RenderInput, Rendered, Setup, SigningCa, Target, View, discover,
        images, run,
        values::{InstallMode, hub_kubeconfig_secret},
        workload,
    },
};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

/// What the manager needs to know. Everything about a single cluster comes with the questions.
struct Hello {
    name: AddonName,
    hosts: Hosts,
}

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
        let greeting = input.config.variable("GREETING").unwrap_or("hello");
        if greeting.len() > 40 {
            // Shown in ManifestApplied; what the cluster has stays.
            let message = "GREETING may have 40 characters; shorten it in the configuration";
            return Err(RenderError {
                message: message.to_owned(),
            });
        }
        let namespace = input.install_namespace;
        let mut objects = vec![
            namespace_object(namespace),
            service_account(namespace),
            lease_role(namespace),
            lease_binding(namespace),
            agent(&self.name, input, greeting),
            goodbye(namespace),
        ];
        // Node placement, resources, proxies and registries, wherever Pods are made.
        let registries = images::registries(input.config, input.target);
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
            recheck: None,
        }
    }

    // Step 4, farewell.

    /// How long the Job that says goodbye may take. A cluster that is lost cannot run it, and the
    /// add-on must be able to go nevertheless.
    fn hook_deadline(&self) -> Duration {
        Duration::from_mins(2)
    }

    /// Called before hooks run and works go, and again until it says `Proceed`.
    async fn leaving(&self, leaving: &Leaving) -> Result<Removal, HookError> {
        tracing::debug!(cluster = %leaving.cluster, phase = ?leaving.phase, "goodbye");
        Ok(Removal::Proceed)
    }

    /// Called when all is gone: the place to take away what [`Addon::enrolled`] made on the hub.
    async fn left(&self, cluster: &ClusterName) -> Result<(), HookError> {
        tracing::info!(%cluster, "gone");
        Ok(())
    }
}

/// Namespaces are often shared: this one stays when the add-on goes, and on either cluster there is
/// one. OCM copies its image pull secret to namespaces with this label.
fn namespace_object(namespace: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Namespace",
        "metadata": {
            "name": namespace,
            "labels": { (keys::SPOKE_NAMESPACE): "true" },
            "annotations": { (keys::DELETION_ORPHAN): "", (keys::HOSTED_LOCATION): "hosting" },
        },
    })
}

/// In hosted mode everything that belongs to the agent goes to the host. Without hosted mode the
/// annotation means nothing.
fn metadata(namespace: &str) -> Value {
    json!({
        "namespace": namespace, "name": "hello",
        "annotations": { (keys::HOSTED_LOCATION): "hosting" },
    })
}

fn service_account(namespace: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata(namespace) })
}

/// What the agent needs for its lease.
fn lease_role(namespace: &str) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
        "metadata": metadata(namespace),
        "rules": [{
            "apiGroups": ["coordination.k8s.io"], "resources": ["leases"],
            "verbs": ["get", "create", "update", "patch"],
        }],
    })
}

fn lease_binding(namespace: &str) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
        "metadata": metadata(namespace),
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "hello" },
        "subjects": [{ "kind": "ServiceAccount", "namespace": namespace, "name": "hello" }],
    })
}

/// The agent. Its Pod waits until OCM has made the Secret with its way to the hub.
fn agent(addon: &AddonName, input: RenderInput<'_>, greeting: &str) -> Value {
    let image = input.config.variable("IMAGE");
    let labels = json!({ "app": "hello" });
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": metadata(input.install_namespace),
        "spec": {
            "replicas": 1,
            "selector": { "matchLabels": labels },
            "template": {
                "metadata": { "labels": labels },
                "spec": {
                    "serviceAccountName": "hello",
                    "containers": [{
                        "name": "hello",
                        "image": image.unwrap_or("example.com/hello:v1"),
                        "env": [
                            { "name": "CLUSTER", "value": input.target.name },
                            { "name": "GREETING", "value": greeting },
                            { "name": "MODE", "value": InstallMode::of(input.target).as_str() },
                        ],
                        "volumeMounts": [{ "name": "hub", "mountPath": "/var/run/hub" }],
                    }],
                    "volumes": [{
                        "name": "hub",
                        "secret": { "secretName": hub_kubeconfig_secret(addon.as_str()) },
                    }],
                },
            },
        },
    })
}

/// A hook: it is not deployed with the rest but runs before the add-on goes, while everything else
/// is still there.
fn goodbye(namespace: &str) -> Value {
    json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {
            "namespace": namespace, "name": "hello-goodbye",
            "annotations": { (keys::PRE_DELETE): "", (keys::HOSTED_LOCATION): "hosting" },
        },
        "spec": {
            "backoffLimit": 3,
            "template": { "spec": {
                "serviceAccountName": "hello",
                "restartPolicy": "Never",
                "containers": [{
                    "name": "goodbye", "image": "example.com/hello:v1", "args": ["goodbye"],
                }],
            } },
        },
    })
}

/// The names in the variable `HOSTS`, with commas between them.
fn hosts() -> Result<Hosts, HookError> {
    let text = env::var("HOSTS").unwrap_or_default();
    let names = text.split(',').filter(|name| !name.is_empty());
    let hosts = names
        .map(ClusterName::new)
        .collect::<Result<BTreeSet<_>, _>>()?;
    Ok(if hosts.is_empty() {
        Hosts::None
    } else {
        Hosts::These(hosts)
    })
}

/// A real manager would take a lease first, since only one may run, and serve its metrics.
#[tokio::main]
async fn main() -> Result<(), HookError> {
    // The client logs every refused connection as an error; the SDK tells an outage once.
    let filter = "info,kube_client=off";
    tracing_subscriber::fmt().with_env_filter(filter).init();
    let client = kube::Client::try_default().await?;
    let version = discover(&client).await?;
    let token = CancellationToken::new();
    let setup = Setup {
        client,
        version,
        view: View::new(),
        wake: futures::stream::empty().boxed(),
        token: token.clone(),
        metrics: Metrics::default(),
        concurrency: 8,
    };
    let addon = Arc::new(Hello {
        name: AddonName::new("hello")?,
        hosts: hosts()?,
    });
    let mut running = std::pin::pin!(run(addon, setup));
    tokio::select! {
        ended = &mut running => return Ok(ended?),
        interrupted = tokio::signal::ctrl_c() => interrupted?,
    }
    token.cancel();
    tokio::time::timeout(Duration::from_secs(10), running).await??;
    Ok(())
}
