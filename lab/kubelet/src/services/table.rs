//! Computes which ports to listen on, and where each leads. Pure.

use std::{
    collections::BTreeMap,
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use k8s_openapi::api::{
    core::v1::{Service, ServicePort},
    discovery::v1::EndpointSlice,
};
use kube::ResourceExt;

use super::cluster_ip;
use crate::watched::key;

/// An address and port to listen on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Port {
    pub(crate) ip: IpAddr,
    pub(crate) number: u16,
    /// Whether it is a port of a load balancer or of the node, which every client may use.
    pub(crate) outside: bool,
}

/// The destinations of a port; never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Route {
    /// `namespace/name` of the Service.
    pub(crate) service: String,
    pub(crate) endpoints: Vec<SocketAddr>,
}

/// All ports of all Services that have a ready endpoint. Only TCP: only the lab's own DNS uses UDP,
/// and it has no Service.
pub(crate) fn table(
    services: &[Arc<Service>],
    slices: &[Arc<EndpointSlice>],
    api_server: SocketAddr,
    node: IpAddr,
    balancer: &impl Fn(&str) -> Option<IpAddr>,
) -> BTreeMap<Port, Route> {
    let mut slices_of: BTreeMap<String, Vec<&EndpointSlice>> = BTreeMap::new();
    for slice in slices {
        if let Some(service) = owner(slice) {
            slices_of.entry(service).or_default().push(slice);
        }
    }
    let mut table = BTreeMap::new();
    for service in services {
        let name = key(&**service);
        let slices = slices_of.get(&name).map(Vec::as_slice).unwrap_or_default();
        let ports = service
            .spec
            .iter()
            .flat_map(|spec| spec.ports.iter().flatten());
        for port in ports.filter(|port| {
            port.protocol
                .as_deref()
                .is_none_or(|protocol| protocol == "TCP")
        }) {
            let Ok(number) = u16::try_from(port.port) else {
                continue;
            };
            let endpoints = if name == "default/kubernetes" {
                vec![api_server]
            } else {
                ready(slices, port)
            };
            if endpoints.is_empty() {
                continue;
            }
            let route = Route {
                service: name.clone(),
                endpoints,
            };
            let own = cluster_ip(service).map(|ip| Port {
                ip,
                number,
                outside: false,
            });
            let outside = balancer_ip(service, &name, balancer).map(|ip| Port {
                ip,
                number,
                outside: true,
            });
            let on_node = node_port(service, port).map(|number| Port {
                ip: node,
                number,
                outside: true,
            });
            table.extend(
                own.into_iter()
                    .chain(outside)
                    .chain(on_node)
                    .map(|port| (port, route.clone())),
            );
        }
    }
    table
}

/// The port of the node, if the Service wants one.
fn node_port(service: &Service, port: &ServicePort) -> Option<u16> {
    let kind = service.spec.as_ref()?.type_.as_deref()?;
    let number = port.node_port.filter(|_| kind == "NodePort")?;
    u16::try_from(number).ok()
}

/// `namespace/name` of the Service a slice belongs to.
pub(crate) fn owner(slice: &EndpointSlice) -> Option<String> {
    let service = slice.labels().get("kubernetes.io/service-name")?;
    Some(format!(
        "{}/{service}",
        slice.namespace().unwrap_or_default()
    ))
}

/// The address of the load balancer, if the Service wants one.
pub(crate) fn balancer_ip(
    service: &Service,
    name: &str,
    balancer: &impl Fn(&str) -> Option<IpAddr>,
) -> Option<IpAddr> {
    let spec = service.spec.as_ref()?;
    let ours = spec.type_.as_deref() == Some("LoadBalancer") && spec.load_balancer_class.is_none();
    let stays = service.metadata.deletion_timestamp.is_none();
    (ours && stays).then(|| balancer(name)).flatten()
}

/// The ready endpoints behind one port of a Service, in a stable order.
fn ready(slices: &[&EndpointSlice], port: &ServicePort) -> Vec<SocketAddr> {
    let name = |name: Option<&str>| name.unwrap_or_default().to_owned();
    let mut endpoints = Vec::new();
    for slice in slices {
        let mut ports = slice.ports.iter().flatten();
        let wanted = name(port.name.as_deref());
        let Some(number) = ports
            .find(|port| name(port.name.as_deref()) == wanted)
            .and_then(|port| port.port)
        else {
            continue;
        };
        let Ok(number) = u16::try_from(number) else {
            continue;
        };
        for address in ready_addresses(slice) {
            endpoints.push(SocketAddr::new(address, number));
        }
    }
    endpoints.sort_unstable();
    endpoints.dedup();
    endpoints
}

