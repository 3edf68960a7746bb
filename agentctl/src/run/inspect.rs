//! Reads what `check` needs. Nothing that cannot be read ends it: that is a finding, too.

use std::{collections::BTreeSet, time::Duration};

use argocd::keys::{
    AGENT_NAME,
    addon::{ADDON, FLEET_GUARD, MANAGER, PRINCIPAL_SERVICE, UI_EXTENSION, UI_SECRET},
};
use diagnosis::object::{present, service_account};
use serde_json::{Value, json};

use super::{Answer, Context, Error, spoke};
use crate::{
    check::{
        CONTROLLER, Facts, Findings, GROUPS, RIGHTS, Right, SERVER, Served, ServerRight, UiFacts,
        addresses, asked, check, has_own_namespaces, in_effect, spoke::Source,
    },
    hub::{
        ACCESS_REVIEWS, APPLICATIONS, CONFIG_MAPS, DEPLOYMENTS, Error as HubError, Hub, LEASES,
        OFFERS, OTHERS_ACCESS_REVIEWS, PROJECTS, SECRETS, SERVICES, STATEFUL_SETS, all, labelled,
        named,
    },
    ui,
};

/// The `ConfigMap` with the parameters of Argo CD's programs.
pub(super) const PARAMETERS: &str = "argocd-cmd-params-cm";
/// That with its settings.
pub(super) const ARGOCD_CM: &str = "argocd-cm";
/// That with its policies.
pub(super) const RBAC_CM: &str = "argocd-rbac-cm";
/// The `ServiceAccount` of Argo CD's server in its own manifests.
const SERVER_ACCOUNT: &str = "argocd-server";
/// So many namespaces are asked about one by one, where not all are allowed together.
const ASKED_ABOUT: usize = 20;
/// How long a name may take to be resolved.
const RESOLVING: Duration = Duration::from_secs(5);

/// Looks at everything. Of a hub that does not answer nothing can be found.
pub(super) async fn inspect(context: &Context<'_>) -> Result<Answer, Error> {
    if let Err(error @ HubError::NotReached(_)) = context.hub.about().await {
        return Err(error.into());
    }
    let findings = findings(context).await;
    Answer::of(&findings, context.place, findings.has_failed())
}

