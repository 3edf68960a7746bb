//! The labs of this source tree that were started and not ended.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

use super::State;
use crate::tools::workspace;

fn directory() -> PathBuf {
    workspace().join("target/lab/running")
}

/// Records that a lab was started, by its supervisor's process number.
pub(super) fn add(dir: &Path) -> Result<()> {
    let list = directory();
    fs::create_dir_all(&list).with_context(|| format!("make {}", list.display()))?;
    let entry = list.join(std::process::id().to_string());
    fs::write(&entry, dir.as_os_str().as_encoded_bytes())
        .with_context(|| format!("write {}", entry.display()))
}

/// The directories of running labs. Removes entries of others.
pub(super) fn running() -> Result<Vec<PathBuf>> {
    use std::{ffi::OsString, os::unix::ffi::OsStringExt};
    let mut dirs = Vec::new();
    for entry in fs::read_dir(directory()).into_iter().flatten() {
        let path = entry?.path();
        let dir = PathBuf::from(OsString::from_vec(fs::read(&path).unwrap_or_default()));
        // An unreadable entry is of a lab that ended meanwhile.
        match State::read(&dir) {
            Ok(Some(state)) if state.is_running() => dirs.push(dir),
            Ok(_) | Err(_) => {
                let _gone = fs::remove_file(&path);
            }
        }
    }
    dirs.sort();
    dirs.dedup();
    Ok(dirs)
}

/// The one running lab, for a caller who named none.
pub(super) fn only() -> Result<PathBuf> {
    let running = running()?;
    match running.as_slice() {
        [dir] => Ok(dir.clone()),
        [] => anyhow::bail!("no lab runs; `lab up` starts one"),
        several => anyhow::bail!(
            "{} labs run; choose one with --dir: {several:?}",
            several.len()
        ),
    }
}
