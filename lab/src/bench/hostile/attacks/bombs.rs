//! Small messages that become large.

use anyhow::{Context as _, Result};
use protocol::{Event, Verb};
use tokio::time::Instant;

use super::Observed;
use crate::{
    bench::hostile::attacker::{Attacker, Named, about, raw},
    raw_client::Answer,
};

fn status(of: &Named, version: u64, body: String) -> Event {
    let mut event = about(of, Verb::StatusUpdate, version, &serde_json::Value::Null);
    event.payload = body.into();
    event
}

pub(super) async fn deep_json(attacker: &Attacker, _until: Instant) -> Result<Observed> {
    let own = attacker.own().await?;
    let bodies = ["[".repeat(1 << 20), "{\"a\":".repeat(100_000)];
    let events = (0..)
        .zip(bodies)
        .map(|(version, body)| status(&own, version, body));
    Ok(Observed::Answers(attacker.answers(events).await?))
}

/// JSON of about this many bytes, in nodes that need a hundred times as much memory.
fn nodes(bytes: usize) -> String {
    let element = r#"{"":0}"#;
    let count = bytes / (element.len() + 1);
    format!("[{}{element}]", format!("{element},").repeat(count))
}

pub(super) async fn wide_json(attacker: &Attacker, _until: Instant) -> Result<Observed> {
    let own = attacker.own().await?;
    let sizes = [3_000_000, 4_000_000, 15_000_000];
    let events = (0..)
        .zip(sizes)
        .map(|(version, size)| status(&own, version, nodes(size)));
    Ok(Observed::Answers(attacker.answers(events).await?))
}

pub(super) async fn json_loop(attacker: &Attacker, until: Instant) -> Result<Observed> {
    let own = attacker.own().await?;
    let body = nodes(2_900_000);
    let next = |number: u64| Some(raw(status(&own, number, body.clone())));
    Ok(attacker.session().await?.flood(until, next).await.into())
}

pub(super) async fn gzip(attacker: &Attacker, _until: Instant) -> Result<Observed> {
    let own = attacker.own().await?;
    let token = attacker.token().await?;
    let stream = attacker
        .client
        .subscribe_compressed(&attacker.credentials, &token)
        .await?;
    let event = status(&own, 1, " ".repeat(210 << 20));
    let id = event.event_id.clone();
    let mut stream = stream.context("subscribe")?;
    let answer: Answer = stream.send_event(Some(raw(event)), Some(&id)).await?;
    Ok(Observed::Answers(vec![answer]))
}

pub(super) async fn extensions(attacker: &Attacker, _until: Instant) -> Result<Observed> {
    let long = with_extensions(4, 8 << 10);
    let many = with_extensions(40, 8);
    Ok(Observed::Answers(attacker.answers([long, many]).await?))
}

/// A heartbeat with extensions, all of which its acknowledgement echoes.
fn with_extensions(count: usize, bytes: usize) -> Event {
    let mut event = Event::ping();
    let extensions = (0..count).map(|number| (format!("x{number}"), "0".repeat(bytes)));
    event.extensions.extend(extensions);
    event
}

pub(super) async fn unread_extensions(attacker: &Attacker, until: Instant) -> Result<Observed> {
    let stream = attacker.session().await?;
    let next = |_| Some(raw(with_extensions(4, 2_000)));
    Ok(Observed::effort(stream.stuff(until, next).await))
}
