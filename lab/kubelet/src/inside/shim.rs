//! Runs between the kubelet and a container: starts process 1, passes on signals, waits, and reports
//! how it ended.
//!
//! The shim reads the container's output from a pipe and writes it into the log with its time.
//!
//! The shim stays in the kubelet's process and mount namespaces, so it sees process 1 under a
//! number the kubelet can use. Process 1 dies with the shim (`PR_SET_PDEATHSIG`), the shim ends the
//! container when the kubelet is gone (standard input closes), and the kernel ends every process of
//! a process namespace with its process 1.

use std::{
    fs::File,
    io::{BufRead, ErrorKind, PipeReader, Read, Write},
    os::unix::process::ExitStatusExt,
    process::{Child, Stdio},
    sync::{Arc, Mutex, PoisonError, mpsc},
};

use anyhow::Context;
use jiff::Timestamp;
use nix::{
    errno::Errno,
    sched::{CloneFlags, setns, unshare},
    sys::{
        signal::{Signal, kill},
        wait::{Id, WaitPidFlag, waitid},
    },
    unistd::Pid,
};

use super::{Part, ShimMessage, ShimSpec, read_value, reply};
use crate::log::Recorder;

/// Process 1 while it may be signalled. Guards against a signal to a process that reuses its number.
type Target = Arc<Mutex<Option<Pid>>>;

/// The container's output, and its log.
type Printing = (PipeReader, File);

pub(super) fn play() -> i32 {
    // The threads come first: once children are born into another process namespace, no thread can
    // be created.
    let (targets, wanted) = mpsc::channel::<Target>();
    let (printing, printed) = mpsc::channel::<Printing>();
    let spec = read_value();
    std::thread::spawn(move || wanted.recv().map(|target| pass_signals(&target)));
    let recording = std::thread::spawn(move || printed.recv().map(record));
    let stated = spec
        .and_then(|spec| start(&spec, &printing))
        .and_then(|child| attend(child, &targets));
    // The log is complete before the end is reported: all processes that could print are gone.
    drop(printing);
    let _recorded = recording.join();
    let stated = stated.unwrap_or_else(|error| ShimMessage::Failed(format!("{error:#}")));
    i32::from(reply(&stated).is_err())
}

/// Writes the container's output to the log until the last writer closes the pipe.
fn record((mut printed, mut log): Printing) {
    let mut recorder = Recorder::default();
    let mut block = vec![0; 64 << 10];
    loop {
        let entries = match printed.read(&mut block) {
            Ok(0) => break,
            Ok(read) => {
                let text = block.get(..read).unwrap_or_default();
                recorder.take(text, Timestamp::now())
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(_) => break,
        };
        // A full disk must not end the container.
        let _lost = log.write_all(&entries);
    }
    let _lost = log.write_all(&recorder.finish(Timestamp::now()));
}

/// Starts process 1, and returns when it has become the container's program.
fn start(spec: &ShimSpec, printing: &mpsc::Sender<Printing>) -> anyhow::Result<Child> {
    if let Some(sandbox) = spec.sandbox {
        join(sandbox).context("enter the sandbox of the Pod")?;
    }
    let log = File::options()
        .create(true)
        .append(true)
        .open(&spec.log)
        .context("open the log")?;
    let (printed, print) = std::io::pipe().context("make a pipe")?;
    printing
        .send((printed, log))
        .context("the thread that writes the log is gone")?;
    unshare(CloneFlags::CLONE_NEWPID).context("make a process namespace")?;
    let mut child = Part::First
        .command()
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(print)
        .spawn()
        .context("start process 1")?;
    if let Some(mut stdin) = child.stdin.take() {
        // If it is gone already, the error of process 1 below explains it.
        let _gone = serde_json::to_writer(&mut stdin, spec).map(|()| stdin.write_all(b"\n"));
    }
    // Process 1 keeps this pipe until it executes the container's program, which closes it
    // without a message.
    let mut complaint = String::new();
    if let Some(mut stdout) = child.stdout.take() {
        stdout
            .read_to_string(&mut complaint)
            .context("read the pipe of process 1")?;
    }
    if complaint.is_empty() {
        return Ok(child);
    }
    child.wait()?;
    anyhow::bail!(complaint)
}

fn join(sandbox: u32) -> anyhow::Result<()> {
    for (name, kind) in [
        ("net", CloneFlags::CLONE_NEWNET),
        ("ipc", CloneFlags::CLONE_NEWIPC),
        ("uts", CloneFlags::CLONE_NEWUTS),
    ] {
        let namespace = File::open(format!("/proc/{sandbox}/ns/{name}"))?;
        setns(namespace, kind).context(name)?;
    }
    Ok(())
}

/// Passes on signals until the container ends.
fn attend(mut child: Child, targets: &mpsc::Sender<Target>) -> anyhow::Result<ShimMessage> {
    let first = Pid::from_raw(i32::try_from(child.id())?);
    let target = Arc::new(Mutex::new(Some(first)));
    targets
        .send(Arc::clone(&target))
        .context("the thread that passes signals is gone")?;
    reply(&ShimMessage::Started(child.id()))?;
    // Wait without reaping, so that the number stays taken until the last signal is sent.
    while waitid(Id::Pid(first), WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT) == Err(Errno::EINTR) {
    }
    target.lock().unwrap_or_else(PoisonError::into_inner).take();
    let status = child.wait()?;
    Ok(ShimMessage::Exited {
        code: status
            .code()
            .unwrap_or_else(|| 128 + status.signal().unwrap_or_default()),
        signal: status.signal(),
    })
}

/// Reads signal numbers, one a line; the end of the input is a SIGKILL.
fn pass_signals(target: &Mutex<Option<Pid>>) {
    let mut lines = std::io::stdin().lock().lines();
    loop {
        let line = lines.next();
        let number = line
            .and_then(Result::ok)
            .map(|line| line.trim().parse::<i32>());
        let signal = match number {
            Some(Ok(number)) => Signal::try_from(number).ok(),
            Some(Err(_)) => None,
            None => Some(Signal::SIGKILL),
        };
        let target = target.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(first) = *target else { return };
        if let Some(signal) = signal {
            let _already_gone = kill(first, signal);
        }
        if number.is_none() {
            return;
        }
    }
}
