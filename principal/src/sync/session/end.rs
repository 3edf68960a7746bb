//! How a session ends, and who is told what about it.

use std::time::Duration;

use protocol::{Violation, refusal::Refusal, wire::eventstreamapi::Event as Frame};
use tokio::sync::mpsc;
use tonic::Status;

use crate::admission::registry::{End, SessionSlot};

/// What a peer that does not read any more gets to take in the reason of its end.
const LAST_WORD: Duration = Duration::from_secs(1);

/// What is wrong with a message that was not read.
const TOO_LARGE: &str = "a message above the size limit";

/// How a session ended.
#[derive(Debug)]
pub(super) enum Over {
    /// The hub ended it.
    Hub(End),
    /// The peer went away; the text is for people.
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

    /// What the peer is told, if it is still there.
    fn last_word(&self) -> Option<Refusal> {
        match self {
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

    fn for_people(&self) -> String {
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
    session_slot.ends_because(over.for_people());
    // The seat first: whoever waits for it must not wait for a slow peer.
    drop(session_slot);
    if let Some(refusal) = over.last_word() {
        send_refusal(outbound, &refusal).await;
    }
}

/// Ends a stream with the reason, if the peer takes it in.
pub(super) async fn send_refusal(
    outbound: &mpsc::Sender<Result<Frame, Status>>,
    refusal: &Refusal,
) {
    let reply = outbound.send(Err(refusal.to_stream_status()));
    if tokio::time::timeout(LAST_WORD, reply).await.is_err() {
        tracing::debug!("the peer did not read the reason of the end of its session");
    }
}
