//! The objects of one spoke: `manifests/spoke`, filled for one cluster. Pure.

use std::collections::{BTreeMap, BTreeSet};

use argocd::keys::addon::AGENT_TRUST as TRUST;
use live::ui_access::UiAccess;
use principal::Mode;
use serde_json::{Value, json};

use super::template::{Error, Template};
use crate::address::Address;

pub use argocd::keys::addon::AGENT as DEPLOYMENT;

/// The agent's container in it.
const CONTAINER: &str = "agent";

/// What the agent may do where the hub owns the Applications, and where the spoke does.
const MANAGED_ROLE: &str = "role.yaml";
const AUTONOMOUS_ROLE: &str = "role-autonomous.yaml";

/// What there is once for each further namespace of Applications.
const EACH: [&str; 3] = [
    "namespace-applications.yaml",
    "role-applications.yaml",
    "rolebinding-applications.yaml",
];

/// How the files begin that are there for people at the hub, from which level on; the first that fits counts.
const UI: [(&str, UiAccess); 3] = [
    ("ui-terminal-", UiAccess::Terminal),
    ("ui-operate-", UiAccess::Operate),
    ("ui-", UiAccess::Read),
];

/// The files, in the order in which they must exist.
const FILES: [(&str, &str); 20] = [
    (
        "namespace-agent.yaml",
        include_str!("../../../manifests/spoke/namespace-agent.yaml"),
    ),
    (
        "namespace-argocd.yaml",
        include_str!("../../../manifests/spoke/namespace-argocd.yaml"),
    ),
    (
        "serviceaccount.yaml",
        include_str!("../../../manifests/spoke/serviceaccount.yaml"),
    ),
    (
        MANAGED_ROLE,
        include_str!("../../../manifests/spoke/role.yaml"),
    ),
    (
        AUTONOMOUS_ROLE,
        include_str!("../../../manifests/spoke/role-autonomous.yaml"),
    ),
    (
        "rolebinding.yaml",
        include_str!("../../../manifests/spoke/rolebinding.yaml"),
    ),
    (
        EACH[0],
        include_str!("../../../manifests/spoke/namespace-applications.yaml"),
    ),
    (
        EACH[1],
        include_str!("../../../manifests/spoke/role-applications.yaml"),
    ),
    (
        EACH[2],
        include_str!("../../../manifests/spoke/rolebinding-applications.yaml"),
    ),
    (
        "ui-serviceaccount.yaml",
        include_str!("../../../manifests/spoke/ui-serviceaccount.yaml"),
    ),
    (
        "ui-role.yaml",
        include_str!("../../../manifests/spoke/ui-role.yaml"),
    ),
    (
        "ui-rolebinding.yaml",
        include_str!("../../../manifests/spoke/ui-rolebinding.yaml"),
    ),
    (
        "ui-read-clusterrole.yaml",
        include_str!("../../../manifests/spoke/ui-read-clusterrole.yaml"),
    ),
    (
        "ui-read-clusterrolebinding.yaml",
        include_str!("../../../manifests/spoke/ui-read-clusterrolebinding.yaml"),
    ),
    (
        "ui-operate-clusterrole.yaml",
        include_str!("../../../manifests/spoke/ui-operate-clusterrole.yaml"),
    ),
    (
        "ui-operate-clusterrolebinding.yaml",
        include_str!("../../../manifests/spoke/ui-operate-clusterrolebinding.yaml"),
    ),
    (
        "ui-terminal-clusterrole.yaml",
        include_str!("../../../manifests/spoke/ui-terminal-clusterrole.yaml"),
    ),
    (
        "ui-terminal-clusterrolebinding.yaml",
        include_str!("../../../manifests/spoke/ui-terminal-clusterrolebinding.yaml"),
    ),
    (
        "configmap-ca.yaml",
        include_str!("../../../manifests/spoke/configmap-ca.yaml"),
    ),
    (
        "deployment.yaml",
        include_str!("../../../manifests/spoke/deployment.yaml"),
    ),
];

/// The certificates of the proxy in it, and where they are in the pod.
const PROXY_CA: &str = "proxy-ca.crt";
const PROXY_CA_PATH: &str = "/etc/argocd-agent/ca/proxy-ca.crt";
/// The certificates of the collector of traces in it, and where they are in the pod.
const OTLP_CA: &str = "otlp-ca.crt";
const OTLP_CA_PATH: &str = "/etc/argocd-agent/ca/otlp-ca.crt";

/// What differs from one cluster to the next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spoke {
    /// Namespace of the agent.
    pub agent_namespace: String,
    /// Namespace of Argo CD.
    pub argocd_namespace: String,
    /// Further namespaces of Applications, where the hub owns them.
    pub allowed_namespaces: BTreeSet<String>,
    /// Who owns the Applications.
    pub mode: Mode,
    /// Where the agent dials.
    pub principal: Address,
    /// Whom it believes, as PEM.
    pub ca_bundle: String,
    /// The agent's image, after registries were applied.
    pub image: String,
    /// How much it logs.
    pub log_level: String,
    /// What people at the hub's Argo CD may see and do there.
    pub ui_access: UiAccess,
    /// Where its pod may run.
    pub placement: Placement,
    /// Proxies on the way to the hub.
    pub proxy: Proxy,
    /// What it may use; none leaves what the manifest says.
    pub resources: Option<Value>,
    /// Where its traces go; none: there are none.
    pub traces: Option<Traces>,
}

