//! The inputs of a session.

use protocol::{Event, Verdict, WorkId, wire::eventstreamapi::Event as Frame};

use crate::sync::session::end::Over;

/// The first input.
pub(super) enum Next {
    Over(Over),
    Frame(Frame),
    /// A finished piece of work, with its verdict and the reason of a refusal as a word.
    Worked(WorkId, Verdict, Option<&'static str>),
    /// The enrolments, or a user's confirmation, have changed.
    Fleet,
    /// A request of a user to the cluster of a Go agent.
    GoRequest(Event),
    /// Notes, room on the stream, or time: each turn checks all of them.
    Turn,
}
