//! The restricted AppProject of one managed cluster: pure.
//!
//! Applications of the cluster's namespace may use it, for namespaced objects on that cluster from any repository. It is
//! a safe default; users create projects of their own for more.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::keys;

const PREFIX: &str = "cluster-";

/// Name of the project.
pub fn name(cluster: &str) -> String {
    format!("{PREFIX}{cluster}")
}

/// The cluster whose project has this name.
pub fn cluster_of(name: &str) -> Option<&str> {
    name.strip_prefix(PREFIX)
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
            // The cluster's name only: `in-cluster` would be the hub for an Application in the Argo CD namespace.
            "destinations": [{ "name": cluster, "namespace": "*" }],
            "clusterResourceWhitelist": [],
        },
    })
}

/// Whether the annotations mark a project that we created for this cluster.
pub fn is_ours(cluster: &str, annotations: Option<&BTreeMap<String, String>>) -> bool {
    let mark = annotations.and_then(|all| all.get(keys::CLUSTER_PROJECT));
    mark.is_some_and(|made_for| made_for == cluster)
}

/// Whether the project has all desired fields; further fields of users do not matter.
pub fn is_as(live: &Value, wanted: &Value) -> bool {
    let spec = |value: &Value| value.pointer("/spec").cloned().unwrap_or_default();
    let (live, wanted) = (spec(live), spec(wanted));
    let mut fields = wanted.as_object().into_iter().flatten();
    fields.all(|(key, value)| {
        let there = live.get(key);
        // An absent list equals an empty one.
        there == Some(value) || (is_empty(value) && there.is_none_or(is_empty))
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
    fn edit_of_our_fields_is_detected_and_user_fields_are_ignored() {
        let wanted = build("a", "argocd");
        let mut live = wanted.clone();
        live["spec"]["orphanedResources"] = json!({});
        // The API server may omit empty lists.
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
        assert!(!is_as(&live, &wanted), "wider than desired");
    }
}
