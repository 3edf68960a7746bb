//! Parts of all tests, each run by a process of its own: most of the time a test waits, and leaves the processors to
//! another one.

use std::{
    env,
    io::{BufRead as _, BufReader, Write as _},
    process::{Child, Command, ExitCode, Stdio},
    thread,
};

use anyhow::{Context as _, Result};

/// The variable with the number of the part that a process runs; numbers begin at 0.
const PART: &str = "LAB_STORIES_PART";

/// The part that this process was started for.
pub(super) fn ours() -> Result<Option<usize>> {
    let Some(part) = env::var_os(PART) else {
        return Ok(None);
    };
    let part = part.to_str().and_then(|part| part.parse().ok());
    part.map(Some)
        .with_context(|| format!("{PART} is not a number"))
}

/// Starts this program again for each part, with the same arguments, and waits for all of them.
///
/// They end with this process, even if it is killed. Their output is printed line by line.
pub(super) fn run(parts: usize) -> Result<ExitCode> {
    let mut processes = Vec::new();
    for part in 0..parts {
        processes.push(Reported(start(part)?));
    }
    let relays: Vec<_> = processes
        .iter_mut()
        .filter_map(|Reported(child)| child.stdout.take())
        .map(|output| thread::spawn(|| relay(output)))
        .collect();
    for relay in relays {
        // The exit code of the part decides, even if its output was lost.
        drop(relay.join());
    }
    let mut all_is_well = true;
    for Reported(child) in &mut processes {
        all_is_well &= child.wait().context("wait for a part")?.success();
    }
    Ok(if all_is_well {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// A process that ends with us, if we end early.
struct Reported(Child);

impl Drop for Reported {
    fn drop(&mut self) {
        if matches!(self.0.try_wait(), Ok(None)) {
            // It was gone, or is now.
            drop(self.0.kill());
            drop(self.0.wait());
        }
    }
}

fn start(part: usize) -> Result<Child> {
    Command::new(env::current_exe().context("find our own program")?)
        .args(env::args_os().skip(1))
        .env(PART, part.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .context("start a part")
}

fn relay(output: impl std::io::Read) {
    let mut out = std::io::stdout();
    for line in BufReader::new(output).split(b'\n') {
        let Ok(mut line) = line else {
            return;
        };
        line.push(b'\n');
        // Standard output may be closed; the part's output still has to be read to its end.
        drop(out.write_all(&line).and_then(|()| out.flush()));
    }
}
