//! Renders the agent's objects on one spoke from `manifests/spoke`. Pure.

use std::collections::{BTreeMap, BTreeSet};

use argocd::keys::addon::AGENT_TRUST as TRUST;
use live::ui_access::UiAccess;
use ocm::{api::addon::NodePlacement, name::is_dns_label};
use principal::Mode;
use serde_json::{Value, json};

use super::{
    settings::{PodOptions, ReadGroups, RedisOptions, Tuning},
    template::{Error, Template, embedded},
};
use crate::address::Address;

pub use argocd::keys::addon::AGENT as DEPLOYMENT;

/// The agent's container in it.
const CONTAINER: &str = "agent";

/// The agent's permissions if the hub owns the Applications, and if the spoke does.
const MANAGED_ROLE: &str = "role.yaml";
const AUTONOMOUS_ROLE: &str = "role-autonomous.yaml";

/// The permissions of users of the hub's Argo CD from the level applications on, which the agent limits itself.
const READERS_ROLE: &str = "ui-read-clusterrole.yaml";
/// Their further permissions with `UI_READ_GROUPS` `all`.
const VIEW_BINDING: &str = "ui-view-clusterrolebinding.yaml";

/// The files that are rendered once for each further namespace of Applications.
const EACH: [&str; 3] = [
    "namespace-applications.yaml",
    "role-applications.yaml",
    "rolebinding-applications.yaml",
];

/// The agent's permissions in all namespaces, which only patterns of namespaces need.
const EVERYWHERE: [&str; 2] = [
    "clusterrole-applications.yaml",
    "clusterrolebinding-applications.yaml",
];

/// Prefixes of the files for users of the hub's Argo CD, with the level that they need; the first match counts.
const UI: [(&str, UiAccess); 3] = [
    ("ui-terminal-", UiAccess::Terminal),
    ("ui-operate-", UiAccess::Operate),
    ("ui-", UiAccess::Applications),
];

/// The files, in the order of creation.
const FILES: [(&str, &str); 23] = [
    embedded!("namespace-agent.yaml"),
    embedded!("namespace-argocd.yaml"),
    embedded!("serviceaccount.yaml"),
    embedded!("role.yaml"),
    embedded!("role-autonomous.yaml"),
    embedded!("rolebinding.yaml"),
    embedded!("namespace-applications.yaml"),
    embedded!("role-applications.yaml"),
    embedded!("rolebinding-applications.yaml"),
    embedded!("clusterrole-applications.yaml"),
    embedded!("clusterrolebinding-applications.yaml"),
    embedded!("ui-serviceaccount.yaml"),
    embedded!("ui-role.yaml"),
    embedded!("ui-rolebinding.yaml"),
    embedded!("ui-read-clusterrole.yaml"),
    embedded!("ui-read-clusterrolebinding.yaml"),
    embedded!("ui-view-clusterrolebinding.yaml"),
    embedded!("ui-operate-clusterrole.yaml"),
    embedded!("ui-operate-clusterrolebinding.yaml"),
    embedded!("ui-terminal-clusterrole.yaml"),
    embedded!("ui-terminal-clusterrolebinding.yaml"),
    embedded!("configmap-ca.yaml"),
    embedded!("deployment.yaml"),
];

/// The key of the proxy's certificates in the trust `ConfigMap`, and their path in the pod.
const PROXY_CA: &str = "proxy-ca.crt";
const PROXY_CA_PATH: &str = "/etc/argocd-agent/ca/proxy-ca.crt";
/// The key of the trace collector's certificates in the trust `ConfigMap`, and their path in the pod.
const OTLP_CA: &str = "otlp-ca.crt";
const OTLP_CA_PATH: &str = "/etc/argocd-agent/ca/otlp-ca.crt";

/// The settings of one spoke.
#[derive(Clone, Debug, PartialEq)]
pub struct Spoke {
    /// Namespace of the agent.
    pub agent_namespace: String,
    /// Namespace of Argo CD.
    pub argocd_namespace: String,
    /// Further namespaces of Applications, if the hub owns them, by name or pattern.
    pub allowed_namespaces: BTreeSet<String>,
    /// The owner of the Applications.
    pub mode: Mode,
    /// The address that the agent dials.
    pub principal: Address,
    /// The CAs that the agent trusts, as PEM.
    pub ca_bundle: String,
    /// The agent's image, with image registries applied.
    pub image: String,
    /// Its log level.
    pub log_level: String,
    /// The access of users of the hub's Argo CD.
    pub ui_access: UiAccess,
    /// Further API groups that they may read.
    pub read_groups: ReadGroups,
    /// The placement of its pod.
    pub placement: NodePlacement,
    /// Proxies for the connection to the hub, and for an Argo CD that we install.
    pub proxy: Proxy,
    /// Its resources; none keeps those of the manifest.
    pub resources: Option<Value>,
    /// The export of traces, if enabled.
    pub traces: Option<Traces>,
    /// Further fields of Pods.
    pub pod: PodOptions,
    /// How the agent reaches Argo CD's redis.
    pub redis: RedisOptions,
    /// Settings of an Argo CD that we install.
    pub tuning: Tuning,
}

