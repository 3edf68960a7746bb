//! The programs of a pair and their flags, which are those of the Go argocd-agent for both makes.

use std::path::PathBuf;

use anyhow::{Context as _, Result};
use lab_ocm_stand_in::Help;

use super::{Credentials, Make, Mapping, Names};
use crate::{
    Cluster, certs,
    process::Program,
    product,
    steps::{At, Objects},
};

/// The environment variable with the path of the Go program.
pub const GO: &str = "ARGOCD_AGENT_BIN";
/// The argument of a principal without redis.
const NO_REDIS_PROXY: &str = "--disable-redis-proxy";
/// The port of the principal's health.
pub const PRINCIPAL_HEALTH: u16 = 8003;
/// The port of the agent's health.
pub const AGENT_HEALTH: u16 = 8002;

/// The inputs of the two programs.
#[derive(Debug)]
pub struct Setting {
    /// Agent and namespaces.
    pub names: Names,
    /// How Applications are routed.
    pub mapping: Mapping,
    /// The principal's cluster.
    pub hub: Cluster,
    /// The principal's kubeconfig.
    pub hub_kubeconfig: PathBuf,
    /// Namespaces for agents that the principal admits, besides those of the mapping.
    pub admitted: Vec<String>,
    /// The agent's cluster.
    pub spoke: Cluster,
    /// The directory of the logs.
    pub directory: PathBuf,
    /// Their credentials.
    pub credentials: Credentials,
    /// How they connect.
    pub way: Way,
    /// The log level of both.
    pub log_level: &'static str,
}

impl Setting {
    /// Registers a further agent on the hub, and returns its certificate.
    pub async fn enrol(&self, agent: &str) -> Result<certs::Pair> {
        self.enrol_as(agent, self.mapping).await
    }

    /// Like [`Self::enrol`], with a mapping, and so a mode, of its own.
    pub async fn enrol_as(&self, agent: &str, mapping: Mapping) -> Result<certs::Pair> {
        let secret = Credentials::cluster_secret(agent, mapping);
        let at = At::secret(&self.names.hub, &format!("cluster-{agent}"));
        let hub = Objects::new(self.hub.client());
        hub.apply(&at, secret).await?;
        self.credentials.of_agent(agent)
    }
}

