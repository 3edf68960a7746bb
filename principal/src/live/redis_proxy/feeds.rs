//! The credentials of the proxy, and for the hub's redis.

use std::sync::Arc;

use live::redis_service::{PASSWORD, USER_KEY};
use runtime::{
    credentials::{
        Material,
        login::{self, Login},
    },
    parts::Spawner,
};
use tokio::sync::watch;

use crate::settings::Settings;

/// The keys of the Secret.
pub const REDIS_KEYS: login::Keys = login::Keys::of(USER_KEY, PASSWORD.key);

/// The password in Argo CD's Secret.
pub fn redis_login(
    client: kube::Client,
    namespace: &str,
    spawner: &Spawner,
) -> watch::Receiver<Option<Arc<Login>>> {
    login::watch(client, namespace, PASSWORD.secret, REDIS_KEYS, spawner)
}

/// Credentials for the hub's redis, and of the proxy itself.
#[derive(Clone, Debug)]
pub struct RedisFeeds {
    /// The login of both.
    pub login: watch::Receiver<Option<Arc<Login>>>,
    /// The serving certificate of the proxy and its key, if it uses TLS.
    pub serving: watch::Receiver<Arc<Material>>,
    /// The CA of the hub's redis as roots, if it uses TLS.
    pub server: Option<watch::Receiver<Arc<Material>>>,
}

/// No password, so every client is rejected.
impl Default for RedisFeeds {
    fn default() -> Self {
        Self {
            login: watch::channel(None).1,
            serving: watch::channel(Arc::default()).1,
            server: None,
        }
    }
}

impl RedisFeeds {
    /// The password in Argo CD's Secret if the proxy is enabled, this serving certificate, and no TLS with the hub's
    /// redis.
    pub fn usual(
        settings: &Settings,
        client: &kube::Client,
        serving: watch::Receiver<Arc<Material>>,
        spawner: &Spawner,
    ) -> Self {
        let mut feeds = Self {
            serving,
            ..Self::default()
        };
        if settings.redis_proxy.is_some() {
            feeds.login = redis_login(client.clone(), &settings.argocd_namespace, spawner);
        }
        feeds
    }
}
