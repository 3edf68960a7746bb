//! One replica of the hub program: a process that is killed, stalled, stopped and started again.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use addon_manager::app::simulated::{Process, start};
use addon_manager::args::Cli;
use addon_manager::config::{Config, Manager};
use clap::Parser as _;
use runtime::lease::Fence;
use runtime::parts::{Parts, Stall};
use tokio::sync::{Notify, watch};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::fault::Fault;
use super::ledger::OWN;
use super::line::{Kill, Line};

/// How long a stopping process may drain.
const DRAIN: Duration = Duration::from_secs(20);

/// The settings of a replica, from its command line.
fn settings(pod: &str) -> Manager {
    let uid = format!("uid-{pod}");
    let line = [
        "addon-manager",
        "--own-namespace",
        OWN,
        "--pod-name",
        pod,
        "--pod-uid",
        &uid,
        "--principal-address",
        "hub.example:443",
    ];
    let cli = Cli::try_parse_from(line).expect("a command line");
    let manager = match Config::from_args(cli).expect("settings") {
        Config::Manager(manager) => Some(*manager),
        Config::Principal(_) | Config::Uninstall(_) | Config::Ready(_) => None,
    };
    manager.expect("the settings of the manager")
}

/// Steers a replica.
#[derive(Clone, Debug)]
pub(crate) struct Handle {
    pub(crate) pod: &'static str,
    /// The process at present.
    process: Arc<Mutex<Option<Present>>>,
    restart: Arc<Notify>,
    stalls: TaskTracker,
}

#[derive(Clone, Debug)]
struct Present {
    stall: Stall,
    kill: Arc<Mutex<Option<Kill>>>,
}

impl Handle {
    pub(crate) fn new(pod: &'static str) -> Self {
        Self {
            pod,
            process: Arc::default(),
            restart: Arc::default(),
            stalls: TaskTracker::new(),
        }
    }

    fn present(&self) -> Option<Present> {
        let process = self.process.lock();
        process.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Kills the process at one of its next writes.
    pub(crate) fn kill(&self, kill: Option<Kill>) {
        if let Some(present) = self.present() {
            *present.kill.lock().unwrap_or_else(PoisonError::into_inner) = kill;
        }
    }

    /// Stops the process as a rolling update does, and starts it again.
    pub(crate) fn restart(&self) {
        self.restart.notify_one();
    }

    /// The process stands still for this time.
    pub(crate) fn stall(&self, time: Duration) {
        if let Some(Present { stall, .. }) = self.present() {
            stall.set(true);
            self.stalls.spawn(async move {
                sleep(time).await;
                stall.set(false);
            });
        }
    }

    /// Runs processes one after another. `line` makes the connection of each.
    pub(crate) async fn run(
        self,
        line: impl Fn(String, Stall) -> Line + Send + 'static,
        stop: CancellationToken,
    ) {
        let mut number = 0;
        while !stop.is_cancelled() {
            number += 1;
            let token = CancellationToken::new();
            let (parts, stall) = Parts::with_stall(token.clone());
            let line = line(format!("{}_{number}_0", self.pod), stall.clone());
            *self.process.lock().unwrap_or_else(PoisonError::into_inner) = Some(Present {
                stall: stall.clone(),
                kill: Arc::clone(&line.kill),
            });
            line.trace.emit(format!("{} starts", line.identity));
            self.begin(&line, &parts);
            let mut killed: watch::Receiver<bool> = line.killed.subscribe();
            let crashes = tokio::select! {
                _ = killed.wait_for(|killed| *killed) => true,
                () = self.restart.notified() => false,
                () = stop.cancelled() => false,
            };
            // A process that ends stands still no more.
            stall.set(false);
            if crashes {
                parts.crash().await;
            } else {
                token.cancel();
                if let Err(error) = parts.run_until_stopped(DRAIN).await {
                    line.ledger.find(format!("{}: {error}", self.pod));
                }
            }
            line.trace.emit(format!("{} has ended", line.identity));
            let pause = sleep(line.dice.millis((200, 4_000)));
            stop.run_until_cancelled(pause).await;
        }
        *self.process.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn begin(&self, line: &Line, parts: &Parts) {
        let (client, fence) = (line.client(), Fence::closed());
        let writer = if line.fault == Fault::NoFence {
            client.clone()
        } else {
            fence.client(&client)
        };
        let process = Process {
            client,
            writer,
            spawner: parts.spawner(),
            identity: line.identity.clone(),
            fence,
        };
        let starting = start(settings(self.pod), process);
        parts.spawner().spawn_short("start", async move {
            // It fails when the process stops first.
            drop(starting.await);
        });
    }
}
