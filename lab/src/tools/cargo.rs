//! Installs programs for cargo at fixed versions into `target/tools/bin`, once.

use std::{
    fs::{self, File},
    path::PathBuf,
    process::Command,
};

use anyhow::{Context, Result, ensure};

use super::{directory, executable, workspace};
use crate::progress::print;

/// Installs a crate's program, if its version is not there already. Concurrent calls install once.
pub(super) fn install(name: &str, version: &str) -> Result<PathBuf> {
    fs::create_dir_all(directory()).context("make target/tools")?;
    let lock = File::create(directory().join(".lock")).context("open the lock of target/tools")?;
    lock.lock().context("lock target/tools")?;
    let program = directory().join("bin").join(name);
    let stamp = directory().join(format!("{name}.stamp"));
    let is_current = fs::read_to_string(&stamp).is_ok_and(|installed| installed == version);
    if is_current && executable(program.clone()).is_some() {
        return Ok(program);
    }
    print(format_args!(
        "installing {name} {version} into target/tools, once"
    ));
    let status = Command::new("cargo")
        .current_dir(workspace())
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
