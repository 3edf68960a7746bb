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

/// Backoff between attempts, and when it resets.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(15));
const HEALTHY: Duration = Duration::from_mins(1);

/// A channel of redis.
pub(super) type Channel = Vec<u8>;

/// Notifies of each message on the channel, and of each reconnect, since messages may be lost meanwhile. Dropping the
/// guard ends the subscription, whose place becomes free when its task has ended. None: too many subscriptions.
pub(super) fn follow(
    shared: &Arc<Shared>,
    remote: Remote,
    channel: Channel,
    notify: mpsc::Sender<Channel>,
) -> Option<DropGuard> {
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
    Some(end.drop_guard())
}

struct Follower {
    shared: Arc<Shared>,
    remote: Remote,
    channel: Channel,
    notify: mpsc::Sender<Channel>,
}

impl Follower {
    /// Reopens the response until the client is gone.
    async fn run(&self) {
        let mut backoff = Backoff::new(PAUSES.0, PAUSES.1, HEALTHY);
        let mut is_first = true;
        while self.follow_once(&mut backoff, is_first).await.is_ok() {
            is_first = false;
            sleep(backoff.failed(Instant::now())).await;
        }
    }

    /// Follows one response to its end. An error means that the client is gone.
    async fn follow_once(
        &self,
        backoff: &mut Backoff,
        is_first: bool,
    ) -> Result<(), SendError<Channel>> {
        let id = Uuid::new_v4().to_string();
        let response = match remote::ask(&self.shared, &self.remote, true, &id).await {
            Ok(response) if response.status() == StatusCode::OK => response,
            Ok(response) => {
                tracing::debug!(status = %response.status(), "refused a subscription");
                return Ok(());
            }
            Err(error) => {
                tracing::debug!(error = %Chain(&error), "cannot subscribe");
                return Ok(());
            }
        };
        backoff.succeeded(Instant::now());
        if !is_first {
            self.notify.send(self.channel.clone()).await?;
        }
        let mut body = response.into_body();
        while let Some(Ok(frame)) = body.frame().await {
            if frame.data_ref().is_some_and(|data| !data.is_empty()) {
                self.notify.send(self.channel.clone()).await?;
            }
        }
        Ok(())
    }
}
