//! Namespaces that a lab has to itself, so that nothing of it can stay behind.
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
//! *Nothing stays.* Whoever ends init ends everything: the kernel kills all processes of its namespace, and mounts
//! and devices go with the last process that sees them. Init ends when its supervisor does, by the death signal and by
//! the end of a pipe; so `kill -9` on any of the three is enough. What a lab keeps on disk it keeps in memory below
//! [`scratch`], which goes too.
//!
//! *Signals.* Only the supervisor is in the foreground of the terminal. It passes one interrupt on, so that the
//! program inside can tell the state of things and end in order; a second one, or [`GRACE`], ends it all.

mod init;
mod outside;
mod relay;

use std::{
    net::TcpListener,
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

use anyhow::{Context, Result};
use nix::sys::signal::SigSet;
use serde::{Deserialize, Serialize};

/// How long the program inside may take to end in order. A dump of the world is the longest thing it does.
pub const GRACE: Duration = Duration::from_secs(30);

/// Tells the program inside that it is, and what it needs to know of the outside.
const INSIDE: &str = "LAB_INSIDE";

/// The name (`argv[0]`) that init is called by.
const INIT: &str = "lab-init";

/// What [`enter`] needs to know.
#[derive(Clone, Copy, Debug, Default)]
pub struct Door {
    /// How many ports of the caller's loopback shall lead inside, to 6443 and the ports after it.
    pub ports: u8,
    /// Whether to end when the parent process does. Right for what somebody waits for, wrong for what goes on in the
    /// background.
    pub follow_parent: bool,
}

/// What the program inside knows of the outside.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Inside {
    /// The ports of the caller's loopback: the first leads to 6443 inside, and so on.
    pub ports: Vec<u16>,
    /// The process number of the supervisor, as the caller sees it.
    pub supervisor: u32,
}

/// On which side a program is after [`enter`].
#[derive(Debug)]
pub enum Entered {
    /// Inside: go on.
    Inside(Inside),
    /// Outside, and what ran inside has ended like this: end likewise.
    Ended(ExitCode),
}

/// Becomes init if that is what this program was called for, and then never returns.
///
/// Must be called in `main` before any thread is started.
pub fn maybe_become_init() {
    if std::env::args_os().next().is_some_and(|name| name == INIT) {
        #[expect(clippy::exit, reason = "the program this is part of must not go on")]
        std::process::exit(init::play());
    }
}

/// Runs the calling program again inside namespaces of its own, or returns if this is the one inside.
///
/// Must be called before any thread is started; tools are to be built before, since there is no network inside.
pub fn enter(door: Door) -> Result<Entered> {
    match std::env::var(INSIDE) {
        Ok(reply) => {
            let inside = serde_json::from_str(&reply).context("understand LAB_INSIDE")?;
            // Init waits for signals that it blocks, and a child begins with its parent's mask.
            SigSet::empty()
                .thread_set_mask()
                .context("unblock signals")?;
            Ok(Entered::Inside(inside))
        }
        Err(_) => outside::supervise(door).map(Entered::Ended),
    }
}

/// Whether this process is inside namespaces of a lab.
pub fn are_ours() -> bool {
    std::env::var_os(INSIDE).is_some() && scratch().is_dir()
}

/// A directory in memory that goes with the namespaces.
pub fn scratch() -> PathBuf {
    Path::new("/run/lab").to_owned()
}

/// A listener of the caller's network, made before that is left.
fn listener() -> Result<(TcpListener, u16)> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).context("listen on the loopback")?;
    let port = listener
        .local_addr()
        .context("a listener's own port")?
        .port();
    Ok((listener, port))
}
