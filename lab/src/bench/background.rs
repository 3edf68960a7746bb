//! Load at low priority: with few processors, the reader of a benchmark would otherwise take them from the
//! measured programs, and the figure would be of the reader.

use std::thread;

use anyhow::{Context as _, Result};
use rustix::process::{Pid, nice, setpriority_process};
use tokio::{runtime, sync::oneshot};
use tokio_util::sync::CancellationToken;

use crate::process::Process;

/// The lowest priority.
const LOWEST: i32 = 19;
/// The threads of a [`runtime()`].
const THREADS: usize = 2;

/// Runs the future of `work` on a thread of its own, with the lowest priority; it ends when this is dropped.
///
/// # Errors
/// The error of the work.
pub(super) async fn in_background<F>(work: impl FnOnce() -> F + Send + 'static) -> Result<()>
where
    F: Future<Output = Result<()>>,
{
    let (notify, reply) = oneshot::channel();
    let stop = CancellationToken::new();
    let _until_dropped = stop.clone().drop_guard();
    let run = move || {
        // Applies to this thread only, as in Linux.
        nice(LOWEST).context("nice")?;
        let runtime = runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .context("a runtime")?;
        runtime
            .block_on(stop.run_until_cancelled(async { work().await }))
            .unwrap_or(Ok(()))
    };
    thread::Builder::new()
        .name("background".to_owned())
        .spawn(move || notify.send(run()).is_ok())
        .context("a thread")?;
    reply
        .await
        .context("the background thread ended without a result")?
}

/// A runtime whose threads all have the lowest priority.
///
/// # Errors
/// The system has no threads for it.
pub(super) fn runtime() -> Result<runtime::Runtime> {
    runtime::Builder::new_multi_thread()
        .worker_threads(THREADS)
        .thread_name("background")
        // Applies to this thread only, as in Linux. Lowering a priority needs no right.
        .on_thread_start(|| {
            let _unchanged = nice(LOWEST);
        })
        .enable_all()
        .build()
        .context("a runtime")
}

/// Gives a process the lowest priority, too.
pub(super) fn lower_priority(process: &Process) -> Result<()> {
    let id = process.id().and_then(|id| i32::try_from(id).ok());
    let id = id.and_then(Pid::from_raw);
    setpriority_process(Some(id.context("it does not run")?), LOWEST).context("set a priority")
}
