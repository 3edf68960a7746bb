//! The proxies that Argo CD on the hub uses for the clusters and for its redis, where enabled.

use std::{net::SocketAddr, sync::Arc};

use runtime::{
    credentials::{
        Material,
        login::{self, Login},
    },
    parts::Spawner,
};
use tokio::sync::watch;

use super::{Feeds, StartError};
use crate::{
    live::{
        LiveContext,
        redis_proxy::{RedisFeeds, RedisProxy},
        resource_proxy::{Budgets, ResourceProxy},
    },
    settings::Settings,
};

/// The Secret with the password of Argo CD's redis.
const REDIS_SECRET: &str = "argocd-redis";
/// The keys of the Secret.
pub const REDIS_KEYS: login::Keys = login::Keys {
    user: "auth_username",
    password: "auth",
};

/// The password in Argo CD's Secret.
pub fn redis_login(
    client: kube::Client,
    namespace: &str,
    spawner: &Spawner,
) -> watch::Receiver<Option<Arc<Login>>> {
    login::watch(client, namespace, REDIS_SECRET, REDIS_KEYS, spawner)
}

/// The default, without configured credentials.
pub(super) fn usual(
    settings: &Settings,
    client: kube::Client,
    serving: watch::Receiver<Arc<Material>>,
    spawner: &Spawner,
) -> RedisFeeds {
    let mut feeds = RedisFeeds {
        serving,
        ..RedisFeeds::default()
    };
    if settings.redis_proxy.is_some() {
        feeds.login = redis_login(client, &settings.argocd_namespace, spawner);
    }
    feeds
}

/// The resource proxy, if enabled.
pub(super) async fn resource(
    settings: &Settings,
    feeds: &Feeds,
    live: &Arc<LiveContext>,
) -> Result<Option<(ResourceProxy, SocketAddr)>, StartError> {
    let Some(address) = settings.resource_proxy else {
        return Ok(None);
    };
    let (material, sessions) = (feeds.visitors_tls.clone(), Arc::clone(live));
    let refused = |source| StartError::Listen { address, source };
    let budgets = Budgets::of(settings.visitors);
    let proxy = ResourceProxy::bind(address, material, settings.visitors, sessions, budgets)
        .await
        .map_err(refused)?;
    let address = proxy.address().map_err(refused)?;
    Ok(Some((proxy, address)))
}

/// The redis proxy, if enabled.
pub(super) async fn redis(
    settings: &Settings,
    feeds: &Feeds,
    live: &Arc<LiveContext>,
) -> Result<Option<(RedisProxy, SocketAddr)>, StartError> {
    let Some(settings) = &settings.redis_proxy else {
        return Ok(None);
    };
    let address = settings.listen;
    let refused = |source| StartError::Listen { address, source };
    let proxy = RedisProxy::bind(settings.clone(), feeds.redis.clone(), Arc::clone(live));
    let proxy = proxy.await.map_err(refused)?;
    let address = proxy.address().map_err(refused)?;
    Ok(Some((proxy, address)))
}
