//! Work that gives way to whatever is measured: with as few processors as there are, what somebody reads would otherwise
//! take them from the programs, and the figure would be of the reader.

use std::thread;

use anyhow::{Context as _, Result};
use rustix::process::{Pid, nice, setpriority_process};
use tokio::{runtime, sync::oneshot};
use tokio_util::sync::CancellationToken;

use crate::process::Process;

/// The nicest that there is.
const LOWEST: i32 = 19;

/// Runs what `work` makes on a thread of its own, with the lowest priority; it ends there when this is dropped.
///
/// # Errors
/// What the work says.
pub(super) async fn aside<F>(work: impl FnOnce() -> F + Send + 'static) -> Result<()>
where
    F: Future<Output = Result<()>>,
{
    let (notify, reply) = oneshot::channel();
    let stop = CancellationToken::new();
    let _until_dropped = stop.clone().drop_guard();
    let run = move || {
        // Of this thread alone, as Linux has it.
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
        .name("aside".to_owned())
        .spawn(move || notify.send(run()).is_ok())
        .context("a thread")?;
    reply.await.context("it has ended without a word")?
}

/// Lets a process give way, too.
pub(super) fn gives_way(process: &Process) -> Result<()> {
    let id = process.id().and_then(|id| i32::try_from(id).ok());
    let id = id.and_then(Pid::from_raw);
    setpriority_process(Some(id.context("it does not run")?), LOWEST).context("set a priority")
}
