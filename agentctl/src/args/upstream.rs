//! Commands of argocd-agent's program of the same name, each with its counterpart here.

use std::ffi::OsString;

use clap::{
    Parser as _,
    builder::StyledStr,
    error::{ContextKind, ContextValue, Error},
};

use super::Cli;

/// Commands, subcommands of `agent`, and flags of argocd-agent's `argocd-agentctl` that do not exist here.
const COUNTERPARTS: [(&str, &str); 22] = [
    (
        "blocklist",
        "`argocd-agentctl agent revoke CLUSTER` rejects all certificates of an agent, `argocd-agentctl agent restore \
        CLUSTER` admits it again. The ConfigMap argocd-agent-tls-blocklist still counts",
    ),
    ("config", CONFIG),
    ("check-config", CHECK),
    (
        "create",
        "label the ManagedCluster: kubectl label managedcluster CLUSTER \
        argocd-agent.open-cluster-management.io/mode=managed. If the hub's Argo CD manages the cluster already: \
        `argocd-agentctl cluster adopt CLUSTER`",
    ),
    ("dump-tls", TLS),
    (
        "ha",
        "there is no replication between hubs. With replicas: 2 in the chart's values a second replica takes over; \
        `argocd-agentctl check` lists the replicas and the leader",
    ),
    ("inspect", INSPECT),
    (
        "jwt",
        "the hub program creates the key under its tokens by itself, in the Secret argocd-agent-jwt of its namespace",
    ),
    (
        "pki",
        "the hub program creates, issues and renews all certificates by itself: `argocd-agentctl certs list` lists them, \
        `argocd-agentctl certs rotate CLUSTER` and `argocd-agentctl certs rotate --ca` replace them",
    ),
    ("print-tls", TLS),
    (
        "reconfigure",
        "the hub program keeps the cluster Secret up to date. For a new key and certificate of the agent: \
        `argocd-agentctl certs rotate CLUSTER`",
    ),
    ("show", INSPECT),
    ("validate", CHECK),
    ("version", "`argocd-agentctl --version`"),
    ("--agent", CONFIG),
    ("--agent-context", SPOKE),
    ("--agent-namespace", SPOKE),
    ("--config", CONFIG),
    (
        "--label",
        "the labels of agents are those of their ManagedClusters: kubectl get managedclusters --selector LABEL",
    ),
    ("--principal", CONFIG),
    (
        "--principal-context",
        "--context names the context of the hub",
    ),
    (
        "--principal-namespace",
        "--argocd-namespace names the namespace of the hub's Argo CD, --own-namespace that of the hub program",
    ),
];

const CHECK: &str = "`argocd-agentctl check` checks the hub, `argocd-agentctl check spoke CLUSTER --spoke-context CONTEXT` a \
    cluster";
const CONFIG: &str =
    "there is no configuration file: choose the hub with --kubeconfig and --context";
const INSPECT: &str = "`argocd-agentctl status CLUSTER -o wide` shows the agent, `argocd-agentctl certs list` the expiry of its \
    certificate";
const SPOKE: &str =
    "only `argocd-agentctl check spoke --spoke-context CONTEXT` reads from a cluster";
const TLS: &str = "the Secret cluster-CLUSTER in the namespace of the hub's Argo CD has certificate, key and CA. \
    `argocd-agentctl certs list` lists certificates with their expiry";

/// For a principal without the add-on.
const STANDALONE: &str = "this is the argocd-agentctl of the add-on for Open Cluster Management. For a principal without it, use \
    the program of argocd-agent";

/// Parses a command line. If it is one of argocd-agent's, the error names the counterpart here.
pub fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Cli, Error> {
    Cli::try_parse_from(arguments).map_err(with_counterpart)
}

fn with_counterpart(mut error: Error) -> Error {
    let unknown = [ContextKind::InvalidSubcommand, ContextKind::InvalidArg];
    let given = unknown.into_iter().find_map(|kind| error.get(kind));
    let Some(ContextValue::String(given)) = given else {
        return error;
    };
    let mut known = COUNTERPARTS.into_iter();
    let Some((_, counterpart)) = known.find(|(name, _)| name == given) else {
        return error;
    };
    let tips = [counterpart, STANDALONE].map(StyledStr::from);
    // Commands of other meaning whose names look alike.
    error.remove(ContextKind::SuggestedSubcommand);
    error.remove(ContextKind::SuggestedArg);
    error.insert(
        ContextKind::Suggested,
        ContextValue::StyledStrs(Vec::from(tips)),
    );
    error
}

