//! The command line.

use std::{path::PathBuf, time::Duration};

use clap::{Args, CommandFactory as _, Parser, Subcommand};
use clap_complete::Shell;

use crate::{adopt::Mode, output::Format, settings::Given};

/// Operates the Argo CD agents of a fleet from its hub: looks, explains, checks, and changes certificates. It talks to
/// the hub's API with the rights of your kubeconfig; only `check spoke` asks a cluster, too.
#[derive(Debug, Parser)]
#[command(
    name = "argocd-agentctl",
    version,
    propagate_version = true,
    after_help = EXAMPLES
)]
pub struct Cli {
    /// In common.
    #[command(flatten)]
    pub global: Global,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

const EXAMPLES: &str = "\
Examples:
  argocd-agentctl status -o wide
  argocd-agentctl status --applications
  argocd-agentctl why shop
  argocd-agentctl check
  argocd-agentctl check spoke paris --spoke-context kind-paris
  argocd-agentctl certs rotate paris --wait";

/// Above the flags that every command has, so that the few of its own are seen.
const COMMON: &str = "Options of every command";

/// How to reach the hub, and what it is like.
#[derive(Clone, Debug, Args)]
pub struct Global {
    /// Kubeconfig of the hub; without it KUBECONFIG and ~/.kube/config count, as with kubectl.
    #[arg(long, global = true, value_name = "FILE", help_heading = COMMON)]
    pub kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig.
    #[arg(long, global = true, help_heading = COMMON)]
    pub context: Option<String>,
    /// Namespace of the hub program.
    #[arg(
        long,
        global = true,
        value_name = "NAMESPACE",
        help_heading = COMMON,
        default_value = "argocd-agent-addon"
    )]
    pub own_namespace: String,
    /// Namespace of the hub's Argo CD; without it what the hub program was told.
    #[arg(long, global = true, value_name = "NAMESPACE", help_heading = COMMON)]
    pub argocd_namespace: Option<String>,
    /// Further namespaces whose Applications are delivered by destination; without it what the hub program was told.
    #[arg(
        long,
        global = true,
        value_name = "NAMESPACES",
        value_delimiter = ',',
        help_heading = COMMON
    )]
    pub allowed_namespaces: Option<Vec<String>>,
    /// How to print.
    #[arg(
        long,
        short,
        global = true,
        value_enum,
        default_value_t,
        help_heading = COMMON
    )]
    pub output: Format,
}

impl Global {
    /// What the caller says about the hub program's settings.
    pub fn given(&self) -> Given {
        Given {
            argocd_namespace: self.argocd_namespace.clone(),
            allowed_namespaces: self.allowed_namespaces.clone(),
        }
    }
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// One line for each cluster: mode, version, connection, Applications, certificate, last error.
    Status(StatusArgs),
    /// Each hop of one Application: where it goes and by which rule, what holds it, what came back, who wrote it, and the
    /// next step.
    Why(WhyArgs),
    /// Certificates of the hub and of the agents.
    #[command(subcommand)]
    Certs(Certs),
    /// Who may come in.
    #[command(subcommand)]
    Agent(Agent),
    /// Clusters that the hub's Argo CD reaches without the add-on.
    #[command(subcommand)]
    Cluster(Cluster),
    /// Whether this hub has what the add-on needs, and you the rights that these commands need; `check spoke` looks at a
    /// cluster. Ends with 1 when something does not work.
    Check {
        /// What else to look at.
        #[command(subcommand)]
        of: Option<Check>,
    },
    /// Writes what somebody who helps needs to see into a new folder, as JSON; no Secret and no key is in it.
    SupportBundle {
        /// The folder, which must not be there yet.
        folder: PathBuf,
    },
    /// Prints the completions of a shell.
    Completion {
        /// The shell.
        shell: Shell,
    },
    /// Writes the man pages into a folder.
    #[command(hide = true)]
    Man {
        /// The folder.
        folder: PathBuf,
    },
}

/// Arguments of `status`.
#[derive(Debug, Args)]
pub struct StatusArgs {
    /// Clusters; without any all of them.
    pub clusters: Vec<String>,
    /// Instead of clusters, list their Applications that need a look, each with the cause.
    #[arg(long)]
    pub applications: bool,
    /// End with 1 when one of the clusters, or an Application of them, needs a look.
    #[arg(long)]
    pub exit_code: bool,
}

