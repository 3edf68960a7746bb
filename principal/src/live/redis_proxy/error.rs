//! Why a connection ends before its client wants it to.

use std::io;

use live::resp::Malformed;

use super::reader::Unreadable;

#[derive(Debug, thiserror::Error)]
pub(super) enum Ended {
    #[error(transparent)]
    Unreadable(#[from] Unreadable),
    #[error("write to the client")]
    Write(#[from] io::Error),
    #[error("the client timed out")]
    TimedOut,
    #[error("wrong password")]
    WrongPassword,
    #[error("a command is too long")]
    TooLong,
    #[error(transparent)]
    Upstream(#[from] UpstreamError),
    /// The connection must close then: its next bytes would be the value's.
    #[error("a value of a cluster was truncated")]
    Broken,
}

/// Why the hub's redis cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum UpstreamError {
    #[error("connect to the hub's redis at {0}")]
    Connect(String, #[source] io::Error),
    #[error("the hub's redis refused the login: {0}")]
    Refused(String),
    #[error("read from or write to the hub's redis")]
    Io(#[from] io::Error),
    #[error("the hub's redis sent an invalid value")]
    Malformed(#[from] Malformed),
    #[error("the hub's redis closed the connection")]
    Closed,
    #[error("the client has not authenticated")]
    NotAuthenticated,
}
