//! Runs cargo, and installs programs for it at fixed versions into `target/tools/bin`, once.

use std::{env, ffi::OsString, fs, path::PathBuf, process::Command};

use anyhow::{Context, Result, ensure};

use super::{directory, executable, locked, workspace};
use crate::progress::print;

/// The cargo that the variable `CARGO` names, or that of the `PATH`, in the workspace.
pub(crate) fn command() -> Command {
    let program = env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let mut command = Command::new(program);
    command.current_dir(workspace());
    command
}

/// Installs a crate's program, if its version is not there already. Concurrent calls install once.
pub(super) fn install(name: &str, version: &str) -> Result<PathBuf> {
    let _lock = locked()?;
    let program = directory().join("bin").join(name);
    let stamp = directory().join(format!("{name}.stamp"));
    let is_current = fs::read_to_string(&stamp).is_ok_and(|installed| installed == version);
    if is_current && executable(program.clone()).is_some() {
        return Ok(program);
    }
    print(format_args!(
        "installing {name} {version} into target/tools, once"
    ));
    let status = command()
        .args(["install", "--locked", "--force", "--version", version])
        .arg("--root")
        .arg(directory())
        .arg(name)
        .status()
        .context("start cargo")?;
    ensure!(status.success(), "cargo install {name}: {status}");
    fs::write(&stamp, version).with_context(|| format!("write {}", stamp.display()))?;
    Ok(program)
}
