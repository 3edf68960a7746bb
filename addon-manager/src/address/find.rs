//! Chooses the address of the principal's Service that agents dial. Pure.
//!
//! In this order: the Service's load balancer; a Route, `TLSRoute` or Ingress that passes TLS through to it; a node and
//! the Service's node port; its external name.

use k8s_openapi::api::core::v1::{Node, Service};
use serde_json::Value;

use super::{Address, DEFAULT_PORT};

/// The objects around the principal's Service. Kinds that are not served, or that we may not read, are empty.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// The Service.
    pub service: Option<Service>,
    /// `OpenShift` Routes of its namespace.
    pub routes: Vec<Value>,
    /// `TLSRoutes` of its namespace.
    pub tls_routes: Vec<Value>,
    /// Ingresses of its namespace.
    pub ingresses: Vec<Value>,
    /// The hub's nodes.
    pub nodes: Vec<Node>,
}

/// The source of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The status of the Service.
    LoadBalancer,
    /// An `OpenShift` Route.
    Route,
    /// A `TLSRoute`.
    TlsRoute,
    /// An Ingress.
    Ingress,
    /// A node.
    NodePort,
    /// The external name of the Service.
    ExternalName,
}

/// Annotations that make ingress controllers pass TLS through; mutual TLS needs that.
const PASSTHROUGH: [&str; 4] = [
    "nginx.ingress.kubernetes.io/ssl-passthrough",
    "haproxy.org/ssl-passthrough",
    "haproxy-ingress.github.io/ssl-passthrough",
    "ingress.kubernetes.io/ssl-passthrough",
];

/// The address for agents. `now` is the one in use; it stays while its source still has it.
pub fn find(seen: &Seen, now: Option<&Address>) -> Option<(Address, Source)> {
    let service = seen.service.as_ref()?;
    let name = service.metadata.name.as_deref()?;
    let routes = hosts(&seen.routes, |it| route(it, name));
    let tls_routes = hosts(&seen.tls_routes, |it| tls_route(it, name));
    let ingresses = hosts(&seen.ingresses, |it| ingress(it, name));
    let by_source = [
        (Source::LoadBalancer, Vec::from_iter(balanced(service))),
        (Source::Route, routes),
        (Source::TlsRoute, tls_routes),
        (Source::Ingress, ingresses),
        (Source::NodePort, node_ports(service, &seen.nodes)),
        (Source::ExternalName, Vec::from_iter(external(service))),
    ];
    by_source.into_iter().find_map(|(source, found)| {
        let stays = now.filter(|now| found.contains(now)).cloned();
        let chosen = stays.or_else(|| found.into_iter().min())?;
        Some((chosen, source))
    })
}

fn hosts<'a>(objects: &'a [Value], of: impl Fn(&'a Value) -> Vec<(&'a str, u16)>) -> Vec<Address> {
    let all = objects.iter().flat_map(of);
    all.filter_map(|(host, port)| address(host, port)).collect()
}

/// Parses a host and a port. A wildcard and an empty text are no host.
fn address(host: &str, port: u16) -> Option<Address> {
    let bare = host.contains(':') && !host.starts_with('[');
    let host = if bare {
        format!("[{host}]")
    } else {
        host.to_owned()
    };
    format!("{host}:{port}").parse().ok()
}

fn kind(service: &Service) -> &str {
    let spec = service.spec.as_ref();
    let kind = spec.and_then(|spec| spec.type_.as_deref());
    kind.unwrap_or("ClusterIP")
}

fn port(service: &Service) -> Option<u16> {
    let spec = service.spec.as_ref()?;
    match spec.ports.as_ref().and_then(|ports| ports.first()) {
        Some(port) => u16::try_from(port.port).ok(),
        None => Some(DEFAULT_PORT),
    }
}

/// The first address of the load balancer.
fn balanced(service: &Service) -> Option<Address> {
    let status = service.status.as_ref()?.load_balancer.as_ref()?;
    let ingress = status.ingress.as_ref()?.first()?;
    let name = ingress.hostname.as_ref().filter(|it| !it.is_empty());
    address(name.or(ingress.ip.as_ref())?, port(service)?)
}

