//! Opens separate streams beside the session, for logs and terminals.

use tonic::{Code, Status};

use crate::transport::Carrier;
use crate::transport::tokens::{Shown, Tokens};

#[derive(Clone)]
pub(super) struct StreamOpener {
    pub(super) channel: Carrier,
    pub(super) tokens: Tokens,
}

impl StreamOpener {
    /// The connection, and a token that stays valid for a while.
    pub(super) async fn fresh(&self) -> (Carrier, Shown) {
        (self.channel.clone(), self.tokens.fresh(&self.channel).await)
    }

    /// Opens a stream with a valid token, and once more with a new one if the principal rejects it: our clock or the
    /// token's expiry may be wrong.
    pub(super) async fn open<F: Future<Output = Result<(), Status>>>(
        &self,
        attempt: impl Fn(Carrier, Shown) -> F,
    ) {
        let (channel, shown) = self.fresh().await;
        if let Err(status) = attempt(channel, shown.clone()).await
            && status.code() == Code::Unauthenticated
            && let Some(other) = self.tokens.instead_of(&shown, &self.channel).await
        {
            let _ended = attempt(self.channel.clone(), other).await;
        }
    }
}
