//! Access tokens for the streams that the agent opens.
//!
//! A session outlives its first token: those of a Go principal are valid for five minutes, and it checks one whenever the
//! agent opens a log or a terminal. So the agent renews a token when it needs one.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use protocol::token;
use protocol::wire::authapi::authentication_client::AuthenticationClient;
use protocol::wire::authapi::{AuthRequest, AuthResponse, RefreshTokenRequest};
use tokio::time::Instant;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::{Code, Request, Status};

use super::connect::{CALL_MESSAGE, Carrier, call};
use super::error::Error;
use crate::lock::lock;

/// The least remaining validity of a token in use, as in Go's agent.
const LEAST: Duration = Duration::from_secs(30);

/// A token as the value of a header.
pub(crate) type Shown = MetadataValue<Ascii>;

/// The tokens of one session; clones share them.
#[derive(Clone, derive_more::Debug)]
#[debug("Tokens")]
pub(crate) struct Tokens {
    // Locked for a lookup, never over an await.
    current: Arc<Mutex<CurrentToken>>,
    /// Serializes renewals; a waiting caller uses the new token.
    renewing: Arc<tokio::sync::Mutex<()>>,
    /// The request that opened the session.
    introduction: Arc<AuthRequest>,
}

struct CurrentToken {
    access: Shown,
    /// The token's expiry, if it has one.
    ends: Option<Instant>,
    refresh: String,
}

impl CurrentToken {
    fn new(access: &str, refresh: String) -> Result<Self, Error> {
        let bad = |what| Error::BadAnswer { what };
        if access.is_empty() {
            return Err(bad("it has no access token"));
        }
        let mut shown: Shown = access
            .parse()
            .map_err(|_error| bad("its access token is not text"))?;
        shown.set_sensitive(true);
        let now = Instant::now();
        Ok(Self {
            access: shown,
            ends: token::life(access).and_then(|life| now.checked_add(life)),
            refresh,
        })
    }
}

impl Tokens {
    /// The tokens in the principal's answer to this request.
    pub(crate) fn new(introduction: AuthRequest, answer: &AuthResponse) -> Result<Self, Error> {
        let current = CurrentToken::new(&answer.access_token, answer.refresh_token.clone())?;
        Ok(Self {
            current: Arc::new(Mutex::new(current)),
            renewing: Arc::default(),
            introduction: Arc::new(introduction),
        })
    }

    /// Adds the newest token to this request.
    pub(crate) fn show<T>(&self, request: &mut Request<T>) {
        request
            .metadata_mut()
            .insert("authorization", self.access());
    }

    /// The newest token.
    fn access(&self) -> Shown {
        lock(&self.current).access.clone()
    }

    /// A token that stays valid for a while; the current one if the renewal fails, since the principal decides.
    pub(crate) async fn fresh(&self, channel: &Carrier) -> Shown {
        let shown = self.access();
        let ends = lock(&self.current).ends;
        if ends.is_none_or(|ends| ends > Instant::now() + LEAST) {
            return shown;
        }
        self.instead_of(&shown, channel).await.unwrap_or(shown)
    }

    /// A newer token than this one, which the principal rejects or soon will.
    pub(crate) async fn instead_of(&self, shown: &Shown, channel: &Carrier) -> Option<Shown> {
        let _one = self.renewing.lock().await;
        let newest = self.access();
        if newest != shown {
            return Some(newest);
        }
        let renewed = self.renew(channel).await.inspect_err(|status| {
            tracing::warn!(code = ?status.code(), "cannot refresh the session token");
        });
        let answer = renewed.ok()?;
        let mut current = lock(&self.current);
        let refresh = match answer.refresh_token.as_str() {
            "" => current.refresh.clone(),
            token => token.to_owned(),
        };
        *current = CurrentToken::new(&answer.access_token, refresh).ok()?;
        Some(current.access.clone())
    }

    async fn renew(&self, channel: &Carrier) -> Result<AuthResponse, Status> {
        let mut client =
            AuthenticationClient::new(channel.clone()).max_decoding_message_size(CALL_MESSAGE);
        let refresh_token = lock(&self.current).refresh.clone();
        let refreshing = client.refresh_token(Request::new(RefreshTokenRequest { refresh_token }));
        match call(refreshing).await {
            // The session may be older than the life of a refresh token.
            Err(status) if status.code() == Code::Unauthenticated => {
                let introduction = AuthRequest::clone(&self.introduction);
                call(client.authenticate(Request::new(introduction))).await
            }
            answered => answered,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_or_malformed_token_is_an_error() {
        for token in ["", "line\nbreak"] {
            let answer = AuthResponse {
                access_token: token.to_owned(),
                ..AuthResponse::default()
            };
            let tokens = Tokens::new(AuthRequest::default(), &answer);
            assert!(matches!(tokens, Err(Error::BadAnswer { .. })), "{token:?}");
        }
    }

    #[test]
    fn tokens_are_never_printed() {
        let answer = AuthResponse {
            access_token: "open-sesame".to_owned(),
            refresh_token: "open-sesame".to_owned(),
            ..AuthResponse::default()
        };
        let introduction = AuthRequest {
            credentials: [("clientsecret".to_owned(), "open-sesame".to_owned())].into(),
            ..AuthRequest::default()
        };
        let tokens = Tokens::new(introduction, &answer).unwrap();
        assert!(!format!("{tokens:?}").contains("sesame"));
        assert!(!format!("{:?}", tokens.access()).contains("sesame"));
    }
}