/// The addresses of ready nodes; external ones if there are any.
fn node_ports(service: &Service, nodes: &[Node]) -> Vec<Address> {
    let ports = service.spec.as_ref().and_then(|spec| spec.ports.as_ref());
    let first = ports.and_then(|ports| ports.first()?.node_port);
    let port = first.and_then(|port| u16::try_from(port).ok());
    let Some(port) = port.filter(|_| kind(service) == "NodePort") else {
        return Vec::new();
    };
    let addresses = |wanted: &str| -> Vec<Address> {
        let ready = nodes.iter().filter(|node| is_ready(node));
        let all = ready.filter_map(|node| {
            let listed = node.status.as_ref()?.addresses.as_ref()?;
            let found = listed.iter().find(|it| it.type_ == wanted)?;
            address(&found.address, port)
        });
        all.collect()
    };
    let kinds = ["ExternalIP", "ExternalDNS", "InternalIP"].into_iter();
    let mut kinds = kinds.map(addresses);
    kinds.find(|found| !found.is_empty()).unwrap_or_default()
}

fn is_ready(node: &Node) -> bool {
    let conditions = node.status.as_ref().and_then(|it| it.conditions.as_ref());
    let mut conditions = conditions.into_iter().flatten();
    node.metadata.deletion_timestamp.is_none()
        && conditions.any(|it| it.type_ == "Ready" && it.status == "True")
}

fn external(service: &Service) -> Option<Address> {
    let name = service.spec.as_ref()?.external_name.as_deref()?;
    let is_external = kind(service) == "ExternalName";
    address(name, port(service)?).filter(|_| is_external)
}

fn text<'a>(object: &'a Value, path: &str) -> Option<&'a str> {
    object.pointer(path).and_then(Value::as_str)
}

fn list<'a>(object: &'a Value, path: &str) -> impl Iterator<Item = &'a Value> {
    object
        .pointer(path)
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
}

/// A Route that passes TLS through to the Service.
fn route<'a>(route: &'a Value, service: &str) -> Vec<(&'a str, u16)> {
    let ours = text(route, "/spec/to/name") == Some(service)
        && text(route, "/spec/tls/termination") == Some("passthrough");
    let reported = list(route, "/status/ingress").filter_map(|it| text(it, "/host"));
    let host = reported.chain(text(route, "/spec/host")).next();
    host.filter(|_| ours)
        .map(|host| (host, DEFAULT_PORT))
        .into_iter()
        .collect()
}

/// A `TLSRoute` with the Service as a backend.
fn tls_route<'a>(route: &'a Value, service: &str) -> Vec<(&'a str, u16)> {
    let mut backends = list(route, "/spec/rules").flat_map(|rule| list(rule, "/backendRefs"));
    if !backends.any(|backend| text(backend, "/name") == Some(service)) {
        return Vec::new();
    }
    let parent = list(route, "/spec/parentRefs").next();
    let port = parent.and_then(|it| u16::try_from(it.pointer("/port")?.as_u64()?).ok());
    let hosts = list(route, "/spec/hostnames").filter_map(Value::as_str);
    hosts
        .map(|host| (host, port.unwrap_or(DEFAULT_PORT)))
        .collect()
}

/// An Ingress whose controller passes TLS through to the Service.
fn ingress<'a>(ingress: &'a Value, service: &str) -> Vec<(&'a str, u16)> {
    let annotations = ingress.pointer("/metadata/annotations");
    let passes = PASSTHROUGH.iter().any(|key| {
        let value = annotations.and_then(|all| all.get(*key));
        value.and_then(Value::as_str) == Some("true")
    });
    if !passes {
        return Vec::new();
    }
    let leads = |rule: &&Value| {
        let mut paths = list(rule, "/http/paths");
        paths.any(|path| text(path, "/backend/service/name") == Some(service))
    };
    let rules = list(ingress, "/spec/rules").filter(leads);
    rules
        .filter_map(|rule| Some((text(rule, "/host")?, DEFAULT_PORT)))
        .collect()
}

#[cfg(test)]
mod tests;