/// Proxies for connections to the outside of the cluster; empty values are not passed on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Proxy {
    /// For `http`.
    pub http: String,
    /// For `https`, and so for the agent's connection.
    pub https: String,
    /// The hosts to connect to directly.
    pub except: String,
    /// The CAs of a proxy that uses TLS itself, as PEM.
    pub ca: String,
}

/// The export of an agent's traces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Traces {
    /// host:port of the collector.
    pub address: String,
    /// The CAs of the collector, as PEM; none connects without TLS.
    pub ca: Option<String>,
    /// The sample ratio, if configured.
    pub ratio: Option<String>,
}

/// The parsed manifests.
#[derive(Clone, Debug)]
pub struct Templates(Vec<Template>);

impl Templates {
    /// Parses the files built into this program.
    pub fn embedded() -> Result<Self, Error> {
        Template::all(&FILES).map(Self)
    }

    /// Renders the objects for one cluster, in the order of creation.
    pub fn render(&self, spoke: &Spoke) -> Result<Vec<Value>, Error> {
        let mut values = values(spoke);
        let mut objects: Vec<Value> = Vec::with_capacity(self.0.len());
        let other_role = match spoke.mode {
            Mode::Managed => AUTONOMOUS_ROLE,
            Mode::Autonomous => MANAGED_ROLE,
        };
        let shown = |file: &str| {
            let level = UI.iter().find(|(begins, _)| file.starts_with(begins));
            level.is_none_or(|(_, level)| spoke.ui_access >= *level)
                && (file != VIEW_BINDING || spoke.read_groups.views_all())
                && (!EVERYWHERE.contains(&file) || spoke.has_patterns())
        };
        let files = self.0.iter().filter(|it| it.name() != other_role);
        for template in files.filter(|it| shown(it.name())) {
            if EACH.contains(&template.name()) {
                let names = spoke.further_namespaces().filter(|it| is_dns_label(it));
                for namespace in names {
                    values.insert("APPLICATION_NAMESPACE", namespace.clone());
                    add(&mut objects, template.fill(&values)?);
                }
                continue;
            }
            let mut object = template.fill(&values)?;
            if object.pointer("/kind") == Some(&json!("Deployment")) {
                adjust(&mut object, spoke);
            }
            if [MANAGED_ROLE, AUTONOMOUS_ROLE].contains(&template.name()) {
                spoke.redis.grant(&mut object);
            }
            if template.name() == READERS_ROLE {
                spoke.read_groups.grant(&mut object);
            }
            if object.pointer("/metadata/name") == Some(&json!(TRUST)) {
                trust_others(&mut object, spoke);
            }
            add(&mut objects, object);
        }
        Ok(objects)
    }
}

impl Spoke {
    /// Whether the agent needs permissions in all namespaces: RBAC has no patterns.
    fn has_patterns(&self) -> bool {
        self.further_namespaces().any(|it| !is_dns_label(it))
    }

    /// The namespaces of Applications besides Argo CD's own, by name or pattern. An autonomous cluster reports only Applications in Argo CD's
    /// namespace.
    pub(super) fn further_namespaces(&self) -> impl Iterator<Item = &String> {
        let managed = self.mode == Mode::Managed;
        let further = self.allowed_namespaces.iter();
        further.filter(move |name| managed && **name != self.argocd_namespace)
    }
}

/// Adds an object unless it exists: agent and Argo CD may share a namespace, and a ManifestWork must not contain an
/// object twice.
fn add(objects: &mut Vec<Value>, object: Value) {
    let mut known = objects.iter();
    if !known.any(|other| identity(other) == identity(&object)) {
        objects.push(object);
    }
}

fn identity(object: &Value) -> [Option<&Value>; 3] {
    ["/kind", "/metadata/namespace", "/metadata/name"].map(|path| object.pointer(path))
}

