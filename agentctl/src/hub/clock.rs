//! What an API server is, and how late it believes it is.

use jiff::{SignedDuration, Timestamp};
use kube::client::Body;
use runtime::clock::Clock;
use serde_json::Value;

use super::{Error, Hub};

/// The clock of an API server beside that of this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// How far it is ahead; negative if it is behind.
    pub ahead: SignedDuration,
    /// By how much that may be wrong.
    pub give: SignedDuration,
}

/// What an API server says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct About {
    /// Its version.
    pub version: Option<String>,
    /// Its clock, if it reports one.
    pub clock: Option<Reading>,
}

impl Reading {
    /// From what was answered, and when the question went and the answer came by this machine's clock. Whole seconds are
    /// the precision of the header, and the API wrote it between request and answer.
    pub(super) fn of(date: &str, asked: Timestamp, answered: Timestamp) -> Option<Self> {
        let date = jiff::fmt::rfc2822::parse(date).ok()?.timestamp();
        let took = answered.duration_since(asked);
        let half = took.checked_div(2)?;
        let middle = asked.checked_add(half).ok()?;
        let part = SignedDuration::from_millis(500);
        Some(Self {
            ahead: date.checked_add(part).ok()?.duration_since(middle),
            give: half.checked_add(part)?,
        })
    }
}

impl Hub {
    /// Asks for version and time.
    pub async fn about(&self) -> Result<About, Error> {
        let failed = |error| self.failed("get", "/version", None, error);
        let mut request = http::Request::new(Body::empty());
        *request.uri_mut() = http::Uri::from_static("/version");
        // Logs in and opens a connection, where that takes time; what is timed is the second question.
        self.client.apiserver_version().await.map_err(failed)?;
        let clock = Clock::system();
        let asked = clock.now();
        let answer = self.client.send(request).await.map_err(failed)?;
        let answered = clock.now();
        let date = answer.headers().get(http::header::DATE);
        let date = date.and_then(|date| date.to_str().ok());
        let clock = date.and_then(|date| Reading::of(date, asked, answered));
        let body = answer.into_body().collect_bytes().await;
        let version = body.ok().and_then(|body| {
            let body: Value = serde_json::from_slice(&body).ok()?;
            Some(body.get("gitVersion")?.as_str()?.to_owned())
        });
        Ok(About { version, clock })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clock_reading_includes_latency_and_rounding() {
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        let date = "Sun, 22 Nov 2026 12:00:10 GMT";
        let (asked, answered) = (at("2026-11-22T12:00:00Z"), at("2026-11-22T12:00:01Z"));
        let reading = Reading::of(date, asked, answered).unwrap();
        assert_eq!(reading.ahead, SignedDuration::from_secs(10));
        assert_eq!(reading.give, SignedDuration::from_secs(1));
        assert_eq!(Reading::of("noon", asked, answered), None);
    }
}
