//! Small messages that become large.

use anyhow::{Context as _, Result};
use protocol::{Event, Verb};
use serde_json::Value;
use tokio::time::Instant;

use super::{Observed, floods};
use crate::{
    bench::hostile::attacker::{Attacker, Named, about, raw, report},
    raw_client::Answer,
};

/// The report of its own Application, with this text as its status.
fn status(of: &Named, version: u64, text: &str) -> Event {
    let mut body = report(of, version);
    body["status"] = Value::Null;
    let body = body
        .to_string()
        .replace("\"status\":null", &format!("\"status\":{text}"));
    let mut event = about(of, Verb::StatusUpdate, version, &Value::Null);
    event.payload = body.into();
    event
}

async fn statuses_of(
    attacker: &Attacker,
    texts: impl IntoIterator<Item = String>,
) -> Result<Observed> {
    let own = attacker.own().await?;
    let events = (0..)
        .zip(texts)
        .map(|(version, text)| status(&own, version, &text));
    Ok(Observed::Answers(attacker.answers(events).await?))
}

pub(super) async fn endless_json(attacker: &Attacker, _until: Instant) -> Result<Observed> {
    statuses_of(attacker, ["[".repeat(1 << 20), r#"{"a":"#.repeat(100_000)]).await
}

pub(super) async fn deep_json(attacker: &Attacker, _until: Instant) -> Result<Observed> {
    let lists = ["[", "]"].map(|it| it.repeat(1_000_000)).concat();
    let maps = [
        r#"{"a":"#.repeat(500_000),
        "0".to_owned(),
        "}".repeat(500_000),
    ]
    .concat();
    statuses_of(attacker, [lists, maps]).await
}

/// JSON of about this many bytes, in nodes that need a hundred times as much memory.
fn nodes(bytes: usize) -> String {
    let element = r#"{"":0}"#;
    let count = bytes / (element.len() + 1);
    format!("[{}{element}]", format!("{element},").repeat(count))
}

pub(super) async fn wide_json(attacker: &Attacker, _until: Instant) -> Result<Observed> {
    statuses_of(attacker, [3_000_000, 4_000_000, 15_000_000].map(nodes)).await
}

pub(super) async fn json_loop(attacker: &Attacker, until: Instant) -> Result<Observed> {
    let own = attacker.own().await?;
    let body = nodes(2_900_000);
    let next = |number: u64| Some(raw(status(&own, number, &body)));
    Ok(attacker.session().await?.flood(until, next).await.into())
}

/// A list of this many objects of one kind, as many as an object may have: each costs seventy times its text as a tree.
fn list(count: usize, element: &str) -> String {
    format!("[{}]", vec![element; count].join(","))
}

/// Each Application gets a status whose tree is just within the limit, and another one, and so on.
pub(super) async fn statuses(attacker: &Attacker, until: Instant) -> Result<Observed> {
    statuses_with(attacker, until, 40_000).await
}

/// The same with trees of less than 256 KiB, which the principal does not count as large.
pub(super) async fn medium_statuses(attacker: &Attacker, until: Instant) -> Result<Observed> {
    statuses_with(attacker, until, 290).await
}

async fn statuses_with(attacker: &Attacker, until: Instant, count: usize) -> Result<Observed> {
    let own = attacker.all().await?;
    let resources = list(count, r#"{"kind":"a"}"#);
    let next = |number: u64| {
        let of = own
            .iter()
            .cycle()
            .nth(usize::try_from(number).ok()? % own.len())?;
        let text = format!(
            r#"{{"reconciledAt":"{}","resources":{resources}}}"#,
            time(number)
        );
        Some(raw(status(of, number, &text)))
    };
    Ok(attacker.session().await?.flood(until, next).await.into())
}

/// A time that differs from that of another number.
fn time(number: u64) -> String {
    format!(
        "2026-01-01T{:02}:{:02}:{:02}Z",
        number / 3600 % 24,
        number / 60 % 60,
        number % 60
    )
}

/// Mirrors whose trees are just within the limit of a mirror, and between them others just within that of a message.
pub(super) async fn mirrors(attacker: &Attacker, until: Instant) -> Result<Observed> {
    let infos = [8_000, 34_000].map(|count| list(count, r#"{"name":"a","value":"b"}"#));
    let next = |number: u64| {
        let info = infos
            .iter()
            .cycle()
            .nth(usize::try_from(number).ok()? % 2)?;
        let mirror = floods::mirror_with(&format!("m{}", number % 40), number, info);
        Some(raw(mirror))
    };
    Ok(attacker.session().await?.flood(until, next).await.into())
}

pub(super) async fn gzip(attacker: &Attacker, _until: Instant) -> Result<Observed> {
    let own = attacker.own().await?;
    let token = attacker.token().await?;
    let stream = attacker
        .client
        .subscribe_compressed(&attacker.credentials, &token)
        .await?;
    let event = status(&own, 1, &" ".repeat(210 << 20));
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
