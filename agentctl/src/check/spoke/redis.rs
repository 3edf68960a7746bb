//! Whether the agent reaches Argo CD's redis, from which people at the hub see trees and differences. Pure.
//!
//! Applications are delivered without it, so nothing of this is a failure.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::networking::v1::{NetworkPolicy, NetworkPolicyPeer},
    apimachinery::pkg::apis::meta::v1::LabelSelector,
};
use kube::core::{Selector, SelectorExt as _};
use live::{
    redis_service::{Doubt, ON_CLUSTER},
    ui_access::UiAccess,
};
use serde_json::Value;

use super::{Checked, Facts, Places, Spoke, argo_cd, ok, warning};

/// What its Service and its Secret are called.
pub const REDIS: &str = "argocd-redis";
/// What every namespace is labelled with.
const NAMESPACE: &str = "kubernetes.io/metadata.name";
/// What the Pods are labelled with.
pub(super) const NAME: &str = "app.kubernetes.io/name";
const AGENT: &str = "argocd-agent-agent";

/// Service, password, network policies; nothing if `UI_ACCESS` is `none`, or Argo CD is not installed yet.
pub(super) fn checks(facts: &Facts, spoke: &Spoke) -> Vec<(&'static str, Checked)> {
    let none = UiAccess::None.to_string();
    let is_off = facts.configured.variable("UI_ACCESS") == Some(none.as_str());
    let doubt = spoke.redis.as_ref().ok().and_then(|it| it.doubt.as_ref());
    let is_missing = doubt == Some(&Doubt::NotFound);
    if is_off || is_missing && argo_cd::is_installed_by_add_on(facts, spoke) {
        return Vec::new();
    }
    let mut checks = vec![("redis", redis(facts, spoke))];
    checks.extend(network(facts, spoke).map(|it| ("network", it)));
    checks
}

fn redis(facts: &Facts, spoke: &Spoke) -> Checked {
    let namespace = &facts.places.argocd;
    let place = spoke.redis.as_ref()?;
    if let Some(doubt) = &place.doubt {
        let doubt = doubt.text(&ON_CLUSTER);
        return warning(
            format!("in namespace {namespace}: {doubt}"),
            "set the variable in the AddOnDeploymentConfig, or users of the hub see no trees of this cluster",
        );
    }
    if *spoke.password.as_ref()? == Some(true) {
        return ok(match &place.address {
            None => format!("Service and password are in namespace {namespace}"),
            Some(address) => {
                format!(
                    "it is configured as {address}, and its password is in namespace {namespace}"
                )
            }
        });
    }
    let (secret, key) = match &place.password {
        Some((secret, key)) => (secret.as_str(), key.as_str()),
        None => (REDIS, "auth"),
    };
    warning(
        format!("the Secret {namespace}/{secret} has no password ({key})"),
        "if redis needs one, set REDIS_SECRET and REDIS_SECRET_KEY, or users of the hub see no trees of this cluster",
    )
}

/// A Pod that connects to redis.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Client<'a> {
    /// Its namespace.
    pub(crate) namespace: &'a str,
    /// Its label `app.kubernetes.io/name`.
    pub(crate) name: &'a str,
    /// The namespace of redis.
    pub(crate) argocd: &'a str,
    /// The label `app.kubernetes.io/name` of redis' Pods.
    pub(crate) redis: &'a str,
}

/// The names of the `NetworkPolicies` about redis, and whether they let a Pod reach it; none if there are none.
pub(crate) fn fence(fences: &[Value], client: Client<'_>) -> Option<(String, bool)> {
    let read = |it: &Value| serde_json::from_value::<NetworkPolicy>(it.clone()).ok();
    let mut policies: Vec<_> = fences.iter().filter_map(read).collect();
    policies.retain(|it| is_about_redis(it, client.redis));
    if policies.is_empty() {
        return None;
    }
    let names = policies.iter().filter_map(|it| it.metadata.name.clone());
    let names = names.collect::<Vec<_>>().join(", ");
    Some((names, policies.iter().any(|it| admits(it, client))))
}

/// Whether a `NetworkPolicy` keeps the agent out.
fn network(facts: &Facts, spoke: &Spoke) -> Option<Checked> {
    let Places { agent, argocd } = &facts.places;
    let client = Client {
        namespace: agent,
        name: AGENT,
        argocd,
        redis: spoke.redis.as_ref().map_or(REDIS, |it| &it.pods),
    };
    let fences = match &spoke.fences {
        Ok(fences) => fences,
        Err(reason) => return Some(Err(reason.clone())),
    };
    let (names, is_admitted) = fence(fences, client)?;
    if is_admitted {
        return Some(ok(format!("{names} lets the agent reach redis")));
    }
    let shut_out = if agent == argocd {
        "the agent".to_owned()
    } else {
        format!("Pods of namespace {agent}")
    };
    let cause = format!("{names} in namespace {argocd} keeps {shut_out} from redis");
    Some(warning(cause, NEXT))
}

const NEXT: &str = "apply the NetworkPolicy that docs/live.md shows, or people at the hub see no trees of this cluster";

/// Whether it selects what has this label; one that cannot be read selects nothing.
fn selects(selector: &LabelSelector, (key, value): (&str, &str)) -> bool {
    let labels = BTreeMap::from([(key.to_owned(), value.to_owned())]);
    Selector::try_from(selector.clone()).is_ok_and(|selector| selector.matches(&labels))
}

fn is_about_redis(policy: &NetworkPolicy, redis: &str) -> bool {
    let Some(spec) = &policy.spec else {
        return false;
    };
    let types = spec.policy_types.as_ref();
    let ingress = types.is_none_or(|types| types.iter().any(|it| it == "Ingress"));
    // An absent one selects all.
    let pods = spec.pod_selector.as_ref();
    ingress && pods.is_none_or(|pods| selects(pods, (NAME, redis)))
}

fn admits(policy: &NetworkPolicy, client: Client<'_>) -> bool {
    let spec = policy.spec.iter();
    let mut rules = spec.flat_map(|spec| spec.ingress.iter().flatten());
    rules.any(|rule| match rule.from.as_deref() {
        None | Some([]) => true,
        Some(peers) => peers.iter().any(|peer| is_client(peer, client)),
    })
}

fn is_client(peer: &NetworkPolicyPeer, client: Client<'_>) -> bool {
    let place = match &peer.namespace_selector {
        None => client.namespace == client.argocd,
        Some(selector) => selects(selector, (NAMESPACE, client.namespace)),
    };
    let pods = peer.pod_selector.as_ref();
    let pod = pods.is_none_or(|selector| selects(selector, (NAME, client.name)));
    // Policies rarely list addresses of Pods; one that does may list ours.
    peer.ip_block.is_some() || (place && pod)
}
