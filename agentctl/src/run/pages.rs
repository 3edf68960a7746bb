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
    let failed = |source| Error::Page {
        path: folder.display().to_string(),
        source,
    };
    std::fs::create_dir_all(folder).map_err(failed)?;
    clap_mangen::generate_to(command(), folder).map_err(failed)?;
    Ok(format!("wrote man pages into {}\n", folder.display()))
}
