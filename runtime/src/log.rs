//! Logs: one subscriber, plain text or JSON, on standard error.

use std::io;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::ParseError;

use crate::args::{LogArgs, LogFormat};

/// Why logging could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The level is not one.
    #[error("parse log level {level:?}")]
    ParseLevel {
        /// What was given.
        level: String,
        /// What is wrong with it.
        source: ParseError,
    },
    /// Somebody else set up logging before.
    #[error("install the log subscriber")]
    Install(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// Starts logging as asked; call it once.
///
/// # Errors
/// The level cannot be parsed, or logging runs already.
pub fn init(args: &LogArgs) -> Result<(), Error> {
    let LogArgs {
        log_level,
        log_format,
    } = args;
    let directives = directives(log_level);
    let filter = EnvFilter::try_new(&directives).map_err(|source| Error::ParseLevel {
        level: log_level.clone(),
        source,
    })?;
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr);
    match log_format {
        LogFormat::Text => builder.with_ansi(false).try_init(),
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
    }
    .map_err(Error::Install)
}

/// Translates the level names of the Go implementation, and quiets libraries that talk a lot.
///
/// Its subsystems (`grpc-event=debug`) have no counterpart here and are left out.
fn directives(level: &str) -> String {
    let ours: Vec<String> = level
        .split(',')
        .map(str::trim)
        .filter(|part| !part.is_empty())
        .filter_map(|part| match part.split_once('=') {
            // A Rust module path is ours; a subsystem of the Go implementation is not known here.
            Some((target, _)) if target.contains('-') => None,
            Some((target, level)) => Some(format!("{target}={}", level_name(level))),
            None => Some(level_name(part).to_owned()),
        })
        .collect();
    // The Kubernetes client says every failed attempt as an error; whoever made it says so once, with what it was for.
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

    #[test]
    fn level_names_of_the_go_implementation_are_understood() {
        assert!(directives("warning").ends_with(",warn"));
        assert!(directives("fatal,resource-proxy=trace").ends_with(",error"));
        assert!(directives("").starts_with("info,"));
        assert!(directives("info,agent::link=debug").ends_with("info,agent::link=debug"));
    }
}
