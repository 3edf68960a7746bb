//! The hub's Applications that are delivered to one cluster, read page by page.
//!
//! For rare events: a cluster leaves, or its mode changes. The principal has a cache of Applications; here we keep none.

use argocd::routing::{Clusters, RoutingSettings};
use futures::{Stream, TryStreamExt as _};
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, GroupVersionKind, ListParams},
};
use serde_json::json;

use crate::{
    api::{self, ApiError, failed},
    hub::Own,
};

/// The page size of lists.
const PAGE: u32 = 100;

/// The API resource of Applications.
pub fn kind() -> ApiResource {
    let kind = GroupVersionKind::gvk("argoproj.io", "v1alpha1", "Application");
    ApiResource::from_gvk(&kind)
}

/// Lists the Applications of `cluster`, whose Secret has this `server`, page by page. A page may be empty.
pub fn pages(
    client: &Client,
    own: &Own,
    cluster: &str,
    server: &str,
) -> impl Stream<Item = Result<Vec<DynamicObject>, ApiError>> + use<> {
    let settings = RoutingSettings {
        argocd_namespace: own.argocd_namespace.clone(),
        allowed_namespaces: own.other_namespaces.clone(),
    };
    let clusters = Clusters::new([(cluster.to_owned(), Some(server.to_owned()))]);
    let all = Api::<DynamicObject>::all_with(client.clone(), &kind());
    api::pages(all, ListParams::default().limit(PAGE))
        .map_err(failed("list", "Applications"))
        .map_ok(move |mut page| {
            page.retain(|application| belongs(application, &clusters, &settings));
            page
        })
}

/// Counts the Applications of `cluster`.
pub async fn count(
    client: &Client,
    own: &Own,
    cluster: &str,
    server: &str,
) -> Result<usize, ApiError> {
    let pages = pages(client, own, cluster, server);
    pages
        .try_fold(0_usize, async |count, page| {
            Ok(count.saturating_add(page.len()))
        })
        .await
}

/// Whether an Application was delivered to the one cluster in `clusters`, or mirrors one of it.
fn belongs(application: &DynamicObject, clusters: &Clusters, settings: &RoutingSettings) -> bool {
    let value = json!(application);
    let route = argocd::routing::route(argocd::Application::of(&value), clusters, settings);
    // A mirror has no route, but belongs to this cluster.
    let is_mirror = || {
        clusters
            .names()
            .any(|cluster| argocd::mirror::is_of(&value, cluster))
    };
    route.cluster().is_some() || is_mirror()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_applications_that_go_to_the_cluster_belong_to_it() {
        let settings = RoutingSettings {
            argocd_namespace: "argocd".to_owned(),
            allowed_namespaces: Vec::new(),
        };
        let clusters =
            |name: &str| Clusters::new([(name.to_owned(), Some("https://x".to_owned()))]);
        let mut there: DynamicObject = serde_json::from_value(json!({
            "apiVersion": "argoproj.io/v1alpha1",
            "kind": "Application",
            "metadata": { "name": "a" },
            "spec": { "destination": { "name": "c" } },
        }))
        .unwrap();
        for (namespace, cluster, expected) in [
            ("argocd", "c", true),
            ("argocd", "d", false),
            ("c", "c", true),
            ("e", "c", false),
        ] {
            there.metadata.namespace = Some(namespace.to_owned());
            assert_eq!(
                belongs(&there, &clusters(cluster), &settings),
                expected,
                "{namespace}"
            );
        }
        let stamp = (argocd::keys::MIRRORED_FROM.to_owned(), "c".to_owned());
        there.metadata.annotations = Some([stamp].into());
        assert!(belongs(&there, &clusters("c"), &settings), "a mirror");
    }
}
