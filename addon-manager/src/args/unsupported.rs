//! Flags of the Go principal without a counterpart here yet.

use clap::{Arg, ArgMatches, Command};

/// What ignoring a flag would mean.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ignored {
    /// Something is missing, nothing is wrong.
    Harmless,
    /// The user would believe in something that is not so.
    Misleading,
}
use Ignored::{Harmless, Misleading};

/// Flag, variable without its prefix, what ignoring it would mean.
const FLAGS: [(&str, &str, Ignored); 39] = [
    ("full-detail", "FULL_DETAIL", Harmless),
    ("pprof-port", "PPROF_PORT", Harmless),
    ("namespace-create-enable", "NAMESPACE_CREATE_ENABLE", Misleading),
    ("namespace-create-pattern", "NAMESPACE_CREATE_PATTERN", Harmless),
    ("namespace-create-labels", "NAMESPACE_CREATE_LABELS", Harmless),
    ("insecure-tls-generate", "TLS_SERVER_ALLOW_GENERATE", Misleading),
    ("insecure-plaintext", "INSECURE_PLAINTEXT", Misleading),
    // Client certificates are always required.
    ("require-client-certs", "TLS_CLIENT_CERT_REQUIRE", Harmless),
    ("client-cert-subject-match", "TLS_CLIENT_CERT_MATCH_SUBJECT", Misleading),
    // TLS 1.3 always.
    ("tls-min-version", "TLS_MIN_VERSION", Harmless),
    ("tls-max-version", "TLS_MAX_VERSION", Harmless),
    ("tls-ciphersuites", "TLS_CIPHERSUITES", Misleading),
    ("resource-proxy-secret-name", "RESOURCE_PROXY_SECRET_NAME", Harmless),
    ("resource-proxy-cert-path", "RESOURCE_PROXY_TLS_CERT_PATH", Harmless),
    ("resource-proxy-key-path", "RESOURCE_PROXY_TLS_KEY_PATH", Harmless),
    ("resource-proxy-ca-secret-name", "RESOURCE_PROXY_CA_SECRET_NAME", Harmless),
    ("resource-proxy-ca-path", "RESOURCE_PROXY_TLS_CA_PATH", Harmless),
    ("enable-resource-proxy", "ENABLE_RESOURCE_PROXY", Harmless),
    ("insecure-jwt-generate", "JWT_ALLOW_GENERATE", Misleading),
    ("enable-websocket", "ENABLE_WEBSOCKET", Misleading),
    ("keepalive-min-interval", "KEEP_ALIVE_MIN_INTERVAL", Harmless),
    ("event-processors", "EVENT_PROCESSORS", Harmless),
    ("redis-server-address", "REDIS_SERVER_ADDRESS", Harmless),
    ("redis-password", "REDIS_PASSWORD", Harmless),
    ("redis-creds-dir-path", "REDIS_CREDS_DIR_PATH", Harmless),
    ("redis-compression-type", "REDIS_COMPRESSION_TYPE", Harmless),
    ("disable-redis-proxy", "DISABLE_REDIS_PROXY", Harmless),
    ("redis-tls-enabled", "REDIS_TLS_ENABLED", Harmless),
    ("redis-ca-path", "REDIS_CA_PATH", Harmless),
    ("redis-ca-secret-name", "REDIS_CA_SECRET_NAME", Harmless),
    ("redis-tls-insecure", "REDIS_TLS_INSECURE", Harmless),
    // Both ways of routing are always on.
    ("destination-based-mapping", "DESTINATION_BASED_MAPPING", Harmless),
    ("label-selector", "LABEL_SELECTOR", Misleading),
    ("enable-self-cluster-registration", "ENABLE_SELF_CLUSTER_REGISTRATION", Misleading),
    ("self-registration-client-cert-secret", "SELF_REGISTRATION_CLIENT_CERT_SECRET", Harmless),
    ("otlp-address", "OTLP_ADDRESS", Harmless),
    ("otlp-insecure", "OTLP_INSECURE", Harmless),
    ("ha-enabled", "HA_ENABLED", Misleading),
    ("ha-preferred-role", "HA_PREFERRED_ROLE", Harmless),
];

/// Lets a command accept the flags, unseen in its help.
pub(super) fn add(command: Command) -> Command {
    FLAGS.iter().fold(command, |command, (flag, variable, _)| {
        let variable = format!("ARGOCD_PRINCIPAL_{variable}");
        // Go's bools may stand alone.
        let argument = Arg::new(*flag).long(*flag).env(variable).hide(true);
        command.arg(argument.num_args(0..=1).require_equals(true).default_missing_value("true"))
    })
}

/// The flags that were given and have no effect; an error names one that must not be ignored.
pub(super) fn check(matches: &ArgMatches) -> Result<Vec<&'static str>, String> {
    let mut without_effect = Vec::new();
    for (flag, _, ignored) in FLAGS {
        let Some(value) = matches.get_one::<String>(flag) else { continue };
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
