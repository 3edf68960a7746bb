//! The credentials of the proxy, and the hub's redis.

use std::sync::Arc;

use redis_discovery::Redis;
use runtime::credentials::{Material, login::LoginFeed};
use tokio::sync::watch;

/// The hub's redis, and the credentials of the proxy itself.
#[derive(Clone, Debug)]
pub struct RedisFeeds {
    /// The hub's redis; its login is that of the proxy's clients, too.
    pub server: Redis,
    /// The serving certificate of the proxy and its key, if it uses TLS.
    pub serving: watch::Receiver<Arc<Material>>,
}

/// No password, so every client is rejected.
impl Default for RedisFeeds {
    fn default() -> Self {
        Self {
            server: Redis::new(String::new(), LoginFeed::fixed(None)),
            serving: watch::channel(Arc::default()).1,
        }
    }
}
