//! Supervised tasks: every task has a supervisor.
//!
//! A *part* runs as long as the process. If a part ends early or panics, the process ends and logs its name: Kubernetes
//! restarts the process, which is better than one that works only in part. A *short* task (a connection, a request) may
//! end at any time; its panic is logged and affects no other task.

use std::any::Any;
use std::borrow::Cow;
use std::error::Error;
use std::io;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::CatchUnwind;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::Instrument as _;

use crate::error::Chain;
use crate::own_threads::OwnThreads;

mod stall;

pub use stall::Stall;

/// How long an aborted task may take to end; it only has to reach its next await.
const ABORT_GRACE: Duration = Duration::from_secs(1);

/// Why the process stopped without a signal.
#[derive(Debug, thiserror::Error)]
pub enum Stopped {
    /// A part ended early.
    #[error("part {name:?} ended early")]
    Early {
        /// The part.
        name: Cow<'static, str>,
    },
    /// A part failed.
    #[error("part {name:?} failed")]
    Failed {
        /// The part.
        name: Cow<'static, str>,
        /// The error.
        source: Box<dyn Error + Send + Sync>,
    },
    /// A part panicked.
    #[error("part {name:?} panicked: {message}")]
    Panicked {
        /// The part.
        name: Cow<'static, str>,
        /// The message of the panic.
        message: String,
    },
}

/// The output of a task: nothing, or a result.
pub trait Ending: Send + 'static {
    /// The failure, if any.
    fn failure(self) -> Option<Box<dyn Error + Send + Sync>>;
}

impl Ending for () {
    fn failure(self) -> Option<Box<dyn Error + Send + Sync>> {
        None
    }
}

impl<E: Into<Box<dyn Error + Send + Sync>> + Send + 'static> Ending for Result<(), E> {
    fn failure(self) -> Option<Box<dyn Error + Send + Sync>> {
        self.err().map(Into::into)
    }
}

/// The parts of the process.
#[derive(Debug)]
pub struct Parts {
    spawner: Spawner,
    ended: mpsc::Receiver<Stopped>,
    own_threads: Vec<OwnThreads>,
}

impl Parts {
    /// Without parts; cancelling `token` asks all parts to stop.
    pub fn new(token: CancellationToken) -> Self {
        // One slot: the first failure decides, later ones are only logged.
        let (report, ended) = mpsc::channel(1);
        let spawner = Spawner {
            token,
            kill: CancellationToken::new(),
            tracker: TaskTracker::new(),
            report,
            background: None,
            vital: None,
            runs_on: None,
            stall: None,
        };
        Self {
            spawner,
            ended,
            own_threads: Vec::new(),
        }
    }

    /// Like [`Self::new`], with separate threads for [background tasks](Spawner::background).
    ///
    /// # Errors
    /// The system cannot start threads.
    pub fn with_background(token: CancellationToken) -> io::Result<Self> {
        let background = OwnThreads::background()?;
        let mut parts = Self::new(token);
        parts.spawner.background = background.handle();
        parts.own_threads.push(background);
        Ok(parts)
    }

    /// Like [`Self::new`], with a handle that stalls all tasks. For simulations.
    pub fn with_stall(token: CancellationToken) -> (Self, Stall) {
        let (mut parts, stall) = (Self::new(token), Stall::new());
        parts.spawner.stall = Some(stall.clone());
        (parts, stall)
    }

    /// Adds separate threads for [vital tasks](Spawner::vital).
    ///
    /// # Errors
    /// The system cannot start threads.
    pub fn with_vital(mut self) -> io::Result<Self> {
        let vital = OwnThreads::vital()?;
        self.spawner.vital = vital.handle();
        self.own_threads.push(vital);
        Ok(self)
    }

    /// Starts a part that must run until the token is cancelled, and then end by itself.
    pub fn spawn<F>(&self, name: impl Into<Cow<'static, str>>, future: F)
    where
        F: Future<Output: Ending> + Send + 'static,
    {
        self.spawner.spawn(name, future);
    }

    /// A handle with which libraries start tasks at run time.
    pub fn spawner(&self) -> Spawner {
        self.spawner.clone()
    }

    /// Ends all tasks at once, as a crash does. For simulations.
    pub async fn crash(self) {
        let Spawner {
            token,
            kill,
            tracker,
            ..
        } = &self.spawner;
        kill.cancel();
        tracker.close();
        tracker.wait().await;
        token.cancel();
    }

    /// Waits until the token is cancelled or a part ends early, then stops all others.
    ///
    /// Every task has `drain` to end by itself; tasks that still run then are aborted, and their number is logged.
    ///
    /// # Errors
    /// A part ended early; the process should exit with a failure.
    pub async fn run_until_stopped(mut self, drain: Duration) -> Result<(), Stopped> {
        let Spawner {
            token,
            kill,
            tracker,
            ..
        } = &self.spawner;
        let stopped = tokio::select! {
            biased;
            () = token.cancelled() => None,
            first = self.ended.recv() => first,
        };
        token.cancel();
        tracker.close();
        if tokio::time::timeout(drain, tracker.wait()).await.is_err() {
            tracing::warn!(tasks = tracker.len(), "drain timed out; aborting");
            kill.cancel();
            if tokio::time::timeout(ABORT_GRACE, tracker.wait())
                .await
                .is_err()
            {
                tracing::warn!(tasks = tracker.len(), "tasks do not stop; leaving them");
            }
        }
        stopped.map_or(Ok(()), Err)
    }
}

/// Starts tasks that are tracked, named, and stopped with their parent.
///
/// Cancelling the token *asks*: tasks end by themselves, so that they can drain. Those that do not
/// are aborted when the drain of the process is over.
#[derive(Debug, Clone)]
pub struct Spawner {
    token: CancellationToken,
    kill: CancellationToken,
    tracker: TaskTracker,
    report: mpsc::Sender<Stopped>,
    /// The runtime of background tasks, if there is one.
    background: Option<Handle>,
    /// The runtime of vital tasks, if there is one.
    vital: Option<Handle>,
    /// The runtime of the tasks of this spawner, if not the current one.
    runs_on: Option<Handle>,
    /// In a simulation.
    stall: Option<Stall>,
}

impl Spawner {
    /// The spawner for background tasks, such as large live requests: they give way to all others when processors are
    /// scarce. In a process [without such threads](Parts::new) it is this one.
    #[must_use]
    pub fn background(&self) -> Self {
        Self {
            runs_on: self.background.clone(),
            ..self.clone()
        }
    }

