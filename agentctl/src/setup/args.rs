//! The command line of `hub setup`.

use clap::{Args, Subcommand};

/// `hub`.
#[derive(Debug, Subcommand)]
pub enum HubCommand {
    /// Set up argocd-server on the hub for live views of clusters: its settings, its permission to change Applications in
    /// the namespaces of clusters, and a restart. It writes nothing that is set already, and nothing at all while a
    /// prerequisite is missing; then it exits with 1.
    Setup(SetupArgs),
}

/// Arguments of `hub setup`.
#[derive(Clone, Debug, Default, Args)]
pub struct SetupArgs {
    /// List the changes of each object; write nothing.
    #[arg(long)]
    pub dry_run: bool,
    /// Restore the values from before, and remove the permission. A value that another client changed after setup stays,
    /// and the command exits with 1.
    #[arg(long)]
    pub undo: bool,
    /// Namespaces whose Applications argocd-server shows, names or patterns, in addition to those that it shows already
    /// [default: * if it shows none, else the namespaces of clusters].
    #[arg(
        long,
        value_name = "PATTERNS",
        value_delimiter = ',',
        value_parser = pattern,
        conflicts_with = "undo"
    )]
    pub application_namespaces: Vec<String>,
}

/// An entry of Argo CD's list of namespaces.
fn pattern(text: &str) -> Result<String, &'static str> {
    let text = text.trim();
    let is_plain = |c: char| !c.is_whitespace() && !c.is_control();
    if text.is_empty() || !text.chars().all(is_plain) {
        return Err(
            "use a namespace, a pattern such as team-*, or a regular expression in slashes",
        );
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::args::{Cli, Command};

    fn parse(words: &[&str]) -> Result<SetupArgs, clap::Error> {
        let start = ["argocd-agentctl", "hub", "setup"];
        let cli = Cli::try_parse_from(start.iter().chain(words))?;
        let Command::Hub(HubCommand::Setup(args)) = cli.command else {
            panic!("another command");
        };
        Ok(args)
    }

    #[test]
    fn hub_setup_accepts_namespaces_or_undo() {
        let args = parse(&["--application-namespaces", "team-*, /^dev-/", "--dry-run"]).unwrap();
        assert_eq!(args.application_namespaces, ["team-*", "/^dev-/"]);
        assert!(args.dry_run && !args.undo);
        assert!(parse(&["--undo", "--dry-run"]).unwrap().undo);
        for wrong in ["", "a,,b", "two words", "line\nbreak"] {
            assert!(
                parse(&["--application-namespaces", wrong]).is_err(),
                "{wrong:?}"
            );
        }
        assert!(parse(&["--undo", "--application-namespaces", "a"]).is_err());
    }
}
