//! Progress of long operations, on standard error and at terminals only.

use std::borrow::Cow;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressFinish, ProgressStyle};

use crate::output::Format;

/// What is done now, in a line that is gone in the end.
#[derive(Clone, Debug)]
pub struct Progress(ProgressBar);

/// Whether anybody would read it: a person, of whom standard error is the terminal, and no program that wants JSON or YAML.
pub const fn is_watched(terminal: bool, format: Format) -> bool {
    terminal && matches!(format, Format::Table | Format::Wide)
}

impl Progress {
    /// Shown on standard error, or not at all.
    pub fn new(watched: bool) -> Self {
        if watched {
            Self::on(ProgressDrawTarget::stderr())
        } else {
            Self(ProgressBar::hidden())
        }
    }

    fn on(target: ProgressDrawTarget) -> Self {
        let style = ProgressStyle::with_template("{spinner} {wide_msg} {elapsed}");
        let style = style.unwrap_or_else(|_malformed| ProgressStyle::default_spinner());
        let bar = ProgressBar::with_draw_target(None, target).with_style(style);
        Self(bar.with_finish(ProgressFinish::AndClear))
    }

    /// Says what is done now.
    pub fn show(&self, text: impl Into<Cow<'static, str>>) {
        self.0.set_message(text);
        self.0.tick();
    }

    /// The same, of several.
    pub fn step(&self, number: usize, of: usize, text: &str) {
        self.show(format!("{number} of {of}: {text}"));
    }

    /// Takes the line away.
    pub fn ends(&self) {
        self.0.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io,
        sync::{Arc, Mutex},
    };

    use indicatif::TermLike;

    use super::*;

    /// A terminal that keeps what was written.
    #[derive(Clone, Debug, Default)]
    struct Screen(Arc<Mutex<String>>);

    impl Screen {
        fn add(&self, text: &str) {
            self.0.lock().unwrap().push_str(text);
        }
    }

    impl TermLike for Screen {
        fn width(&self) -> u16 {
            80
        }
        fn move_cursor_up(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_down(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_right(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_left(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn write_line(&self, text: &str) -> io::Result<()> {
            self.add(text);
            Ok(())
        }
        fn write_str(&self, text: &str) -> io::Result<()> {
            self.add(text);
            Ok(())
        }
        fn clear_line(&self) -> io::Result<()> {
            self.add("<cleared>");
            Ok(())
        }
        fn flush(&self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn progress_is_shown_on_terminals_only() {
        assert!(is_watched(true, Format::Table) && is_watched(true, Format::Wide));
        assert!(!is_watched(true, Format::Json) && !is_watched(true, Format::Yaml));
        assert!(!is_watched(false, Format::Table));
    }

    #[test]
    fn progress_line_is_removed_at_the_end() {
        let screen = Screen::default();
        let target = ProgressDrawTarget::term_like(Box::new(screen.clone()));
        let progress = Progress::on(target);
        progress.step(2, 3, "opting in paris");
        assert!(screen.0.lock().unwrap().contains("2 of 3: opting in paris"));
        progress.ends();
        assert!(screen.0.lock().unwrap().ends_with("<cleared>"));
    }
}
