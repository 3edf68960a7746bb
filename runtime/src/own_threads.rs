//! Runtimes with threads of their own, beside the one of the process.
//!
//! *Background* threads have a lower priority than all others. Large live requests run there, on otherwise idle
//! processors. When processors are scarce, as with the CPU limit of a container, the work that keeps a fleet in sync goes
//! first and live requests are slower.
//!
//! *Vital* threads run only the few tasks that must answer in time however busy the process is: the lease of the leader
//! and the health endpoints.

use std::io;

use rustix::process::nice;
use tokio::runtime::{Builder, Handle, Runtime};

/// The nice value of background threads (nice(2)): under contention they get about a tenth of the time of others, never
/// none.
const NICENESS: i32 = 10;
/// One thread renews the lease while the other encodes metrics.
const VITAL_THREADS: usize = 2;

/// A runtime; its tasks end with it.
#[derive(Debug)]
pub(crate) struct OwnThreads(Option<Runtime>);

impl OwnThreads {
    /// Starts the runtime of background tasks.
    pub(crate) fn background() -> io::Result<Self> {
        let lower_priority = || {
            // On Linux this sets the value of this thread only.
            if let Err(error) = nice(NICENESS) {
                tracing::debug!(%error, "a thread keeps its priority");
            }
        };
        Self::start(
            Builder::new_multi_thread()
                .thread_name("background")
                .on_thread_start(lower_priority),
        )
    }

    /// Starts the runtime of vital tasks.
    pub(crate) fn vital() -> io::Result<Self> {
        Self::start(
            Builder::new_multi_thread()
                .thread_name("vital")
                .worker_threads(VITAL_THREADS),
        )
    }

    fn start(builder: &mut Builder) -> io::Result<Self> {
        Ok(Self(Some(builder.enable_all().build()?)))
    }

    /// The handle that starts tasks on it.
    pub(crate) fn handle(&self) -> Option<Handle> {
        self.0.as_ref().map(|runtime| runtime.handle().clone())
    }
}

impl Drop for OwnThreads {
    fn drop(&mut self) {
        // Waiting for its threads would block the thread that drops it. `Parts` has already waited for its tasks.
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}
