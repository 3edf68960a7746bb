//! The objects with which Argo CD's `ApplicationSets` select clusters by a Placement.

use super::*;

const NAME: &str = "argocd-agent-addon-placement-generator";

#[test]
fn placement_generator_reads_decisions_in_argo_cds_namespace() {
    let sets = [
        "argocd.namespace=gitops",
        "placementGenerator.serviceAccount=gitops-applicationset-controller",
    ];
    let [map, role, binding] =
        ["ConfigMap", "Role", "RoleBinding"].map(|kind| one(&sets, kind, NAME));
    for object in [&map, &role, &binding] {
        assert_eq!(object["metadata"]["namespace"], "gitops", "{object}");
    }
    let data = json!({
        "apiVersion": "cluster.open-cluster-management.io/v1beta1",
        "kind": "placementdecisions",
        "statusListKey": "decisions",
        "matchKey": "clusterName",
    });
    assert_eq!(map["data"], data);
    let rules = json!([{
        "apiGroups": ["cluster.open-cluster-management.io"],
        "resources": ["placementdecisions"],
        "verbs": ["get", "list", "watch"],
    }]);
    assert_eq!(role["rules"], rules);
    assert_eq!(binding["roleRef"]["name"], NAME);
    let subjects = json!([{
        "kind": "ServiceAccount",
        "name": "gitops-applicationset-controller",
        "namespace": "gitops",
    }]);
    assert_eq!(binding["subjects"], subjects);
}

#[test]
fn placement_generator_can_be_turned_off() {
    let off = objects(&["placementGenerator.enabled=false"]);
    let left = off.iter().filter(|it| it["metadata"]["name"] == NAME);
    assert_eq!(left.count(), 0);
}
