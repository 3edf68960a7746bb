//! The settings of Argo CD that may come from the hub. Pure.

/// A key of Argo CD's `ConfigMap` for parameters or of `argocd-cm`, and the variable from which a program reads it at its
/// start.
type Read = (&'static str, &'static str);

/// The programs that read settings at their start, by the names of their workloads, as in Argo CD's own manifests.
///
/// The addresses and the TLS of the connections between the programs are left out, which are the add-on's, and what
/// belongs to plugins, sharding and the hydrator, which an installed Argo CD does not have.
pub(super) const PROGRAMS: [(&str, &[Read]); 2] = [
    ("argocd-application-controller", &CONTROLLER),
    ("argocd-repo-server", &REPO_SERVER),
];

/// The keys of `argocd-cm`: none that has a secret or concerns users, who use the hub's Argo CD.
const CM: [&str; 19] = [
    "application.instanceLabelKey",
    "application.resourceTrackingMethod",
    "globalProjects",
    "helm.valuesFileSchemes",
    "installationID",
    "kustomize.buildOptions",
    "resource.compareoptions",
    "resource.customLabels",
    "resource.customizations",
    "resource.excludeEventLabelKeys",
    "resource.exclusions",
    "resource.ignoreResourceUpdatesEnabled",
    "resource.includeEventLabelKeys",
    "resource.inclusions",
    "resource.respectRBAC",
    "resource.sensitive.mask.annotations",
    "timeout.hard.reconciliation",
    "timeout.reconciliation",
    "timeout.reconciliation.jitter",
];

/// The beginnings of further keys of `argocd-cm`, after which a kind or a version follows.
const CM_PREFIXES: [&str; 2] = ["resource.customizations.", "kustomize.buildOptions."];

/// The longest key of a `ConfigMap`.
const LONGEST: usize = 253;

/// Whether it is a key of `argocd-cm` that may come from the hub.
pub(super) fn is_in_cm(key: &str) -> bool {
    let character = |it: char| it.is_ascii_alphanumeric() || ".-_".contains(it);
    let is_further = |prefix: &&str| key.len() > prefix.len() && key.starts_with(*prefix);
    let is_key = key.len() <= LONGEST && key.chars().all(character);
    is_key && (CM.contains(&key) || CM_PREFIXES.iter().any(is_further))
}

/// Whether it is a parameter that may come from the hub.
pub(super) fn is_parameter(key: &str) -> bool {
    is_read_at_start(key) && !is_in_cm(key)
}

/// Whether a program reads the key at its start, from a variable.
pub(super) fn is_read_at_start(key: &str) -> bool {
    let mut keys = PROGRAMS.iter().flat_map(|(_, read)| read.iter());
    keys.any(|(known, _)| *known == key)
}

