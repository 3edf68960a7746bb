//! One run of one container: a shim and what it says.

use std::process::Stdio;

use tokio::{io::AsyncWriteExt, sync::mpsc};

use crate::{
    inside::{Part, ShimSaid, ShimSpec},
    sandbox::{notify, start, take_in},
};

/// The signal that asks a program to end.
pub(crate) const TERM: i32 = 15;
/// The signal that ends it.
pub(crate) const KILL: i32 = 9;

/// Runs a container until it has ended, passing the signals that arrive, and sends what happens,
/// made into news by `tag`; [`ShimSaid::Failed`] or [`ShimSaid::Exited`] comes last, when no
/// process is left.
///
/// When `signals` closes, the container is ended by force.
pub(crate) async fn run<T>(
    spec: ShimSpec,
    mut signals: mpsc::Receiver<i32>,
    updates: mpsc::Sender<T>,
    tag: impl Fn(ShimSaid) -> T,
) {
    let mut last = ShimSaid::Failed("the shim ended without a word".to_owned());
    let attended = async {
        let (mut child, mut stdin, mut replies) = start(Part::Shim, Stdio::null())?;
        notify(&mut stdin, &spec).await?;
        let mut control = Some(stdin);
        loop {
            tokio::select! {
                heard = take_in::<ShimSaid>(&mut replies) => match heard? {
                    Some(started @ ShimSaid::Started(_)) => {
                        // If nobody wants to know, the signals are closed too.
                        let _nobody = updates.send(tag(started)).await;
                    }
                    Some(end @ (ShimSaid::Failed(_) | ShimSaid::Exited { .. })) => last = end,
                    None => break,
                },
                signal = signals.recv(), if control.is_some() => match (signal, control.as_mut()) {
                    (Some(signal), Some(stdin)) => {
                        // A shim that does not listen any more is about to say why.
                        let _ended = stdin.write_all(format!("{signal}\n").as_bytes()).await;
                    }
                    (None, _) | (_, None) => control = None,
                },
            }
        }
        anyhow::Ok(child.wait().await?)
    };
    if let Err(error) = attended.await {
        last = ShimSaid::Failed(format!("{error:#}"));
    }
    let _nobody = updates.send(tag(last)).await;
}
