//! Finds the Service and the Secret of Argo CD's redis.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::Service;
use kube::Client;
use kube::api::{Api, ListParams};
use live::redis_service::{self, Choice, Doubt, PasswordKey, SettingNames, USER_KEY};
use runtime::credentials::login::{self, Keys, LoginFeed};
use runtime::error::Chain;
use runtime::parts::Spawner;
use tokio::sync::watch;
use tokio::time::sleep;

use crate::Endpoint;

/// The pause before the next look while redis is not found: Argo CD may be installed later.
const UNSETTLED: Duration = Duration::from_secs(30);
/// The pause where it is found, or the program may not look: Argo CD may be replaced, or the permission granted.
const SETTLED: Duration = Duration::from_mins(5);

/// Looks for the Service and the Secret of redis in Argo CD's namespace, and publishes what it finds; `login` replaces
/// the Secret. Until the first look there is no password.
pub(crate) fn watch(
    client: Client,
    namespace: &str,
    login: Option<LoginFeed>,
    names: &'static SettingNames,
    spawner: &Spawner,
) -> watch::Receiver<Endpoint> {
    let first = Endpoint {
        address: Choice::usual().address(namespace),
        login: login.clone().unwrap_or_else(|| LoginFeed::fixed(None)),
    };
    let (endpoint, receiver) = watch::channel(first);
    let discovery = Discovery {
        client,
        namespace: namespace.to_owned(),
        login,
        names,
        found: BTreeMap::new(),
        choice: None,
        is_refused: false,
        endpoint,
        spawner: spawner.clone(),
    };
    let token = spawner.token().clone();
    spawner.spawn("redis discovery", async move {
        token.run_until_cancelled(discovery.follow()).await;
        token.cancelled().await;
    });
    receiver
}

struct Discovery {
    client: Client,
    namespace: String,
    /// The configured login.
    login: Option<LoginFeed>,
    /// The settings in messages.
    names: &'static SettingNames,
    /// Logins of Secrets that were chosen before, by name.
    found: BTreeMap<&'static str, LoginFeed>,
    choice: Option<Choice>,
    /// Whether the program may not look, as far as it knows.
    is_refused: bool,
    endpoint: watch::Sender<Endpoint>,
    spawner: Spawner,
}

impl Discovery {
    async fn follow(mut self) {
        loop {
            let is_settled = match services(&self.client, &self.namespace).await {
                Ok(services) => {
                    self.is_refused = false;
                    let choice = redis_service::choose(&services);
                    let is_certain = self.doubt(&choice).is_none();
                    self.take(choice);
                    is_certain
                }
                Err(error) => self.keep(&error),
            };
            sleep(if is_settled { SETTLED } else { UNSETTLED }).await;
        }
    }

    /// Why the choice may be wrong. With a configured login it does not matter where the installation has its own.
    fn doubt<'a>(&self, choice: &'a Choice) -> Option<&'a Doubt> {
        let matters = |doubt: &&Doubt| self.login.is_none() || !matches!(doubt, Doubt::Password(_));
        choice.doubt.as_ref().filter(matters)
    }

    /// Uses another choice from now on.
    fn take(&mut self, choice: Choice) {
        if self.choice.as_ref() == Some(&choice) {
            return;
        }
        let address = choice.address(&self.namespace);
        let password = choice.password.filter(|_| self.login.is_none());
        let secret = password.map(|it| it.secret);
        match self.doubt(&choice) {
            None => tracing::info!(address, secret, "using this redis of Argo CD"),
            Some(doubt) => {
                let doubt = doubt.text(self.names);
                tracing::warn!(address, secret, doubt, "Argo CD's redis is uncertain");
            }
        }
        let login = self.login_for(choice.password);
        self.endpoint.send_replace(Endpoint { address, login });
        self.choice = Some(choice);
    }

    /// Keeps what is known, or the default, after a failed look; whether it will fail again. After the first refusal it may
    /// not: a new program can be faster than its Role.
    fn keep(&mut self, error: &kube::Error) -> bool {
        let was_refused = self.is_refused;
        let is_refused = matches!(error, kube::Error::Api(status) if status.code == 403);
        self.is_refused |= is_refused;
        if is_refused && !was_refused {
            let address = self.names.address;
            let next = format!("grant list on Services in Argo CD's namespace, or set {address}");
            tracing::warn!(error = %Chain(error), next, "cannot look for Argo CD's redis");
        } else {
            tracing::debug!(error = %Chain(error), "cannot look for Argo CD's redis");
        }
        if self.choice.is_none() {
            self.take(Choice::usual());
        }
        is_refused && was_refused
    }

    fn login_for(&mut self, password: Option<PasswordKey>) -> LoginFeed {
        if let Some(login) = &self.login {
            return login.clone();
        }
        let Some(password) = password else {
            return LoginFeed::fixed(None);
        };
        let follow = || {
            let PasswordKey { secret, key } = password;
            let (client, keys) = (self.client.clone(), Keys::of(USER_KEY, key));
            login::poll(client, &self.namespace, secret, keys, &self.spawner)
        };
        let login = self.found.entry(password.secret).or_insert_with(follow);
        login.clone()
    }
}

async fn services(
    client: &Client,
    namespace: &str,
) -> Result<Vec<redis_service::Service>, kube::Error> {
    let services: Api<Service> = Api::namespaced(client.clone(), namespace);
    // The API server's cache is new enough.
    let list = services.list(&ListParams::default().match_any()).await?;
    Ok(list.items.into_iter().map(known).collect())
}

fn known(service: Service) -> redis_service::Service {
    let spec = service.spec.unwrap_or_default();
    let ports = spec.ports.into_iter().flatten();
    let mut owners = service.metadata.owner_references.into_iter().flatten();
    redis_service::Service {
        name: service.metadata.name.unwrap_or_default(),
        labels: service.metadata.labels.unwrap_or_default(),
        is_operated: owners.any(|it| redis_service::is_instance(&it.kind)),
        ports: ports
            .filter_map(|port| u16::try_from(port.port).ok())
            .collect(),
    }
}

#[cfg(test)]
mod tests;
