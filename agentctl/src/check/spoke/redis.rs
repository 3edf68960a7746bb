//! Whether the agent reaches Argo CD's redis, from which people at the hub see trees and differences. Pure.
//!
//! Applications are delivered without it, so nothing of this is a failure.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::networking::v1::{NetworkPolicy, NetworkPolicyPeer},
    apimachinery::pkg::apis::meta::v1::LabelSelector,
};
use kube::core::{Selector, SelectorExt as _};
use live::ui_access::UiAccess;

use super::{Checked, Facts, Places, Spoke, argo_cd, ok, warning};
use crate::check::Verdict;

/// What its Service and its Secret are called.
pub const REDIS: &str = "argocd-redis";
/// What every namespace is labelled with.
const NAMESPACE: &str = "kubernetes.io/metadata.name";
/// What the Pods are labelled with.
const NAME: &str = "app.kubernetes.io/name";
const AGENT: &str = "argocd-agent-agent";

/// Service, password, network policies; nothing if `UI_ACCESS` is `none`, or Argo CD is not installed yet.
pub(super) fn checks(facts: &Facts, spoke: &Spoke) -> Vec<(&'static str, Checked)> {
    let none = UiAccess::None.to_string();
    let is_off = facts.configured.variable("UI_ACCESS") == Some(none.as_str());
    let is_missing = matches!(spoke.redis, Ok(None));
    if is_off || is_missing && argo_cd::is_installed_by_add_on(facts, spoke) {
        return Vec::new();
    }
    let fence = fence(facts, spoke).transpose();
    let fence = fence.map(|it| ("network", it));
    std::iter::once(("redis", redis(facts, spoke)))
        .chain(fence)
        .collect()
}

fn redis(facts: &Facts, spoke: &Spoke) -> Checked {
    let namespace = &facts.places.argocd;
    if spoke.redis.as_ref()?.is_none() {
        return warning(
            format!("there is no Service {namespace}/{REDIS}"),
            "people at the hub see no trees of this cluster; the agent looks for redis there (--redis-addr)",
        );
    }
    if *spoke.password.as_ref()? == Some(true) {
        return ok(format!("Service and password are in namespace {namespace}"));
    }
    warning(
        format!("the Secret {namespace}/{REDIS} has no password (auth)"),
        "if redis wants one, people at the hub see no trees of this cluster",
    )
}

/// Whether a `NetworkPolicy` keeps the agent out.
fn fence(facts: &Facts, spoke: &Spoke) -> Result<Option<Verdict>, String> {
    let policies = spoke.fences.as_ref()?.iter().filter_map(|it| {
        let policy = serde_json::from_value::<NetworkPolicy>(it.clone()).ok()?;
        is_about_redis(&policy).then_some(policy)
    });
    let policies: Vec<_> = policies.collect();
    if policies.is_empty() {
        return Ok(None);
    }
    let names = policies.iter().filter_map(|it| it.metadata.name.clone());
    let names = names.collect::<Vec<_>>().join(", ");
    if policies.iter().any(|it| admits(it, facts)) {
        return ok(format!("{names} lets the agent reach redis")).map(Some);
    }
    let Places { agent, argocd } = &facts.places;
    let shut_out = if agent == argocd {
        "the agent".to_owned()
    } else {
        format!("Pods of namespace {agent}")
    };
    let cause = format!("{names} in namespace {argocd} keeps {shut_out} from redis");
    warning(cause, NEXT).map(Some)
}

const NEXT: &str = "apply the NetworkPolicy that docs/live.md shows, or people at the hub see no trees of this cluster";

fn labels(pair: (&str, &str)) -> BTreeMap<String, String> {
    BTreeMap::from([(pair.0.to_owned(), pair.1.to_owned())])
}

/// An absent selector selects nothing here, an empty one everything, one that cannot be read nothing.
fn selects(selector: Option<&LabelSelector>, of: &BTreeMap<String, String>) -> bool {
    selector.is_some_and(|selector| {
        Selector::try_from(selector.clone()).is_ok_and(|selector| selector.matches(of))
    })
}

fn is_about_redis(policy: &NetworkPolicy) -> bool {
    let Some(spec) = &policy.spec else {
        return false;
    };
    let types = spec.policy_types.as_ref();
    let ingress = types.is_none_or(|types| types.iter().any(|it| it == "Ingress"));
    // An absent one is an empty one in this place.
    let everything = LabelSelector::default();
    let pods = spec.pod_selector.as_ref().unwrap_or(&everything);
    ingress && selects(Some(pods), &labels((NAME, REDIS)))
}

fn admits(policy: &NetworkPolicy, facts: &Facts) -> bool {
    let rules = policy
        .spec
        .iter()
        .flat_map(|spec| spec.ingress.iter().flatten());
    rules.into_iter().any(|rule| match rule.from.as_deref() {
        None | Some([]) => true,
        Some(peers) => peers.iter().any(|peer| is_agent(peer, facts)),
    })
}

fn is_agent(peer: &NetworkPolicyPeer, facts: &Facts) -> bool {
    let agent = labels((NAME, AGENT));
    let namespace = labels((NAMESPACE, &facts.places.agent));
    let place = match &peer.namespace_selector {
        None => facts.places.agent == facts.places.argocd,
        Some(selector) => selects(Some(selector), &namespace),
    };
    let pod = peer
        .pod_selector
        .as_ref()
        .is_none_or(|selector| selects(Some(selector), &agent));
    // Policies rarely list addresses of Pods; one that does may list ours.
    peer.ip_block.is_some() || (place && pod)
}
