//! Namespaces of one lab, so that no part of it can stay behind.
//!
//! A program that runs labs calls [`enter`] before it starts a thread. It becomes the **supervisor**: it stays in the
//! caller's process namespace, and runs itself a second time inside new ones, below an **init**.
//!
//! ```text
//!   supervisor                              caller's processes; new network (and user) namespace
//!     listens on 127.0.0.1 of the caller ──▶ relays to 127.0.0.1 of the lab
//!     └─ init                               process 1; new process and mount namespaces, own /proc, /run in memory
//!          └─ the program again             `enter` returns `Inside`; everything the lab starts is below it
//! ```
//!
//! *Nothing stays.* The end of init ends everything: the kernel kills all processes of its namespace, and mounts
//! and devices disappear with the last process that sees them. Init ends when its supervisor does, by the death signal and by
//! the end of a pipe; so `kill -9` on any of the three is enough. A lab keeps its data in memory below
//! [`scratch`], which disappears too.
//!
//! *Signals.* Only the supervisor is in the foreground of the terminal. It passes one interrupt on, so that the
//! program inside can report the state and end in order; a second one, or [`GRACE`], ends it all.

mod init;
mod outside;
pub(crate) mod relay;

use std::{
    net::TcpListener,
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

use anyhow::{Context, Result};
use nix::sys::signal::SigSet;
use serde::{Deserialize, Serialize};

/// How long the program inside may take to end in order. A dump of the world takes longest.
pub const GRACE: Duration = Duration::from_secs(30);

/// The port inside for the first listener outside; the next ones lead to the ports after it.
pub(crate) const FIRST_PORT: u16 = 6443;

/// The variable that marks the program inside, with its data about the outside.
const INSIDE: &str = "LAB_INSIDE";

/// The name (`argv[0]`) under which init is executed.
const INIT: &str = "lab-init";

/// The options of [`enter`].
#[derive(Clone, Copy, Debug, Default)]
pub struct EnterOptions {
    /// How many ports of the caller's loopback shall lead inside, to 6443 and the ports after it.
    pub ports: u8,
    /// Whether to end when the parent process does. Right for a program that a user waits for, wrong for one in the
    /// background.
    pub follow_parent: bool,
}

/// The data of the program inside about the outside.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Inside {
    /// The ports of the caller's loopback: the first leads to 6443 inside, and so on.
    pub ports: Vec<u16>,
    /// The process number of the supervisor, as the caller sees it.
    pub supervisor: u32,
}

/// The side on which a program is after [`enter`].
#[derive(Debug)]
pub enum Entered {
    /// Inside: continue.
    Inside(Inside),
    /// Outside, and the program inside has ended with this code: end likewise.
    Ended(ExitCode),
}

/// Becomes init if this program was executed for that, and then never returns.
///
/// Must be called in `main` before any thread is started.
pub fn maybe_become_init() {
    if std::env::args_os().next().is_some_and(|name| name == INIT) {
        #[expect(clippy::exit, reason = "the program this is part of must not continue")]
        std::process::exit(init::play());
    }
}

/// Runs the calling program again inside namespaces of its own, or returns if this is the one inside.
///
/// Must be called before any thread is started; build tools before, since there is no network inside.
pub fn enter(options: EnterOptions) -> Result<Entered> {
    match std::env::var(INSIDE) {
        Ok(reply) => {
            let inside = serde_json::from_str(&reply).context("understand LAB_INSIDE")?;
            // Init waits for signals that it blocks, and a child begins with its parent's mask.
            SigSet::empty()
                .thread_set_mask()
                .context("unblock signals")?;
            Ok(Entered::Inside(inside))
        }
        Err(_) => outside::supervise(options).map(Entered::Ended),
    }
}

/// Whether this process is inside namespaces of a lab.
pub fn are_ours() -> bool {
    std::env::var_os(INSIDE).is_some() && scratch().is_dir()
}

/// A directory in memory that disappears with the namespaces.
pub fn scratch() -> PathBuf {
    Path::new("/run/lab").to_owned()
}

/// A listener in the caller's network, created before leaving it.
fn listener() -> Result<(TcpListener, u16)> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).context("listen on the loopback")?;
    let port = listener
        .local_addr()
        .context("a listener's own port")?
        .port();
    Ok((listener, port))
}
