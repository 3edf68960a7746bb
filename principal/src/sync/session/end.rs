//! How a session ends, and which peers and reports get the reason.

use std::time::Duration;

use protocol::{Violation, refusal::Refusal, wire::eventstreamapi::Event as Frame};
use tokio::sync::mpsc;
use tonic::Status;

use crate::admission::registry::{End, SessionSlot};

/// The time for a peer that does not read to take in the reason.
const SEND_TIMEOUT: Duration = Duration::from_secs(1);

/// The problem of a message that was not read.
const TOO_LARGE: &str = "a message above the size limit";

/// How a session ended.
#[derive(Debug)]
pub(super) enum Over {
    /// The hub ended it.
    Hub(End),
    /// The peer disconnected; the text is for users.
    Peer(String),
    /// The peer broke a rule.
    Violation(Violation),
    /// The peer sent a message that is larger than we read.
    TooLarge,
}

impl Over {
    pub(super) const fn reason(&self) -> &'static str {
        match self {
            Self::Hub(end) => end.reason(),
            Self::Peer(_) => "peer",
            Self::Violation(_) | Self::TooLarge => "violation",
        }
    }

    /// The reason for the peer, if it may still be there.
    fn refusal(&self) -> Option<Refusal> {
        match self {
            Self::Hub(End::Memory) => Some(Refusal::ShortOfMemory),
            Self::Hub(End::Superseded) => Some(Refusal::Superseded),
            Self::Hub(End::LeftFleet | End::ModeChanged) => Some(Refusal::NotEnrolled),
            Self::Hub(End::Certificate | End::Password) => Some(Refusal::AuthenticationFailed),
            Self::Hub(End::Revoked) => Some(Refusal::Revoked),
            Self::Hub(End::Inactive) => Some(Refusal::NotActive("standby".to_owned())),
            Self::Hub(End::Life | End::Rewound | End::Stopping) => Some(Refusal::Draining),
            Self::Peer(_) => None,
            Self::Violation(Violation::TooMuchWork) => Some(Refusal::Violation(
                "too much unfinished work for one session",
            )),
            Self::Violation(Violation::AcksNotRead) => Some(Refusal::Violation(
                "the peer does not read acknowledgements",
            )),
            Self::TooLarge => Some(Refusal::Violation(TOO_LARGE)),
        }
    }

    fn message(&self) -> String {
        match self {
            Self::Hub(end) => format!("ended by the hub: {}", end.reason()),
            Self::Peer(why) => why.clone(),
            Self::Violation(violation) => violation.to_string(),
            Self::TooLarge => format!("the agent sent {TOO_LARGE}"),
        }
    }
}

/// Ends a session: the reason goes into the report, and to the peer if it still listens.
pub(super) async fn close(
    mut session_slot: SessionSlot,
    outbound: &mpsc::Sender<Result<Frame, Status>>,
    over: Over,
) {
    session_slot.end_reason = Some(over.message());
    // Frees the slot first: the next session must not wait for a slow peer.
    drop(session_slot);
    if let Some(refusal) = over.refusal() {
        send_refusal(outbound, &refusal).await;
    }
}

/// Ends a stream with the reason, unless the peer does not read it.
pub(super) async fn send_refusal(
    outbound: &mpsc::Sender<Result<Frame, Status>>,
    refusal: &Refusal,
) {
    let sending = outbound.send(Err(refusal.to_stream_status()));
    if tokio::time::timeout(SEND_TIMEOUT, sending).await.is_err() {
        tracing::debug!("the peer did not read the reason of the end of its session");
    }
}
