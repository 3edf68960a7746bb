//! Streams a value of a cluster to a client, and keeps it if it is small.

use std::io;

use bytes::BytesMut;
use http::{Response, StatusCode, header::CONTENT_LENGTH};
use runtime::error::Chain;
use tokio::io::AsyncWrite;

use super::{
    error::Ended,
    paced_body::PacedBody,
    remote::{self, AuditLine, Remote},
    shared::Shared,
    writer::Writer,
};
use crate::live::tunnel::{Body, NotAnswered};

/// Gets a value and sends it to the client. A disconnected cluster has its last known values only.
pub(super) async fn carry<W: AsyncWrite + Unpin>(
    shared: &Shared,
    remote: &Remote,
    writer: &mut Writer<W>,
) -> Result<(), Ended> {
    let mut line = AuditLine::new(shared.live.metrics.clone(), remote);
    // Until the agent has answered; only a stream needs it longer.
    let Some(place) = shared.gets.take(remote.cluster.clone()) else {
        line.outcome = "too_many_requests";
        return Ok(writer.busy().await?);
    };
    let key = remote.remembered_as();
    let response = match remote::ask(shared, remote, false, &line.id).await {
        Ok(response) => response,
        Err(why) => {
            drop(place);
            line.outcome = outcome_of(&why);
            if matches!(why, NotAnswered::TooLarge) {
                too_large(shared, writer).await?;
            } else if matches!(why, NotAnswered::Busy) {
                writer.busy().await?;
            } else {
                line.why = Chain(&why).to_string();
                last_known(shared, &key, line, writer).await?;
            }
            return Ok(());
        }
    };
    match (response.status(), length(&response)) {
        (StatusCode::OK, Some(length)) if length > shared.settings.largest_value => {
            drop(place);
            line.outcome = "too_large";
            too_large(shared, writer).await?;
        }
        (StatusCode::OK, Some(length)) => {
            line.outcome = "answered";
            let length = usize::try_from(length).map_err(|_too_long| Ended::Broken)?;
            let mut body = PacedBody::new(response.into_body());
            let value = stream(&mut body, length, shared, &mut line, writer).await;
            if matches!(value, Err(Ended::Broken)) {
                line.outcome = "broken";
            }
            match value? {
                Some(value) => shared.last_known.remember(key, value.freeze()),
                // What was there before is out of date.
                None => shared.last_known.forget(&key),
            }
        }
        (StatusCode::NOT_FOUND | StatusCode::FORBIDDEN, _) => {
            drop(place);
            shared.last_known.forget(&key);
            let is_forbidden = response.status() == StatusCode::FORBIDDEN;
            line.outcome = if is_forbidden { "forbidden" } else { "missing" };
            writer.null().await?;
        }
        (status, _) => {
            drop(place);
            line.outcome = "failed";
            line.why = status.to_string();
            last_known(shared, &key, line, writer).await?;
        }
    }
    Ok(())
}

/// Streams a value; returns it if it is small enough to keep.
async fn stream<W: AsyncWrite + Unpin>(
    body: &mut PacedBody,
    length: usize,
    shared: &Shared,
    line: &mut AuditLine,
    writer: &mut Writer<W>,
) -> Result<Option<BytesMut>, Ended> {
    writer.begin_bulk(length).await?;
    let is_small = length <= shared.last_known.largest();
    let (mut kept, mut left) = (BytesMut::new(), length);
    while let Some(data) = body.next().await? {
        left = left.checked_sub(data.len()).ok_or(Ended::Broken)?;
        if is_small {
            kept.extend_from_slice(&data);
        }
        line.carried(data.len());
        writer.bytes(&data).await?;
    }
    if left > 0 {
        return Err(Ended::Broken);
    }
    writer.bytes(b"\r\n").await?;
    Ok(is_small.then_some(kept))
}

async fn too_large<W: AsyncWrite + Unpin>(
    shared: &Shared,
    writer: &mut Writer<W>,
) -> io::Result<()> {
    let most = shared.settings.largest_value;
    let error = format!("ERR the value is larger than {most} bytes (--redis-proxy-max-value)");
    writer.error(&error).await
}

/// Sends the last known value, if there is one.
async fn last_known<W: AsyncWrite + Unpin>(
    shared: &Shared,
    key: &str,
    mut line: AuditLine,
    writer: &mut Writer<W>,
) -> io::Result<()> {
    let Some((value, at)) = shared.last_known.recall(key) else {
        return writer.null().await;
    };
    line.outcome = "remembered";
    line.why = format!("{}; last known {:?} ago", line.why, at.elapsed());
    line.carried(value.len());
    writer.begin_bulk(value.len()).await?;
    writer.bytes(&value).await?;
    writer.bytes(b"\r\n").await
}

fn length(response: &Response<Body>) -> Option<u64> {
    let length = response.headers().get(CONTENT_LENGTH)?;
    length.to_str().ok()?.parse().ok()
}

const fn outcome_of(why: &NotAnswered) -> &'static str {
    match why {
        NotAnswered::NotConnected => "not_connected",
        NotAnswered::TimedOut(_) => "late",
        NotAnswered::Lost(_) | NotAnswered::Ended => "lost",
        NotAnswered::Busy => "too_many_requests",
        NotAnswered::TooLarge => "too_large",
        NotAnswered::Unreadable(_) | NotAnswered::Unexpected => "failed",
    }
}
