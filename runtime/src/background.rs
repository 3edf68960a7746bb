//! Background work: a runtime of its own, whose threads have a lower priority than those of the process.
//!
//! Large live requests run there, on otherwise idle processors. When processors are scarce, as with the CPU limit of a
//! container, the work that keeps a fleet in sync goes first and live requests are slower.

use std::io;

use rustix::process::nice;
use tokio::runtime::{Builder, Handle, Runtime};

/// The nice value of its threads (nice(2)): under contention they get about a tenth of the time of others, never none.
const NICENESS: i32 = 10;

/// The runtime; its tasks end with it.
#[derive(Debug)]
pub(crate) struct BackgroundRuntime(Option<Runtime>);

impl BackgroundRuntime {
    /// Starts it.
    pub(crate) fn start() -> io::Result<Self> {
        let runtime = Builder::new_multi_thread()
            .thread_name("background")
            .on_thread_start(|| {
                // On Linux this sets the value of this thread only.
                if let Err(error) = nice(NICENESS) {
                    tracing::debug!(%error, "a thread keeps its priority");
                }
            })
            .enable_all()
            .build()?;
        Ok(Self(Some(runtime)))
    }

    /// The handle that starts tasks on it.
    pub(crate) fn handle(&self) -> Option<Handle> {
        self.0.as_ref().map(|runtime| runtime.handle().clone())
    }
}

impl Drop for BackgroundRuntime {
    fn drop(&mut self) {
        // Waiting for its threads would block the thread that drops it. `Parts` has already waited for its tasks.
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}
