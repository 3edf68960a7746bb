//! Does the work of an operator and a cluster admin around the agents: rights on the spoke, bootstrap, accept.
//!
//! The stand-in and the real processes share it, so that both have the klusterlet's rights
//! instead of cluster admin's, which would hide permissions that an add-on forgot to request.

mod rights;

use std::time::Duration;

use anyhow::{Context, Result, bail};
use k8s_openapi::api::{
    authentication::v1::{TokenRequest, TokenRequestSpec},
    core::v1::ServiceAccount,
};
use kube::{
    Api, Client,
    api::{ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use crate::{
    condition,
    kinds::{
        CERTIFICATE_SIGNING_REQUEST, CLUSTER_ROLE, CLUSTER_ROLE_BINDING, Kind, MANAGED_CLUSTER,
        NAMESPACE, SERVICE_ACCOUNT,
        words::{ADD_ON_NAME, ADD_ON_NAMESPACE, AGENT_NAMESPACE, CLUSTER_NAME},
    },
    spoke::SpokeConfig,
};

/// Joining is a few seconds of waiting for certificates and leases, more on a busy machine.
const JOINED_WITHIN: Duration = Duration::from_mins(2);
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// Longer than any lab runs.
const TOKEN_SECONDS: i64 = 7 * 24 * 3600;

/// The service account of the registration agent on the spoke.
pub(crate) const REGISTRATION: &str = "klusterlet-registration-sa";
/// The service account of the work agent on the spoke.
pub(crate) const WORK: &str = "klusterlet-work-sa";

const HUB_NAMESPACE: &str = "open-cluster-management";
const BOOTSTRAP: &str = "agent-registration-bootstrap";

/// An object to apply: its kind, and its namespace if it has one.
pub(crate) type Manifest = (Kind, Option<String>, Value);

/// Applies objects in order, as the lab.
pub(crate) async fn apply(client: &Client, manifests: Vec<Manifest>) -> Result<()> {
    let how = PatchParams::apply("lab-ocm").force();
    for (kind, namespace, mut object) in manifests {
        object["apiVersion"] = json!(kind.api_version());
        object["kind"] = json!(kind.name);
        let name = object["metadata"]["name"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        let api = match &namespace {
            Some(namespace) => kind.within(client, namespace),
            None => kind.all(client),
        };
        api.patch(&name, &how, &Patch::Apply(&object))
            .await
            .with_context(|| format!("apply {} {name}", kind.name))?;
    }
    Ok(())
}

/// Lays out the namespaces, service accounts and rights of a klusterlet on its spoke.
pub(crate) async fn install(spoke: &Client) -> Result<()> {
    let mut manifests = vec![
        (NAMESPACE, None, named(AGENT_NAMESPACE)),
        (NAMESPACE, None, named(ADD_ON_NAMESPACE)),
        (
            SERVICE_ACCOUNT,
            Some(AGENT_NAMESPACE.to_owned()),
            named(REGISTRATION),
        ),
        (
            SERVICE_ACCOUNT,
            Some(AGENT_NAMESPACE.to_owned()),
            named(WORK),
        ),
    ];
    manifests.extend(rights::of_agents());
    apply(spoke, manifests).await
}

fn named(name: &str) -> Value {
    json!({ "metadata": { "name": name } })
}

/// One rule of a role.
pub(crate) fn rule(groups: &[&str], resources: &[&str], verbs: &[&str]) -> Value {
    json!({ "apiGroups": groups, "resources": resources, "verbs": verbs })
}

/// A token of a service account, as mounted into its pods.
pub(crate) async fn token(client: &Client, namespace: &str, account: &str) -> Result<String> {
    let api: Api<ServiceAccount> = Api::namespaced(client.clone(), namespace);
    let request = TokenRequest {
        spec: Some(TokenRequestSpec {
            expiration_seconds: Some(TOKEN_SECONDS),
            ..TokenRequestSpec::default()
        }),
        ..TokenRequest::default()
    };
    let answer = api
        .create_token_request(account, &PostParams::default(), &request)
        .await
        .with_context(|| format!("get a token for {namespace}/{account}"))?;
    answer
        .status
        .and_then(|status| status.token)
        .context("the token request came back empty")
}

/// Does the same as `clusteradm init` and `get token` on the hub: creates the account that new clusters join with.
pub(crate) async fn bootstrap_token(hub: &Client) -> Result<String> {
    let name = "open-cluster-management:bootstrap";
    let clusters = "cluster.open-cluster-management.io";
    let rules = [
        rule(&[""], &["configmaps"], &["get"]),
        rule(
            &["certificates.k8s.io"],
            &["certificatesigningrequests"],
            &["create", "get", "list", "watch"],
        ),
        rule(
            &[clusters],
            &["managedclusters"],
            &["get", "create", "list", "watch"],
        ),
        rule(&[clusters], &["managedclustersets/join"], &["create"]),
    ];
    let subject = json!({
        "metadata": { "name": name },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name },
        "subjects": [{ "kind": "ServiceAccount", "namespace": HUB_NAMESPACE, "name": BOOTSTRAP }],
    });
    apply(
        hub,
        vec![
            (NAMESPACE, None, named(HUB_NAMESPACE)),
            (
                SERVICE_ACCOUNT,
                Some(HUB_NAMESPACE.to_owned()),
                named(BOOTSTRAP),
            ),
            (
                CLUSTER_ROLE,
                None,
                json!({ "metadata": { "name": name }, "rules": rules }),
            ),
            (CLUSTER_ROLE_BINDING, None, subject),
        ],
    )
    .await?;
    token(hub, HUB_NAMESPACE, BOOTSTRAP).await
}

/// Does the same as `clusteradm accept`: approves the cluster's own CSR, accepts it, and waits until it joined.
pub(crate) async fn accept(hub: &Client, config: &SpokeConfig) -> Result<()> {
    let joined = async {
        loop {
            approve_bootstrap(hub, &config.cluster).await?;
            if accept_once(hub, config).await? {
                return Ok(());
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    };
    match tokio::time::timeout(JOINED_WITHIN, joined).await {
        Ok(done) => done,
        Err(_) => bail!("{} did not join within {JOINED_WITHIN:?}", config.cluster),
    }
}

/// Checks the ManagedCluster once: true if it exists, is accepted, joined and available.
async fn accept_once(hub: &Client, config: &SpokeConfig) -> Result<bool> {
    let api = MANAGED_CLUSTER.all(hub);
    let Some(cluster) = api.get_opt(&config.cluster).await? else {
        return Ok(false);
    };
    let spec = &cluster.data["spec"];
    let labelled = config.labels.iter().all(|(key, value)| {
        cluster
            .metadata
            .labels
            .as_ref()
            .is_some_and(|l| l.get(key) == Some(value))
    });
    if spec["hubAcceptsClient"] != true
        || spec["leaseDurationSeconds"] != config.lease_seconds
        || !labelled
    {
        let patch = json!({
            "metadata": { "labels": config.labels },
            "spec": { "hubAcceptsClient": true, "leaseDurationSeconds": config.lease_seconds },
        });
        api.patch(
            &config.cluster,
            &PatchParams::default(),
            &Patch::Merge(&patch),
        )
        .await?;
        return Ok(false);
    }
    Ok([
        "HubAcceptedManagedCluster",
        "ManagedClusterJoined",
        "ManagedClusterConditionAvailable",
    ]
    .iter()
    .all(|kind| condition::is_true(&cluster.data, kind)))
}

/// Approves only CSRs that the bootstrap account created for the cluster.
async fn approve_bootstrap(hub: &Client, cluster: &str) -> Result<()> {
    let requester = format!("system:serviceaccount:{HUB_NAMESPACE}:{BOOTSTRAP}");
    let api = CERTIFICATE_SIGNING_REQUEST.all(hub);
    let selector = format!("{CLUSTER_NAME}={cluster},!{ADD_ON_NAME}");
    for csr in api.list(&ListParams::default().labels(&selector)).await? {
        if csr.data["spec"]["username"] == requester && condition::all(&csr.data).is_empty() {
            let name = csr.metadata.name.as_deref().unwrap_or_default();
            approve(hub, name, "Accepted", "accepted by the lab").await?;
        }
    }
    Ok(())
}

/// Approves one CSR.
pub(crate) async fn approve(hub: &Client, name: &str, reason: &str, message: &str) -> Result<()> {
    let mut conditions = Vec::new();
    condition::set(
        &mut conditions,
        &condition::Condition::new("Approved", "True", reason, message),
    );
    let patch = json!({ "status": { "conditions": conditions } });
    CERTIFICATE_SIGNING_REQUEST
        .all(hub)
        .patch_subresource(
            "approval",
            name,
            &PatchParams::default(),
            &Patch::Merge(&patch),
        )
        .await
        .with_context(|| format!("approve the CSR {name}"))?;
    Ok(())
}