/// The ready addresses of a slice. According to the API, an endpoint without the condition counts as
/// ready.
pub(crate) fn ready_addresses(slice: &EndpointSlice) -> impl Iterator<Item = IpAddr> {
    let ready = slice.endpoints.iter().flatten().filter(|endpoint| {
        endpoint
            .conditions
            .as_ref()
            .and_then(|conditions| conditions.ready)
            != Some(false)
    });
    ready
        .flat_map(|endpoint| &endpoint.addresses)
        .filter_map(|address| address.parse().ok())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const API: &str = "127.0.0.1:6443";

    fn service(name: &str, spec: &Value) -> Arc<Service> {
        let (namespace, name) = name.split_once('/').unwrap();
        let value = json!({ "metadata": { "namespace": namespace, "name": name }, "spec": spec });
        Arc::new(serde_json::from_value(value).unwrap())
    }

    fn slice(service: &str, endpoints: &Value) -> Arc<EndpointSlice> {
        let value = json!({
            "metadata": { "namespace": "ns", "name": "s", "labels": { "kubernetes.io/service-name": service } },
            "addressType": "IPv4",
            "ports": [{ "name": "web", "port": 8080 }],
            "endpoints": endpoints,
        });
        Arc::new(serde_json::from_value(value).unwrap())
    }

    fn made(
        services: &[Arc<Service>],
        slices: &[Arc<EndpointSlice>],
    ) -> Vec<(String, Vec<String>)> {
        let balancer = |_: &str| Some(IpAddr::from([10, 240, 0, 1]));
        let node = IpAddr::from([10, 244, 0, 1]);
        let table = table(services, slices, API.parse().unwrap(), node, &balancer);
        let text = |route: Route| route.endpoints.iter().map(ToString::to_string).collect();
        table
            .into_iter()
            .map(|(port, route)| (format!("{}:{}", port.ip, port.number), text(route)))
            .collect()
    }

    #[test]
    fn a_port_leads_to_the_ready_endpoints_by_the_name_of_the_port() {
        let ports = json!([{ "name": "web", "port": 80 }, { "name": "other", "port": 81 }]);
        let services = [service(
            "ns/a",
            &json!({ "clusterIP": "10.96.1.9", "ports": ports }),
        )];
        let endpoints = json!([
            { "addresses": ["10.244.1.2"], "conditions": { "ready": true } },
            { "addresses": ["10.244.1.3"], "conditions": { "ready": false } },
            { "addresses": ["10.244.1.4"] },
        ]);
        let expected = ["10.244.1.2:8080", "10.244.1.4:8080"]
            .map(str::to_owned)
            .to_vec();
        assert_eq!(
            made(&services, &[slice("a", &endpoints)]),
            [("10.96.1.9:80".to_owned(), expected)]
        );
    }

    #[test]
    fn without_a_ready_endpoint_nothing_listens() {
        let ports = json!([{ "name": "web", "port": 80 }]);
        let services = [service(
            "ns/a",
            &json!({ "clusterIP": "10.96.1.9", "ports": ports }),
        )];
        let endpoints = json!([{ "addresses": ["10.244.1.3"], "conditions": { "ready": false } }]);
        assert_eq!(made(&services, &[slice("a", &endpoints)]), []);
    }

    #[test]
    fn the_kubernetes_service_leads_to_the_configured_api_server() {
        let ports = json!([{ "name": "https", "port": 443, "targetPort": 6443 }]);
        let services = [service(
            "default/kubernetes",
            &json!({ "clusterIP": "10.96.1.1", "ports": ports }),
        )];
        assert_eq!(
            made(&services, &[]),
            [("10.96.1.1:443".to_owned(), vec![API.to_owned()])]
        );
    }

    #[test]
    fn load_balancer_listens_and_headless_service_does_not() {
        let ports = json!([{ "name": "web", "port": 443 }]);
        let services = [
            service(
                "ns/a",
                &json!({ "type": "LoadBalancer", "clusterIP": "10.96.1.9", "ports": ports }),
            ),
            service("ns/b", &json!({ "clusterIP": "None", "ports": ports })),
        ];
        let endpoints = json!([{ "addresses": ["10.244.1.2"] }]);
        let there = vec!["10.244.1.2:8080".to_owned()];
        assert_eq!(
            made(&services, &[slice("a", &endpoints), slice("b", &endpoints)]),
            [
                ("10.96.1.9:443".to_owned(), there.clone()),
                ("10.240.0.1:443".to_owned(), there)
            ]
        );
    }
}