/// How an agent connects and authenticates, if not by mutual TLS on the loopback.
#[derive(Clone, Debug)]
pub struct Way {
    /// The host that the agent dials.
    pub host: &'static str,
    /// The port that it dials.
    pub port: u16,
    /// The principal's `--auth`.
    pub auth: String,
    /// The agent's `--creds`.
    pub creds: String,
    /// The address of the hub's redis, behind the principal's redis proxy, and of the spoke's; without
    /// them there is no proxy.
    pub redis: Option<[&'static str; 2]>,
    /// Further flags of the principal: name and value.
    pub principal: Vec<(&'static str, String)>,
    /// Further flags of the agent: name and value.
    pub agent: Vec<(&'static str, String)>,
    /// Further variables of the agent: name and value.
    pub variables: Vec<(&'static str, String)>,
}

impl Way {
    /// Both ends over `WebSocket`s.
    pub fn websockets() -> Self {
        let on = || vec![("enable-websocket", "true".to_owned())];
        Self {
            principal: on(),
            agent: on(),
            ..Self::default()
        }
    }
}

impl Default for Way {
    fn default() -> Self {
        Self {
            host: "127.0.0.1",
            port: 8443,
            auth: "mtls:CN=([^,]+)".to_owned(),
            creds: "mtls:any".to_owned(),
            redis: None,
            principal: Vec::new(),
            agent: Vec::new(),
            variables: Vec::new(),
        }
    }
}

/// The principal of this make.
pub fn principal(make: Make, setting: &Setting) -> Result<Program> {
    let Setting {
        names,
        mapping,
        hub,
        hub_kubeconfig,
        admitted,
        directory,
        way,
        log_level,
        ..
    } = setting;
    // Go admits only namespaces of this list; ours admits an agent's own namespace anyway, and routes the others by destination.
    let mut namespaces = match mapping {
        Mapping::Namespace | Mapping::Autonomous => vec![names.agent.clone()],
        Mapping::Destination => vec![names.hub.clone(), further_namespace(&names.agent)],
    };
    namespaces.extend(admitted.iter().cloned());
    let binary = binary(make, "addon-manager")?;
    // By default there is no redis here, and no client that would use it.
    let without_redis = match (way.redis, make) {
        (Some(_), _) => None,
        (None, Make::Ours) => Some(NO_REDIS_PROXY),
        (None, Make::Go) => without_redis(&Help::ask(&binary, &["principal"])?),
    };
    let program = Program::new("principal", binary, directory)
        .arg("principal")
        .flag("kubeconfig", hub_kubeconfig)
        .flag("kubecontext", hub.name())
        .flag("namespace", &names.hub)
        .flag("allowed-namespaces", namespaces.join(","))
        .flag("auth", &way.auth)
        .flag("destination-based-mapping", mapping_flag(*mapping))
        .flag("log-format", "text")
        .flag("healthz-port", PRINCIPAL_HEALTH.to_string());
    let program = way
        .principal
        .iter()
        .fold(program, |program, (name, value)| program.flag(name, value));
    let program = without_redis.into_iter().fold(program, Program::arg);
    let [redis, _] = way.redis.unwrap_or(["127.0.0.1:6379", ""]);
    Ok(program
        .flag("redis-server-address", redis)
        .flag("log-level", log_level))
}

/// The argument that keeps a Go principal from serving a redis proxy, if it has it: since 0.8. Before, the proxy listens on
/// port 6379, without a client.
fn without_redis(help: &Help) -> Option<&'static str> {
    help.has_flag("disable-redis-proxy")
        .then_some(NO_REDIS_PROXY)
}

/// The agent of this make.
pub(super) fn agent(make: Make, setting: &Setting) -> Result<Program> {
    let Setting {
        names,
        mapping,
        spoke,
        directory,
        way,
        log_level,
        ..
    } = setting;
    let program = Program::new("agent", binary(make, "agent")?, directory);
    let program = match make {
        Make::Ours => program,
        Make::Go => program.arg("agent"),
    };
    let flags = way.agent.iter();
    let program = flags.fold(program, |program, (name, value)| program.flag(name, value));
    let [_, redis] = way.redis.unwrap_or(["", "127.0.0.1:6379"]);
    let variables = way.variables.iter();
    let program = variables.fold(program, |program, (name, value)| program.env(name, value));
    Ok(program
        .flag("kubeconfig", spoke.kubeconfig())
        .flag("kubecontext", spoke.name())
        .flag("namespace", &names.spoke)
        .flag("agent-mode", mode_flag(*mapping))
        .flag("creds", &way.creds)
        .flag("server-address", way.host)
        .flag("server-port", way.port.to_string())
        .flag("allowed-namespaces", further_namespace(&names.agent))
        .flag("create-namespace", mapping_flag(*mapping))
        .flag("destination-based-mapping", mapping_flag(*mapping))
        .flag("redis-addr", redis)
        .flag("log-format", "text")
        .flag("log-level", log_level)
        .flag("healthz-port", AGENT_HEALTH.to_string()))
}

/// A namespace, besides those of Argo CD, whose Applications both ends admit under destination mapping.
pub fn further_namespace(agent: &str) -> String {
    format!("{agent}-apps")
}

const fn mode_flag(mapping: Mapping) -> &'static str {
    match mapping {
        Mapping::Namespace | Mapping::Destination => "managed",
        Mapping::Autonomous => "autonomous",
    }
}

const fn mapping_flag(mapping: Mapping) -> &'static str {
    match mapping {
        Mapping::Namespace | Mapping::Autonomous => "false",
        Mapping::Destination => "true",
    }
}

/// The path of a program of ours.
pub fn ours(name: &str) -> Result<PathBuf> {
    Ok(product::programs()?.join(name))
}

fn binary(make: Make, name: &str) -> Result<PathBuf> {
    match make {
        Make::Ours => ours(name),
        Make::Go => {
            let path = std::env::var_os(GO).with_context(|| format!("{GO} is not set"))?;
            Ok(path.into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn go_principal_gets_the_redis_flag_only_if_it_has_it() {
        let before =
            "Flags:\n      --redis-server-address string   Redis server hostname and port\n";
        assert_eq!(without_redis(&Help::of(before)), None);
        let since = format!("{before}      --disable-redis-proxy   Disable the redis proxy\n");
        assert_eq!(without_redis(&Help::of(&since)), Some(NO_REDIS_PROXY));
    }
}
