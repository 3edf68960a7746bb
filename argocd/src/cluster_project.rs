//! The restricted AppProject of one managed cluster: pure.
//!
//! Applications of the cluster's namespace may use it, for namespaced objects on that cluster from any repository. It is a
//! beginning that is safe, for people to build on in projects of their own.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::keys;

/// Its name.
pub fn name(cluster: &str) -> String {
    format!("cluster-{cluster}")
}

/// The whole project, for server-side apply.
pub fn build(cluster: &str, argocd_namespace: &str) -> Value {
    json!({
        "apiVersion": keys::API_VERSION,
        "kind": "AppProject",
        "metadata": {
            "name": name(cluster),
            "namespace": argocd_namespace,
            "annotations": { keys::CLUSTER_PROJECT: cluster },
        },
        "spec": {
            "description": format!("made by the add-on for the managed cluster {cluster}"),
            "sourceRepos": ["*"],
            "sourceNamespaces": [cluster],
            // By the cluster's name alone: `in-cluster` would be the hub for an Application beside Argo CD.
            "destinations": [{ "name": cluster, "namespace": "*" }],
            "clusterResourceWhitelist": [],
        },
    })
}

/// Whether a project with these annotations was made for this cluster by us.
pub fn is_ours(cluster: &str, annotations: Option<&BTreeMap<String, String>>) -> bool {
    let mark = annotations.and_then(|all| all.get(keys::CLUSTER_PROJECT));
    mark.is_some_and(|made_for| made_for == cluster)
}

/// Whether the project has all that is wanted; what users added beside it stays.
pub fn is_as(live: &Value, wanted: &Value) -> bool {
    let spec = |value: &Value| value.pointer("/spec").cloned().unwrap_or_default();
    let (live, wanted) = (spec(live), spec(wanted));
    let mut fields = wanted.as_object().into_iter().flatten();
    fields.all(|(key, value)| {
        let retained = live.get(key);
        // An empty list may have been left out, and means the same. One with something in it does not.
        retained == Some(value) || (is_empty(value) && retained.is_none_or(is_empty))
    })
}

fn is_empty(value: &Value) -> bool {
    value.is_null() || value.as_array().is_some_and(Vec::is_empty)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::project::{Cluster, compile};

    #[test]
    fn cluster_project_allows_namespaced_objects_only() {
        let project = build("spoke1", "argocd");
        assert_eq!(project["metadata"]["name"], "cluster-spoke1");
        assert_eq!(project["spec"]["clusterResourceWhitelist"], json!([]));
        assert_eq!(project["spec"]["sourceNamespaces"], json!(["spoke1"]));
        let compiled = |name| compile(&project, Cluster { name, server: None });
        assert!(compiled("spoke1").is_some() && compiled("spoke2").is_none());
    }

    #[test]
    fn only_a_project_with_our_mark_for_this_cluster_is_ours() {
        let marked = [(keys::CLUSTER_PROJECT.to_owned(), "a".to_owned())].into();
        assert!(is_ours("a", Some(&marked)));
        assert!(!is_ours("b", Some(&marked)));
        assert!(!is_ours("a", None));
    }

    #[test]
    fn what_users_add_stays_and_what_they_change_of_ours_is_noticed() {
        let wanted = build("a", "argocd");
        let mut live = wanted.clone();
        live["spec"]["orphanedResources"] = json!({});
        // The API server leaves empty lists out, or not.
        live["spec"]
            .as_object_mut()
            .unwrap()
            .remove("clusterResourceWhitelist");
        assert!(is_as(&live, &wanted));
        let mut narrowed = live.clone();
        narrowed["spec"]["sourceRepos"] = json!(["x"]);
        assert!(!is_as(&narrowed, &wanted));
        let everything = json!([{ "group": "*", "kind": "*" }]);
        live["spec"]["clusterResourceWhitelist"] = everything;
        assert!(!is_as(&live, &wanted), "wider than we made it");
    }
}
