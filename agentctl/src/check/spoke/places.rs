//! Namespaces and addresses on a cluster: from the caller, running programs, configuration, else defaults. Pure.

use argocd::keys::addon::AGENT;
use diagnosis::object::{container, label, list, text, variable};
use ocm::{api::addon::AddOnDeploymentConfigSpec, keys::DEFAULT_INSTALL_NAMESPACE};
use serde_json::Value;

use super::way::Source;
use crate::check::hub::address_of;

/// Namespaces on a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Places {
    /// The agent's.
    pub agent: String,
    /// Argo CD's.
    pub argocd: String,
}

/// Values from the command line.
#[derive(Clone, Debug, Default, PartialEq, Eq, clap::Args)]
pub struct Given {
    /// Address that agents dial [default: from the agent, its configuration or the hub].
    #[arg(long = "principal-address", value_name = "HOST:PORT")]
    pub address: Option<String>,
    /// Namespace of the agent on the cluster [default: where it runs, or as configured].
    #[arg(long = "agent-namespace", value_name = "NAMESPACE")]
    pub agent: Option<String>,
    /// Namespace of Argo CD on the cluster [default: the agent's setting, or as configured].
    #[arg(long = "spoke-argocd-namespace", value_name = "NAMESPACE")]
    pub argocd: Option<String>,
}

/// The configuration of the add-on for a cluster, as far as it could be read.
#[derive(Clone, Debug, Default)]
pub struct Configured(Option<AddOnDeploymentConfigSpec>);

impl Configured {
    /// Reads an `AddOnDeploymentConfig`.
    pub fn read(object: &Value) -> Self {
        let spec = object.get("spec").cloned();
        Self(spec.and_then(|spec| serde_json::from_value(spec).ok()))
    }

    /// A variable that has a value.
    pub fn variable(&self, name: &str) -> Option<&str> {
        let value = self.0.as_ref()?.variable(name)?;
        Some(value).filter(|value| !value.is_empty())
    }

    /// Whether the add-on brings an Argo CD where none runs.
    pub fn installs_argo_cd(&self) -> bool {
        self.variable("INSTALL_ARGOCD") != Some("false")
    }
}

/// Namespace and name of the configuration that counts for a cluster: that of its add-on, else the default of all.
pub fn configuration(addon: Option<&Value>, offer: Option<&Value>) -> Option<(String, String)> {
    let of = |object: Option<&Value>, pointer: &str, inner: &str| {
        let mut all = list(object?, pointer).iter();
        let reference = all.find(|it| text(it, "/resource") == "addondeploymentconfigs")?;
        let reference = reference.get(inner).unwrap_or(reference);
        let part = |key: &str| Some(reference.get(key)?.as_str()?.to_owned());
        Some((part("namespace")?, part("name")?))
    };
    of(addon, "/status/configReferences", "desiredConfig")
        .or_else(|| of(offer, "/spec/supportedConfigs", "defaultConfig"))
}

/// The agent's Deployment.
pub(super) fn agent<'a>(mut programs: impl Iterator<Item = &'a Value>) -> Option<&'a Value> {
    programs.find(|it| argocd::Meta::of(it).name() == AGENT)
}

pub(super) fn variable_of<'a>(agent: Option<&'a Value>, name: &str) -> Option<&'a str> {
    // It has no flags of ours: variables carry all of its settings.
    variable(container(agent?)?, name).filter(|value| !value.is_empty())
}

/// The namespaces.
pub fn places(
    given: &Given,
    programs: &[Value],
    addon: Option<&Value>,
    configured: &Configured,
) -> Places {
    let running = agent(programs.iter());
    let of_addon = |pointer: &str| {
        addon
            .map(|it| text(it, pointer))
            .filter(|it| !it.is_empty())
    };
    let agent = (given.agent.as_deref())
        .or_else(|| Some(argocd::Meta::of(running?).namespace()))
        .or_else(|| of_addon("/status/namespace"))
        .or_else(|| of_addon("/spec/installNamespace"));
    let argocd = (given.argocd.as_deref())
        .or_else(|| variable_of(running, "ARGOCD_AGENT_NAMESPACE"))
        .or_else(|| configured.variable("ARGOCD_NAMESPACE"));
    Places {
        agent: agent.unwrap_or(DEFAULT_INSTALL_NAMESPACE).to_owned(),
        argocd: argocd.unwrap_or("argocd").to_owned(),
    }
}

/// Where the agent dials, or would, and who says so.
pub fn address(
    given: &Given,
    programs: &[Value],
    configured: &Configured,
    hub: &[(String, u16)],
) -> Option<(String, u16, Source)> {
    let from = |text: &str, source| {
        let (host, port) = address_of(text);
        (host, port, source)
    };
    if let Some(given) = &given.address {
        return Some(from(given, Source::Given));
    }
    let agent = agent(programs.iter());
    if let Some(host) = variable_of(agent, "ARGOCD_AGENT_REMOTE_SERVER") {
        let port = variable_of(agent, "ARGOCD_AGENT_REMOTE_PORT");
        let port = port.and_then(|port| port.parse().ok()).unwrap_or(443);
        // The agent accepts an IPv6 address with brackets, too.
        let host = host.trim_matches(['[', ']']);
        return Some((host.to_owned(), port, Source::Agent));
    }
    if let Some(configured) = configured.variable("PRINCIPAL_ADDRESS") {
        return Some(from(configured, Source::Configuration));
    }
    let (host, port) = hub.first()?;
    Some((host.clone(), *port, Source::Hub))
}

/// The proxy that the agent uses, if one is configured, without credentials.
pub fn proxy(programs: &[Value]) -> Option<String> {
    let proxy = variable_of(agent(programs.iter()), "HTTPS_PROXY")?;
    proxy.rsplit('@').next().map(str::to_owned)
}

/// Names that Argo CD's programs have, however they were installed.
const NAMES: [&str; 3] = [
    "argocd-application-controller",
    "argocd-redis",
    "argocd-repo-server",
];
/// Labels `app` of those agents of a klusterlet that apply `ManifestWorks`.
pub(super) const WORK_AGENTS: [&str; 2] = ["klusterlet-manifestwork-agent", "klusterlet-agent"];

/// Whether a program is of Argo CD.
pub(super) fn is_argo_cd(program: &Value) -> bool {
    let name = argocd::Meta::of(program).name();
    label(program, "app.kubernetes.io/part-of") == "argocd" || NAMES.contains(&name)
}

/// Whether a program is an agent, ours or another.
pub(super) fn is_agent(program: &Value) -> bool {
    let name = argocd::Meta::of(program).name();
    name == AGENT || label(program, "app.kubernetes.io/name") == "argocd-agent-agent"
}

/// Whether a program is looked at at all: a cluster has thousands.
pub fn matters(program: &Value) -> bool {
    is_argo_cd(program) || is_agent(program) || WORK_AGENTS.contains(&label(program, "app"))
}
