//! HTTP/2 or `WebSocket`s: what to try next, from what got through before. Pure.

use std::time::Duration;

use tokio::time::Instant;

/// How long `WebSocket`s stay the first choice after they were the way through: a proxy is seldom changed, and a session
/// over them lacks nothing but speed.
const REMEMBERED: Duration = Duration::from_hours(1);

/// What the principal is talked to over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// One connection of HTTP/2.
    Http2,
    /// A WebSocket over HTTP/1.1 for each call.
    WebSocket,
}

impl Way {
    /// A word for logs and metrics.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Http2 => "http2",
            Self::WebSocket => "websocket",
        }
    }
}

/// What an attempt says about its way.
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

/// Remembers what got through.
#[derive(Debug)]
pub(crate) struct TransportChoice {
    forced: bool,
    state: State,
    /// Until when `WebSocket`s come first.
    remembered: Option<Instant>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Nothing speaks against HTTP/2.
    Open,
    /// HTTP/2 did not get through last time, and perhaps nothing would have.
    Doubt,
    /// It does not carry sessions.
    Certain,
    /// `WebSocket`s got through after a doubt: now that somebody answers, HTTP/2 is asked again.
    Probing,
}

impl TransportChoice {
    /// Chooses by itself, unless `WebSocket`s are asked for.
    pub(crate) const fn new(only_websockets: bool) -> Self {
        Self {
            forced: only_websockets,
            state: State::Open,
            remembered: None,
        }
    }

    /// What to try now.
    pub(crate) fn next(&self, now: Instant) -> Way {
        if self.forced {
            return Way::WebSocket;
        }
        let is_remembered = self.remembered.is_some_and(|until| now < until);
        match self.state {
            State::Doubt | State::Certain => Way::WebSocket,
            State::Probing => Way::Http2,
            State::Open => first(is_remembered),
        }
    }

    /// Whether HTTP/2 is to be asked once more before `WebSocket`s are settled on.
    pub(crate) fn is_probing(&self) -> bool {
        !self.forced && self.state == State::Probing
    }

    /// Notes how an attempt went.
    pub(crate) fn note(&mut self, way: Way, outcome: Outcome, now: Instant) {
        let before = std::mem::replace(&mut self.state, State::Open);
        let is_probe = before == State::Probing;
        match (way, outcome) {
            (Way::Http2, Outcome::Connected)
            | (Way::WebSocket, Outcome::NotGrpc | Outcome::Stalled) => {
                self.remembered = None;
            }
            (Way::Http2, Outcome::NotGrpc) if is_probe => self.remember(now),
            (Way::Http2, Outcome::NotGrpc) => self.state = State::Doubt,
            (Way::Http2, Outcome::Stalled) => self.state = State::Certain,
            (Way::WebSocket, Outcome::Connected) => {
                if before == State::Doubt {
                    self.state = State::Probing;
                } else {
                    self.remember(now);
                }
            }
            (Way::Http2 | Way::WebSocket, Outcome::Unknown) => {
                if !is_probe {
                    self.state = before;
                }
            }
        }
    }

    /// Not moved on by later sessions: HTTP/2 gets its next chance.
    fn remember(&mut self, now: Instant) {
        if self.remembered.is_none_or(|until| now >= until) {
            self.remembered = Some(now + REMEMBERED);
        }
    }
}

const fn first(is_remembered: bool) -> Way {
    if is_remembered {
        Way::WebSocket
    } else {
        Way::Http2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn websocket_fallback_is_remembered_for_an_hour() {
        let mut ways = TransportChoice::new(false);
        let start = Instant::now();
        assert_eq!(ways.next(start), Way::Http2);
        ways.note(Way::Http2, Outcome::NotGrpc, start);
        assert_eq!(ways.next(start), Way::WebSocket);
        ways.note(Way::WebSocket, Outcome::Connected, start);
        assert!(ways.is_probing());
        assert_eq!(ways.next(start), Way::Http2);
        ways.note(Way::Http2, Outcome::NotGrpc, start);
        let nearly = start + Duration::from_mins(59);
        assert_eq!(ways.next(nearly), Way::WebSocket);
        ways.note(Way::WebSocket, Outcome::Connected, nearly);
        assert!(!ways.is_probing());
        assert_eq!(ways.next(start + Duration::from_hours(1)), Way::Http2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_hub_that_only_started_late_is_talked_to_over_http2() {
        let mut ways = TransportChoice::new(false);
        let now = Instant::now();
        ways.note(Way::Http2, Outcome::NotGrpc, now);
        ways.note(Way::WebSocket, Outcome::Connected, now);
        ways.note(Way::Http2, Outcome::Connected, now);
        assert_eq!(ways.next(now), Way::Http2);
        assert!(!ways.is_probing());
    }

    #[tokio::test(start_paused = true)]
    async fn where_the_other_end_chooses_http_1_1_nothing_is_in_doubt() {
        let mut ways = TransportChoice::new(false);
        let now = Instant::now();
        ways.note(Way::WebSocket, Outcome::Connected, now);
        assert_eq!(ways.next(now), Way::WebSocket);
        assert!(!ways.is_probing());
    }

    #[tokio::test(start_paused = true)]
    async fn a_way_that_carries_calls_and_no_sessions_is_left_for_certain() {
        let mut ways = TransportChoice::new(false);
        let now = Instant::now();
        ways.note(Way::Http2, Outcome::Connected, now);
        ways.note(Way::Http2, Outcome::Stalled, now);
        assert_eq!(ways.next(now), Way::WebSocket);
        ways.note(Way::WebSocket, Outcome::Connected, now);
        assert!(!ways.is_probing());
        assert_eq!(ways.next(now), Way::WebSocket);
    }

    #[tokio::test(start_paused = true)]
    async fn a_hub_that_is_away_says_nothing_about_the_way() {
        let mut ways = TransportChoice::new(false);
        let now = Instant::now();
        ways.note(Way::Http2, Outcome::Unknown, now);
        assert_eq!(ways.next(now), Way::Http2);
        ways.note(Way::Http2, Outcome::NotGrpc, now);
        ways.note(Way::WebSocket, Outcome::Unknown, now);
        assert_eq!(ways.next(now), Way::WebSocket);
    }

    #[tokio::test(start_paused = true)]
    async fn when_neither_gets_through_they_take_turns() {
        let mut ways = TransportChoice::new(false);
        let now = Instant::now();
        let mut tried = vec![];
        for _ in 0..4 {
            let way = ways.next(now);
            tried.push(way);
            ways.note(way, Outcome::NotGrpc, now);
        }
        assert_eq!(
            tried,
            [Way::Http2, Way::WebSocket, Way::Http2, Way::WebSocket]
        );
    }

    #[tokio::test(start_paused = true)]
    async fn who_asks_for_websockets_gets_them_only() {
        let mut ways = TransportChoice::new(true);
        let now = Instant::now();
        ways.note(Way::WebSocket, Outcome::NotGrpc, now);
        assert_eq!(ways.next(now + Duration::from_hours(2)), Way::WebSocket);
    }
}
