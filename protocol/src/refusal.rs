//! Why an authentication or a session is refused, and how both ends say it.

use tonic::{Code, Status};

use crate::proof;

/// Why a peer is turned away. The texts that the Go implementation fixed are kept.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// `AuthRequest.mode` is neither managed nor autonomous.
    #[error("unknown agent mode: {0}")]
    UnknownMode(String),
    /// Method unknown, credentials wrong, or no name in them. Deliberately says no more.
    #[error("authentication failed")]
    AuthenticationFailed,
    /// The agent presented no version.
    #[error("agent version is required")]
    VersionRequired,
    /// The version cannot work with ours.
    #[error("version mismatch")]
    VersionMismatch,
    /// Token missing, expired, of another key, or bound to another certificate.
    #[error("invalid authentication data")]
    InvalidToken,
    /// What the agent showed is on the revocation list.
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
    /// Two agents have one identity, and it is the other one's turn.
    #[error("another agent with the same identity is connected")]
    Contested,
    /// The principal is going away; connect again.
    #[error("principal is shutting down")]
    Draining,
    /// Too much at once from this identity or address.
    #[error("too many requests")]
    TooMany,
    /// The agent's messages broke a rule of the session.
    #[error("protocol violation: {0}")]
    Violation(&'static str),
    /// Ours to mend; says nothing about why.
    #[error("internal server error")]
    Internal,
}

/// What an agent does after a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advice {
    /// Connect again with the usual back-off.
    Retry,
    /// A person has to change something: keep trying, slowly, and say so.
    RetrySlowly,
}

impl Refusal {
    /// Stable, bounded text for metric labels and condition reasons.
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::UnknownMode(_) => "UnknownMode",
            Self::AuthenticationFailed => "AuthenticationFailed",
            Self::VersionRequired => "VersionRequired",
            Self::VersionMismatch => "VersionMismatch",
            Self::InvalidToken => "InvalidToken",
            Self::Revoked => "Revoked",
            Self::Proof(why) => why.reason(),
            Self::NotEnrolled => "NotEnrolled",
            Self::NotActive(_) => "NotActive",
            Self::Superseded => "Superseded",
            Self::Contested => "Contested",
            Self::Draining => "Draining",
            Self::TooMany => "TooMany",
            Self::Violation(_) => "ProtocolViolation",
            Self::Internal => "Internal",
        }
    }

    /// The gRPC code on the wire.
    pub const fn code(&self) -> Code {
        match self {
            // Go returns a bare error there, which gRPC turns into Unknown
            Self::UnknownMode(_) => Code::Unknown,
            // a Go agent connects anew on Unauthenticated, which is what a lost enrolment needs
            Self::AuthenticationFailed
            | Self::InvalidToken
            | Self::NotEnrolled
            | Self::Revoked
            | Self::Proof(_) => Code::Unauthenticated,
            Self::VersionRequired => Code::InvalidArgument,
            Self::VersionMismatch => Code::FailedPrecondition,
            Self::NotActive(_) | Self::Superseded | Self::Contested | Self::Draining => {
                Code::Unavailable
            }
            Self::TooMany => Code::ResourceExhausted,
            Self::Violation(_) | Self::Internal => Code::Internal,
        }
    }

    /// The refusal as the status that ends a stream.
    ///
    /// A Go agent leaves a stream on these codes only; with any other it reads the end again and again, without a pause
    /// and for ever.
    pub fn to_stream_status(&self) -> Status {
        let code = self.code();
        let is_left = matches!(
            code,
            Code::Unavailable | Code::Unauthenticated | Code::Cancelled
        );
        let code = if is_left { code } else { Code::Unavailable };
        Status::new(code, self.to_string())
    }

    /// The refusal as a gRPC status.
    pub fn to_status(&self) -> Status {
        Status::new(self.code(), self.to_string())
    }
}

impl From<Refusal> for Status {
    fn from(refusal: Refusal) -> Self {
        refusal.to_status()
    }
}

/// What to do after the status with which a principal, ours or Go, ended a call.
pub fn advice(status: &Status) -> Advice {
    match status.code() {
        Code::InvalidArgument
        | Code::FailedPrecondition
        | Code::PermissionDenied
        | Code::Unimplemented
        | Code::Unknown
        | Code::NotFound => Advice::RetrySlowly,
        // a certificate that the hub does not take (yet) may be taken in a second: enrolment is asynchronous
        Code::Unauthenticated
        | Code::Ok
        | Code::Cancelled
        | Code::DeadlineExceeded
        | Code::AlreadyExists
        | Code::ResourceExhausted
        | Code::Aborted
        | Code::OutOfRange
        | Code::Internal
        | Code::Unavailable
        | Code::DataLoss => Advice::Retry,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_go_agent_leaves_a_stream_whatever_ends_it() {
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
