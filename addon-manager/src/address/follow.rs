//! Finds the principal's address: watches its Service, and lists routes and nodes while the Service alone has no address.
//!
//! The other kinds need permissions that the plain manifests do not grant. We ask the hub for our permissions first, so
//! a missing one is never a rejected request. An administrator enables a kind by granting `list` on it.

use std::time::Duration;

use k8s_openapi::api::{
    authorization::v1::{ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec},
    core::v1::{Node, Service},
};
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, GroupVersionKind, ListParams, PostParams},
};
use runtime::{
    error::Chain,
    kube::{Event, Watch, watch_trimmed},
};
use serde_json::Value;
use tokio::{sync::watch, time::sleep};
use tokio_util::sync::CancellationToken;

use super::{
    Address,
    find::{Seen, find},
};
use crate::{keys, publish::publish};

/// How often the other kinds are listed while no address is known.
const MISSING: Duration = Duration::from_secs(15);
/// How often they are listed after one of them has an address.
const FOUND: Duration = Duration::from_mins(5);

/// A kind that may lead to the Service: group, versions (newest first), kind.
type Kind = (&'static str, &'static [&'static str], &'static str);

const ROUTE: Kind = ("route.openshift.io", &["v1"], "Route");
const TLS_VERSIONS: &[&str] = &["v1", "v1alpha3", "v1alpha2"];
const TLS_ROUTE: Kind = ("gateway.networking.k8s.io", TLS_VERSIONS, "TLSRoute");
const INGRESS: Kind = ("networking.k8s.io", &["v1"], "Ingress");

/// Watches the Service until the token is cancelled. Publishes its address, and `looked` after the first search.
///
/// An address stays in use after it is gone: that harms no agent, and a recreated Service gets its new address soon.
pub async fn follow(
    client: Client,
    namespace: String,
    address: watch::Sender<Option<Address>>,
    looked: watch::Sender<bool>,
    token: CancellationToken,
) {
    let watched = Watch::<Service>::new(Api::namespaced(client.clone(), &namespace))
        .fields(&format!("metadata.name={}", keys::PRINCIPAL_SERVICE));
    let (send, services) = watch::channel((None, false));
    let watching = watch_trimmed(watched, token.clone(), |event| {
        send.send_modify(|(service, listed)| match event {
            Event::Applied { object, .. } => *service = Some(*object),
            Event::Deleted(_) => *service = None,
            Event::Synced => *listed = true,
            Event::Rewound => {}
        });
    });
    let looking = token.run_until_cancelled(look(client, namespace, address, looked, services));
    tokio::join!(watching, looking);
}

type Known = (Option<Service>, bool);

async fn look(
    client: Client,
    namespace: String,
    address: watch::Sender<Option<Address>>,
    looked: watch::Sender<bool>,
    mut services: watch::Receiver<Known>,
) {
    loop {
        let (service, listed) = services.borrow_and_update().clone();
        let mut seen = Seen {
            service,
            ..Seen::default()
        };
        let now = address.borrow().clone();
        let mut found = find(&seen, now.as_ref());
        let pause = if found.is_none() && seen.service.is_some() {
            others(&client, &namespace, &mut seen).await;
            found = find(&seen, now.as_ref());
            if found.is_none() { MISSING } else { FOUND }
        } else {
            // The watch reports changes.
            FOUND
        };
        if let Some((found, source)) = found
            && now.as_ref() != Some(&found)
        {
            tracing::info!(address = %found, ?source, "found the principal's address");
            address.send_replace(Some(found));
        }
        if listed {
            publish(&looked, true);
        }
        tokio::select! {
            changed = services.changed() => if changed.is_err() { return },
            () = sleep(pause) => {}
        }
    }
}

/// Lists the other kinds that may route to the Service, as far as we may.
async fn others(client: &Client, namespace: &str, seen: &mut Seen) {
    seen.routes = objects(client, namespace, ROUTE).await;
    seen.tls_routes = objects(client, namespace, TLS_ROUTE).await;
    seen.ingresses = objects(client, namespace, INGRESS).await;
    let spec = seen.service.as_ref().and_then(|it| it.spec.as_ref());
    let has_node_port = spec.is_some_and(|spec| spec.type_.as_deref() == Some("NodePort"));
    if has_node_port && may_list(client, None, "", "nodes").await {
        match Api::<Node>::all(client.clone())
            .list(&ListParams::default())
            .await
        {
            Ok(nodes) => seen.nodes = nodes.items,
            Err(error) => tracing::warn!(error = %Chain(&error), "cannot read the nodes"),
        }
    }
}

async fn objects(client: &Client, namespace: &str, kind: Kind) -> Vec<Value> {
    let (group, versions, name) = kind;
    let resource =
        |version: &str| ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, name));
    if !may_list(client, Some(namespace), group, &resource("").plural).await {
        return Vec::new();
    }
    for version in versions {
        let resource = resource(version);
        let api = Api::<DynamicObject>::namespaced_with(client.clone(), namespace, &resource);
        match api.list(&ListParams::default()).await {
            Ok(found) => {
                let found = found.items.into_iter();
                return found
                    .filter_map(|it| serde_json::to_value(it).ok())
                    .collect();
            }
            // Not served in this version.
            Err(kube::Error::Api(status)) if status.is_not_found() => {}
            Err(error) => {
                tracing::warn!(kind = name, error = %Chain(&error), "cannot read Services and routes of the principal");
                return Vec::new();
            }
        }
    }
    Vec::new()
}

/// Asks the hub whether we may list a kind; that needs no permission.
async fn may_list(client: &Client, namespace: Option<&str>, group: &str, plural: &str) -> bool {
    let review = SelfSubjectAccessReview {
        spec: SelfSubjectAccessReviewSpec {
            resource_attributes: Some(ResourceAttributes {
                namespace: namespace.map(str::to_owned),
                verb: Some("list".to_owned()),
                group: Some(group.to_owned()),
                resource: Some(plural.to_owned()),
                ..ResourceAttributes::default()
            }),
            ..SelfSubjectAccessReviewSpec::default()
        },
        ..SelfSubjectAccessReview::default()
    };
    let api = Api::<SelfSubjectAccessReview>::all(client.clone());
    let answer = api.create(&PostParams::default(), &review).await;
    answer.is_ok_and(|answer| answer.status.is_some_and(|status| status.allowed))
}