/// What is found.
pub(super) async fn findings(context: &Context<'_>) -> Findings {
    let (hub, own) = (&context.hub, Some(context.own()));
    let settings = context.settings().await;
    let argocd = settings.routing.argocd_namespace.clone();
    let manager = hub.find(DEPLOYMENTS, own, MANAGER).await;
    let service = hub.find(SERVICES, own, PRINCIPAL_SERVICE).await;
    let addresses = addresses(present(&manager), present(&service));
    let address = addresses.first().cloned();
    let address = address.map(|(host, port)| (host, port, Source::Hub));
    let roots = spoke::roots(None, Some(context)).await;
    let about = hub.about().await;
    // Without them there are no namespaces to check.
    let addons = context.addons().await.unwrap_or_default().into_iter();
    let clusters: Vec<_> = addons.map(|it| it.cluster).collect();
    let server = server(hub, &argocd).await;
    let parameters = hub.find(CONFIG_MAPS, Some(&argocd), PARAMETERS).await;
    let facts = Facts {
        served: served(hub).await,
        offer: hub.find(OFFERS, None, ADDON).await,
        leases: hub.find_all(LEASES, own, all()).await,
        resolved: resolved(addresses).await,
        way: spoke::gone(address, None, &roots, context.place).await,
        clock: about.ok().and_then(|about| about.clock),
        rights: rights(context, &argocd).await,
        controllers: controllers(hub).await,
        parameters: in_effect(parameters.clone(), server.as_ref()),
        shared_parameters: parameters,
        has_own_namespaces: has_own_namespaces(server.as_ref()),
        ui: if ui::is_on(present(&manager)) {
            Some(of_pages(hub, &argocd, server.clone()).await)
        } else {
            None
        },
        server_rights: server_rights(hub, (argocd.as_str(), server.as_ref()), &clusters).await,
        secrets: secrets(hub, &argocd).await,
        clusters,
        labels: context.labels().await.map_err(|error| error.to_string()),
        own_namespace: context.own().to_owned(),
        manager,
        service,
        settings,
    };
    check(&facts)
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

async fn resolved(addresses: Vec<(String, u16)>) -> Vec<(String, Result<(), String>)> {
    let mut resolved = Vec::new();
    for (host, _) in addresses {
        let looked = tokio::net::lookup_host((host.as_str(), 443));
        let found = match tokio::time::timeout(RESOLVING, looked).await {
            Ok(Ok(mut found)) => found
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

async fn rights(
    context: &Context<'_>,
    argocd: &str,
) -> Vec<(&'static Right, Result<bool, String>)> {
    let mut rights = Vec::new();
    for right in &RIGHTS {
        let Right(verb, resource, name, place, _) = right;
        let asked = asked(verb, resource, name, place.namespace(argocd, context.own()));
        let spec = json!({ "resourceAttributes": asked });
        rights.push((right, context.hub.allows(ACCESS_REVIEWS, &spec).await));
    }
    rights
}

/// Argo CD's application controllers, as manifests, charts and operators make them.
pub(super) async fn controllers(hub: &Hub) -> Result<Vec<Value>, String> {
    let controllers = || labelled(CONTROLLER);
    let mut all = hub.find_all(STATEFUL_SETS, None, controllers()).await?;
    all.extend(hub.find_all(DEPLOYMENTS, None, controllers()).await?);
    Ok(all)
}

/// What Argo CD's server, which is in this namespace, may do with Applications: everywhere, or else in the namespaces of
/// clusters.
pub(super) async fn server_rights(
    hub: &Hub,
    (argocd, server): (&str, Option<&Value>),
    clusters: &[String],
) -> Vec<ServerRight> {
    let account = server.map_or(SERVER_ACCOUNT, service_account);
    let user = format!("system:serviceaccount:{argocd}:{account}");
    let may = async |namespace: &str| {
        let asked = asked("update", "argoproj.io/applications", "", namespace);
        let spec = json!({"user": user, "resourceAttributes": asked});
        hub.allows(OTHERS_ACCESS_REVIEWS, &spec).await
    };
    let everywhere = may("").await;
    if clusters.is_empty() || everywhere != Ok(false) {
        return vec![(String::new(), everywhere)];
    }
    let mut rights = Vec::new();
    for cluster in clusters.iter().take(ASKED_ABOUT) {
        rights.push((cluster.clone(), may(cluster).await));
    }
    rights
}

/// What the pages in Argo CD's UI depend on.
async fn of_pages(hub: &Hub, argocd: &str, server: Option<Value>) -> UiFacts {
    let place = Some(argocd);
    let javascript = hub.find(CONFIG_MAPS, place, UI_EXTENSION).await;
    let tokens = hub.collect(SECRETS, place, named(UI_SECRET), |it| ui::written(&it));
    let tokens = tokens.await.map_err(|error| error.to_string());
    // Users may list both kinds, and get neither.
    let guard = async |kind| {
        let mut all = hub.find_all(kind, place, named(FLEET_GUARD)).await?;
        Ok::<_, String>(all.pop())
    };
    UiFacts {
        settings: hub.find(CONFIG_MAPS, place, ARGOCD_CM).await,
        policies: hub.find(CONFIG_MAPS, place, RBAC_CM).await,
        token: tokens.map(|all| all.into_iter().max()),
        has_javascript: javascript.map(|it| it.is_some()),
        guard: guard(APPLICATIONS).await,
        project: guard(PROJECTS).await,
        server,
    }
}

/// Argo CD's server, if it is found.
async fn server(hub: &Hub, argocd: &str) -> Option<Value> {
    let servers = hub
        .find_all(DEPLOYMENTS, Some(argocd), labelled(SERVER))
        .await;
    servers.unwrap_or_default().into_iter().next()
}

/// The cluster Secrets of agents: their metadata, so that nothing of what is in them goes further.
async fn secrets(hub: &Hub, argocd: &str) -> Result<Vec<Value>, String> {
    let metadata = |secret: Value| Some(json!({ "metadata": secret.get("metadata") }));
    let of_agents = labelled(AGENT_NAME);
    let all = hub
        .collect(SECRETS, Some(argocd), of_agents, metadata)
        .await;
    all.map_err(|error| error.to_string())
}
