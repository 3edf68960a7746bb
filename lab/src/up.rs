//! A lab that stays: `lab up`, `lab status` and `lab down`.
//!
//! Its directory contains kubeconfigs (`DIR/<cluster>/kubeconfig`) and logs for users outside, and `lab.json` with its
//! state. A list of the labs of this source tree, in `target/lab/running`, lets `status` and `down` find one
//! without an argument.

mod down;
mod inside;
mod list;
mod start;
mod status;

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

pub use down::down;
pub use start::{Request, up};
pub use status::status;

/// The file with the state of a lab.
const STATE: &str = "lab.json";

/// The log of a lab that runs in the background.
const LOG: &str = "lab.log";

/// The phase of a lab.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Phase {
    /// Not everything runs yet.
    Starting,
    /// All requested parts run.
    Ready,
    /// It could not be started; the reason.
    Failed(String),
}

/// The content of `lab.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    /// The supervisor's process number: `kill` it and the lab is gone.
    pub pid: u32,
    /// When that process started, in the kernel's ticks: another process of the same number started at another time.
    pub started: u64,
    /// Its phase.
    pub phase: Phase,
    /// The clusters, the hub first.
    pub clusters: Vec<Listed>,
}

/// A cluster as visible from outside.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listed {
    /// `hub`, `spoke1` and so on.
    pub name: String,
    /// The address of its API.
    pub server: String,
    /// The admin's kubeconfig.
    pub kubeconfig: PathBuf,
}

impl State {
    /// The state of the lab in `dir`; none if there is none.
    pub fn read(dir: &Path) -> Result<Option<Self>> {
        let path = dir.join(STATE);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error).with_context(|| format!("read {}", path.display())),
        };
        let state = serde_json::from_str(&text);
        state
            .map(Some)
            .with_context(|| format!("understand {}", path.display()))
    }

    /// Writes it atomically.
    fn write(&self, dir: &Path) -> Result<()> {
        let (path, temporary) = (dir.join(STATE), dir.join("lab.json.new"));
        let text = serde_json::to_string_pretty(self)?;
        fs::write(&temporary, text)
            .and_then(|()| fs::rename(&temporary, &path))
            .with_context(|| format!("write {}", path.display()))
    }

    /// Whether the supervisor is there.
    pub fn is_running(&self) -> bool {
        started(self.pid) == Some(self.started)
    }
}

/// When a process started, in ticks since boot; none if there is no such process, or only a zombie.
fn started(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may contain any text; the fields after it have fixed positions (proc_pid_stat(5)).
    let (_name, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace();
    let state = fields.next()?;
    // The state is field 3, the start time field 22.
    (state != "Z")
        .then(|| fields.nth(18)?.parse().ok())
        .flatten()
}
