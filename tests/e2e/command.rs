//! The command `lab`: its clusters are reachable from outside, and it leaves nothing behind however it ends.
//!
//! These tests run a lab inside the lab; namespaces nest.

use std::{
    collections::BTreeSet,
    fs,
    os::unix::process::ExitStatusExt,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    sync::Arc,
};

use anyhow::{Context, Result, ensure};
use lab::{Lab, up::State, wait};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

pub(crate) async fn lab_is_reachable_from_outside_until_down(_lab: Arc<Lab>) -> Result<()> {
    let outer = Outer::new()?;
    succeeds(&outer.lab(&["up", "--spokes=1"])?.output()?)?;
    succeeds(&outer.lab(&["status"])?.output()?)?;
    for cluster in ["hub", "spoke1"] {
        let kubeconfig = outer.dir.path().join(cluster).join("kubeconfig");
        let kubectl = lab::Tools::find()?.kubectl;
        let listed = Command::new(kubectl)
            .env("KUBECONFIG", kubeconfig)
            .args(["get", "namespaces"])
            .output()?;
        succeeds(&listed)?;
    }
    let everything = outer.everything()?;
    succeeds(&outer.lab(&["down"])?.output()?)?;
    everything.is_gone().await?;
    let left: Vec<_> = fs::read_dir(outer.dir.path())
        .into_iter()
        .flatten()
        .collect();
    ensure!(left.is_empty(), "in its directory: {left:?}");
    ensure!(
        !outer.lab(&["status"])?.output()?.status.success(),
        "there is no lab to be ready"
    );
    Ok(())
}

pub(crate) async fn a_killed_lab_leaves_nothing(_lab: Arc<Lab>) -> Result<()> {
    for victim in ["supervisor", "init", "program"] {
        let outer = Outer::new()?;
        succeeds(&outer.lab(&["up", "--spokes=0"])?.output()?)?;
        let everything = outer.everything()?;
        ensure!(everything.processes.len() > 5, "{everything:?}");
        let mut pid = outer.supervisor()?;
        for _ in 0..["supervisor", "init", "program"]
            .iter()
            .take_while(|name| **name != victim)
            .count()
        {
            pid = *children(pid)?.first().context("a child")?;
        }
        kill(Pid::from_raw(pid), Signal::SIGKILL).with_context(|| format!("kill the {victim}"))?;
        everything
            .is_gone()
            .await
            .with_context(|| format!("after the {victim} was killed"))?;
        // The next lab can use the same directory.
        succeeds(&outer.lab(&["up", "--spokes=0"])?.output()?)?;
        succeeds(&outer.lab(&["down"])?.output()?)?;
    }
    Ok(())
}

pub(crate) async fn an_interrupted_start_leaves_nothing(_lab: Arc<Lab>) -> Result<()> {
    let outer = Outer::new()?;
    let mut starting = outer
        .lab(&["up", "--spokes=1"])?
        .stdout(Stdio::null())
        .spawn()?;
    let look = || async { outer.everything() };
    // Supervisor, init, program, etcd, and at least one more process.
    let everything =
        wait::until("the lab is starting", look, |seen| seen.processes.len() > 4).await?;
    let pid = Pid::from_raw(i32::try_from(starting.id())?);
    kill(pid, Signal::SIGINT).context("interrupt")?;
    let ended = starting.wait()?;
    ensure!(
        ended.code() == Some(130) || ended.signal() == Some(2),
        "{ended}"
    );
    everything.is_gone().await
}

/// A lab in the lab.
struct Outer {
    dir: tempfile::TempDir,
}

impl Outer {
    fn new() -> Result<Self> {
        Ok(Self {
            dir: tempfile::tempdir()?,
        })
    }

    /// `lab …` for control planes alone, as called from outside of any lab.
    fn lab(&self, arguments: &[&str]) -> Result<Command> {
        let mut command = Command::new(lab::product::programs()?.join("lab"));
        command
            .args(arguments)
            .arg("--dir")
            .arg(self.dir.path())
            .env_remove("LAB_INSIDE");
        if arguments.first() == Some(&"up") {
            command.args([
                "--pods=false",
                "--ocm=false",
                "--argocd=false",
                "--product=false",
            ]);
        }
        Ok(command)
    }

    fn supervisor(&self) -> Result<i32> {
        let state = State::read(self.dir.path())?.context("a lab.json")?;
        Ok(i32::try_from(state.pid)?)
    }

    /// The supervisor and everything below it.
    fn everything(&self) -> Result<Everything> {
        let mut everything = Everything::default();
        let mut waiting = vec![self.supervisor()?];
        while let Some(pid) = waiting.pop() {
            everything.processes.insert(pid);
            for namespace in ["net", "mnt", "pid"] {
                // A process that ended meanwhile is in none.
                everything
                    .namespaces
                    .extend(fs::read_link(format!("/proc/{pid}/ns/{namespace}")));
            }
            waiting.extend(children(pid)?);
        }
        for namespace in ["net", "mnt", "pid"] {
            everything
                .namespaces
                .remove(&fs::read_link(format!("/proc/self/ns/{namespace}"))?);
        }
        Ok(everything)
    }
}

/// The processes of a lab, and the namespaces they made.
#[derive(Clone, Debug, Default)]
struct Everything {
    processes: BTreeSet<i32>,
    namespaces: BTreeSet<PathBuf>,
}

impl Everything {
    /// Waits until none of these processes is left and these namespaces are empty: then their mounts and devices are
    /// gone too.
    async fn is_gone(&self) -> Result<()> {
        let look = || async { self.left() };
        wait::until("nothing of the lab is left", look, Vec::is_empty)
            .await
            .map(drop)
    }

    fn left(&self) -> Result<Vec<String>> {
        let mut left = Vec::new();
        for entry in fs::read_dir("/proc")? {
            let path = entry?.path();
            let pid = path
                .file_name()
                .and_then(|name| name.to_str())
                .and_then(|name| name.parse().ok());
            let Some(pid) = pid else { continue };
            let dead = fs::read_to_string(path.join("stat")).map_or(true, |stat| {
                stat.rsplit_once(')')
                    .is_none_or(|(_, rest)| rest.starts_with(" Z"))
            });
            if dead {
                continue;
            }
            let inside = ["net", "mnt", "pid"].iter().any(|namespace| {
                fs::read_link(path.join("ns").join(namespace))
                    .is_ok_and(|link| self.namespaces.contains(&link))
            });
            if inside || self.processes.contains(&pid) {
                left.push(name_of(&path));
            }
        }
        Ok(left)
    }
}

fn name_of(process: &Path) -> String {
    let line = fs::read_to_string(process.join("cmdline")).unwrap_or_default();
    format!("{} {}", process.display(), line.replace('\0', " "))
}

fn children(pid: i32) -> Result<Vec<i32>> {
    // A process that ended meanwhile has none.
    let mut found = Vec::new();
    for task in fs::read_dir(format!("/proc/{pid}/task"))
        .into_iter()
        .flatten()
    {
        let listed = fs::read_to_string(task?.path().join("children")).unwrap_or_default();
        for child in listed.split_whitespace() {
            found.push(child.parse()?);
        }
    }
    Ok(found)
}

fn succeeds(output: &Output) -> Result<()> {
    let stdout = String::from_utf8_lossy(&output.stdout);
    let stderr = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success(),
        "{}: {stdout}{stderr}",
        output.status
    );
    Ok(())
}