fn values(spoke: &Spoke) -> BTreeMap<&'static str, String> {
    // Every field, no `..`: a new field needs a decision here.
    let Spoke {
        agent_namespace,
        argocd_namespace,
        allowed_namespaces: _,
        mode,
        principal,
        ca_bundle,
        image,
        log_level,
        ui_access,
        read_groups: _,
        placement: _,
        proxy: _,
        resources: _,
        traces: _,
        pod: _,
        redis: _,
        tuning: _,
    } = spoke;
    BTreeMap::from([
        ("AGENT_NAMESPACE", agent_namespace.clone()),
        ("ARGOCD_NAMESPACE", argocd_namespace.clone()),
        ("MODE", mode.as_str().to_owned()),
        ("PRINCIPAL_HOST", principal.host.clone()),
        ("PRINCIPAL_PORT", principal.port.to_string()),
        ("CA_BUNDLE", ca_bundle.clone()),
        ("AGENT_IMAGE", image.clone()),
        ("LOG_LEVEL", log_level.clone()),
        ("UI_ACCESS", ui_access.to_string()),
    ])
}

/// Sets the fields that only some clusters have.
fn adjust(deployment: &mut Value, spoke: &Spoke) {
    if let Some(pod) = deployment.pointer_mut("/spec/template/spec") {
        argocd::patch::merge(pod, &json!(spoke.placement));
        argocd::patch::merge(pod, &spoke.pod.for_agent());
    }
    let Some(container) = deployment
        .pointer_mut("/spec/template/spec/containers/0")
        .and_then(Value::as_object_mut)
    else {
        return;
    };
    if let Some(resources) = &spoke.resources {
        container.insert("resources".to_owned(), resources.clone());
    }
    let Some(env) = container.get_mut("env").and_then(Value::as_array_mut) else {
        return;
    };
    let optional = variables(spoke).into_iter().chain(spoke.redis.variables());
    let optional = optional.filter(|(_, value)| !value.is_empty());
    env.extend(optional.map(|(name, value)| json!({"name": name, "value": value})));
}

/// The variables of the agent that only some clusters set; empty values are omitted.
fn variables(spoke: &Spoke) -> [(&'static str, String); 9] {
    let proxy = &spoke.proxy;
    // In the same directory as the CA of the principal, so the agent reloads it after a change.
    let bundle = if proxy.ca.is_empty() {
        ""
    } else {
        PROXY_CA_PATH
    };
    let further: Vec<&str> = spoke.further_namespaces().map(String::as_str).collect();
    let traces = spoke.traces.as_ref();
    let of_traces = |value: fn(&Traces) -> &str| traces.map(value).unwrap_or_default().to_owned();
    [
        ("ARGOCD_AGENT_ALLOWED_NAMESPACES", further.join(",")),
        ("HTTP_PROXY", proxy.http.clone()),
        ("HTTPS_PROXY", proxy.https.clone()),
        ("NO_PROXY", proxy.except.clone()),
        ("CA_BUNDLE_FILE_PATH", bundle.to_owned()),
        ("ARGOCD_AGENT_OTLP_ADDRESS", of_traces(|it| &it.address)),
        (
            "ARGOCD_AGENT_OTLP_INSECURE",
            of_traces(|it| if it.ca.is_none() { "true" } else { "" }),
        ),
        (
            "ARGOCD_AGENT_OTLP_CA_PATH",
            of_traces(|it| if it.ca.is_some() { OTLP_CA_PATH } else { "" }),
        ),
        (
            "ARGOCD_AGENT_OTLP_SAMPLE_RATIO",
            of_traces(|it| it.ratio.as_deref().unwrap_or_default()),
        ),
    ]
}

/// Adds the certificates of the proxy and the trace collector to the agent's trust `ConfigMap`.
fn trust_others(map: &mut Value, spoke: &Spoke) {
    let collector = spoke.traces.as_ref().and_then(|it| it.ca.as_deref());
    let Some(data) = map.get_mut("data").and_then(Value::as_object_mut) else {
        return;
    };
    for (file, ca) in [
        (PROXY_CA, spoke.proxy.ca.as_str()),
        (OTLP_CA, collector.unwrap_or_default()),
    ] {
        if !ca.is_empty() {
            data.insert(file.to_owned(), ca.into());
        }
    }
}

/// Whether a container identity of an `AddOnDeploymentConfig` (`resource:name:container`) is the agent's.
pub fn is_agent_container(id: &str) -> bool {
    let fits = |pattern: &str, name: &str| pattern == "*" || pattern == name;
    let mut parts = id.splitn(3, ':');
    let (resource, name, container) = (parts.next(), parts.next(), parts.next());
    resource.is_some_and(|pattern| fits(pattern, "deployments"))
        && name.is_some_and(|pattern| fits(pattern, DEPLOYMENT))
        && container.is_some_and(|pattern| fits(pattern, CONTAINER))
}

#[cfg(test)]
mod tests;
