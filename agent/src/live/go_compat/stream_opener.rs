//! Opens separate streams beside the session, for logs and terminals.

use tonic::{Code, Status};

use crate::transport::Carrier;
use crate::transport::tokens::{Shown, Tokens};

#[derive(Clone)]
pub(super) struct StreamOpener {
    channel: Carrier,
    tokens: Tokens,
}

impl StreamOpener {
    pub(super) const fn new(channel: Carrier, tokens: Tokens) -> Self {
        Self { channel, tokens }
    }

    /// The connection, and a token that stays valid for a while.
    pub(super) async fn fresh(&self) -> (Carrier, Shown) {
        (self.channel.clone(), self.tokens.fresh(&self.channel).await)
    }

    /// Opens a stream with a valid token, and once more with a new one if the principal rejects it: our clock or the
    /// token's expiry may be wrong.
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

/// Whether the principal accepted the token of a stream.
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
