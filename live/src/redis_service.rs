//! Finds Argo CD's redis among the Services of its namespace, and the Secret with the password.
//!
//! Argo CD's manifests, its Helm chart and its operators give them different names:
//!
//! | installed by | Service | Secret, key |
//! |---|---|---|
//! | manifests | `argocd-redis`; highly available `argocd-redis-ha-haproxy` | `argocd-redis`, `auth` |
//! | Helm chart, release `cd` | `cd-argocd-redis`; highly available `cd-redis-ha-haproxy` | `argocd-redis`, `auth` |
//! | operator, instance `team` | `team-redis`; highly available `team-redis-ha-haproxy` | `team-redis-initial-password`, `admin.password` |

use std::collections::{BTreeMap, BTreeSet};

use argocd::keys::OF_ARGOCD;

/// The Service of Argo CD's own manifests, and the default.
pub const SERVICE: &str = "argocd-redis";
/// The port of redis.
pub const PORT: u16 = 6379;

/// Operators write the name of their instance into it; other tools write other names.
const MANAGED_BY: &str = "app.kubernetes.io/managed-by";

/// The number of names in a message.
const LISTED: usize = 5;

/// A Secret, and its key with the password.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PasswordKey {
    /// The Secret.
    pub secret: &'static str,
    /// The key.
    pub key: &'static str,
}

/// The password of redis where no operator installed it.
pub const PASSWORD: PasswordKey = PasswordKey {
    secret: "argocd-redis",
    key: "auth",
};

/// The key of the user, in every Secret that has one.
pub const USER_KEY: &str = "auth_username";

/// The key of an operator.
const OPERATOR_KEY: &str = "admin.password";

/// The instances of operators whose password is found: a Role names each Secret, and these are common.
const INSTANCES: &[(&str, PasswordKey)] = &[
    (
        "argocd",
        PasswordKey {
            secret: "argocd-redis-initial-password",
            key: OPERATOR_KEY,
        },
    ),
    (
        "openshift-gitops",
        PasswordKey {
            secret: "openshift-gitops-redis-initial-password",
            key: OPERATOR_KEY,
        },
    ),
];

/// The Secrets in which a password is found.
pub fn secrets() -> impl Iterator<Item = &'static str> {
    let instances = INSTANCES.iter().map(|(_, password)| password.secret);
    std::iter::once(PASSWORD.secret).chain(instances)
}

/// Whether an owner of this kind is an operator's instance.
pub fn is_instance(kind: &str) -> bool {
    kind == "ArgoCD"
}

/// A Service of Argo CD's namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Service {
    /// Its name.
    pub name: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Whether an operator's instance owns it, by [`is_instance`].
    pub is_operated: bool,
    /// Its ports.
    pub ports: Vec<u16>,
}

/// What is used as Argo CD's redis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The Service.
    pub service: String,
    /// Its port.
    pub port: u16,
    /// The password; none if its Secret has an unexpected name.
    pub password: Option<PasswordKey>,
    /// Why an administrator may have to set it.
    pub doubt: Option<Doubt>,
}

/// Why redis or its password was not found, with the variable to set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Doubt {
    /// No Service is one of Argo CD's redis.
    NotFound,
    /// Several are: their names.
    Several(Vec<String>),
    /// The password is in this Secret, which is read only if it is configured.
    Password(String),
}

/// The settings that replace the search, by the names under which an administrator sets them.
#[derive(Clone, Copy, Debug)]
pub struct SettingNames {
    /// That of the address.
    pub address: &'static str,
    /// That of the Secret with the password.
    pub secret: &'static str,
    /// That of its key.
    pub key: &'static str,
    /// That of TLS.
    pub tls: &'static str,
}

/// Variables of the `AddOnDeploymentConfig`, for the redis of a cluster.
pub const ON_CLUSTER: SettingNames = SettingNames {
    address: "REDIS_ADDR",
    secret: "REDIS_SECRET",
    key: "REDIS_SECRET_KEY",
    tls: "REDIS_TLS",
};

/// Values of the chart, for the redis of the hub.
pub const ON_HUB: SettingNames = SettingNames {
    address: "argocd.redis.address",
    secret: "argocd.redis.secret",
    key: "argocd.redis.key",
    tls: "argocd.redis.tls",
};

