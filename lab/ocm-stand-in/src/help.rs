//! The flags and sub-commands of a Go program, by its own `--help`: versions of one program differ, and some of them do not
//! know their version.

use std::{path::Path, process::Command};

use anyhow::{Context as _, Result, ensure};

/// The head of the list of sub-commands.
const COMMANDS: &str = "Available Commands:";

/// A help text, in the form that cobra prints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Help(String);

impl Help {
    /// Asks a program for the help of one of its commands; an empty command is the program itself.
    ///
    /// Fails if the program cannot be started, or has no such command.
    pub fn ask(program: &Path, command: &[&str]) -> Result<Self> {
        let shown = program.display();
        let asked = Command::new(program).args(command).arg("--help").output();
        let asked = asked.with_context(|| format!("ask {shown} for its help"))?;
        ensure!(
            asked.status.success(),
            "{shown} {}: no help: {}",
            command.join(" "),
            String::from_utf8_lossy(&asked.stderr).trim()
        );
        Ok(Self::of(&String::from_utf8_lossy(&asked.stdout)))
    }

    /// Reads a printed help.
    pub fn of(text: &str) -> Self {
        Self(text.to_owned())
    }

    /// Whether it lists this flag, which is given without its dashes.
    pub fn has_flag(&self, flag: &str) -> bool {
        self.0.lines().any(|line| {
            let line = line.trim_start();
            let long = match line.split_once(", --") {
                // `-h, --help`: a letter comes first.
                Some((letter, long)) if letter.len() == 2 && letter.starts_with('-') => Some(long),
                Some(_) | None => line.strip_prefix("--"),
            };
            let name = long.and_then(|long| long.split([' ', '\t', '=', '[']).next());
            name == Some(flag)
        })
    }

    /// Whether it lists this sub-command.
    pub fn has_command(&self, command: &str) -> bool {
        let lines = self.0.lines().skip_while(|line| line.trim() != COMMANDS);
        let listed = lines.skip(1).take_while(|line| !line.trim().is_empty());
        listed
            .filter_map(|line| line.split_whitespace().next())
            .any(|name| name == command)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ADDON_1_1: &str = "Manager of Addon

Usage:
  addon [flags]
  addon [command]

Available Commands:
  completion  Generate the autocompletion script for the specified shell
  help        Help about any command
  manager     Start the Addon manager

Flags:
      --add_dir_header                   If true, adds the file directory to the header of the log messages
  -h, --help                             help for addon
  -v, --v Level                          number for the log level verbosity

Use \"addon [command] --help\" for more information about a command.
";
    const ADDON_1_2: &str = "Manager of Addon

Usage:
  addon [flags]
  addon [command]

Available Commands:
  manager        Start the Addon manager
  webhook-server Start the addon conversion webhook server

Flags:
  -h, --help                             help for addon
";
    const WEBHOOK_1_2: &str = "Start the addon conversion webhook server

Usage:
  addon webhook-server [flags]

Flags:
      --certdir string   CertDir is the directory that contains the server key and certificate. See --metrics-port.
  -h, --help             help for webhook-server
      --port int         Port is the port that the webhook server serves at. (default 9443)
";
    const PRINCIPAL_0_9: &str = "Run the argocd-agent principal component

Usage:
  argocd-agent principal [flags]

Flags:
      --disable-redis-proxy   Disable the redis proxy
      --pprof-port int        Port the pprof server will listen on
";

    #[test]
    fn flags_are_found_by_their_whole_name() {
        let webhook = Help::of(WEBHOOK_1_2);
        assert!(webhook.has_flag("port") && webhook.has_flag("help"));
        assert!(!webhook.has_flag("metrics-port"), "only an explanation");
        assert!(!webhook.has_flag("cert"));
        let newer = format!("{WEBHOOK_1_2}      --metrics-port int   (default 8080)\n");
        assert!(Help::of(&newer).has_flag("metrics-port"));
        let principal = Help::of(PRINCIPAL_0_9);
        assert!(principal.has_flag("disable-redis-proxy"));
        assert!(!principal.has_flag("disable-redis"));
    }

    #[test]
    fn commands_are_those_of_the_list() {
        assert!(Help::of(ADDON_1_2).has_command("webhook-server"));
        let older = Help::of(ADDON_1_1);
        assert!(older.has_command("manager") && older.has_command("help"));
        assert!(!older.has_command("webhook-server"));
        assert!(!older.has_command("-h,"), "the flags are another list");
        assert!(!Help::of(WEBHOOK_1_2).has_command("port"));
    }
}
