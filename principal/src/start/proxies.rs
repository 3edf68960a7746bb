//! What Argo CD on the hub takes for the clusters and for its redis, where that is wanted.

use std::{net::SocketAddr, sync::Arc};

use runtime::{
    credentials::login::{self, Login},
    parts::Spawner,
};
use tokio::sync::watch;

use super::{Feeds, StartError};
use crate::{
    redis_proxy::RedisProxy,
    resource_proxy::{Budgets, ResourceProxy},
    session::Sessions,
    settings::Settings,
};

/// Where Argo CD has the password of its redis.
const REDIS_SECRET: &str = "argocd-redis";
const REDIS_KEYS: login::Keys = login::Keys {
    user: "auth_username",
    password: "auth",
};

/// With what the hub's redis is opened, if there is a proxy before it.
pub(super) fn login(
    settings: &Settings,
    client: &kube::Client,
    spawner: &Spawner,
) -> watch::Receiver<Option<Arc<Login>>> {
    if settings.redis_proxy.is_none() {
        return watch::channel(None).1;
    }
    let (client, namespace) = (client.clone(), &settings.argocd_namespace);
    login::watch(client, namespace, REDIS_SECRET, REDIS_KEYS, spawner)
}

/// The resource proxy, where it is wanted.
pub(super) async fn resource(
    settings: &Settings,
    feeds: &Feeds,
    sessions: &Arc<Sessions>,
) -> Result<Option<(ResourceProxy, SocketAddr)>, StartError> {
    let Some(address) = settings.resource_proxy else {
        return Ok(None);
    };
    let (material, sessions) = (feeds.visitors_tls.clone(), Arc::clone(sessions));
    let refused = |source| StartError::Listen { address, source };
    let budgets = Budgets::of(settings.visitors);
    let proxy = ResourceProxy::bind(address, material, settings.visitors, sessions, budgets)
        .await
        .map_err(refused)?;
    let address = proxy.address().map_err(refused)?;
    Ok(Some((proxy, address)))
}

/// The redis proxy, where it is wanted.
pub(super) async fn redis(
    settings: &Settings,
    feeds: &Feeds,
    sessions: &Arc<Sessions>,
) -> Result<Option<(RedisProxy, SocketAddr)>, StartError> {
    let Some(settings) = &settings.redis_proxy else {
        return Ok(None);
    };
    let address = settings.listen;
    let refused = |source| StartError::Listen { address, source };
    let proxy = RedisProxy::bind(
        settings.clone(),
        feeds.visitors_tls.clone(),
        feeds.redis_login.clone(),
        Arc::clone(sessions),
    );
    let proxy = proxy.await.map_err(refused)?;
    let address = proxy.address().map_err(refused)?;
    Ok(Some((proxy, address)))
}
