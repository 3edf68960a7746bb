//! Reports progress to a user at a terminal, with the time of each step.

use std::{io::Write, time::Duration};

use tokio::time::Instant;

/// Prints one line for each step, with the time since the beginning and since the previous step.
#[derive(Clone, Debug)]
pub struct Progress {
    began: Instant,
    last: Instant,
    silent: bool,
}

impl Default for Progress {
    fn default() -> Self {
        Self::new()
    }
}

impl Progress {
    /// Starts counting now.
    pub fn new() -> Self {
        let began = Instant::now();
        Self {
            began,
            last: began,
            silent: false,
        }
    }

    /// Counts without output.
    pub fn silent() -> Self {
        Self {
            silent: true,
            ..Self::new()
        }
    }

    /// Reports that a step is done.
    pub fn step(&mut self, what: impl std::fmt::Display) {
        let now = Instant::now();
        let took = now - self.last;
        self.last = now;
        if self.silent {
            return;
        }
        print(format_args!(
            "[{:6.1} s] {what} ({:.1} s)",
            self.elapsed().as_secs_f32(),
            took.as_secs_f32()
        ));
    }

    /// The time since the beginning.
    pub fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }
}

/// Prints a line to standard output, at once. A closed terminal is no reason to stop.
pub fn print(line: impl std::fmt::Display) {
    let mut out = std::io::stdout().lock();
    let _ignored = writeln!(out, "{line}").and_then(|()| out.flush());
}
