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
const VALUES: [Flag; 21] = [
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
    // Since version 0.10.
    (
        "spire-agent-socket",
        "ARGOCD_PRINCIPAL_SPIRE_AGENT_SOCKET",
        Misleading,
    ),
    (
        "spire-auth-method",
        "ARGOCD_PRINCIPAL_SPIRE_AUTH_METHOD",
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

/// What to use in place of a flag that is refused.
const INSTEAD: [(&str, &str); 10] = [
    (
        "namespace-create-enable",
        "create the namespace of each agent yourself; with Open Cluster Management each cluster has one",
    ),
    (
        "insecure-tls-generate",
        "name a certificate with --tls-secret-name, or with --tls-cert and --tls-key",
    ),
    (
        "client-cert-subject-match",
        "--auth=mtls:CN=([^,]+) takes the name of the agent from its certificate",
    ),
    (
        "insecure-jwt-generate",
        "name a key with --jwt-secret-name or --jwt-key",
    ),
    (
        "redis-tls-insecure",
        "name the CA of redis with --redis-ca-secret-name or --redis-ca-path",
    ),
    (
        "ha-enabled",
        "there is no replication between hubs; several replicas serve agents with the Helm chart only",
    ),
    (
        "tls-ciphersuites",
        "TLS is always 1.3, whose cipher suites are all secure",
    ),
    (
        "label-selector",
        "name the namespaces with --allowed-namespaces",
    ),
    ("spire-agent-socket", SPIRE),
    ("spire-auth-method", SPIRE),
];

const SPIRE: &str = "let spiffe-helper write certificate, key and bundle to files, and name them with --tls-cert, --tls-key and \
    --root-ca-path; --auth=mtls:uri:PATTERN takes the name of an agent from its SPIFFE ID";

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
            let mut instead = INSTEAD.into_iter();
            let instead = instead.find(|(refused, _)| *refused == flag);
            let (_, instead) = instead.unwrap_or_default();
            return Err(format!("--{flag} is not supported yet: {instead}"));
        }
        without_effect.push(flag);
    }
    Ok(without_effect)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_refused_flag_has_a_next_step_and_no_other_has_one() {
        let refused = SWITCHES.into_iter().chain(VALUES);
        let refused = refused.filter(|(_, _, ignored)| *ignored == Misleading);
        let mut refused: Vec<_> = refused.map(|(flag, ..)| flag).collect();
        refused.sort_unstable();
        let mut answered = INSTEAD.map(|(flag, _)| flag);
        answered.sort_unstable();
        assert_eq!(refused, answered);
    }

    #[test]
    fn each_next_step_names_flags_that_exist() {
        let command = super::super::command();
        let principal = command.find_subcommand("principal").unwrap();
        let known: Vec<_> = principal
            .get_arguments()
            .filter_map(Arg::get_long)
            .collect();
        for (flag, instead) in INSTEAD {
            for part in instead.split("--").skip(1) {
                let end = part.find(|it: char| !it.is_ascii_lowercase() && it != '-');
                let (name, _) = part.split_at(end.unwrap_or(part.len()));
                assert!(known.contains(&name), "{flag}: --{name}");
            }
        }
    }
}
