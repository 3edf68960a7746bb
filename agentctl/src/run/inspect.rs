//! Reads what `check` needs. Nothing that cannot be read ends it: that is a finding, too.

use std::{collections::BTreeSet, time::Duration};

use argocd::keys::addon::{ADDON, MANAGER, PRINCIPAL_SERVICE};
use serde_json::{Value, json};

use super::{Answer, Error, addons, hub_settings, labels, spoke};
use crate::{
    args::Global,
    check::{
        CONTROLLER, Facts, Findings, GROUPS, RIGHTS, Right, RightPlace, SERVER, Served,
        ServerRight, addresses, check, hosts, spoke::Source,
    },
    hub::{
        ACCESS_REVIEWS, By, CONFIG_MAPS, DEPLOYMENTS, Error as HubError, Hub, OFFERS,
        OTHERS_ACCESS_REVIEWS, SECRETS, SERVICES, STATEFUL_SETS,
    },
    object::text,
    output::Place,
};

/// The `ConfigMap` with the parameters of Argo CD's programs.
pub(super) const PARAMETERS: &str = "argocd-cmd-params-cm";
/// So many namespaces are asked about one by one, where not all are allowed together.
const ASKED_ABOUT: usize = 20;
/// How long a name may take to be resolved.
const RESOLVING: Duration = Duration::from_secs(5);

/// Looks at everything; `place` is where it is shown. Of a hub that does not answer nothing can be found.
pub(super) async fn inspect(hub: &Hub, global: &Global, place: Place) -> Result<Answer, Error> {
    if let Err(error @ HubError::NotReached { .. }) = hub.about().await {
        return Err(error.into());
    }
    let findings = findings(hub, global, place).await;
    Answer::of(&findings, place, findings.has_failed())
}

/// What is found.
pub(super) async fn findings(hub: &Hub, global: &Global, place: Place) -> Findings {
    let own = Some(global.own_namespace.as_str());
    let settings = hub_settings(hub, global).await;
    let argocd = settings.routing.argocd_namespace.clone();
    let manager = hub.find(DEPLOYMENTS, own, MANAGER).await;
    let service = hub.find(SERVICES, own, PRINCIPAL_SERVICE).await;
    let parameters = hub.find(CONFIG_MAPS, Some(&argocd), PARAMETERS);
    let hosts = hosts(present(&manager), present(&service));
    let address = addresses(present(&manager), present(&service))
        .into_iter()
        .next();
    let address = address.map(|(host, port)| (host, port, Source::Hub));
    let roots = spoke::roots(None, Some(hub), global).await;
    let about = hub.about().await;
    // Without them there are no namespaces to check.
    let addons = addons(hub).await.unwrap_or_default().into_iter();
    let clusters: Vec<_> = addons.map(|it| it.cluster).collect();
    let facts = Facts {
        served: served(hub).await,
        offer: hub.find(OFFERS, None, ADDON).await,
        resolved: resolved(hosts).await,
        way: spoke::gone(address, None, &roots, place).await,
        clock: about.ok().and_then(|about| about.clock),
        rights: rights(hub, &argocd, &global.own_namespace).await,
        controllers: controllers(hub).await,
        parameters: parameters.await,
        server_rights: server_rights(hub, &argocd, &clusters).await,
        secrets: secrets(hub, &argocd).await,
        clusters,
        labels: labels(hub).await.map_err(|error| error.to_string()),
        own_namespace: global.own_namespace.clone(),
        manager,
        service,
        settings,
    };
    check(&facts)
}

/// The object that was read, if it is there.
pub(super) fn present(read: &Result<Option<Value>, String>) -> Option<&Value> {
    read.as_ref().ok().and_then(Option::as_ref)
}

async fn served(hub: &Hub) -> Served {
    let mut served = Served::new();
    for (version, ..) in GROUPS {
        let kinds = hub.served(version).await;
        let kinds = kinds.map(BTreeSet::from_iter);
        served.insert(version, kinds.map_err(|error| error.to_string()));
    }
    served
}

