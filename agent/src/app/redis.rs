//! Starts what the client of Argo CD's redis needs: discovery, login and trust.

use std::sync::Arc;

use kube::Client;
use live::redis_service::{Choice, PASSWORD, USER_KEY};
use live::ui_access::UiAccess;
use runtime::clock::Clock;
use runtime::credentials::login::{self, Keys};
use runtime::credentials::secrets::{self, Take};
use runtime::credentials::{ClientTls, Material, files};
use runtime::parts::Spawner;
use tokio::sync::watch;

use crate::config::{self, Ca, LoginSource, Scope};
use crate::live::redis::{Endpoint, LoginReceiver, Redis, no_login};
use crate::live::redis_discovery;

/// The keys of a Secret with trusted certificates.
const CA_KEYS: &[&str] = &["ca.crt", "tls.crt"];

/// Without access of users nothing reads redis, so nothing follows its Service and Secret.
pub(super) async fn start(
    config: config::Redis,
    access: UiAccess,
    client: &Client,
    scope: &Scope,
    spawner: &Spawner,
) -> Arc<Redis> {
    let namespace = &scope.argocd_namespace;
    if access == UiAccess::None {
        let address = Choice::usual().address(namespace);
        return Arc::new(Redis::new(address, no_login()));
    }
    let login = configured_login(config.login, client, namespace, spawner);
    let endpoint = match config.address {
        None => redis_discovery::watch(client.clone(), namespace, login, spawner),
        Some(address) => {
            let login = login.unwrap_or_else(no_login);
            watch::channel(Endpoint { address, login }).1
        }
    };
    let tls = match config.tls {
        None => None,
        Some(ca) => {
            let material = trusted(ca, client, namespace, spawner).await;
            Some(ClientTls::follow(material, spawner))
        }
    };
    let redis = Redis::following(endpoint).with_user(config.user);
    Arc::new(redis.with_tls(tls))
}

/// None if the installation that is found decides.
fn configured_login(
    source: LoginSource,
    client: &Client,
    namespace: &str,
    spawner: &Spawner,
) -> Option<LoginReceiver> {
    match source {
        LoginSource::ArgoCd => None,
        LoginSource::Secret { name, key } => {
            let keys = Keys {
                user: USER_KEY.into(),
                password: key.into(),
            };
            let client = client.clone();
            Some(login::watch(client, namespace, &name, keys, spawner))
        }
        LoginSource::Folder(folder) => {
            let keys = Keys::of(USER_KEY, PASSWORD.key);
            Some(login::follow_folder(folder, keys, spawner))
        }
        LoginSource::Given(login) => Some(watch::channel(Some(Arc::new(login))).1),
    }
}

/// Follows the certificates to trust.
async fn trusted(
    ca: Ca,
    client: &Client,
    namespace: &str,
    spawner: &Spawner,
) -> watch::Receiver<Arc<Material>> {
    let (client, clock) = (client.clone(), Clock::system());
    match ca {
        Ca::File(path) => {
            let paths = files::Paths {
                roots: Some(path),
                ..files::Paths::default()
            };
            files::watch(paths, clock, spawner).await
        }
        Ca::Secret(name) => {
            let keys = Take::Roots(CA_KEYS);
            secrets::watch(client, namespace, &name, keys, clock, spawner)
        }
        Ca::ConfigMap(name) => secrets::watch_config_map(client, namespace, &name, clock, spawner),
    }
}