/// Arguments of `why`.
#[derive(Clone, Debug, Args)]
pub struct WhyArgs {
    /// The Application: NAME, or NAMESPACE/NAME as it is printed.
    pub application: String,
    /// Its namespace on the hub; needed only where several namespaces have one of that name.
    #[arg(long, short)]
    pub namespace: Option<String>,
    /// End with 1 unless all is well.
    #[arg(long)]
    pub exit_code: bool,
}

impl WhyArgs {
    /// With the namespace apart, where it stands before the name.
    #[must_use]
    pub fn taken_apart(&self) -> Self {
        match (&self.namespace, self.application.split_once('/')) {
            (None, Some((namespace, name))) => Self {
                application: name.to_owned(),
                namespace: Some(namespace.to_owned()),
                exit_code: self.exit_code,
            },
            _ => self.clone(),
        }
    }
}

/// `certs`.
#[derive(Debug, Subcommand)]
pub enum Certs {
    /// Every certificate, and when it ends.
    List,
    /// Changes the key and certificate of one agent, or the certificate authority of all.
    Rotate(RotateArgs),
}

/// Arguments of `certs rotate`.
#[derive(Debug, Args)]
pub struct RotateArgs {
    /// Of what.
    #[command(flatten)]
    pub of: RotateOf,
    /// Until when.
    #[command(flatten)]
    pub wait: Wait,
}

/// What is rotated.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub struct RotateOf {
    /// The cluster whose agent gets another key.
    pub cluster: Option<String>,
    /// Another certificate authority takes over; no agent is cut off.
    #[arg(long)]
    pub ca: bool,
}

/// Whether a command waits for what it has asked for.
#[derive(Clone, Copy, Debug, Args)]
pub struct Wait {
    /// Do not end before it is done; at a terminal the stage is shown meanwhile.
    #[arg(long)]
    pub wait: bool,
    /// How long to wait, such as 90s or 15m; then it is an error, and goes on by itself all the same.
    #[arg(long, value_name = "DURATION", default_value = "10m", requires = "wait", value_parser = runtime::args::duration)]
    pub timeout: Duration,
}

/// `agent`.
#[derive(Debug, Subcommand)]
pub enum Agent {
    /// Every agent, and whether it is let in.
    List,
    /// Keeps the agent of a cluster out, at once and with whatever certificate.
    Revoke {
        /// The cluster.
        cluster: String,
        /// Why, for whoever looks later.
        #[arg(long, default_value = "revoked with argocd-agentctl")]
        reason: String,
    },
    /// Lets a revoked agent in again, with another key.
    Restore {
        /// The cluster.
        cluster: String,
        /// Until when.
        #[command(flatten)]
        wait: Wait,
    },
}

/// `check`.
#[derive(Debug, Subcommand)]
pub enum Check {
    /// Whether a cluster has what the add-on needs there, before it has joined or after, with your rights on it: its API,
    /// Open Cluster Management, Argo CD, the agent, the way to the principal as seen from this machine, clocks.
    Spoke(Box<SpokeArgs>),
}

/// Arguments of `check spoke`.
#[derive(Debug, Args)]
pub struct SpokeArgs {
    /// The cluster's name at the hub; without it what its Klusterlet says.
    pub cluster: Option<String>,
    /// Kubeconfig of the cluster; without it that of the hub.
    #[arg(long, value_name = "FILE", required_unless_present = "spoke_context")]
    pub spoke_kubeconfig: Option<PathBuf>,
    /// Context of the cluster.
    #[arg(long, value_name = "CONTEXT")]
    pub spoke_context: Option<String>,
    /// Do not ask the hub.
    #[arg(long)]
    pub without_hub: bool,
    /// Where agents dial; without it what the agent, its configuration or the hub says.
    #[arg(long, value_name = "HOST:PORT")]
    pub principal_address: Option<String>,
    /// Namespace of the agent on the cluster; without it where it is, or what is configured.
    #[arg(long, value_name = "NAMESPACE")]
    pub agent_namespace: Option<String>,
    /// Namespace of Argo CD on the cluster; without it what the agent was told, or what is configured.
    #[arg(long, value_name = "NAMESPACE")]
    pub spoke_argocd_namespace: Option<String>,
}

/// `cluster`.
#[derive(Debug, Subcommand)]
pub enum Cluster {
    /// Takes over clusters that the hub's Argo CD reaches directly or with argocd-agent: says which managed
    /// clusters of Open Cluster Management they are, what becomes of the Applications that name them, and what is in the way. Ends with 1 when something is.
    Adopt(AdoptArgs),
}