async fn resolved(hosts: Vec<String>) -> Vec<(String, Result<(), String>)> {
    let mut resolved = Vec::new();
    for host in hosts {
        let looked = tokio::net::lookup_host((host.as_str(), 443));
        let found = match tokio::time::timeout(RESOLVING, looked).await {
            Ok(Ok(mut addresses)) => addresses
                .next()
                .map(drop)
                .ok_or_else(|| "no address".to_owned()),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_elapsed) => Err(format!("DNS lookup timed out after {RESOLVING:?}")),
        };
        resolved.push((host, found));
    }
    resolved
}

async fn rights(hub: &Hub, argocd: &str, own: &str) -> Vec<(&'static Right, Result<bool, String>)> {
    let mut rights = Vec::new();
    for right in &RIGHTS {
        let namespace = match right.place {
            RightPlace::Everywhere => "",
            RightPlace::ArgoCd => argocd,
            RightPlace::Own => own,
        };
        let (group, resource) = right.kind();
        let spec = json!({"resourceAttributes": {
            "verb": right.verb, "group": group, "resource": resource, "name": right.name, "namespace": namespace,
        }});
        rights.push((right, hub.allows(ACCESS_REVIEWS, &spec).await));
    }
    rights
}

/// Argo CD's application controllers, as manifests, charts and operators make them.
pub(super) async fn controllers(hub: &Hub) -> Result<Vec<Value>, String> {
    let by = By::labels(CONTROLLER);
    let mut all = hub.find_all(STATEFUL_SETS, &by).await?;
    all.extend(hub.find_all(DEPLOYMENTS, &by).await?);
    Ok(all)
}

/// What Argo CD's server may do with Applications: everywhere, or else in the namespaces of clusters.
async fn server_rights(hub: &Hub, argocd: &str, clusters: &[String]) -> Vec<ServerRight> {
    let user = format!(
        "system:serviceaccount:{argocd}:{}",
        server_account(hub, argocd).await
    );
    let everywhere = server_may(hub, &user, "").await;
    if clusters.is_empty() || everywhere != Ok(false) {
        return vec![(String::new(), everywhere)];
    }
    let mut rights = Vec::new();
    for cluster in clusters.iter().take(ASKED_ABOUT) {
        rights.push((cluster.clone(), server_may(hub, &user, cluster).await));
    }
    rights
}

/// As whom Argo CD's server runs; what its own manifests say, where it is not found.
async fn server_account(hub: &Hub, argocd: &str) -> String {
    let by = By {
        labels: Some(SERVER.to_owned()),
        ..By::namespace(argocd)
    };
    let all = hub.list(DEPLOYMENTS, &by).await.unwrap_or_default();
    let account = all.first();
    let account = account.map_or("", |it| text(it, "/spec/template/spec/serviceAccountName"));
    if account.is_empty() {
        return "argocd-server".to_owned();
    }
    account.to_owned()
}

async fn server_may(hub: &Hub, user: &str, namespace: &str) -> Result<bool, String> {
    let spec = json!({"user": user, "resourceAttributes": {
        "verb": "update", "group": "argoproj.io", "resource": "applications", "namespace": namespace,
    }});
    hub.allows(OTHERS_ACCESS_REVIEWS, &spec).await
}

/// The cluster Secrets of agents: their metadata, so that nothing of what is in them goes further.
async fn secrets(hub: &Hub, argocd: &str) -> Result<Vec<Value>, String> {
    let by = By {
        labels: Some(argocd::keys::AGENT_NAME.to_owned()),
        ..By::namespace(argocd)
    };
    let metadata = |secret: Value| Some(json!({ "metadata": secret.get("metadata") }));
    let all = hub.collect(SECRETS, &by, metadata).await;
    all.map_err(|error| error.to_string())
}