/// Where the agent's pod may run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placement {
    /// Labels that the node must have.
    pub node_selector: BTreeMap<String, String>,
    /// Taints of nodes that do not matter.
    pub tolerations: Vec<Value>,
}

/// Proxies on the way to the hub; empty texts are not passed on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Proxy {
    /// For `http`.
    pub http: String,
    /// For `https`, and so for the agent's connection.
    pub https: String,
    /// What is reached directly.
    pub except: String,
    /// Whom to trust for a proxy that is itself talked to with TLS, as PEM.
    pub ca: String,
}

/// Where the traces of an agent go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Traces {
    /// host:port of the collector.
    pub address: String,
    /// By which certificates it is known, as PEM; none: it is talked to without TLS.
    pub ca: Option<String>,
    /// Which part is kept, where that is said.
    pub ratio: Option<String>,
}

/// The parsed manifests.
#[derive(Clone, Debug)]
pub struct Templates(Vec<Template>);

impl Templates {
    /// Parses the files built into this program.
    pub fn embedded() -> Result<Self, Error> {
        FILES
            .into_iter()
            .map(|(name, text)| Template::parse(name, text))
            .collect::<Result<_, _>>()
            .map(Self)
    }

    /// The objects for one cluster, in the order in which they must exist.
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
        };
        let files = self.0.iter().filter(|it| it.name() != other_role);
        for template in files.filter(|it| shown(it.name())) {
            if EACH.contains(&template.name()) {
                for namespace in spoke.further_namespaces() {
                    values.insert("APPLICATION_NAMESPACE", namespace.clone());
                    add(&mut objects, template.fill(&values)?);
                }
                continue;
            }
            let mut object = template.fill(&values)?;
            if object.pointer("/kind") == Some(&json!("Deployment")) {
                adjust(&mut object, spoke);
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
    /// Where Applications may be besides Argo CD's own namespace. A cluster that owns its Applications shows those of
    /// Argo CD's namespace only.
    pub(super) fn further_namespaces(&self) -> impl Iterator<Item = &String> {
        let managed = self.mode == Mode::Managed;
        let further = self.allowed_namespaces.iter();
        further.filter(move |name| managed && **name != self.argocd_namespace)
    }
}

/// Agent and Argo CD may share a namespace; a work must not name an object twice.
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
    // Every field, no `..`: what is new has to be thought about.
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
        placement: _,
        proxy: _,
        resources: _,
        traces: _,
    } = spoke;
    BTreeMap::from([
        ("AGENT_NAMESPACE", agent_namespace.clone()),
        ("ARGOCD_NAMESPACE", argocd_namespace.clone()),
        ("MODE", mode.as_str().to_owned()),
        ("PRINCIPAL_HOST", principal.host().to_owned()),
        ("PRINCIPAL_PORT", principal.port().to_string()),
        ("CA_BUNDLE", ca_bundle.clone()),
        ("AGENT_IMAGE", image.clone()),
        ("LOG_LEVEL", log_level.clone()),
        ("UI_ACCESS", ui_access.to_string()),
    ])
}

/// Puts in what is there for some clusters only.
fn adjust(deployment: &mut Value, spoke: &Spoke) {
    let Spoke {
        placement,
        resources,
        ..
    } = spoke;
    if let Some(pod) = deployment
        .pointer_mut("/spec/template/spec")
        .and_then(Value::as_object_mut)
    {
        if !placement.node_selector.is_empty() {
            pod.insert("nodeSelector".to_owned(), json!(placement.node_selector));
        }
        if !placement.tolerations.is_empty() {
            pod.insert("tolerations".to_owned(), json!(placement.tolerations));
        }
    }
    let Some(container) = deployment
        .pointer_mut("/spec/template/spec/containers/0")
        .and_then(Value::as_object_mut)
    else {
        return;
    };
    if let Some(resources) = resources {
        container.insert("resources".to_owned(), resources.clone());
    }
    let Some(env) = container.get_mut("env").and_then(Value::as_array_mut) else {
        return;
    };
    let reply = variables(spoke).into_iter();
    let reply = reply.filter(|(_, value)| !value.is_empty());
    env.extend(reply.map(|(name, value)| json!({"name": name, "value": value})));
}

/// What the agent is told on some clusters only; an empty value is not told.
fn variables(spoke: &Spoke) -> [(&'static str, String); 9] {
    let Proxy {
        http,
        https,
        except,
        ca,
    } = &spoke.proxy;
    // Beside the CA of the principal, and so read again when it changes.
    let bundle = if ca.is_empty() { "" } else { PROXY_CA_PATH };
    let further: Vec<&str> = spoke.further_namespaces().map(String::as_str).collect();
    let traces = spoke.traces.as_ref();
    let of_traces = |value: fn(&Traces) -> &str| traces.map(value).unwrap_or_default().to_owned();
    [
        ("ARGOCD_AGENT_ALLOWED_NAMESPACES", further.join(",")),
        ("HTTP_PROXY", http.clone()),
        ("HTTPS_PROXY", https.clone()),
        ("NO_PROXY", except.clone()),
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

/// Puts the certificates of others than the principal where the agent looks for them.
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
