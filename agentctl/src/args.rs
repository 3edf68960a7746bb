//! The command line.

mod upstream;

use std::{path::PathBuf, time::Duration};

use clap::{Args, CommandFactory as _, Parser, Subcommand};
use clap_complete::Shell;

pub use upstream::parse;

use crate::{adopt::Mode, check::spoke::Given as SpokeGiven, output::Format, setup::HubCommand};

/// Operate the Argo CD agents of a fleet from its hub: status, explanations, checks and certificates. The command
/// uses the hub's API with the rights of your kubeconfig; only `check spoke` also connects to a cluster.
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
  argocd-agentctl hub setup --dry-run
  argocd-agentctl check spoke paris --spoke-context kind-paris
  argocd-agentctl certs rotate paris --wait";

/// Above the flags that every command has, so that the few of its own are seen.
const COMMON: &str = "Options of every command";

/// How to reach the hub, and what it is like.
#[derive(Clone, Debug, Args)]
pub struct Global {
    /// Kubeconfig of the hub [default: KUBECONFIG or ~/.kube/config, as with kubectl].
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
    /// Whose namespaces count.
    #[command(flatten)]
    pub given: Given,
    /// Output format.
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

/// Settings of the hub program, where the caller knows better.
#[derive(Clone, Debug, Default, PartialEq, Eq, Args)]
pub struct Given {
    /// Namespace of the hub's Argo CD [default: the hub program's setting].
    #[arg(long, global = true, value_name = "NAMESPACE", help_heading = COMMON)]
    pub argocd_namespace: Option<String>,
    /// Further namespaces whose Applications are delivered by destination [default: the hub program's setting].
    #[arg(
        long,
        global = true,
        value_name = "NAMESPACES",
        value_delimiter = ',',
        help_heading = COMMON
    )]
    pub allowed_namespaces: Option<Vec<String>>,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Show each cluster: mode, version, connection, Applications, certificate, last error.
    Status(StatusArgs),
    /// Explain one Application hop by hop: destination and rule, what blocks it, what the cluster reported, who wrote
    /// it, and the next step.
    Why(WhyArgs),
    /// List and rotate certificates of the hub and of the agents.
    #[command(subcommand)]
    Certs(Certs),
    /// List, revoke and restore agents.
    #[command(subcommand, alias = "agents")]
    Agent(Agent),
    /// Adopt clusters that the hub's Argo CD manages without the add-on.
    #[command(subcommand)]
    Cluster(Cluster),
    /// Set up the hub's Argo CD.
    #[command(subcommand)]
    Hub(HubCommand),
    /// Check hub prerequisites and your permissions; `check spoke` checks a cluster. Exits with 1 if a check fails.
    Check {
        /// Check a cluster instead of the hub.
        #[command(subcommand)]
        of: Option<Check>,
    },
    /// Write a support bundle into a new folder, as JSON, without Secrets and keys.
    SupportBundle {
        /// The folder; it must not exist yet.
        folder: PathBuf,
    },
    /// Print shell completions.
    Completion {
        /// The shell.
        shell: Shell,
    },
    /// Write the man pages into a folder.
    #[command(hide = true)]
    Man {
        /// The folder.
        folder: PathBuf,
    },
}

/// Arguments of `status`.
#[derive(Debug, Args)]
pub struct StatusArgs {
    /// Clusters [default: all].
    pub clusters: Vec<String>,
    /// List the Applications that need attention, each with the cause, instead of clusters.
    #[arg(long)]
    pub applications: bool,
    /// Exit with 1 if a cluster or one of its Applications needs attention.
    #[arg(long)]
    pub exit_code: bool,
}

/// Arguments of `why`.
#[derive(Clone, Debug, Args)]
pub struct WhyArgs {
    /// The Application: NAME, or NAMESPACE/NAME as printed by other commands.
    pub application: String,
    /// Namespace on the hub; needed only if several namespaces have an Application of that name.
    #[arg(long, short)]
    pub namespace: Option<String>,
    /// Exit with 1 if the Application has a problem.
    #[arg(long)]
    pub exit_code: bool,
}

impl WhyArgs {
    /// With the namespace apart, where it stands before the name.
    #[must_use]
    pub fn taken_apart(mut self) -> Self {
        if let (None, Some((namespace, name))) = (&self.namespace, self.application.split_once('/'))
        {
            (self.namespace, self.application) = (Some(namespace.to_owned()), name.to_owned());
        }
        self
    }
}

