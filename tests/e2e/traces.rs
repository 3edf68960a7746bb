//! Traces of running Pods on a machine: processes, mounts, network devices.

use std::{collections::BTreeSet, fs};

use anyhow::{Context as _, Result};
use lab::wait;

/// The traces there are.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Traces {
    /// Number and command line of each process.
    processes: BTreeSet<String>,
    mounts: BTreeSet<String>,
    devices: BTreeSet<String>,
}

impl Traces {
    /// The traces there are now, of everything in the lab's namespaces.
    pub(crate) fn now() -> Result<Self> {
        let mut processes = BTreeSet::new();
        for entry in fs::read_dir("/proc").context("read /proc")?.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
            // Kernel threads and ended processes have no command line.
            if name.bytes().all(|byte| byte.is_ascii_digit()) && !line.is_empty() {
                let line = String::from_utf8_lossy(&line).replace('\0', " ");
                processes.insert(format!("{name} {}", line.trim_end()));
            }
        }
        let lines = |path: &str| -> Result<BTreeSet<String>> {
            let text = fs::read_to_string(path).with_context(|| format!("read {path}"))?;
            Ok(text.lines().map(str::to_owned).collect())
        };
        let devices = lines("/proc/net/dev")?;
        let device = |line: String| line.split_once(':').map(|(name, _)| name.trim().to_owned());
        Ok(Self {
            processes,
            mounts: lines("/proc/self/mounts")?,
            devices: devices.into_iter().filter_map(device).collect(),
        })
    }

    /// Waits until there are no more traces than these.
    pub(crate) async fn are_all_there_is(&self) -> Result<()> {
        let look = || async { Ok(Self::now()?.without(self)) };
        wait::until("nothing is left behind", look, Self::is_empty)
            .await
            .map(drop)
    }

    fn without(self, before: &Self) -> Self {
        let Self {
            processes,
            mounts,
            devices,
        } = self;
        Self {
            processes: &processes - &before.processes,
            mounts: &mounts - &before.mounts,
            devices: &devices - &before.devices,
        }
    }

    fn is_empty(&self) -> bool {
        let Self {
            processes,
            mounts,
            devices,
        } = self;
        processes.is_empty() && mounts.is_empty() && devices.is_empty()
    }
}
