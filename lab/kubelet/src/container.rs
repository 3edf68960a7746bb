//! One run of one container: a shim and its messages.

use std::process::Stdio;

use tokio::{io::AsyncWriteExt, sync::mpsc};

use crate::{
    inside::{Part, ShimMessage, ShimSpec},
    sandbox::{receive, send, start},
};

/// The signal that asks a program to end.
pub(crate) const TERM: i32 = 15;
/// The signal that ends it.
pub(crate) const KILL: i32 = 9;

/// Runs a container until it has ended and passes on the signals that arrive. Sends each message
/// of the shim, wrapped by `tag`; [`ShimMessage::Failed`] or [`ShimMessage::Exited`] is the last, sent
/// when no process is left.
///
/// When `signals` closes, the container is killed.
pub(crate) async fn run<T>(
    spec: ShimSpec,
    mut signals: mpsc::Receiver<i32>,
    updates: mpsc::Sender<T>,
    tag: impl Fn(ShimMessage) -> T,
) {
    let mut last = ShimMessage::Failed("the shim ended without a message".to_owned());
    let attended = async {
        let (mut child, mut stdin, mut replies) = start(Part::Shim, Stdio::null())?;
        send(&mut stdin, &spec).await?;
        let mut control = Some(stdin);
        loop {
            tokio::select! {
                message = receive::<ShimMessage>(&mut replies) => match message? {
                    Some(started @ ShimMessage::Started(_)) => {
                        // If the receiver is gone, the signals are closed too.
                        let _closed = updates.send(tag(started)).await;
                    }
                    Some(end @ (ShimMessage::Failed(_) | ShimMessage::Exited { .. })) => last = end,
                    None => break,
                },
                signal = signals.recv(), if control.is_some() => match (signal, control.as_mut()) {
                    (Some(signal), Some(stdin)) => {
                        // A shim that no longer reads is about to report why.
                        let _ended = stdin.write_all(format!("{signal}\n").as_bytes()).await;
                    }
                    (None, _) | (_, None) => control = None,
                },
            }
        }
        anyhow::Ok(child.wait().await?)
    };
    if let Err(error) = attended.await {
        last = ShimMessage::Failed(format!("{error:#}"));
    }
    let _closed = updates.send(tag(last)).await;
}