/// `certs`.
#[derive(Debug, Subcommand)]
pub enum Certs {
    /// List every certificate with its expiry.
    List,
    /// Rotate the key and certificate of one agent, or the certificate authority of all agents.
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
    /// The cluster whose agent gets a new key.
    pub cluster: Option<String>,
    /// Rotate the certificate authority; agents stay connected.
    #[arg(long)]
    pub ca: bool,
}

/// Whether a command waits for what it has asked for.
#[derive(Clone, Copy, Debug, Args)]
pub struct Wait {
    /// Wait until it is done; at a terminal, show progress.
    #[arg(long)]
    pub wait: bool,
    /// Time limit of --wait, such as 90s or 15m. The command fails then; the operation continues on the hub.
    #[arg(long, value_name = "DURATION", default_value = "10m", requires = "wait", value_parser = runtime::args::duration)]
    pub timeout: Duration,
}

/// `agent`.
#[derive(Debug, Subcommand)]
pub enum Agent {
    /// List every agent and whether it is admitted.
    List,
    /// Revoke the agent of a cluster: disconnect it now and reject all of its certificates.
    Revoke {
        /// The cluster.
        cluster: String,
        /// Reason, shown in status and conditions.
        #[arg(long, default_value = "revoked with argocd-agentctl")]
        reason: String,
    },
    /// Restore a revoked agent, with a new key.
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
    /// Check the prerequisites on a cluster, before or after it joins, with your rights on it: its API, Open Cluster
    /// Management, Argo CD, the agent, the connection to the principal from this machine, clocks.
    Spoke(Box<SpokeArgs>),
}

/// Arguments of `check spoke`.
#[derive(Debug, Args)]
pub struct SpokeArgs {
    /// Name of the cluster on the hub [default: from its Klusterlet].
    pub cluster: Option<String>,
    /// Kubeconfig of the cluster [default: that of the hub].
    #[arg(long, value_name = "FILE", required_unless_present = "spoke_context")]
    pub spoke_kubeconfig: Option<PathBuf>,
    /// Context of the cluster.
    #[arg(long, value_name = "CONTEXT")]
    pub spoke_context: Option<String>,
    /// Do not read from the hub.
    #[arg(long)]
    pub without_hub: bool,
    /// Where things are.
    #[command(flatten)]
    pub given: SpokeGiven,
}

/// `cluster`.
#[derive(Debug, Subcommand)]
pub enum Cluster {
    /// Adopt clusters that the hub's Argo CD manages directly or with argocd-agent: match them to managed clusters of
    /// Open Cluster Management, and report the effect on Applications and all obstacles. Exits with 1 if there are
    /// obstacles.
    Adopt(AdoptArgs),
}

/// Arguments of `cluster adopt`.
#[derive(Debug, Args)]
pub struct AdoptArgs {
    /// Clusters [default: all].
    pub clusters: Vec<String>,
    /// Report only; write nothing.
    #[arg(long, conflicts_with = "wait")]
    pub dry_run: bool,
    /// Confirm that the cluster Secret of this name belongs to this cluster although its API server differs from the
    /// ManagedCluster's. Use it after you have compared both.
    #[arg(long, value_name = "CLUSTER", value_delimiter = ',')]
    pub same_cluster: Vec<String>,
    /// Owner of the Applications: managed (hub) or autonomous (cluster).
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
        let expected = |namespace: Option<&str>| (namespace.map(str::to_owned), "shop".to_owned());
        assert_eq!(parse(&["shop"]), expected(None));
        assert_eq!(parse(&["paris/shop"]), expected(Some("paris")));
        assert_eq!(parse(&["shop", "-n", "paris"]), expected(Some("paris")));
    }

    #[test]
    fn help_lists_command_options_before_global_options() {
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
    fn agent_restore_accepts_wait_and_timeout() {
        let parse = |words: &[&str]| {
            let words = ["argocd-agentctl", "agent", "restore"].iter().chain(words);
            Cli::try_parse_from(words).is_ok()
        };
        assert!(parse(&["paris"]) && parse(&["paris", "--wait", "--timeout", "90s"]));
        assert!(!parse(&["--wait"]) && !parse(&["paris", "--timeout", "90s"]));
    }

    #[test]
    fn certs_rotate_needs_exactly_one_target() {
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
