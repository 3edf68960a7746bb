//! Parses and sanitizes the Events of a cluster.

use std::fmt;

use jiff::Timestamp;
use serde::{
    Deserialize, Deserializer,
    de::{self, SeqAccess, Visitor},
};

use argocd::claim;

/// The most Events of one Application that are requested and read.
pub(super) const MOST: usize = 500;
/// The limit of the API for Events.
const LONGEST_MESSAGE: usize = 1024;
const LONGEST_WORD: usize = 128;
/// The types of Events.
const SEVERITIES: [&str; 2] = ["Normal", "Warning"];

/// A cluster's response: a list of unchecked Events.
#[derive(Debug, Default, Deserialize)]
pub struct Noted {
    /// At most the requested number, however small each is on the wire.
    #[serde(default, deserialize_with = "few")]
    items: Vec<Claim>,
}

/// The cluster's response is not a list of Events.
#[derive(Debug, thiserror::Error)]
#[error("read a list of Events")]
pub struct Unreadable(#[source] serde_json::Error);

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Claim {
    metadata: About,
    involved_object: About,
    #[serde(rename = "type")]
    severity: Option<String>,
    reason: Option<String>,
    message: Option<String>,
    action: Option<String>,
    source: Source,
    reporting_component: Option<String>,
    count: Option<i64>,
    first_timestamp: Option<String>,
    last_timestamp: Option<String>,
    event_time: Option<String>,
    series: Option<Series>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct About {
    kind: Option<String>,
    namespace: Option<String>,
    name: Option<String>,
    uid: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Source {
    component: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Series {
    count: Option<i64>,
    last_observed_time: Option<String>,
}

/// The checked fields of one Event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Observation {
    /// The UID of the Event there.
    pub(super) id: String,
    /// The UID of its involved object there.
    pub(super) of: String,
    /// One of [`SEVERITIES`].
    pub(super) severity: String,
    pub(super) reason: String,
    pub(super) message: String,
    pub(super) action: Option<String>,
    pub(super) component: String,
    pub(super) count: i32,
    /// In seconds.
    pub(super) first: i64,
    pub(super) last: i64,
}

impl Noted {
    /// Parses a response. Rejects more Events than were requested.
    pub fn read(answer: &[u8]) -> Result<Self, Unreadable> {
        serde_json::from_slice(answer).map_err(Unreadable)
    }

    /// Whether there are no Events.
    pub const fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// The valid Events about this Application there.
    pub(super) fn observations(self, namespace: &str, name: &str) -> Vec<Observation> {
        let is_about = |claim: &Claim| {
            let about = &claim.involved_object;
            about.kind.as_deref() == Some("Application")
                && about.namespace.as_deref() == Some(namespace)
                && about.name.as_deref() == Some(name)
        };
        let about = self.items.into_iter().filter(is_about);
        about.filter_map(Claim::observation).collect()
    }
}

impl Claim {
    fn observation(self) -> Option<Observation> {
        let series = self.series.unwrap_or_default();
        let first = self.first_timestamp.as_deref().and_then(second);
        let begun = self.event_time.as_deref().and_then(second);
        let last = self.last_timestamp.as_deref().and_then(second);
        let last = last
            .or_else(|| series.last_observed_time.as_deref().and_then(second))
            .or(begun)
            .or(first)?;
        let component = self.source.component.filter(|it| !it.is_empty());
        let component = component.or(self.reporting_component).unwrap_or_default();
        let count = self.count.or(series.count).unwrap_or(1).max(1);
        Some(Observation {
            id: word(self.metadata.uid)?,
            of: word(self.involved_object.uid)?,
            severity: self
                .severity
                .filter(|it| SEVERITIES.contains(&it.as_str()))?,
            reason: word(self.reason)?,
            message: message(&self.message.unwrap_or_default()),
            action: word(self.action),
            component: word(Some(component)).unwrap_or_default(),
            count: i32::try_from(count).unwrap_or(i32::MAX),
            first: first.or(begun).map_or(last, |first| first.min(last)),
            last,
        })
    }
}

/// An identifier, or none if it has other characters or is too long.
fn word(text: Option<String>) -> Option<String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || "-_./".contains(c);
    text.filter(|it| (1..=LONGEST_WORD).contains(&it.len()) && it.chars().all(fits))
}

/// Cuts a message to the limit of the API, which counts bytes.
fn message(text: &str) -> String {
    let mut message = claim::words(text, LONGEST_MESSAGE);
    while message.len() > LONGEST_MESSAGE {
        message.pop();
    }
    message
}

fn second(text: &str) -> Option<i64> {
    text.parse().ok().map(Timestamp::as_second)
}

/// A time in the format of the API.
pub(super) fn seconds(at: i64) -> String {
    Timestamp::from_second(at).unwrap_or_default().to_string()
}

fn few<'de, D: Deserializer<'de>>(input: D) -> Result<Vec<Claim>, D::Error> {
    input.deserialize_any(Few)
}

struct Few;

impl<'de> Visitor<'de> for Few {
    type Value = Vec<Claim>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at most {MOST} Events")
    }

    fn visit_unit<E: de::Error>(self) -> Result<Self::Value, E> {
        Ok(Vec::new())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut events: A) -> Result<Self::Value, A::Error> {
        let mut items = Vec::new();
        while let Some(event) = events.next_element()? {
            if items.len() >= MOST {
                let problem = "there are more Events than were asked for";
                return Err(de::Error::custom(problem));
            }
            items.push(event);
        }
        Ok(items)
    }
}