/// The application controller's.
const CONTROLLER: [Read; 37] = [
    (
        "controller.app.state.cache.expiration",
        "ARGOCD_APP_STATE_CACHE_EXPIRATION",
    ),
    (
        "controller.cluster.cache.batch.events.processing",
        "ARGOCD_CLUSTER_CACHE_BATCH_EVENTS_PROCESSING",
    ),
    (
        "controller.cluster.cache.events.processing.interval",
        "ARGOCD_CLUSTER_CACHE_EVENTS_PROCESSING_INTERVAL",
    ),
    (
        "controller.default.cache.expiration",
        "ARGOCD_DEFAULT_CACHE_EXPIRATION",
    ),
    (
        "controller.diff.server.side",
        "ARGOCD_APPLICATION_CONTROLLER_SERVER_SIDE_DIFF",
    ),
    (
        "controller.ignore.normalizer.jq.timeout",
        "ARGOCD_IGNORE_NORMALIZER_JQ_TIMEOUT",
    ),
    ("controller.k8s.client.burst", "ARGOCD_K8S_CLIENT_BURST"),
    (
        "controller.k8s.client.max.idle.connections",
        "ARGOCD_K8S_CLIENT_MAX_IDLE_CONNECTIONS",
    ),
    ("controller.k8s.client.qps", "ARGOCD_K8S_CLIENT_QPS"),
    (
        "controller.k8s.tcp.idle.timeout",
        "ARGOCD_K8S_TCP_IDLE_TIMEOUT",
    ),
    ("controller.k8s.tcp.keepalive", "ARGOCD_K8S_TCP_KEEPALIVE"),
    ("controller.k8s.tcp.timeout", "ARGOCD_K8S_TCP_TIMEOUT"),
    (
        "controller.k8s.tls.handshake.timeout",
        "ARGOCD_K8S_TLS_HANDSHAKE_TIMEOUT",
    ),
    (
        "controller.k8sclient.retry.base.backoff",
        "ARGOCD_K8SCLIENT_RETRY_BASE_BACKOFF",
    ),
    (
        "controller.k8sclient.retry.max",
        "ARGOCD_K8SCLIENT_RETRY_MAX",
    ),
    (
        "controller.kubectl.parallelism.limit",
        "ARGOCD_APPLICATION_CONTROLLER_KUBECTL_PARALLELISM_LIMIT",
    ),
    (
        "controller.log.format",
        "ARGOCD_APPLICATION_CONTROLLER_LOGFORMAT",
    ),
    (
        "controller.log.level",
        "ARGOCD_APPLICATION_CONTROLLER_LOGLEVEL",
    ),
    (
        "controller.metrics.application.conditions",
        "ARGOCD_APPLICATION_CONTROLLER_METRICS_APPLICATION_CONDITIONS",
    ),
    (
        "controller.metrics.application.labels",
        "ARGOCD_APPLICATION_CONTROLLER_METRICS_APPLICATION_LABELS",
    ),
    (
        "controller.metrics.cache.expiration",
        "ARGOCD_APPLICATION_CONTROLLER_METRICS_CACHE_EXPIRATION",
    ),
    (
        "controller.metrics.cluster.labels",
        "ARGOCD_APPLICATION_CONTROLLER_METRICS_CLUSTER_LABELS",
    ),
    (
        "controller.operation.processors",
        "ARGOCD_APPLICATION_CONTROLLER_OPERATION_PROCESSORS",
    ),
    (
        "controller.repo.error.grace.period.seconds",
        "ARGOCD_REPO_ERROR_GRACE_PERIOD_SECONDS",
    ),
    (
        "controller.repo.server.timeout.seconds",
        "ARGOCD_APPLICATION_CONTROLLER_REPO_SERVER_TIMEOUT_SECONDS",
    ),
    (
        "controller.resource.health.persist",
        "ARGOCD_APPLICATION_CONTROLLER_PERSIST_RESOURCE_HEALTH",
    ),
    (
        "controller.self.heal.backoff.cap.seconds",
        "ARGOCD_APPLICATION_CONTROLLER_SELF_HEAL_BACKOFF_CAP_SECONDS",
    ),
    (
        "controller.self.heal.backoff.cooldown.seconds",
        "ARGOCD_APPLICATION_CONTROLLER_SELF_HEAL_BACKOFF_COOLDOWN_SECONDS",
    ),
    (
        "controller.self.heal.backoff.factor",
        "ARGOCD_APPLICATION_CONTROLLER_SELF_HEAL_BACKOFF_FACTOR",
    ),
    (
        "controller.self.heal.backoff.timeout.seconds",
        "ARGOCD_APPLICATION_CONTROLLER_SELF_HEAL_BACKOFF_TIMEOUT_SECONDS",
    ),
    (
        "controller.self.heal.timeout.seconds",
        "ARGOCD_APPLICATION_CONTROLLER_SELF_HEAL_TIMEOUT_SECONDS",
    ),
    (
        "controller.status.processors",
        "ARGOCD_APPLICATION_CONTROLLER_STATUS_PROCESSORS",
    ),
    (
        "controller.sync.timeout.seconds",
        "ARGOCD_APPLICATION_CONTROLLER_SYNC_TIMEOUT",
    ),
    (
        "controller.sync.wave.delay.seconds",
        "ARGOCD_SYNC_WAVE_DELAY",
    ),
    (
        "timeout.hard.reconciliation",
        "ARGOCD_HARD_RECONCILIATION_TIMEOUT",
    ),
    ("timeout.reconciliation", "ARGOCD_RECONCILIATION_TIMEOUT"),
    (
        "timeout.reconciliation.jitter",
        "ARGOCD_RECONCILIATION_JITTER",
    ),
];

