//! The reasons to refuse an authentication or a session, and their gRPC statuses.

use tonic::{Code, Status};

use crate::proof;

/// Why a peer is refused. The texts of the Go implementation are kept.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// `AuthRequest.mode` is neither managed nor autonomous.
    #[error("unknown agent mode: {0}")]
    UnknownMode(String),
    /// Method unknown, credentials wrong, or no name in them. Deliberately without details.
    #[error("authentication failed")]
    AuthenticationFailed,
    /// The agent presented no version.
    #[error("agent version is required")]
    VersionRequired,
    /// The version is incompatible with ours.
    #[error("version mismatch")]
    VersionMismatch,
    /// Token missing, expired, of another key, or bound to another certificate.
    #[error("invalid authentication data")]
    InvalidToken,
    /// The agent's certificate or cluster is on the revocation list.
    #[error("its certificate or cluster is revoked")]
    Revoked,
    /// The in-session proof is missing or wrong.
    #[error("in-session proof refused: {0}")]
    Proof(proof::Refused),
    /// The cluster is not enrolled (any more), or in another mode.
    #[error("cluster is not enrolled")]
    NotEnrolled,
    /// This replica serves no sessions now; another one does.
    #[error("not accepting connections in state {0}")]
    NotActive(String),
    /// A newer session of the same agent took over.
    #[error("superseded by a newer session")]
    Superseded,
    /// Two agents have the same identity, and the other one has the session slot.
    #[error("another agent with the same identity is connected")]
    Contested,
    /// The hub program is near its memory limit, and the session of this cluster used the most.
    #[error("the hub is short of memory, and this cluster used the most")]
    ShortOfMemory,
    /// The principal shuts down; the agent reconnects.
    #[error("principal is shutting down")]
    Draining,
    /// Too many requests from this identity or address.
    #[error("too many requests")]
    TooMany,
    /// The agent's messages violated a rule of the session.
    #[error("protocol violation: {0}")]
    Violation(&'static str),
    /// An error of the principal; deliberately without details.
    #[error("internal server error")]
    Internal,
}

/// What an agent does after a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advice {
    /// Connect again with the usual back-off.
    Retry,
    /// An administrator has to change something: the agent retries slowly and reports it.
    RetrySlowly,
}

impl Refusal {
    /// Stable, bounded text for metric labels and condition reasons.
    pub const fn reason(&self) -> &'static str {
        self.reason_and_code().0
    }

    /// The gRPC code on the wire.
    pub const fn code(&self) -> Code {
        self.reason_and_code().1
    }

    /// The text of [`Self::reason`] and the code of [`Self::code`]. A Go agent authenticates again after Unauthenticated, as it
    /// must after a lost enrolment.
    const fn reason_and_code(&self) -> (&'static str, Code) {
        match self {
            // Go returns a bare error there, which gRPC turns into Unknown
            Self::UnknownMode(_) => ("UnknownMode", Code::Unknown),
            Self::AuthenticationFailed => ("AuthenticationFailed", Code::Unauthenticated),
            Self::VersionRequired => ("VersionRequired", Code::InvalidArgument),
            Self::VersionMismatch => ("VersionMismatch", Code::FailedPrecondition),
            Self::InvalidToken => ("InvalidToken", Code::Unauthenticated),
            Self::Revoked => ("Revoked", Code::Unauthenticated),
            Self::Proof(why) => (why.reason(), Code::Unauthenticated),
            Self::NotEnrolled => ("NotEnrolled", Code::Unauthenticated),
            Self::NotActive(_) => ("NotActive", Code::Unavailable),
            Self::Superseded => ("Superseded", Code::Unavailable),
            Self::Contested => ("Contested", Code::Unavailable),
            Self::ShortOfMemory => ("ShortOfMemory", Code::Unavailable),
            Self::Draining => ("Draining", Code::Unavailable),
            Self::TooMany => ("TooMany", Code::ResourceExhausted),
            Self::Violation(_) => ("ProtocolViolation", Code::Internal),
            Self::Internal => ("Internal", Code::Internal),
        }
    }

    /// The refusal as the status that ends a stream.
    ///
    /// A Go agent leaves a stream on these codes only. After any other code it reads the ended stream in a busy loop.
    pub fn to_stream_status(&self) -> Status {
        let code = self.code();
        let ends_stream = matches!(
            code,
            Code::Unavailable | Code::Unauthenticated | Code::Cancelled
        );
        let code = if ends_stream { code } else { Code::Unavailable };
        Status::new(code, self.to_string())
    }

    /// The refusal as a gRPC status.
    pub fn to_status(&self) -> Status {
        Status::new(self.code(), self.to_string())
    }
}

/// The reaction to the status with which a principal, ours or Go, ended a call.
pub fn advice(status: &Status) -> Advice {
    // An unauthenticated agent retries: enrolment is asynchronous, and the hub may accept the certificate a second later.
    let needs_a_change = matches!(
        status.code(),
        Code::InvalidArgument
            | Code::FailedPrecondition
            | Code::PermissionDenied
            | Code::Unimplemented
            | Code::Unknown
            | Code::NotFound
    );
    if needs_a_change {
        Advice::RetrySlowly
    } else {
        Advice::Retry
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_refusal_makes_a_go_agent_leave_its_stream() {
        for refusal in [
            Refusal::UnknownMode("x".to_owned()),
            Refusal::VersionRequired,
            Refusal::VersionMismatch,
            Refusal::TooMany,
            Refusal::Contested,
            Refusal::Violation("x"),
            Refusal::Internal,
        ] {
            assert_eq!(refusal.to_stream_status().code(), Code::Unavailable);
        }
        let of_token = Refusal::InvalidToken.to_stream_status();
        assert_eq!(of_token.code(), Code::Unauthenticated);
        assert_eq!(Refusal::TooMany.to_status().code(), Code::ResourceExhausted);
    }
}
