//! Shows the log of a container.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use futures::{Stream, TryStreamExt, stream};
use hyper::{
    StatusCode,
    body::{Bytes, Frame},
};
use tokio::{
    fs::File,
    io::{AsyncReadExt, AsyncSeekExt},
    time::sleep,
};

use super::request::{Log, Place, Refused};
use crate::{
    log::{Shown, tail},
    running::{Here, Running},
};

/// How soon a client that follows a log receives new lines.
const PAUSE: Duration = Duration::from_millis(50);
/// How much one read of a log takes.
const BLOCK: u64 = 64 << 10;

/// Where the log of a run is kept.
pub(crate) fn path(logs: &Path, container: &str, run: u32) -> PathBuf {
    logs.join(format!("{container}.{run}.log"))
}

/// The run of a container whose log is requested.
pub(super) fn run(place: &Place, here: Option<&Here>, previous: bool) -> Result<u32, Refused> {
    let Place { pod, container } = place;
    let turn = here.and_then(|here| here.containers.get(container));
    let Some(turn) = turn else {
        let why = format!("no container {container:?} of a Pod {:?} is here", pod.pod);
        return Err(Refused::new(StatusCode::NOT_FOUND, why));
    };
    let before = if previous { 2 } else { 1 };
    turn.runs.checked_sub(before).ok_or_else(|| {
        // With the texts of the real kubelet.
        let why = if previous {
            format!(
                "previous terminated container {container:?} in pod {:?} not found",
                pod.pod
            )
        } else {
            format!(
                "container {container:?} in pod {:?} is waiting to start",
                pod.pod
            )
        };
        Refused::new(StatusCode::BAD_REQUEST, why)
    })
}

/// One reader of one log.
struct Reader {
    file: File,
    shown: Shown,
    /// Bytes that were read and not sent yet.
    retained: Vec<u8>,
    /// Reports whether the run is over, so that no more output comes.
    is_over: Box<dyn Fn() -> bool + Send>,
}

/// The log of a run, from the position where the view begins.
pub(super) async fn open(
    logs: &Path,
    running: &Running,
    (place, uid, run): (Place, String, u32),
    asked: Log,
) -> Result<impl Stream<Item = io::Result<Frame<Bytes>>> + use<>, Refused> {
    let Place { pod, container } = place;
    let folder = logs.join(&pod.namespace).join(&pod.pod);
    let path = path(&folder, &container, run);
    let begin = tokio::task::spawn_blocking(move || {
        let mut file = fs::File::open(path)?;
        let begin = asked.tail.map_or(Ok(0), |lines| tail(&mut file, lines))?;
        io::Result::Ok((file, begin))
    });
    let begin = begin.await.map_err(io::Error::other).flatten();
    let lost = |error: io::Error| {
        let why = format!("the log of {container:?} cannot be read: {error}");
        Refused::new(StatusCode::INTERNAL_SERVER_ERROR, why)
    };
    let (file, begin) = begin.map_err(lost)?;
    let mut file = File::from_std(file);
    file.seek(io::SeekFrom::Start(begin)).await.map_err(lost)?;
    let running = running.clone();
    let reader = Reader {
        file,
        shown: Shown::new(asked.view),
        retained: Vec::new(),
        is_over: Box::new(move || !asked.follow || running.is_over(&pod, &uid, &container, run)),
    };
    let pieces = stream::try_unfold(reader, |mut reader| async move {
        let piece = reader.next().await?;
        Ok(piece.map(|piece| (piece, reader)))
    });
    Ok(pieces.map_ok(|piece| Frame::data(Bytes::from(piece))))
}

impl Reader {
    /// The next piece; none at the end.
    async fn next(&mut self) -> io::Result<Option<Vec<u8>>> {
        while !self.shown.is_done() {
            // Before reading, so that the last output is not missed.
            let is_over = (self.is_over)();
            let read = (&mut self.file)
                .take(BLOCK)
                .read_to_end(&mut self.retained)
                .await?;
            let piece = self.shown.take(&mut self.retained);
            if !piece.is_empty() {
                return Ok(Some(piece));
            }
            if read == 0 && is_over {
                break;
            }
            if read == 0 {
                sleep(PAUSE).await;
            }
        }
        Ok(None)
    }
}