/// The repo server's.
const REPO_SERVER: [Read; 23] = [
    (
        "reposerver.allow.oob.symlinks",
        "ARGOCD_REPO_SERVER_ALLOW_OUT_OF_BOUNDS_SYMLINKS",
    ),
    (
        "reposerver.default.cache.expiration",
        "ARGOCD_DEFAULT_CACHE_EXPIRATION",
    ),
    (
        "reposerver.disable.helm.manifest.max.extracted.size",
        "ARGOCD_REPO_SERVER_DISABLE_HELM_MANIFEST_MAX_EXTRACTED_SIZE",
    ),
    (
        "reposerver.disable.oci.manifest.max.extracted.size",
        "ARGOCD_REPO_SERVER_DISABLE_OCI_MANIFEST_MAX_EXTRACTED_SIZE",
    ),
    (
        "reposerver.enable.builtin.git.config",
        "ARGOCD_REPO_SERVER_ENABLE_BUILTIN_GIT_CONFIG",
    ),
    (
        "reposerver.enable.git.submodule",
        "ARGOCD_GIT_MODULES_ENABLED",
    ),
    (
        "reposerver.git.lsremote.parallelism.limit",
        "ARGOCD_GIT_LS_REMOTE_PARALLELISM_LIMIT",
    ),
    (
        "reposerver.git.request.timeout",
        "ARGOCD_GIT_REQUEST_TIMEOUT",
    ),
    ("reposerver.grpc.max.size", "ARGOCD_GRPC_MAX_SIZE_MB"),
    (
        "reposerver.helm.manifest.max.extracted.size",
        "ARGOCD_REPO_SERVER_HELM_MANIFEST_MAX_EXTRACTED_SIZE",
    ),
    ("reposerver.helm.user.agent", "ARGOCD_HELM_USER_AGENT"),
    (
        "reposerver.include.hidden.directories",
        "ARGOCD_REPO_SERVER_INCLUDE_HIDDEN_DIRECTORIES",
    ),
    ("reposerver.log.format", "ARGOCD_REPO_SERVER_LOGFORMAT"),
    ("reposerver.log.level", "ARGOCD_REPO_SERVER_LOGLEVEL"),
    (
        "reposerver.max.combined.directory.manifests.size",
        "ARGOCD_REPO_SERVER_MAX_COMBINED_DIRECTORY_MANIFESTS_SIZE",
    ),
    (
        "reposerver.oci.layer.media.types",
        "ARGOCD_REPO_SERVER_OCI_LAYER_MEDIA_TYPES",
    ),
    (
        "reposerver.oci.manifest.max.extracted.size",
        "ARGOCD_REPO_SERVER_OCI_MANIFEST_MAX_EXTRACTED_SIZE",
    ),
    (
        "reposerver.parallelism.limit",
        "ARGOCD_REPO_SERVER_PARALLELISM_LIMIT",
    ),
    (
        "reposerver.repo.cache.expiration",
        "ARGOCD_REPO_CACHE_EXPIRATION",
    ),
    (
        "reposerver.revision.cache.lock.timeout",
        "ARGOCD_REVISION_CACHE_LOCK_TIMEOUT",
    ),
    (
        "reposerver.streamed.manifest.max.extracted.size",
        "ARGOCD_REPO_SERVER_STREAMED_MANIFEST_MAX_EXTRACTED_SIZE",
    ),
    (
        "reposerver.streamed.manifest.max.tar.size",
        "ARGOCD_REPO_SERVER_STREAMED_MANIFEST_MAX_TAR_SIZE",
    ),
    ("timeout.reconciliation", "ARGOCD_RECONCILIATION_TIMEOUT"),
];
