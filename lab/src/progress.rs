//! Reports progress to a user, with the time of each step: in lines, and at a terminal with a bar below them.

use std::{io::Write, time::Duration};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tokio::time::Instant;

/// How often a bar moves although nothing happens.
const TICK: Duration = Duration::from_millis(200);
/// The interval of lines about a long step where there is no bar.
const LINES: Duration = Duration::from_secs(20);
/// The bar of a known number of steps.
const STEPS: &str = "{spinner} {bar:30} {pos} of {len} steps, {elapsed}";
/// The line of an unknown number.
const COUNTED: &str = "{spinner} {msg}: {pos}, {elapsed}";

/// Prints one line for each step, with the time since the beginning and since the previous step.
#[derive(Clone, Debug)]
pub struct Progress {
    began: Instant,
    last: Instant,
    silent: bool,
    bar: ProgressBar,
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
            bar: ProgressBar::hidden(),
        }
    }

    /// The same with a bar of this many steps, if standard output is a terminal.
    pub fn of(steps: u64) -> Self {
        Self {
            bar: bar(Some(steps), STEPS, ProgressDrawTarget::stdout()),
            ..Self::new()
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
        let elapsed = self.elapsed();
        self.line(format_args!(
            "[{:6.1} s] {what} ({:.1} s)",
            elapsed.as_secs_f32(),
            took.as_secs_f32()
        ));
        self.bar.inc(1);
    }

    /// Prints a line above the bar.
    pub fn line(&self, line: impl std::fmt::Display) {
        self.bar.suspend(|| print(line));
    }

    /// Takes the bar away: nothing is left to do.
    pub fn ends(&self) {
        self.bar.finish_and_clear();
    }

    /// The time since the beginning.
    pub fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }
}

/// Counts the parts of a long step whose number is unknown: at a terminal in a line that is gone in the end, elsewhere with a new
/// line now and then.
#[derive(Debug)]
pub struct Counter {
    what: String,
    began: Instant,
    last: Instant,
    bar: ProgressBar,
}

impl Counter {
    /// Counts what the text names.
    pub fn new(what: String) -> Self {
        let began = Instant::now();
        let bar = bar(None, COUNTED, ProgressDrawTarget::stdout()).with_message(what.clone());
        Self {
            what,
            began,
            last: began,
            bar,
        }
    }

    /// Counts one more.
    pub fn add(&mut self) {
        self.bar.inc(1);
        if self.bar.is_hidden() && self.last.elapsed() > LINES {
            self.last = Instant::now();
            let (what, count) = (&self.what, self.bar.position());
            print(format_args!(
                "  {what}: {count}, {:.0?}",
                self.began.elapsed()
            ));
        }
    }
}

impl Drop for Counter {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// A bar that moves by itself, if its target is a terminal.
fn bar(steps: Option<u64>, template: &str, target: ProgressDrawTarget) -> ProgressBar {
    let style = ProgressStyle::with_template(template);
    let style = style.unwrap_or_else(|_malformed| ProgressStyle::default_bar());
    let bar = ProgressBar::with_draw_target(steps, target).with_style(style);
    if !bar.is_hidden() {
        bar.enable_steady_tick(TICK);
    }
    bar
}

/// Prints a line to standard output, at once. A closed terminal is no reason to stop.
pub fn print(line: impl std::fmt::Display) {
    let mut out = std::io::stdout().lock();
    let _ignored = writeln!(out, "{line}").and_then(|()| out.flush());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_are_well_formed() {
        for template in [STEPS, COUNTED] {
            assert!(ProgressStyle::with_template(template).is_ok(), "{template}");
        }
    }

    #[test]
    fn a_hidden_bar_counts_as_well() {
        let bar = bar(Some(3), STEPS, ProgressDrawTarget::hidden());
        bar.inc(2);
        assert!(bar.is_hidden());
        assert_eq!((bar.position(), bar.length()), (2, Some(3)));
        bar.finish_and_clear();
        assert!(bar.is_finished());
    }
}
