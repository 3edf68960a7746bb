//! Provides the objects with which an add-on's agent uses a token on the hub: an account, and for its cluster the right
//! to request the account's token.

use anyhow::Result;
use kube::{
    ResourceExt,
    api::{DeleteParams, DynamicObject},
};
use serde_json::json;

use super::{Hub, for_each};
use crate::{
    condition::{self, Condition},
    control::Again,
    kinds::{MANAGED_CLUSTER_ADD_ON, ROLE, ROLE_BINDING, SERVICE_ACCOUNT},
    klusterlet::{self, rule},
};

/// Label of all objects of this controller.
pub(super) const OURS: &str = "addon.open-cluster-management.io/token-infrastructure=true";
const READY: &str = "TokenInfrastructureReady";

pub(super) async fn pass(hub: Hub) -> Result<Again> {
    sweep(&hub).await?;
    let all = hub.cache.list(MANAGED_CLUSTER_ADD_ON);
    for_each(all, async |add_on| {
        if uses_token(&add_on) && add_on.metadata.deletion_timestamp.is_none() {
            provide(&hub, &add_on).await?;
        }
        Ok(None)
    })
    .await
}

fn uses_token(add_on: &DynamicObject) -> bool {
    let registrations = add_on.data["status"]["registrations"].as_array();
    let mut clients = registrations.into_iter().flatten();
    clients
        .find(|one| one["type"] == "kubeClient")
        .is_some_and(|client| client["kubeClient"]["driver"] == "token")
}

async fn provide(hub: &Hub, add_on: &DynamicObject) -> Result<()> {
    let (name, cluster) = (add_on.name_any(), add_on.namespace().unwrap_or_default());
    let account = format!("{name}-agent");
    if hub
        .cache
        .get_within(SERVICE_ACCOUNT, &cluster, &account)
        .is_none()
    {
        make(hub, &name, &cluster).await?;
        // The account has no UID in the cache yet; its watch event wakes this controller.
        return Ok(());
    }
    let uid = hub
        .cache
        .get_within(SERVICE_ACCOUNT, &cluster, &account)
        .and_then(|account| account.uid())
        .unwrap_or_default();
    let message = format!("ServiceAccount {cluster}/{account} (UID: {uid}) is ready");
    let ready = Condition::of(READY, true, READY, message);
    let api = MANAGED_CLUSTER_ADD_ON.within(&hub.client, &cluster);
    condition::write_status(&api, add_on, |status| {
        condition::set(condition::list(status), &ready);
    })
    .await
}

async fn make(hub: &Hub, name: &str, cluster: &str) -> Result<()> {
    let labels = json!({
        "addon.open-cluster-management.io/name": name,
        "addon.open-cluster-management.io/token-infrastructure": "true",
    });
    let role = format!("{name}-token-role");
    let mut ask = rule(&[""], &["serviceaccounts/token"], &["create"]);
    ask["resourceNames"] = json!([format!("{name}-agent")]);
    let api_group = "rbac.authorization.k8s.io";
    let group = |prefix: &str| json!({ "kind": "Group", "apiGroup": api_group, "name": format!("{prefix}:{cluster}") });
    let here = || Some(cluster.to_owned());
    let manifests = vec![
        (
            ROLE,
            here(),
            json!({ "metadata": { "name": role, "labels": labels }, "rules": [ask] }),
        ),
        (
            ROLE_BINDING,
            here(),
            json!({
                "metadata": { "name": role, "labels": labels },
                "roleRef": { "apiGroup": api_group, "kind": "Role", "name": role },
                "subjects": [
                    group("system:open-cluster-management"), group("open-cluster-management"),
                ],
            }),
        ),
        (
            SERVICE_ACCOUNT,
            here(),
            json!({ "metadata": { "name": format!("{name}-agent"), "labels": labels } }),
        ),
    ];
    klusterlet::apply(&hub.client, manifests).await
}

/// Deletes the objects of add-ons that no longer use tokens.
async fn sweep(hub: &Hub) -> Result<()> {
    for account in hub.cache.list(SERVICE_ACCOUNT) {
        let cluster = account.namespace().unwrap_or_default();
        let labels = account.labels();
        let name = labels
            .get("addon.open-cluster-management.io/name")
            .cloned()
            .unwrap_or_default();
        let add_on = hub
            .cache
            .get_within(MANAGED_CLUSTER_ADD_ON, &cluster, &name);
        let needed = add_on.is_some_and(|add_on| {
            uses_token(&add_on) && add_on.metadata.deletion_timestamp.is_none()
        });
        if needed || account.metadata.deletion_timestamp.is_some() {
            continue;
        }
        let role = format!("{name}-token-role");
        for (kind, name) in [
            (ROLE_BINDING, role.as_str()),
            (ROLE, role.as_str()),
            (SERVICE_ACCOUNT, &account.name_any()),
        ] {
            let api = kind.within(&hub.client, &cluster);
            condition::tolerate_staleness(api.delete(name, &DeleteParams::default()).await)?;
        }
    }
    Ok(())
}
