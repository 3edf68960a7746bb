//! Ends a lab that stays.

use std::{fs, path::Path, process::ExitCode, time::Duration};

use anyhow::{Context, Result, bail};
use nix::{
    errno::Errno,
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use tokio::time::{Instant, sleep};

use super::{State, list, start::OURS};
use crate::{namespaces::GRACE, progress::print};

/// The interval of checks whether the lab is gone.
const LOOK: Duration = Duration::from_millis(50);

/// Ends the lab in `dir` (without: the only one that runs), and returns when it and its files are gone.
pub fn down(dir: Option<&Path>) -> Result<ExitCode> {
    let dir = match dir {
        Some(dir) => dir.to_owned(),
        None => list::only()?,
    };
    let Some(state) = State::read(&dir)? else {
        print(format_args!("no lab in {}", dir.display()));
        return Ok(ExitCode::SUCCESS);
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(end(&state))?;
    clear(&dir)?;
    print(format_args!("the lab in {} is gone", dir.display()));
    Ok(ExitCode::SUCCESS)
}

/// Asks the supervisor to end, and kills it if it does not.
async fn end(state: &State) -> Result<()> {
    let pid = Pid::from_raw(i32::try_from(state.pid).context("a process number")?);
    for (signal, time_limit) in [
        (Signal::SIGTERM, GRACE + Duration::from_secs(5)),
        (Signal::SIGKILL, GRACE),
    ] {
        if !state.is_running() {
            return Ok(());
        }
        match kill(pid, signal) {
            Ok(()) => {}
            Err(Errno::ESRCH) => return Ok(()),
            Err(error) => return Err(error).with_context(|| format!("end process {pid}")),
        }
        let end = Instant::now() + time_limit;
        while state.is_running() && Instant::now() < end {
            sleep(LOOK).await;
        }
    }
    if state.is_running() {
        bail!("process {pid} does not end");
    }
    Ok(())
}

/// Removes the files of a lab from its directory, and the directory if it is empty then.
pub(super) fn clear(dir: &Path) -> Result<()> {
    let Ok(entries) = fs::read_dir(dir) else {
        return Ok(());
    };
    for entry in entries {
        let path = entry?.path();
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let is_cluster = name == "hub"
            || name
                .strip_prefix("spoke")
                .is_some_and(|number| number.parse::<u8>().is_ok());
        let removed = if (is_cluster || name == "ocm") && path.is_dir() {
            fs::remove_dir_all(&path)
        } else if OURS.contains(&name.as_str()) {
            fs::remove_file(&path)
        } else {
            continue;
        };
        removed.with_context(|| format!("remove {}", path.display()))?;
    }
    // Fails when there are other files in it, and then the directory stays.
    let _not_empty = fs::remove_dir(dir);
    Ok(())
}
