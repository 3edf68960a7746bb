//! What we show at each stream that we open.
//!
//! A session outlives the token that it was opened with: a Go principal's are good for five minutes, and it looks at one
//! whenever a log or a terminal is opened. So they are renewed when they are needed.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use protocol::token;
use protocol::wire::authapi::authentication_client::AuthenticationClient;
use protocol::wire::authapi::{AuthRequest, AuthResponse, RefreshTokenRequest};
use tokio::time::Instant;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::{Code, Request, Status};

use super::connect::Carrier;
use super::dial::{self, Error};

/// What a token must be good for at least when it is shown, as Go's agent has it.
const LEAST: Duration = Duration::from_secs(30);

/// A token as it is shown.
pub(crate) type Shown = MetadataValue<Ascii>;

/// The tokens of one session; clones share them.
#[derive(Clone)]
pub(crate) struct Tokens {
    // CurrentToken for a look, never over an await.
    retained: Arc<Mutex<CurrentToken>>,
    /// One renewal at a time; who waits for it finds its token.
    renewing: Arc<tokio::sync::Mutex<()>>,
    /// With what we came in.
    introduction: Arc<AuthRequest>,
}

struct CurrentToken {
    access: Shown,
    /// When the token ends, if it says so.
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

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tokens").finish_non_exhaustive()
    }
}

impl Tokens {
    /// From what the principal has answered to this introduction.
    pub(crate) fn new(introduction: AuthRequest, answer: &AuthResponse) -> Result<Self, Error> {
        let retained = CurrentToken::new(&answer.access_token, answer.refresh_token.clone())?;
        Ok(Self {
            retained: Arc::new(Mutex::new(retained)),
            renewing: Arc::default(),
            introduction: Arc::new(introduction),
        })
    }

    /// Shows the newest token with this request.
    pub(crate) fn show<T>(&self, request: &mut Request<T>) {
        request
            .metadata_mut()
            .insert("authorization", self.access());
    }

    /// The newest token.
    fn access(&self) -> Shown {
        self.lock().access.clone()
    }

    /// A token that is good for a while. If none is to be had, the one there is: the principal knows best.
    pub(crate) async fn fresh(&self, channel: &Carrier) -> Shown {
        let shown = self.access();
        let ends = self.lock().ends;
        if ends.is_none_or(|ends| ends > Instant::now() + LEAST) {
            return shown;
        }
        self.instead_of(&shown, channel).await.unwrap_or(shown)
    }

    /// Another token than this one, which the principal does not take or will not take for long.
    pub(crate) async fn instead_of(&self, shown: &Shown, channel: &Carrier) -> Option<Shown> {
        let _one = self.renewing.lock().await;
        let newest = self.access();
        if newest != shown {
            return Some(newest);
        }
        let answer = self
            .renew(channel)
            .await
            .inspect_err(|status| {
                tracing::warn!(code = ?status.code(), "cannot refresh the session token");
            })
            .ok()?;
        let mut retained = self.lock();
        let refresh = if answer.refresh_token.is_empty() {
            retained.refresh.clone()
        } else {
            answer.refresh_token
        };
        *retained = CurrentToken::new(&answer.access_token, refresh).ok()?;
        Some(retained.access.clone())
    }

    async fn renew(&self, channel: &Carrier) -> Result<AuthResponse, Status> {
        let mut client = AuthenticationClient::new(channel.clone())
            .max_decoding_message_size(dial::CALL_MESSAGE);
        let refresh_token = self.lock().refresh.clone();
        let refreshing = client.refresh_token(Request::new(RefreshTokenRequest { refresh_token }));
        match dial::call(refreshing).await {
            // The session may be older than what it is renewed with.
            Err(status) if status.code() == Code::Unauthenticated => {
                let introduction = AuthRequest::clone(&self.introduction);
                dial::call(client.authenticate(Request::new(introduction))).await
            }
            answered => answered,
        }
    }

    fn lock(&self) -> MutexGuard<'_, CurrentToken> {
        self.retained.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_that_is_missing_or_no_header_is_an_error() {
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
