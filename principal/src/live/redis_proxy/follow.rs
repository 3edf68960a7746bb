//! Subscriptions to channels of a cluster: one streaming response for each, reopened whenever it fails.

use std::{sync::Arc, time::Duration};

use http::StatusCode;
use http_body_util::BodyExt as _;
use runtime::{backoff::Backoff, error::Chain};
use tokio::{
    sync::mpsc,
    time::{Instant, sleep},
};
use tokio_util::sync::{CancellationToken, DropGuard};
use uuid::Uuid;

use super::{
    remote::{self, Remote},
    shared::Shared,
};
use crate::{fleet::ClusterName, transport::listener::slots::Place};

/// Backoff between attempts, and when it resets.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(15));
const HEALTHY: Duration = Duration::from_mins(1);

/// A channel of redis.
pub(super) type Channel = Vec<u8>;

/// A subscription; dropped, it ends.
#[derive(Debug)]
pub(super) struct Follow {
    _end: DropGuard,
    _place: Place<ClusterName>,
}

impl Follow {
    /// Notifies of each message on the channel, and of each reconnect, since messages may be lost meanwhile. None: too
    /// many subscriptions.
    pub(super) fn start(
        shared: &Arc<Shared>,
        remote: Remote,
        channel: Channel,
        notify: mpsc::Sender<Channel>,
    ) -> Option<Self> {
        let place = shared.follows.take(remote.cluster.clone())?;
        let end = shared.live.spawner.token().child_token();
        let following = follow(Arc::clone(shared), remote, channel, notify, end.clone());
        shared
            .live
            .spawner
            .background()
            .spawn_short("follow", following);
        Some(Self {
            _end: end.drop_guard(),
            _place: place,
        })
    }
}

async fn follow(
    shared: Arc<Shared>,
    remote: Remote,
    channel: Channel,
    notify: mpsc::Sender<Channel>,
    end: CancellationToken,
) {
    let retrying = async {
        let mut backoff = Backoff::new(PAUSES.0, PAUSES.1, HEALTHY);
        let mut is_first = true;
        loop {
            if follow_once(&shared, &remote, &channel, &notify, &mut backoff, is_first).await
                == Ended::Unsubscribed
            {
                return;
            }
            is_first = false;
            sleep(backoff.failed(Instant::now())).await;
        }
    };
    end.run_until_cancelled(retrying).await;
}

#[derive(Debug, PartialEq, Eq)]
enum Ended {
    /// The agent is away, or the stream broke.
    Broken,
    /// The client is gone or has unsubscribed.
    Unsubscribed,
}

async fn follow_once(
    shared: &Shared,
    remote: &Remote,
    channel: &Channel,
    notify: &mpsc::Sender<Channel>,
    backoff: &mut Backoff,
    is_first: bool,
) -> Ended {
    let id = Uuid::new_v4().to_string();
    let response = match remote::ask(shared, remote, true, &id).await {
        Ok(response) if response.status() == StatusCode::OK => response,
        Ok(response) => {
            tracing::debug!(status = %response.status(), "refused a subscription");
            return Ended::Broken;
        }
        Err(error) => {
            tracing::debug!(error = %Chain(&error), "cannot subscribe");
            return Ended::Broken;
        }
    };
    backoff.succeeded(Instant::now());
    if !is_first && notify.send(channel.clone()).await.is_err() {
        return Ended::Unsubscribed;
    }
    let mut body = response.into_body();
    while let Some(Ok(frame)) = body.frame().await {
        let has_changed = frame.data_ref().is_some_and(|data| !data.is_empty());
        if has_changed && notify.send(channel.clone()).await.is_err() {
            return Ended::Unsubscribed;
        }
    }
    Ended::Broken
}
