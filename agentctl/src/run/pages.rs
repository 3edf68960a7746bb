//! What is printed of the command line itself: completions and man pages.

use std::path::Path;

use clap_complete::Shell;

use super::Error;
use crate::args::command;

const NAME: &str = "argocd-agentctl";

/// The completions of a shell.
pub(super) fn completion(shell: Shell) -> String {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut command(), NAME, &mut text);
    String::from_utf8_lossy(&text).into_owned()
}

/// Writes a man page for every command; says how many.
pub(super) fn write(folder: &Path) -> Result<String, Error> {
    let failed = |cause| Error::Page(folder.display().to_string(), cause);
    std::fs::create_dir_all(folder).map_err(failed)?;
    clap_mangen::generate_to(command(), folder).map_err(failed)?;
    Ok(format!("wrote man pages into {}\n", folder.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shell_completes_every_command() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let text = completion(shell);
            for word in ["status", "why", "rotate", "restore", "check"] {
                assert!(text.contains(word), "{shell}: {word}");
            }
        }
    }

    #[test]
    fn status_columns_are_in_completion_and_man_page() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            assert!(completion(shell).contains("applications"), "{shell}");
        }
        let folder = tempfile::tempdir().unwrap();
        write(folder.path()).unwrap();
        let page = std::fs::read_to_string(folder.path().join("argocd-agentctl-status.1")).unwrap();
        assert!(page.contains("applications"), "{page}");
    }

    #[test]
    fn every_command_has_a_man_page() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path()).unwrap();
        for page in ["", "-status", "-certs-rotate", "-agent-revoke"] {
            let page = folder.path().join(format!("argocd-agentctl{page}.1"));
            assert!(page.is_file(), "{}", page.display());
        }
    }
}
