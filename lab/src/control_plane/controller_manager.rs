//! One cluster's kube-controller-manager, with the controllers that make sense without real nodes.

use std::path::Path;

use super::Keys;
use crate::process::Program;

/// Excluded: controllers of nodes, clouds and disks. The node life-cycle controller would evict Pods from a node whose
/// lease is not renewed.
const CONTROLLERS: [&str; 18] = [
    "certificatesigningrequest-approving-controller",
    "certificatesigningrequest-cleaner-controller",
    "certificatesigningrequest-signing-controller",
    "clusterrole-aggregation-controller",
    "cronjob-controller",
    "daemonset-controller",
    "deployment-controller",
    "disruption-controller",
    "endpoints-controller",
    "endpointslice-controller",
    "garbage-collector-controller",
    "job-controller",
    "namespace-controller",
    "replicaset-controller",
    "root-ca-certificate-publisher-controller",
    "serviceaccount-controller",
    "statefulset-controller",
    "ttl-after-finished-controller",
];

/// The controller manager of one cluster; it signs certificates with the cluster's own authority.
pub(crate) fn program(program: &Path, kubeconfig: &Path, keys: &Keys, dir: &Path) -> Program {
    Program::new("kube-controller-manager", program, dir)
        .flag("kubeconfig", kubeconfig)
        .flag("authentication-kubeconfig", kubeconfig)
        .flag("authorization-kubeconfig", kubeconfig)
        .flag("secure-port", "0")
        .flag("leader-elect", "false")
        .flag("cert-dir", keys.path("generated"))
        .flag("service-account-private-key-file", keys.path("tokens.key"))
        .flag("root-ca-file", keys.path("ca.crt"))
        .flag("cluster-signing-cert-file", keys.path("ca.crt"))
        .flag("cluster-signing-key-file", keys.path("ca.key"))
        .flag("cluster-signing-duration", "24h")
        .flag("controllers", CONTROLLERS.join(","))
        .flag("profiling", "false")
}
