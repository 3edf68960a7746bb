//! Streams a value of a cluster to a client, and keeps it if it is small.

use std::{io, time::Duration};

use bytes::BytesMut;
use http_body_util::BodyExt as _;
use tokio::{io::AsyncWrite, time::timeout};

use super::{
    Shared,
    client::BUSY,
    remote::{self, Answer, Remote, Value},
    writer::Writer,
};

/// The longest pause within a value.
const PAUSE: Duration = Duration::from_secs(30);

/// Why a value did not reach its client. The connection must close then: its next bytes would be the value's.
#[derive(Debug, thiserror::Error)]
pub(super) enum CarryError {
    #[error("it was truncated or timed out")]
    Broken,
    #[error("write to the client")]
    Client(#[from] io::Error),
}

/// Gets a value and sends it to the client.
pub(super) async fn carry<W: AsyncWrite + Unpin>(
    shared: &Shared,
    remote: &Remote,
    writer: &mut Writer<W>,
) -> Result<(), CarryError> {
    match remote::get(shared, remote).await {
        Answer::Nothing => writer.null().await?,
        Answer::Busy => writer.error(BUSY).await?,
        Answer::TooLarge => {
            let most = shared.settings.largest_value;
            let error =
                format!("ERR the value is larger than {most} bytes (--redis-proxy-max-value)");
            writer.error(&error).await?;
        }
        Answer::Known(bytes) => {
            begin(writer, bytes.len()).await?;
            writer.bytes(&bytes).await?;
            writer.bytes(b"\r\n").await?;
        }
        Answer::Value(value) => pass_on(shared, *value, writer).await?,
    }
    Ok(())
}

async fn pass_on<W: AsyncWrite + Unpin>(
    shared: &Shared,
    mut value: Value,
    writer: &mut Writer<W>,
) -> Result<(), CarryError> {
    let length = usize::try_from(value.length).map_err(|_too_long| CarryError::Broken)?;
    begin(writer, length).await?;
    let is_small = length <= shared.last_known.largest();
    let (mut kept, mut left) = (BytesMut::new(), length);
    loop {
        let frame = timeout(PAUSE, value.body.frame()).await;
        let frame = match frame {
            Ok(None) => break,
            Ok(Some(Ok(frame))) => frame,
            Ok(Some(Err(_))) | Err(_) => return Err(broken(value)),
        };
        let Some(data) = frame.data_ref() else {
            continue;
        };
        let Some(rest) = left.checked_sub(data.len()) else {
            return Err(broken(value));
        };
        left = rest;
        if is_small {
            kept.extend_from_slice(data);
        }
        value.line.carried(data.len());
        writer.bytes(data).await?;
    }
    if left > 0 {
        return Err(broken(value));
    }
    writer.bytes(b"\r\n").await?;
    value.finished(shared, is_small.then(|| kept.freeze()));
    Ok(())
}

fn broken(mut value: Value) -> CarryError {
    value.line.outcome = "broken";
    CarryError::Broken
}

async fn begin<W: AsyncWrite + Unpin>(writer: &mut Writer<W>, length: usize) -> io::Result<()> {
    writer.bytes(format!("${length}\r\n").as_bytes()).await
}
