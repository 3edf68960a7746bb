//! Flags of the Go principal without a counterpart here yet.

use clap::{Arg, ArgMatches, Command};

/// The effect of ignoring a flag.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ignored {
    /// A feature is missing, nothing is wrong.
    Harmless,
    /// The user would rely on a behaviour that does not exist.
    Misleading,
}
use Ignored::{Harmless, Misleading};

/// Flag, variable, the effect of ignoring it.
type Flag = (&'static str, &'static str, Ignored);

/// Flags that are on or off.
const SWITCHES: [Flag; 7] = [
    (
        "namespace-create-enable",
        "ARGOCD_PRINCIPAL_NAMESPACE_CREATE_ENABLE",
        Misleading,
    ),
    (
        "insecure-tls-generate",
        "ARGOCD_PRINCIPAL_TLS_SERVER_ALLOW_GENERATE",
        Misleading,
    ),
    (
        "client-cert-subject-match",
        "ARGOCD_PRINCIPAL_TLS_CLIENT_CERT_MATCH_SUBJECT",
        Misleading,
    ),
    (
        "insecure-jwt-generate",
        "ARGOCD_PRINCIPAL_JWT_ALLOW_GENERATE",
        Misleading,
    ),
    (
        "redis-tls-insecure",
        "ARGOCD_PRINCIPAL_REDIS_TLS_INSECURE",
        Misleading,
    ),
    // Both ways of routing are always on.
    (
        "destination-based-mapping",
        "ARGOCD_PRINCIPAL_DESTINATION_BASED_MAPPING",
        Harmless,
    ),
    ("ha-enabled", "ARGOCD_PRINCIPAL_HA_ENABLED", Misleading),
];

/// Flags with a value.
const VALUES: [Flag; 19] = [
    ("full-detail", "ARGOCD_PRINCIPAL_FULL_DETAIL", Harmless),
    ("pprof-port", "ARGOCD_PRINCIPAL_PPROF_PORT", Harmless),
    (
        "namespace-create-pattern",
        "ARGOCD_PRINCIPAL_NAMESPACE_CREATE_PATTERN",
        Harmless,
    ),
    (
        "namespace-create-labels",
        "ARGOCD_PRINCIPAL_NAMESPACE_CREATE_LABELS",
        Harmless,
    ),
    // TLS 1.3 always.
    (
        "tls-min-version",
        "ARGOCD_PRINCIPAL_TLS_MIN_VERSION",
        Harmless,
    ),
    (
        "tls-max-version",
        "ARGOCD_PRINCIPAL_TLS_MAX_VERSION",
        Harmless,
    ),
    (
        "tls-ciphersuites",
        "ARGOCD_PRINCIPAL_TLS_CIPHERSUITES",
        Misleading,
    ),
    (
        "keepalive-min-interval",
        "ARGOCD_PRINCIPAL_KEEP_ALIVE_MIN_INTERVAL",
        Harmless,
    ),
    (
        "event-processors",
        "ARGOCD_PRINCIPAL_EVENT_PROCESSORS",
        Harmless,
    ),
    // Variables of both Go programs, without flags. Our queues have the newest state of each object.
    ("recv-queue-size", "ARGOCD_AGENT_RECV_QUEUE_SIZE", Harmless),
    ("send-queue-size", "ARGOCD_AGENT_SEND_QUEUE_SIZE", Harmless),
    // The name of each key contains its compression.
    (
        "redis-compression-type",
        "ARGOCD_PRINCIPAL_REDIS_COMPRESSION_TYPE",
        Harmless,
    ),
    (
        "label-selector",
        "ARGOCD_PRINCIPAL_LABEL_SELECTOR",
        Misleading,
    ),
    (
        "ha-peer-address",
        "ARGOCD_PRINCIPAL_HA_PEER_ADDRESS",
        Harmless,
    ),
    (
        "ha-failover-timeout",
        "ARGOCD_PRINCIPAL_HA_FAILOVER_TIMEOUT",
        Harmless,
    ),
    ("ha-admin-port", "ARGOCD_PRINCIPAL_HA_ADMIN_PORT", Harmless),
    (
        "ha-allowed-replication-clients",
        "ARGOCD_PRINCIPAL_HA_ALLOWED_REPLICATION_CLIENTS",
        Harmless,
    ),
    (
        "ha-replication-initial-ack-timeout",
        "ARGOCD_PRINCIPAL_HA_REPLICATION_INITIAL_ACK_TIMEOUT",
        Harmless,
    ),
    (
        "ha-preferred-role",
        "ARGOCD_PRINCIPAL_HA_PREFERRED_ROLE",
        Harmless,
    ),
];

/// Adds the flags to a command, hidden in its help.
pub(super) fn add(command: Command) -> Command {
    let hidden = |(flag, variable, _): Flag| Arg::new(flag).long(flag).env(variable).hide(true);
    let switches = SWITCHES.into_iter().map(|flag| {
        // Go's bools may stand alone, or have a value behind an equals sign.
        hidden(flag)
            .num_args(0..=1)
            .require_equals(true)
            .default_missing_value("true")
    });
    command.args(switches).args(VALUES.into_iter().map(hidden))
}

/// The flags that were given and have no effect; an error names one that must not be ignored.
pub(super) fn check(matches: &ArgMatches) -> Result<Vec<&'static str>, String> {
    let mut without_effect = Vec::new();
    for (flag, _, ignored) in SWITCHES.into_iter().chain(VALUES) {
        let Some(value) = matches.get_one::<String>(flag) else {
            continue;
        };
        if value.is_empty() || runtime::args::boolean(value) == Ok(false) {
            continue;
        }
        if ignored == Misleading {
            return Err(format!("--{flag} is not supported yet"));
        }
        without_effect.push(flag);
    }
    Ok(without_effect)
}
