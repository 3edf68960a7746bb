//! Reads the settings of one spoke from an `AddOnDeploymentConfig`. Pure.

use std::str::FromStr;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use live::ui_access::{self, UiAccess};
use ocm::{api::addon::AddOnDeploymentConfigSpec, name::is_dns_label};
use principal::Mode;
use serde_json::json;

use super::{
    argocd_install::Install,
    manifests::{Proxy, Spoke, is_agent_container},
};
use crate::{
    address::Address,
    hub::{Addon, mode_of},
};

mod image;
mod namespaces;
mod parts;
mod pod;
mod read_groups;
pub(crate) mod redis;
mod traces;
mod tuning;
mod unknown;

pub(super) use image::mirrored;
pub use pod::PodOptions;
pub use read_groups::ReadGroups;
pub use redis::{RedisOptions, RedisTls};
pub use tuning::Tuning;
pub use unknown::{Unknown, VARIABLES, unknown};

/// The defaults for all clusters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Defaults {
    /// The agent's image, unless the configuration sets another.
    pub image: String,
    /// The address that agents dial, unless the configuration sets another; none while it is unknown.
    pub principal: Option<Address>,
    /// The CAs that agents trust, as PEM; none until a CA exists.
    pub ca_bundle: Option<String>,
}

/// Why the settings are invalid, with the next step.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The principal's address is unknown.
    #[error(
        "the principal's address is unknown: set the variable PRINCIPAL_ADDRESS (host or \
         host:port) in the AddOnDeploymentConfig or --principal-address, or give the Service \
         argocd-agent-principal a load balancer, a node port, or a Route, TLSRoute or Ingress that \
         passes TLS through (with the chart's value principal.findAddress)"
    )]
    NoAddress,
    /// No CA exists yet.
    #[error("the certificate authority is not ready yet")]
    NoAuthority,
    /// A variable has an invalid value.
    #[error("the variable {name} of the AddOnDeploymentConfig is {value:?}; it must be {wanted}")]
    Variable {
        /// The variable.
        name: &'static str,
        /// Its value.
        value: String,
        /// The valid values.
        wanted: &'static str,
    },
    /// A variable with settings of Argo CD is invalid.
    #[error("the variable {name} of the AddOnDeploymentConfig is invalid: {problem}")]
    Settings {
        /// The variable.
        name: &'static str,
        /// The problem and its place.
        problem: String,
    },
    /// The proxy's CA bundle contains no certificate.
    #[error("spec.proxyConfig.caBundle of the AddOnDeploymentConfig has no PEM certificate")]
    ProxyCa,
}

/// The mode of a cluster: the recorded one, else that of the label if it may decide, else of the configuration, else
/// managed.
pub fn mode(
    addon: &Addon,
    label: Option<Mode>,
    config: &AddOnDeploymentConfigSpec,
) -> Result<Mode, Error> {
    let known = addon.mode().or(label);
    known.map_or_else(|| configured_mode(config), Ok)
}

/// The mode of clusters that have neither a recorded mode nor a label.
pub fn configured_mode(config: &AddOnDeploymentConfigSpec) -> Result<Mode, Error> {
    let mode = variable("MODE", config, "managed or autonomous", mode_of)?;
    Ok(mode.unwrap_or(Mode::Managed))
}

/// The address that agents of a cluster with this configuration dial.
pub fn address(
    config: &AddOnDeploymentConfigSpec,
    default: Option<&Address>,
) -> Result<Address, Error> {
    let wanted = "a host or host:port, with brackets for an IPv6 address: [2001:db8::1]:443";
    variable("PRINCIPAL_ADDRESS", config, wanted, parsed)?
        .or_else(|| default.cloned())
        .ok_or(Error::NoAddress)
}

/// Whether a cluster with this configuration gets the repositories without a project.
pub fn shares_unscoped(config: &AddOnDeploymentConfigSpec, default: bool) -> Result<bool, Error> {
    let shares = variable("SHARE_UNSCOPED_REPOSITORIES", config, TRUTH, parsed)?;
    Ok(shares.unwrap_or(default))
}

/// Whether an Argo CD that we installed stays when the add-on is removed.
pub fn keeps_argocd(config: &AddOnDeploymentConfigSpec) -> Result<bool, Error> {
    Ok(variable("KEEP_ARGOCD", config, TRUTH, parsed)?.unwrap_or(false))
}

