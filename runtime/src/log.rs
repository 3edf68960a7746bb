//! Logs: one subscriber, plain text or JSON, on standard error, whose level can be changed while it runs.

use std::io;
use std::sync::{Mutex, OnceLock, PoisonError};

use tracing_subscriber::filter::ParseError;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::reload;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Registry, fmt};

use crate::args::{LogArgs, LogFormat};

/// Why logging could not be set up or changed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The level is invalid.
    #[error("parse log level {level:?}")]
    ParseLevel {
        /// The given level.
        level: String,
        /// The error of the parser.
        source: ParseError,
    },
    /// A part of it is not a level. At start-up it would be the name of a module.
    #[error("{0:?} is none of off, error, warn, info, debug and trace")]
    NoLevel(String),
    /// Other code has already set up logging.
    #[error("install the log subscriber")]
    Install(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The subscriber is gone, because the process ends.
    #[error("change the log level")]
    Change(#[source] reload::Error),
}

/// The level of the process.
static LEVELS: OnceLock<Levels> = OnceLock::new();

/// A log level that can be changed.
#[derive(Debug)]
pub struct Levels {
    filter: reload::Handle<EnvFilter, Registry>,
    at_start: String,
    // Locked for a copy, never over an await.
    now: Mutex<String>,
}

/// The level of this process, once logging was set up.
pub fn levels() -> Option<&'static Levels> {
    LEVELS.get()
}

impl Levels {
    /// The current level.
    pub fn now(&self) -> String {
        self.now
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// The level at start-up.
    pub fn at_start(&self) -> &str {
        &self.at_start
    }

    /// Changes it at once, in every part of the process.
    ///
    /// # Errors
    /// The level is invalid; the current one stays.
    pub fn set(&self, level: &str) -> Result<(), Error> {
        check(level)?;
        self.apply(level)
    }

    /// Restores the level of start-up.
    pub fn reset(&self) {
        // It was parsed at start-up; an error means that the process ends.
        drop(self.apply(&self.at_start));
    }

    fn apply(&self, level: &str) -> Result<(), Error> {
        let filter = filter(level)?;
        self.filter.reload(filter).map_err(Error::Change)?;
        let mut now = self.now.lock().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::replace(&mut *now, level.to_owned());
        drop(now);
        // A warning, so that the change is visible at most levels.
        tracing::warn!(before, now = level, "log level changed");
        Ok(())
    }
}

/// Starts logging; call it once.
///
/// # Errors
/// The level is invalid, or logging is already set up.
pub fn init(args: &LogArgs) -> Result<(), Error> {
    let LogArgs {
        log_level,
        log_format,
    } = args;
    let (filter, handle) = reload::Layer::new(filter(log_level)?);
    let all = tracing_subscriber::registry().with(filter);
    let lines = fmt::layer().with_writer(io::stderr);
    match log_format {
        LogFormat::Text => all.with(lines.with_ansi(false)).try_init(),
        LogFormat::Json => all.with(lines.json().flatten_event(true)).try_init(),
    }
    .map_err(|error| Error::Install(Box::new(error)))?;
    let levels = Levels {
        filter: handle,
        at_start: log_level.clone(),
        now: Mutex::new(log_level.clone()),
    };
    // The subscriber was set, so no other code has set this value.
    drop(LEVELS.set(levels));
    Ok(())
}

fn filter(level: &str) -> Result<EnvFilter, Error> {
    EnvFilter::try_new(directives(level)).map_err(|source| Error::ParseLevel {
        level: level.to_owned(),
        source,
    })
}

/// Whether each part is a level, or a module and a level.
fn check(level: &str) -> Result<(), Error> {
    let parts = level.split(',').map(str::trim);
    let words = parts.map(|part| part.split_once('=').map_or(part, |(_, level)| level));
    for word in words {
        let known = ["off", "error", "warn", "info", "debug", "trace"];
        if !known.contains(&level_name(word)) {
            return Err(Error::NoLevel(word.to_owned()));
        }
    }
    Ok(())
}

/// Translates the level names of the Go implementation, and reduces the level of verbose libraries.
///
/// Subsystems of the Go implementation (`grpc-event=debug`) have no counterpart here and are ignored.
fn directives(level: &str) -> String {
    let ours: Vec<String> = level
        .split(',')
        .map(str::trim)
        .filter(|part| !part.is_empty())
        .filter_map(|part| match part.split_once('=') {
            // A Rust module path is ours; a subsystem of the Go implementation is unknown here.
            Some((target, _)) if target.contains('-') => None,
            Some((target, level)) => Some(format!("{target}={}", level_name(level))),
            None => Some(level_name(part).to_owned()),
        })
        .collect();
    // The Kubernetes client logs each failed attempt as an error; its caller logs the failure once, with the context.
    let quiet = "h2=warn,hyper=warn,hyper_util=warn,tower=warn,rustls=warn,kube_client=off";
    if ours.is_empty() {
        format!("info,{quiet}")
    } else {
        format!("{quiet},{}", ours.join(","))
    }
}

/// Level names of logrus and of tracing, in one list.
fn level_name(level: &str) -> &str {
    match level {
        "panic" | "fatal" => "error",
        "warning" => "warn",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tracing::level_filters::LevelFilter;

    #[test]
    fn level_names_of_the_go_implementation_are_understood() {
        assert!(directives("warning").ends_with(",warn"));
        assert!(directives("fatal,resource-proxy=trace").ends_with(",error"));
        assert!(directives("").starts_with("info,"));
        assert!(
            directives("info,agent::transport::connection=debug")
                .ends_with("info,agent::transport::connection=debug")
        );
    }

    #[test]
    fn a_level_is_changed_while_the_process_runs_and_nonsense_changes_nothing() {
        let (layer, handle) = reload::Layer::new(filter("info").unwrap());
        // The subscriber must outlive the changes.
        let _subscriber = tracing_subscriber::registry().with(layer);
        let levels = Levels {
            filter: handle,
            at_start: "info".to_owned(),
            now: Mutex::new("info".to_owned()),
        };
        let highest = || {
            levels
                .filter
                .with_current(EnvFilter::max_level_hint)
                .unwrap()
        };
        assert_eq!(highest(), Some(LevelFilter::INFO));
        levels.set("debug").unwrap();
        assert_eq!(
            (highest(), levels.now()),
            (Some(LevelFilter::DEBUG), "debug".to_owned())
        );
        // At start-up these are names of modules.
        for nonsense in ["", "debgu", "info,agent=loud", "INFO "] {
            assert!(levels.set(nonsense).is_err(), "{nonsense:?}");
        }
        assert_eq!(levels.now(), "debug");
        levels
            .set("warning,agent::transport::connection=trace")
            .unwrap();
        assert_eq!(highest(), Some(LevelFilter::TRACE));
        levels.reset();
        assert_eq!(
            (highest(), levels.now()),
            (Some(LevelFilter::INFO), "info".to_owned())
        );
    }
}
