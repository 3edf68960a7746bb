//! Calls without a stream whose request or answer is lost while the connection stays open.

use super::Line;
use crate::dice::Dice;
use crate::fault::is_harsh;
use tonic::Status;

/// The part of a call that is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lost {
    Nothing,
    /// The principal never sees the request.
    Request,
    /// The principal carries the request out.
    Answer,
}

impl Lost {
    /// As often as the messages of streams are lost. No dice are thrown where nothing is lost.
    pub(super) fn drawn(line: &Line, dice: &Dice, is_stream: bool) -> Self {
        let often = line.now().loss;
        let is_harsh = is_harsh(line.network.fault);
        if is_stream || !is_harsh || often == 0.0 || !dice.probability(often) {
            Self::Nothing
        } else if dice.probability(0.5) {
            Self::Request
        } else {
            Self::Answer
        }
    }
}

/// The answer never comes; the caller gives up, or the connection breaks.
pub(super) async fn silence(line: &Line) -> Status {
    line.broken.cancelled().await;
    Line::lost()
}
