//! Work that gives way: a runtime of its own, whose threads have a lower priority than those of the process.
//!
//! Large things that somebody looks at take the processors that nobody else wants. Where these are short, as with the limit
//! of a container, what keeps a fleet in step goes first, and what is looked at comes a little later.

use std::io;

use rustix::process::nice;
use tokio::runtime::{Builder, Handle, Runtime};

/// How much nicer its threads are (nice(2)): in a shortage they get about a tenth of what others get, and so never nothing.
const NICENESS: i32 = 10;

/// The runtime; what runs on it ends with it.
#[derive(Debug)]
pub(crate) struct BackgroundRuntime(Option<Runtime>);

impl BackgroundRuntime {
    /// Starts it.
    pub(crate) fn start() -> io::Result<Self> {
        let runtime = Builder::new_multi_thread()
            .thread_name("aside")
            .on_thread_start(|| {
                // Of this thread alone, as Linux has it.
                if let Err(error) = nice(NICENESS) {
                    tracing::debug!(%error, "a thread keeps its priority");
                }
            })
            .enable_all()
            .build()?;
        Ok(Self(Some(runtime)))
    }

    /// Where tasks are started.
    pub(crate) fn handle(&self) -> Option<Handle> {
        self.0.as_ref().map(|runtime| runtime.handle().clone())
    }
}

impl Drop for BackgroundRuntime {
    fn drop(&mut self) {
        // Waiting for its threads would block the thread that drops it. Its tasks have ended: `Parts` has waited for them.
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}
