//! The hub's Applications that are delivered to one cluster, read page by page.
//!
//! For rare events: a cluster leaves, or its mode changes. The principal has a cache of Applications; here we keep none.

use argocd::routing::{Clusters, RoutingSettings};
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, GroupVersionKind, ListParams},
};
use serde_json::json;

use crate::hub::Own;

/// Why a request for an Application failed.
#[derive(Debug, thiserror::Error)]
#[error("{action} {object}")]
pub struct Error {
    action: &'static str,
    object: String,
    source: Box<kube::Error>,
}

/// The page size of lists.
const PAGE: u32 = 100;

/// The Applications that are delivered to one cluster.
#[derive(Clone, Debug)]
pub struct Applications {
    api: Api<DynamicObject>,
    clusters: Clusters,
    settings: RoutingSettings,
    // None after the last page.
    next: Option<ListParams>,
}

impl Applications {
    /// The Applications of `cluster`, whose Secret has this `server`; reads nothing yet.
    pub fn of(client: &Client, own: &Own, cluster: &str, server: &str) -> Self {
        let settings = RoutingSettings {
            argocd_namespace: own.argocd_namespace.clone(),
            allowed_namespaces: own.other_namespaces.clone(),
        };
        Self {
            api: Api::all_with(client.clone(), &Self::kind()),
            clusters: Clusters::new([(cluster.to_owned(), Some(server.to_owned()))]),
            settings,
            next: Some(ListParams::default().limit(PAGE)),
        }
    }

    /// The API resource of Applications.
    pub fn kind() -> ApiResource {
        let kind = GroupVersionKind::gvk("argoproj.io", "v1alpha1", "Application");
        ApiResource::from_gvk(&kind)
    }

    /// The next page, which may be empty; `None` after the last one.
    pub async fn next_page(&mut self) -> Result<Option<Vec<DynamicObject>>, Error> {
        let Some(page) = self.next.take() else {
            return Ok(None);
        };
        let list = self.api.list(&page).await;
        let list = list.map_err(failed("list", "Applications"))?;
        let more = list.metadata.continue_.filter(|token| !token.is_empty());
        self.next = more.map(|token| page.continue_token(&token));
        let mut here = list.items;
        here.retain(|application| belongs(application, &self.clusters, &self.settings));
        Ok(Some(here))
    }

    /// Counts all Applications.
    pub async fn count(mut self) -> Result<usize, Error> {
        let mut count: usize = 0;
        while let Some(page) = self.next_page().await? {
            count = count.saturating_add(page.len());
        }
        Ok(count)
    }
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

pub(super) fn failed(action: &'static str, object: &str) -> impl FnOnce(kube::Error) -> Error {
    let object = object.to_owned();
    move |source| Error {
        action,
        object,
        source: Box::new(source),
    }
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
