//! Argo CD's redis beside this program: its address, login and trusted certificates, configured or found, and followed.
//!
//! The agent and the hub program both use it. [`live::redis_service`] decides which Service it is and which Secret has the
//! password; this crate reads the API for that. It needs `list` on the Services of Argo CD's namespace and `get` on the
//! Secrets that [`live::redis_service::secrets`] names, or on the configured one.
//!
//! ```text
//!   Settings ─► follow ─► Redis { address, login, tls }
//!                 │ no address: every 30 s until found, then every 5 min
//!                 └─► Services of Argo CD's namespace ─► the Secret of the installation
//! ```

use std::path::PathBuf;
use std::sync::Arc;

use kube::Client;
use live::redis_service::{Choice, PASSWORD, SettingNames, USER_KEY};
use runtime::clock::Clock;
use runtime::credentials::login::{self, Keys, Login, LoginFeed};
use runtime::credentials::secrets::{self, Take};
use runtime::credentials::{ClientTls, Material, files};
use runtime::parts::Spawner;
use tokio::sync::watch;

mod services;

/// The keys of a Secret with trusted certificates.
const CA_KEYS: &[&str] = &["ca.crt", "tls.crt"];

/// How a program reaches Argo CD's redis.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// host:port; without it the program looks for the Service.
    pub address: Option<String>,
    /// The user, instead of that of the login.
    pub user: Option<String>,
    /// The source of the password.
    pub login: LoginSource,
    /// The source of the trusted certificates; without it the program connects without TLS.
    pub tls: Option<Ca>,
}

/// The source of a login.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LoginSource {
    /// The Secret that the installation of Argo CD has for it, found with the Service.
    ArgoCd,
    /// A Secret beside Argo CD.
    Secret {
        /// Its name.
        name: String,
        /// The key of the password.
        key: String,
    },
    /// Files in a folder.
    Folder(PathBuf),
    /// The command line, or a variable.
    Given(Login),
}

impl LoginSource {
    /// The Secret of Argo CD's manifests: the default for a configured address, which does not show the installer.
    pub fn of_manifests() -> Self {
        Self::Secret {
            name: PASSWORD.secret.to_owned(),
            key: PASSWORD.key.to_owned(),
        }
    }
}

/// The source of trusted certificates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ca {
    /// A file.
    File(PathBuf),
    /// A Secret beside Argo CD.
    Secret(String),
    /// A `ConfigMap` beside Argo CD.
    ConfigMap(String),
}

/// The address and login of redis at one time.
#[derive(Debug, Clone)]
pub struct Endpoint {
    /// Host and port.
    pub address: String,
    /// The login.
    pub login: LoginFeed,
}

/// Argo CD's redis, as it is known now.
#[derive(Debug, Clone)]
pub struct Redis {
    endpoint: watch::Receiver<Endpoint>,
    user: Option<String>,
    tls: Option<ClientTls>,
}

impl Redis {
    /// The redis at this address (host and port).
    pub fn new(address: String, login: LoginFeed) -> Self {
        watch::channel(Endpoint { address, login }).1.into()
    }

    /// Logs in as this user, if there is one, instead of that of the login.
    #[must_use]
    pub fn with_user(self, user: Option<String>) -> Self {
        Self { user, ..self }
    }

    /// Connects with TLS, if it is given.
    #[must_use]
    pub fn with_tls(self, tls: Option<ClientTls>) -> Self {
        Self { tls, ..self }
    }

    /// Host and port.
    pub fn address(&self) -> String {
        self.endpoint.borrow().address.clone()
    }

    /// The login, once there is one.
    pub fn login(&self) -> Option<Arc<Login>> {
        let login = self.endpoint.borrow().login.current()?;
        let Some(user) = self.user.clone() else {
            return Some(login);
        };
        let password = login.password.clone();
        Some(Arc::new(Login {
            user: Some(user),
            password,
        }))
    }

    /// Reports that redis refused the login, or that there is none: its source is read again soon.
    pub fn refused(&self) {
        self.endpoint.borrow().login.refused();
    }

    /// TLS, if it is enabled.
    pub const fn tls(&self) -> Option<&ClientTls> {
        self.tls.as_ref()
    }
}

impl From<watch::Receiver<Endpoint>> for Redis {
    fn from(endpoint: watch::Receiver<Endpoint>) -> Self {
        Self {
            endpoint,
            user: None,
            tls: None,
        }
    }
}

/// Follows redis by these settings; logs the settings by these names if it does not find it.
pub async fn follow(
    settings: Settings,
    client: &Client,
    namespace: &str,
    names: &'static SettingNames,
    spawner: &Spawner,
) -> Redis {
    let login = configured_login(settings.login, client, namespace, spawner);
    let redis = match settings.address {
        None => services::watch(client.clone(), namespace, login, names, spawner).into(),
        Some(address) => Redis::new(address, login.unwrap_or_else(|| LoginFeed::fixed(None))),
    };
    let tls = match settings.tls {
        None => None,
        Some(ca) => {
            let material = trusted(ca, client, namespace, spawner).await;
            Some(ClientTls::follow(material, spawner))
        }
    };
    redis.with_user(settings.user).with_tls(tls)
}

/// The default of Argo CD's manifests without a login, for a program that does not use redis.
pub fn unused(namespace: &str) -> Redis {
    Redis::new(Choice::usual().address(namespace), LoginFeed::fixed(None))
}

/// None if the installation that is found decides.
fn configured_login(
    source: LoginSource,
    client: &Client,
    namespace: &str,
    spawner: &Spawner,
) -> Option<LoginFeed> {
    match source {
        LoginSource::ArgoCd => None,
        LoginSource::Secret { name, key } => {
            let keys = Keys {
                user: USER_KEY.into(),
                password: key.into(),
            };
            let client = client.clone();
            Some(login::poll(client, namespace, &name, keys, spawner))
        }
        LoginSource::Folder(folder) => {
            let keys = Keys::of(USER_KEY, PASSWORD.key);
            Some(login::follow_folder(folder, keys, spawner))
        }
        LoginSource::Given(login) => Some(LoginFeed::fixed(Some(login))),
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
