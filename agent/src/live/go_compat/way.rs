//! Along which streams of their own are opened, beside the session: logs, and whatever else is carried on one.

use tonic::{Code, Status};

use crate::transport::Carrier;
use crate::transport::tokens::{Shown, Tokens};

#[derive(Clone)]
pub(super) struct Way {
    channel: Carrier,
    tokens: Tokens,
}

impl Way {
    pub(super) const fn new(channel: Carrier, tokens: Tokens) -> Self {
        Self { channel, tokens }
    }

    /// The connection, and a token that is good for a while.
    pub(super) async fn fresh(&self) -> (Carrier, Shown) {
        (self.channel.clone(), self.tokens.fresh(&self.channel).await)
    }

    /// Opens a stream with a token that is good, and once more with another if the principal does not take it: our
    /// clock and its word of how long one is good may be wrong.
    pub(super) async fn open<F: Future<Output = Opening>>(
        &self,
        attempt: impl Fn(Carrier, Shown) -> F,
    ) {
        let (channel, shown) = self.fresh().await;
        if attempt(channel, shown.clone()).await == Opening::Refused
            && let Some(other) = self.tokens.instead_of(&shown, &self.channel).await
        {
            attempt(self.channel.clone(), other).await;
        }
    }
}

/// Whether the principal has taken the token of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Opening {
    Taken,
    Refused,
}

impl Opening {
    pub(super) fn of<T>(ended: &Result<T, Status>) -> Self {
        match ended {
            Err(status) if status.code() == Code::Unauthenticated => Self::Refused,
            Ok(_) | Err(_) => Self::Taken,
        }
    }
}
