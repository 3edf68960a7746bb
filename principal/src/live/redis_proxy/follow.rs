//! Subscriptions to channels of a cluster: one streaming response for each, reopened whenever it fails.

use std::{sync::Arc, time::Duration};

use http::StatusCode;
use http_body_util::BodyExt as _;
use runtime::{backoff::Backoff, error::Chain};
use tokio::{
    sync::{mpsc, mpsc::error::SendError},
    time::{Instant, sleep},
};
use tokio_util::sync::DropGuard;
use uuid::Uuid;

use super::{
    remote::{self, Remote},
    shared::Shared,
};
use crate::live::tunnel::Body;

/// Backoff between attempts, and when it resets.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(15));
const HEALTHY: Duration = Duration::from_mins(1);

/// A channel of redis.
pub(super) type Channel = Vec<u8>;

/// News of a subscription to a channel.
#[derive(Debug)]
pub(super) enum Notice {
    /// From now on no message is lost without a later [`Self::Changed`]. The first notice, and sent once.
    Subscribed(Channel),
    /// There was a message, or the agent has answered again: messages may be lost until then.
    Changed(Channel),
}

/// A subscription to a channel of a cluster. Its place becomes free when its task has ended.
pub(super) struct Followed {
    /// Ends it when dropped.
    _end: DropGuard,
    /// Whether the client knows. Redis confirms when no later message is lost, and so does the proxy.
    pub(super) is_confirmed: bool,
}

/// Subscribes to a channel of a cluster. None: too many subscriptions.
pub(super) fn follow(
    shared: &Arc<Shared>,
    remote: Remote,
    channel: Channel,
    notify: mpsc::Sender<Notice>,
) -> Option<Followed> {
    let place = shared.follows.take(remote.cluster.clone())?;
    let end = shared.live.spawner.token().child_token();
    let follower = Follower {
        shared: Arc::clone(shared),
        remote,
        channel,
        notify,
    };
    let ended = end.clone();
    let following = async move {
        let _place = place;
        ended.run_until_cancelled(follower.run()).await;
    };
    let spawner = shared.live.spawner.background();
    spawner.spawn_short("follow", following);
    Some(Followed {
        _end: end.drop_guard(),
        is_confirmed: false,
    })
}

struct Follower {
    shared: Arc<Shared>,
    remote: Remote,
    channel: Channel,
    notify: mpsc::Sender<Notice>,
}

impl Follower {
    /// Reopens the response until the client is gone, which is an error.
    async fn run(&self) -> Result<(), SendError<Notice>> {
        let mut backoff = Backoff::new(PAUSES.0, PAUSES.1, HEALTHY);
        let mut opened = self.open().await;
        // Also when the agent does not answer: the client learns of its first answer.
        let subscribed = Notice::Subscribed(self.channel.clone());
        self.notify.send(subscribed).await?;
        loop {
            if let Some(body) = opened {
                backoff.succeeded(Instant::now());
                self.forward(body).await?;
            }
            sleep(backoff.failed(Instant::now())).await;
            opened = self.open().await;
            if opened.is_some() {
                self.changed().await?;
            }
        }
    }

    /// Requests the messages from the agent.
    async fn open(&self) -> Option<Body> {
        let id = Uuid::new_v4().to_string();
        match remote::ask(&self.shared, &self.remote, true, &id).await {
            Ok(response) if response.status() == StatusCode::OK => Some(response.into_body()),
            Ok(response) => {
                tracing::debug!(status = %response.status(), "refused a subscription");
                None
            }
            Err(error) => {
                tracing::debug!(error = %Chain(&error), "cannot subscribe");
                None
            }
        }
    }

    /// Notifies of each message until the response ends.
    async fn forward(&self, mut body: Body) -> Result<(), SendError<Notice>> {
        while let Some(Ok(frame)) = body.frame().await {
            if frame.data_ref().is_some_and(|data| !data.is_empty()) {
                self.changed().await?;
            }
        }
        Ok(())
    }

    async fn changed(&self) -> Result<(), SendError<Notice>> {
        let notice = Notice::Changed(self.channel.clone());
        self.notify.send(notice).await
    }
}
