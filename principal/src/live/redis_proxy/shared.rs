//! The state of the proxy, which its connections share, and its bounds. Above these, clients are asked to retry.

use std::{sync::Arc, time::Duration};

use redis_discovery::Redis;
use runtime::credentials::{ClientAuth, ServerTls};
use tokio::sync::Semaphore;

use super::{event_refresh::EventRefresher, feeds::RedisFeeds, last_known::LastKnownValues};
use crate::{
    fleet::ClusterName,
    live::LiveContext,
    settings,
    transport::listener::{handshaker::Handshaker, slots::Capacity},
};

/// Open connections.
const CONNECTIONS: usize = 1024;
/// Of these, connections without a password yet. Further ones evict the oldest of the busiest address.
const UNAUTHENTICATED: usize = 128;
/// Values of all clusters, and of one.
const GETS: usize = 256;
const GETS_OF_CLUSTER: usize = 64;
/// Subscriptions to all clusters, and to one.
const FOLLOWS: usize = 512;
const FOLLOWS_OF_CLUSTER: usize = 64;
/// How long an agent may take to begin an answer: less than Argo CD's client waits for redis.
pub(super) const RESPONSE_TIMEOUT: Duration = Duration::from_millis(2500);
/// Larger values are not kept.
const LARGEST_REMEMBERED: usize = 1 << 20;

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) live: Arc<LiveContext>,
    pub(super) settings: settings::RedisProxy,
    pub(super) tls: Option<ServerTls>,
    /// The hub's redis; clients authenticate with its login.
    pub(super) server: Redis,
    pub(super) connections: Arc<Semaphore>,
    /// It has all connections without a password, before and after their handshake.
    pub(super) handshaker: Handshaker,
    pub(super) gets: Capacity<ClusterName>,
    pub(super) follows: Capacity<ClusterName>,
    pub(super) last_known: LastKnownValues,
    pub(super) event_refresher: Arc<EventRefresher>,
}

impl Shared {
    pub(super) fn new(
        settings: settings::RedisProxy,
        feeds: RedisFeeds,
        live: Arc<LiveContext>,
    ) -> Self {
        let spawner = &live.spawner;
        let tls = settings
            .tls
            .then(|| ServerTls::follow(feeds.serving, ClientAuth::None, spawner));
        Self {
            tls,
            server: feeds.server,
            connections: Arc::new(Semaphore::new(CONNECTIONS)),
            handshaker: Handshaker::new(&live.limits, UNAUTHENTICATED),
            gets: Capacity::new(GETS, GETS_OF_CLUSTER),
            follows: Capacity::new(FOLLOWS, FOLLOWS_OF_CLUSTER),
            last_known: LastKnownValues::new(LARGEST_REMEMBERED, settings.remembered),
            event_refresher: Arc::new(EventRefresher::new(Arc::clone(&live))),
            settings,
            live,
        }
    }
}