/// Whether we install Argo CD on a cluster with this configuration.
pub fn installs(config: &AddOnDeploymentConfigSpec) -> Result<Install, Error> {
    let parse = |value: &str| match value {
        "auto" => Some(Install::Auto),
        "true" => Some(Install::Always),
        "false" => Some(Install::Never),
        _ => None,
    };
    let install = variable("INSTALL_ARGOCD", config, "auto, true or false", parse)?;
    Ok(install.unwrap_or_default())
}

/// The valid values of a variable that is on or off.
const TRUTH: &str = "true or false";

fn parsed<T: FromStr>(value: &str) -> Option<T> {
    value.parse().ok()
}

/// Parses the value of a variable; none if it is not set or empty.
fn variable<T>(
    name: &'static str,
    config: &AddOnDeploymentConfigSpec,
    wanted: &'static str,
    parse: impl FnOnce(&str) -> Option<T>,
) -> Result<Option<T>, Error> {
    let Some(value) = config.variable(name).filter(|value| !value.is_empty()) else {
        return Ok(None);
    };
    let invalid = || Error::Variable {
        name,
        value: value.to_owned(),
        wanted,
    };
    parse(value).map(Some).ok_or_else(invalid)
}

/// Reads the settings of one spoke.
pub fn spoke(
    config: &AddOnDeploymentConfigSpec,
    agent_namespace: &str,
    mode: Mode,
    defaults: &Defaults,
) -> Result<Spoke, Error> {
    Ok(Spoke {
        agent_namespace: agent_namespace.to_owned(),
        argocd_namespace: argocd_namespace(config)?,
        allowed_namespaces: namespaces::allowed(config)?,
        mode,
        principal: address(config, defaults.principal.as_ref())?,
        ca_bundle: defaults.ca_bundle.clone().ok_or(Error::NoAuthority)?,
        image: image::image(config, &defaults.image)?,
        log_level: log_level(config)?,
        ui_access: variable("UI_ACCESS", config, ui_access::LEVELS, parsed)?
            .unwrap_or(UiAccess::Read),
        read_groups: read_groups::read_groups(config)?,
        placement: config.node_placement.clone().unwrap_or_default(),
        proxy: proxy(config)?,
        resources: resources(config),
        traces: traces::traces(config)?,
        pod: pod::options(config)?,
        redis: redis::options(config)?,
        tuning: tuning::tuning(config)?,
    })
}

fn argocd_namespace(config: &AddOnDeploymentConfigSpec) -> Result<String, Error> {
    let wanted = "the name of a namespace";
    let namespace = variable("ARGOCD_NAMESPACE", config, wanted, label)?;
    Ok(namespace.unwrap_or_else(|| "argocd".to_owned()))
}

fn label(text: &str) -> Option<String> {
    is_dns_label(text).then(|| text.to_owned())
}

fn log_level(config: &AddOnDeploymentConfigSpec) -> Result<String, Error> {
    const LEVELS: [&str; 6] = ["error", "warn", "warning", "info", "debug", "trace"];
    let wanted = "error, warn, info, debug or trace";
    let parse = |value: &str| LEVELS.into_iter().find(|level| *level == value);
    let level = variable("LOG_LEVEL", config, wanted, parse)?;
    Ok(level.unwrap_or("info").to_owned())
}

fn proxy(config: &AddOnDeploymentConfigSpec) -> Result<Proxy, Error> {
    let Some(proxy) = &config.proxy_config else {
        return Ok(Proxy::default());
    };
    // A byte field: base64 of PEM.
    let bundle = STANDARD.decode(proxy.ca_bundle.as_bytes()).ok();
    let bundle = bundle.and_then(|bytes| String::from_utf8(bytes).ok());
    let ca = bundle.filter(|text| text.is_empty() || text.contains("-----BEGIN CERTIFICATE-----"));
    Ok(Proxy {
        http: proxy.http_proxy.clone(),
        https: proxy.https_proxy.clone(),
        except: proxy.no_proxy.clone(),
        ca: ca.ok_or(Error::ProxyCa)?,
    })
}

/// The last entry that matches, as in OCM's own framework.
fn resources(config: &AddOnDeploymentConfigSpec) -> Option<serde_json::Value> {
    let mut entries = config.resource_requirements.iter().rev();
    entries
        .find(|entry| is_agent_container(&entry.container_id))
        .map(|entry| json!(entry.resources))
}

#[cfg(test)]
mod tests;