    /// The spawner for vital tasks, such as the renewal of a lease: they run even while all other threads are busy. In a
    /// process [without such threads](Parts::with_vital) it is this one.
    #[must_use]
    pub fn vital(&self) -> Self {
        Self {
            runs_on: self.vital.clone().or_else(|| self.runs_on.clone()),
            ..self.clone()
        }
    }

    /// Creates a value that starts tasks by itself, such as an HTTP client, so that they run on the runtime of this
    /// spawner.
    pub fn within<T>(&self, make: impl FnOnce() -> T) -> T {
        let _entered = self.runs_on.as_ref().map(Handle::enter);
        make()
    }

    /// The token that asks the tasks of this spawner to stop.
    pub const fn token(&self) -> &CancellationToken {
        &self.token
    }

    /// A spawner whose tasks can be stopped without those of its parent.
    #[must_use]
    pub fn child(&self) -> Self {
        Self {
            token: self.token.child_token(),
            ..self.clone()
        }
    }

    /// Starts a part: its end before cancellation ends the process.
    pub fn spawn<F>(&self, name: impl Into<Cow<'static, str>>, future: F)
    where
        F: Future<Output: Ending> + Send + 'static,
    {
        let (name, token, report) = (name.into(), self.token.clone(), self.report.clone());
        let span = tracing::info_span!("part", %name);
        let watched = watched(future);
        let supervised = async move {
            let ended = watched.await;
            let asked = token.is_cancelled();
            let stopped = match ended.map(Ending::failure) {
                Err(panic) => Stopped::Panicked {
                    name,
                    message: panic_message(&*panic),
                },
                Ok(Some(source)) if asked => {
                    tracing::warn!(error = %Chain(&*source), "part failed while stopping");
                    return;
                }
                Ok(None) if asked => return,
                Ok(Some(source)) => Stopped::Failed { name, source },
                Ok(None) => Stopped::Early { name },
            };
            if let Err(unsaid) = report.try_send(stopped) {
                tracing::warn!(error = %Chain(&unsaid.into_inner()), "another part ended too");
            }
        };
        self.track(supervised.instrument(span));
    }

    /// Starts a task that may end at any time, such as one connection; a failure is logged.
    pub fn spawn_short<F>(&self, name: impl Into<Cow<'static, str>>, future: F)
    where
        F: Future<Output: Ending> + Send + 'static,
    {
        let name = name.into();
        let watched = watched(future);
        self.track(async move {
            match watched.await.map(Ending::failure) {
                Ok(None) => {}
                Ok(Some(error)) => {
                    tracing::warn!(task = %name, error = %Chain(&*error), "task failed");
                }
                Err(panic) => {
                    tracing::error!(task = %name, panic = panic_message(&*panic), "task panicked");
                }
            }
        });
    }

    fn track(&self, future: impl Future<Output = ()> + Send + 'static) {
        match self.stall.clone() {
            Some(stall) => self.start(stall.within(future)),
            None => self.start(future),
        }
    }

    fn start(&self, future: impl Future<Output = ()> + Send + 'static) {
        let future = self.kill.clone().run_until_cancelled_owned(future);
        match &self.runs_on {
            Some(place) => self.tracker.spawn_on(future, place),
            None => self.tracker.spawn(future),
        };
    }
}

/// Catches the panic of a future.
///
/// Boxed: each future around another one has room for it twice, once as the argument and once as the awaited future, and
/// a task has several layers. Otherwise the future of a session would be eight times as large.
fn watched<F>(future: F) -> Pin<Box<CatchUnwind<AssertUnwindSafe<F>>>>
where
    F: Future,
{
    Box::pin(AssertUnwindSafe(future).catch_unwind())
}

fn panic_message(panic: &(dyn Any + Send)) -> String {
    let owned = panic.downcast_ref::<String>().map(String::as_str);
    let text = owned.or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("no message").to_owned()
}

#[cfg(test)]
mod tests;