/// Arguments of `cluster adopt`.
#[derive(Debug, Args)]
pub struct AdoptArgs {
    /// Clusters; without any all of them.
    pub clusters: Vec<String>,
    /// Write nothing.
    #[arg(long, conflicts_with = "wait")]
    pub dry_run: bool,
    /// The cluster Secret with the name of this cluster is the cluster's, although it has another API server than the
    /// ManagedCluster says. For each such cluster, after you have looked.
    #[arg(long, value_name = "CLUSTER", value_delimiter = ',')]
    pub same_cluster: Vec<String>,
    /// Who shall own the Applications of these clusters.
    #[arg(long, value_enum, default_value_t)]
    pub mode: Mode,
    /// Until when.
    #[command(flatten)]
    pub wait: Wait,
}

/// The whole command line, for completions, man pages and tests.
pub fn command() -> clap::Command {
    Cli::command()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        command().debug_assert();
    }

    #[test]
    fn every_command_and_every_flag_in_common_is_on_the_page() {
        let page = include_str!("../../docs/agentctl.md");
        for command in command().get_subcommands() {
            let name = command.get_name();
            assert!(page.contains(name), "docs/agentctl.md lacks {name}");
            for inner in command.get_subcommands() {
                let name = format!("{name} {}", inner.get_name());
                assert!(page.contains(&name), "docs/agentctl.md lacks {name}");
            }
        }
        let flags = command();
        let flags = flags.get_arguments().filter_map(clap::Arg::get_long);
        for flag in flags {
            let row = format!("| `--{flag}`");
            assert!(page.contains(&row), "docs/agentctl.md lacks {row}");
        }
    }

    #[test]
    fn an_application_may_be_named_as_it_is_printed() {
        let parse = |words: &[&str]| {
            let words = ["argocd-agentctl", "why"].iter().chain(words);
            let Command::Why(args) = Cli::try_parse_from(words).unwrap().command else {
                panic!("another command");
            };
            let args = args.taken_apart();
            (args.namespace, args.application)
        };
        let told = |namespace: Option<&str>| (namespace.map(str::to_owned), "shop".to_owned());
        assert_eq!(parse(&["shop"]), told(None));
        assert_eq!(parse(&["paris/shop"]), told(Some("paris")));
        assert_eq!(parse(&["shop", "-n", "paris"]), told(Some("paris")));
    }

    #[test]
    fn what_is_of_one_command_stands_before_what_is_of_all() {
        let mut all = command();
        // Gives each command what all have.
        all.build();
        let help = all
            .find_subcommand_mut("why")
            .unwrap()
            .render_help()
            .to_string();
        let at = |word: &str| help.find(word).unwrap();
        assert!(at("--exit-code") < at(COMMON), "{help}");
    }

    #[test]
    fn a_cluster_is_looked_at_by_a_way_of_its_own() {
        let parse = |words: &[&str]| {
            let words = ["argocd-agentctl", "check"].iter().chain(words);
            Cli::try_parse_from(words).is_ok()
        };
        assert!(parse(&[]) && parse(&["spoke", "--spoke-context", "kind-paris"]));
        assert!(parse(&["spoke", "paris", "--spoke-kubeconfig", "f"]));
        assert!(!parse(&["spoke"]) && !parse(&["spoke", "paris"]) && !parse(&["paris"]));
    }

    #[test]
    fn whoever_lets_an_agent_in_again_may_wait_for_it() {
        let parse = |words: &[&str]| {
            let words = ["argocd-agentctl", "agent", "restore"].iter().chain(words);
            Cli::try_parse_from(words).is_ok()
        };
        assert!(parse(&["paris"]) && parse(&["paris", "--wait", "--timeout", "90s"]));
        assert!(!parse(&["--wait"]) && !parse(&["paris", "--timeout", "90s"]));
    }

    #[test]
    fn a_rotation_says_of_what() {
        let parse = |words: &[&str]| {
            let words = ["argocd-agentctl", "certs", "rotate"].iter().chain(words);
            Cli::try_parse_from(words).is_ok()
        };
        assert!(parse(&["--ca"]) && parse(&["paris"]));
        assert!(parse(&["--ca", "--wait"]) && parse(&["paris", "--wait", "--timeout", "90s"]));
        assert!(!parse(&["--ca", "--timeout", "90s"]) && !parse(&["--wait"]));
        assert!(!parse(&[]) && !parse(&["--ca", "paris"]));
    }
}
