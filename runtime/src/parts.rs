//! Supervised tasks: no task without a keeper.
//!
//! A *part* runs as long as the process. When one ends before it was asked to, or panics, the
//! process ends and says which: Kubernetes restarts us, and a half-alive process helps nobody.
//! A *short* task (a connection, a request) may end whenever it likes; its panic is logged and
//! hurts nobody else.

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

use crate::background::BackgroundRuntime;
use crate::error::Chain;

/// How long an aborted task may take to notice; it only has to reach its next await.
const ABORT_GRACE: Duration = Duration::from_secs(1);

/// Why the process stopped although nobody asked it to.
#[derive(Debug, thiserror::Error)]
pub enum Stopped {
    /// A part came to its end.
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
        /// What it failed with.
        source: Box<dyn Error + Send + Sync>,
    },
    /// A part panicked.
    #[error("part {name:?} panicked: {message}")]
    Panicked {
        /// The part.
        name: Cow<'static, str>,
        /// What the panic said.
        message: String,
    },
}

/// What a task may end with: nothing, or a result.
pub trait Ending: Send + 'static {
    /// The failure, if it was one.
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
    background: Option<BackgroundRuntime>,
}

impl Parts {
    /// No parts yet; cancelling `token` asks all of them to stop.
    pub fn new(token: CancellationToken) -> Self {
        // One slot: the first end decides, later ones are only logged.
        let (report, ended) = mpsc::channel(1);
        let spawner = Spawner {
            token,
            kill: CancellationToken::new(),
            tracker: TaskTracker::new(),
            report,
            background: None,
            runs_on: None,
        };
        Self {
            spawner,
            ended,
            background: None,
        }
    }

    /// The same, where what gives way has [threads of its own](Spawner::aside).
    ///
    /// # Errors
    /// There can be no more threads.
    pub fn with_background(token: CancellationToken) -> io::Result<Self> {
        let background = BackgroundRuntime::start()?;
        let mut parts = Self::new(token);
        parts.spawner.background = background.handle();
        parts.background = Some(background);
        Ok(parts)
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

    /// Ends everything at once, as a crash does: no task gets another turn. For simulations.
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
    /// Every task has `drain` to end by itself; what still runs then is aborted and counted in
    /// the log.
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
    /// Where what gives way runs, if that is elsewhere.
    background: Option<Handle>,
    /// Where these tasks run, if not where they are started.
    runs_on: Option<Handle>,
}

impl Spawner {
    /// The spawner for what gives way to everything else in a shortage of processors: large things that people look at. Its
    /// tasks are the same in every other way. In a process [without such threads](Parts::new) it is this one.
    #[must_use]
    pub fn background(&self) -> Self {
        Self {
            runs_on: self.background.clone(),
            ..self.clone()
        }
    }

    /// Makes what starts tasks by itself, as clients of HTTP do, so that they run where the tasks of this spawner do.
    pub fn within<T>(&self, make: impl FnOnce() -> T) -> T {
        let _entered = self.runs_on.as_ref().map(Handle::enter);
        make()
    }

    /// The token that asks the tasks of this spawner to stop.
    pub const fn token(&self) -> &CancellationToken {
        &self.token
    }

    /// A spawner whose tasks can be asked to stop without stopping those of its parent.
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
        let future = self.kill.clone().run_until_cancelled_owned(future);
        match &self.runs_on {
            Some(place) => self.tracker.spawn_on(future, place),
            None => self.tracker.spawn(future),
        };
    }
}

/// How a future ends, or its panic.
///
/// In a place of its own on the heap: each future that is wrapped around another one has room for it twice, once as it was
/// given and once as it is awaited, and around a task there are several. A session's would be eight times as large.
fn watched<F>(future: F) -> Pin<Box<CatchUnwind<AssertUnwindSafe<F>>>>
where
    F: Future,
{
    Box::pin(AssertUnwindSafe(future).catch_unwind())
}

fn panic_message(panic: &(dyn Any + Send)) -> String {
    panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no message".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRAIN: Duration = Duration::from_secs(5);

    /// Which thread a task of this spawner runs on, and how nice that is.
    async fn place(spawner: &Spawner) -> (String, i32) {
        let (notify, reply) = tokio::sync::oneshot::channel();
        spawner.spawn_short("looks", async move {
            let thread = std::thread::current();
            let name = thread.name().unwrap_or_default().to_owned();
            let nice = rustix::process::nice(0).unwrap();
            drop(notify.send((name, nice)));
        });
        reply.await.unwrap()
    }

    #[tokio::test]
    async fn what_gives_way_has_nicer_threads_and_ends_with_all_others() {
        let token = CancellationToken::new();
        let parts = Parts::with_background(token.clone()).unwrap();
        let spawner = parts.spawner();
        let (_, usual) = place(&spawner).await;
        let (name, nice) = place(&spawner.background().child()).await;
        assert_eq!((name.as_str(), nice), ("aside", (usual + 10).min(19)));

        let asked = spawner.token().clone();
        spawner
            .background()
            .spawn("patient", async move { asked.cancelled().await });
        token.cancel();
        assert!(parts.run_until_stopped(DRAIN).await.is_ok());
    }

    #[tokio::test]
    async fn where_nothing_gives_way_tasks_are_where_they_were_started() {
        let parts = Parts::new(CancellationToken::new());
        let spawner = parts.spawner();
        assert_eq!(place(&spawner).await, place(&spawner.background()).await);
    }

    #[tokio::test(start_paused = true)]
    async fn a_part_that_ends_early_ends_the_process_and_is_named() {
        let parts = Parts::new(CancellationToken::new());
        let token = parts.spawner().token().clone();
        parts.spawn("patient", async move { token.cancelled().await });
        parts.spawn("hasty", async {});
        let stopped = parts.run_until_stopped(DRAIN).await.unwrap_err();
        assert!(matches!(stopped, Stopped::Early { name } if name == "hasty"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_failure_says_what_it_was() {
        let parts = Parts::new(CancellationToken::new());
        parts.spawn("weak", async {
            Err::<(), _>(io::Error::other("disk full"))
        });
        let stopped = parts.run_until_stopped(DRAIN).await.unwrap_err();
        assert_eq!(
            Chain(&stopped).to_string(),
            "part \"weak\" failed: disk full"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_panic_in_a_short_task_hurts_nobody_else() {
        let token = CancellationToken::new();
        let parts = Parts::new(token.clone());
        let spawner = parts.spawner();
        spawner.spawn_short("connection", async {
            let nothing = std::env::args().nth(usize::MAX);
            assert!(nothing.is_some(), "bad peer");
        });
        spawner.spawn_short("stopper", async move {
            tokio::time::sleep(Duration::from_secs(1)).await;
            token.cancel();
        });
        assert!(parts.run_until_stopped(DRAIN).await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn what_does_not_drain_is_aborted() {
        let token = CancellationToken::new();
        let parts = Parts::new(token.clone());
        parts.spawn("deaf", std::future::pending::<()>());
        token.cancel();
        assert!(parts.run_until_stopped(DRAIN).await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_child_stops_without_its_parent() {
        let token = CancellationToken::new();
        let parts = Parts::new(token.clone());
        let child = parts.spawner().child();
        let asked = child.token().clone();
        child.spawn("session", async move { asked.cancelled().await });
        child.token().cancel();
        assert!(!token.is_cancelled());
        token.cancel();
        assert!(parts.run_until_stopped(DRAIN).await.is_ok());
    }
}