#[cfg(test)]
mod tests {
    use clap::error::ErrorKind;

    use super::*;

    fn refused(line: &str) -> Error {
        let words = ["argocd-agentctl"].into_iter().chain(line.split(' '));
        parse(words.map(OsString::from)).unwrap_err()
    }

    #[test]
    fn commands_of_argocd_agent_are_answered_with_their_counterpart() {
        for (line, counterpart) in [
            (
                "pki init --principal-context hub",
                "argocd-agentctl certs list",
            ),
            ("pki issue agent paris --upsert", "certs rotate CLUSTER"),
            ("jwt create-key", "argocd-agent-jwt"),
            (
                "agent create paris --resource-proxy-server x:9090",
                "kubectl label managedcluster CLUSTER",
            ),
            ("agent inspect paris", "status CLUSTER -o wide"),
            ("agent show paris", "status CLUSTER -o wide"),
            ("agent print-tls paris -t key", "cluster-CLUSTER"),
            ("agent dump-tls paris", "cluster-CLUSTER"),
            (
                "agent reconfigure paris --reissue-client-cert",
                "certs rotate CLUSTER",
            ),
            ("check-config", "argocd-agentctl check spoke"),
            ("validate principal", "argocd-agentctl check"),
            ("ha promote --force", "replicas: 2"),
            ("blocklist tls add 01", "agent revoke CLUSTER"),
            ("config create", "--kubeconfig"),
            ("version", "argocd-agentctl --version"),
            ("agent list --principal-context hub", "--context names"),
            ("--principal-namespace=argocd status", "--own-namespace"),
            ("--agent-context=paris pki init", "--spoke-context"),
            ("agents show paris", "status CLUSTER -o wide"),
            ("agent list --label a=b", "kubectl get managedclusters"),
            ("--agent-namespace=argocd status", "--spoke-context"),
            ("--principal hub agent list", "--kubeconfig"),
            ("--agent=paris status", "--kubeconfig"),
            ("--config=/tmp/config status", "--kubeconfig"),
        ] {
            let error = refused(line);
            let text = error.to_string();
            assert!(text.contains(counterpart), "{line}: {text}");
            assert!(text.contains(STANDALONE), "{line}: {text}");
            assert!(!text.contains("similar"), "{line}: {text}");
            assert_eq!(error.exit_code(), 2, "{line}");
        }
    }

    #[test]
    fn other_mistakes_are_answered_as_before() {
        for (line, kind) in [
            ("statsu", ErrorKind::InvalidSubcommand),
            ("agent lst", ErrorKind::InvalidSubcommand),
            ("agents lst", ErrorKind::InvalidSubcommand),
            ("status --what", ErrorKind::UnknownArgument),
            ("why", ErrorKind::MissingRequiredArgument),
            ("--version", ErrorKind::DisplayVersion),
        ] {
            let error = refused(line);
            assert_eq!(error.kind(), kind, "{line}");
            assert!(!error.to_string().contains(STANDALONE), "{line}");
        }
    }

    #[test]
    fn each_counterpart_is_a_command_that_exists() {
        for (name, counterpart) in COUNTERPARTS {
            let quoted = counterpart.split('`').skip(1).step_by(2);
            for line in quoted {
                let is_there = match parse(line.split(' ').map(OsString::from)) {
                    Ok(_) => true,
                    Err(error) => error.kind() == ErrorKind::DisplayVersion,
                };
                assert!(is_there, "{name}: {line}");
            }
        }
    }

    #[test]
    fn each_command_of_argocd_agent_is_on_the_page() {
        let page = include_str!("../../../docs/migration.md");
        for (name, _) in COUNTERPARTS {
            assert!(
                page.contains(&format!("`{name}")) || page.contains(&format!("agent {name}")),
                "{name}"
            );
        }
    }
}