impl Doubt {
    /// The cause, and the setting that resolves it.
    pub fn text(&self, names: &SettingNames) -> String {
        let SettingNames {
            address,
            secret,
            key,
            ..
        } = names;
        match self {
            Self::NotFound => {
                format!("no Service of Argo CD's redis found; set {address}")
            }
            Self::Several(names) => {
                let listed = names.iter().take(LISTED).map(String::as_str);
                let listed = listed.collect::<Vec<_>>().join(", ");
                format!("several Services may be redis ({listed}); set {address}")
            }
            Self::Password(name) => format!(
                "the password of redis is not in an expected Secret; set {secret} to {name} and {key} to {OPERATOR_KEY}"
            ),
        }
    }
}

impl Choice {
    /// The default, without any knowledge of the cluster.
    pub fn usual() -> Self {
        Self {
            service: SERVICE.to_owned(),
            port: PORT,
            password: Some(PASSWORD),
            doubt: None,
        }
    }

    /// host:port in the cluster.
    pub fn address(&self, namespace: &str) -> String {
        format!("{}.{namespace}.svc:{}", self.service, self.port)
    }
}

/// How a Service leads to redis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// To the one redis.
    Single,
    /// To the writable one of several, through haproxy.
    Proxy,
    /// To any of several: all have the values.
    Replica,
}

/// Ends of names, longest first, and whether the label counts, too. The chart of haproxy has labels of its own.
const FORMS: &[(&str, Form, bool)] = &[
    ("-redis-ha-haproxy", Form::Proxy, false),
    ("-redis-ha", Form::Replica, true),
    ("-redis", Form::Single, true),
];

/// Chooses the Service that is Argo CD's redis, and the default if none or several are.
pub fn choose(services: &[Service]) -> Choice {
    let all: Vec<_> = services.iter().filter_map(recognized).collect();
    let proxied = all.iter().filter(|it| it.form == Form::Proxy);
    let proxied: BTreeSet<&str> = proxied.map(|it| it.stem).collect();
    let is_own = |it: &&Recognized<'_>| it.form != Form::Replica || !proxied.contains(it.stem);
    let candidates: Vec<_> = all.iter().filter(is_own).collect();
    let usual = candidates.iter().find(|it| it.service.name == SERVICE);
    match candidates.as_slice() {
        [] => Choice {
            doubt: Some(Doubt::NotFound),
            ..Choice::usual()
        },
        [one] => chosen(one.service),
        several => {
            let names = several.iter().map(|it| it.service.name.clone());
            let mut names: Vec<_> = names.collect();
            // The API lists them in any order.
            names.sort_unstable();
            Choice {
                doubt: Some(Doubt::Several(names)),
                ..usual.map_or_else(Choice::usual, |it| chosen(it.service))
            }
        }
    }
}

/// A Service that leads to Argo CD's redis.
struct Recognized<'a> {
    service: &'a Service,
    form: Form,
    /// Its name without the end.
    stem: &'a str,
}

fn recognized(service: &Service) -> Option<Recognized<'_>> {
    let is_argocd = service.name == SERVICE
        || service.labels.get(OF_ARGOCD.0).map(String::as_str) == Some(OF_ARGOCD.1);
    FORMS.iter().find_map(|(end, form, needs_label)| {
        let stem = service.name.strip_suffix(*end)?;
        (is_argocd || !needs_label).then_some(Recognized {
            service,
            form: *form,
            stem,
        })
    })
}

fn chosen(service: &Service) -> Choice {
    let port = match service.ports.as_slice() {
        [other, ..] if !service.ports.contains(&PORT) => *other,
        _ => PORT,
    };
    let (password, doubt) = match instance(service) {
        None => (Some(PASSWORD), None),
        Some(name) => match INSTANCES.iter().find(|(known, _)| *known == name) {
            Some((_, password)) => (Some(*password), None),
            None => (
                None,
                Some(Doubt::Password(format!("{name}-redis-initial-password"))),
            ),
        },
    };
    Choice {
        service: service.name.clone(),
        port,
        password,
        doubt,
    }
}

/// The instance of an operator: Services of an instance begin with its name.
fn instance(service: &Service) -> Option<&str> {
    let label = service.labels.get(MANAGED_BY);
    let name = label.filter(|_| service.is_operated)?;
    let rest = service.name.strip_prefix(name.as_str())?;
    (!name.is_empty() && rest.starts_with("-redis")).then_some(name.as_str())
}

#[cfg(test)]
mod tests;
