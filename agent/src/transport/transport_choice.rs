//! Chooses between HTTP/2 and `WebSocket`s from the outcomes of earlier attempts. Pure.

use std::time::Duration;

use tokio::time::Instant;

/// How long `WebSocket`s stay the first choice after they worked: proxies seldom change, and such a session is only
/// slower.
const REMEMBERED: Duration = Duration::from_hours(1);

/// The transport of calls to the principal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transport {
    /// One connection of HTTP/2.
    Http2,
    /// A WebSocket over HTTP/1.1 for each call.
    WebSocket,
}

impl Transport {
    /// The name in logs and metrics.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Http2 => "http2",
            Self::WebSocket => "websocket",
        }
    }
}

/// What an attempt shows about its transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The principal answered.
    Connected,
    /// The server answered, but not with gRPC. A load balancer without a backend looks the same.
    NotGrpc,
    /// Unary calls work, but the event stream stays silent.
    Stalled,
    /// The attempt shows nothing about the transport: unreachable, or rejected.
    Unknown,
}

/// Remembers the outcomes.
#[derive(Debug)]
pub(crate) struct TransportChoice {
    forced: bool,
    state: State,
    /// How long `WebSocket`s come first.
    remembered: Option<Instant>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// HTTP/2 may work.
    Open,
    /// HTTP/2 failed at the last attempt; perhaps `WebSocket`s would have failed too.
    Doubt,
    /// HTTP/2 does not carry sessions.
    Certain,
    /// `WebSocket`s worked after a doubt: now that the principal answers, HTTP/2 gets another attempt.
    Probing,
}

impl TransportChoice {
    /// An automatic choice, or `WebSocket`s only.
    pub(crate) const fn new(only_websockets: bool) -> Self {
        Self {
            forced: only_websockets,
            state: State::Open,
            remembered: None,
        }
    }

    /// The transport to try next.
    pub(crate) fn next(&self, now: Instant) -> Transport {
        if self.forced {
            return Transport::WebSocket;
        }
        match self.state {
            State::Doubt | State::Certain => Transport::WebSocket,
            State::Open if self.remembered.is_some_and(|until| now < until) => Transport::WebSocket,
            State::Open | State::Probing => Transport::Http2,
        }
    }

    /// Whether to try HTTP/2 once more before settling on `WebSocket`s.
    pub(crate) fn is_probing(&self) -> bool {
        !self.forced && self.state == State::Probing
    }

    /// Notes the outcome of an attempt.
    pub(crate) fn note(&mut self, transport: Transport, outcome: Outcome, now: Instant) {
        let before = std::mem::replace(&mut self.state, State::Open);
        let is_probe = before == State::Probing;
        match (transport, outcome) {
            (Transport::Http2, Outcome::Connected)
            | (Transport::WebSocket, Outcome::NotGrpc | Outcome::Stalled) => {
                self.remembered = None;
            }
            (Transport::Http2, Outcome::NotGrpc) if is_probe => self.remember(now),
            (Transport::Http2, Outcome::NotGrpc) => self.state = State::Doubt,
            (Transport::Http2, Outcome::Stalled) => self.state = State::Certain,
            (Transport::WebSocket, Outcome::Connected) if before == State::Doubt => {
                self.state = State::Probing;
            }
            (Transport::WebSocket, Outcome::Connected) => self.remember(now),
            (Transport::Http2 | Transport::WebSocket, Outcome::Unknown) if is_probe => {}
            (Transport::Http2 | Transport::WebSocket, Outcome::Unknown) => self.state = before,
        }
    }

    /// Later sessions do not extend the time, so that HTTP/2 gets its next attempt.
    fn remember(&mut self, now: Instant) {
        if self.remembered.is_none_or(|until| now >= until) {
            self.remembered = Some(now + REMEMBERED);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn websocket_fallback_is_remembered_for_an_hour() {
        let mut choice = TransportChoice::new(false);
        let start = Instant::now();
        assert_eq!(choice.next(start), Transport::Http2);
        choice.note(Transport::Http2, Outcome::NotGrpc, start);
        assert_eq!(choice.next(start), Transport::WebSocket);
        choice.note(Transport::WebSocket, Outcome::Connected, start);
        assert!(choice.is_probing());
        assert_eq!(choice.next(start), Transport::Http2);
        choice.note(Transport::Http2, Outcome::NotGrpc, start);
        let nearly = start + Duration::from_mins(59);
        assert_eq!(choice.next(nearly), Transport::WebSocket);
        choice.note(Transport::WebSocket, Outcome::Connected, nearly);
        assert!(!choice.is_probing());
        assert_eq!(
            choice.next(start + Duration::from_hours(1)),
            Transport::Http2
        );
    }

    #[tokio::test(start_paused = true)]
    async fn http2_is_used_after_a_late_start_of_the_hub() {
        let mut choice = TransportChoice::new(false);
        let now = Instant::now();
        choice.note(Transport::Http2, Outcome::NotGrpc, now);
        choice.note(Transport::WebSocket, Outcome::Connected, now);
        choice.note(Transport::Http2, Outcome::Connected, now);
        assert_eq!(choice.next(now), Transport::Http2);
        assert!(!choice.is_probing());
    }

    #[tokio::test(start_paused = true)]
    async fn websocket_without_failed_http2_is_kept_without_a_probe() {
        let mut choice = TransportChoice::new(false);
        let now = Instant::now();
        choice.note(Transport::WebSocket, Outcome::Connected, now);
        assert_eq!(choice.next(now), Transport::WebSocket);
        assert!(!choice.is_probing());
    }

    #[tokio::test(start_paused = true)]
    async fn http2_that_carries_calls_but_no_sessions_is_abandoned() {
        let mut choice = TransportChoice::new(false);
        let now = Instant::now();
        choice.note(Transport::Http2, Outcome::Connected, now);
        choice.note(Transport::Http2, Outcome::Stalled, now);
        assert_eq!(choice.next(now), Transport::WebSocket);
        choice.note(Transport::WebSocket, Outcome::Connected, now);
        assert!(!choice.is_probing());
        assert_eq!(choice.next(now), Transport::WebSocket);
    }

    #[tokio::test(start_paused = true)]
    async fn an_unreachable_hub_does_not_change_the_transport() {
        let mut choice = TransportChoice::new(false);
        let now = Instant::now();
        choice.note(Transport::Http2, Outcome::Unknown, now);
        assert_eq!(choice.next(now), Transport::Http2);
        choice.note(Transport::Http2, Outcome::NotGrpc, now);
        choice.note(Transport::WebSocket, Outcome::Unknown, now);
        assert_eq!(choice.next(now), Transport::WebSocket);
    }

    #[tokio::test(start_paused = true)]
    async fn transports_alternate_while_both_fail() {
        let mut choice = TransportChoice::new(false);
        let now = Instant::now();
        let mut tried = vec![];
        for _ in 0..4 {
            let transport = choice.next(now);
            tried.push(transport);
            choice.note(transport, Outcome::NotGrpc, now);
        }
        assert_eq!(
            tried,
            [
                Transport::Http2,
                Transport::WebSocket,
                Transport::Http2,
                Transport::WebSocket
            ]
        );
    }

    #[tokio::test(start_paused = true)]
    async fn forced_websockets_are_always_used() {
        let mut choice = TransportChoice::new(true);
        let now = Instant::now();
        choice.note(Transport::WebSocket, Outcome::NotGrpc, now);
        assert_eq!(
            choice.next(now + Duration::from_hours(2)),
            Transport::WebSocket
        );
    }
}
