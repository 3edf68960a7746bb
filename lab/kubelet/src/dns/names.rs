//! Resolves names to addresses. Pure.

use std::{collections::BTreeMap, net::IpAddr, sync::Arc};

use k8s_openapi::api::{
    core::v1::Service,
    discovery::v1::{Endpoint, EndpointSlice},
};
use kube::ResourceExt;

use super::message::Found;
use crate::services::{cluster_ip, owner, ready_addresses};

/// All sources of names.
#[derive(Debug)]
pub(super) struct Names<'a> {
    pub(super) services: &'a [Arc<Service>],
    pub(super) slices: &'a [Arc<EndpointSlice>],
    pub(super) hosts: &'a BTreeMap<String, IpAddr>,
}

impl Names<'_> {
    /// Resolves a full name. The short forms (`svc`, `svc.ns`, `svc.ns.svc`) are made full by the
    /// search path in the Pods' `resolv.conf`.
    pub(super) fn resolve(&self, name: &str) -> Found {
        if let Some(address) = self.hosts.get(name) {
            return Found::Addresses(vec![*address]);
        }
        let Some(name) = name.strip_suffix(".svc.cluster.local") else {
            return Found::Nothing;
        };
        let mut labels = name.rsplit('.');
        match (labels.next(), labels.next(), labels.next(), labels.next()) {
            (Some(namespace), Some(service), None, None) => self.service(namespace, service),
            (Some(namespace), Some(service), Some(pod), None) => self.pod(namespace, service, pod),
            _ => Found::Nothing,
        }
    }

    fn service(&self, namespace: &str, name: &str) -> Found {
        let is_it = |service: &&Arc<Service>| {
            service.metadata.name.as_deref() == Some(name)
                && service.metadata.namespace.as_deref() == Some(namespace)
        };
        let Some(service) = self.services.iter().find(is_it) else {
            return Found::Nothing;
        };
        let addresses = cluster_ip(service).map_or_else(
            || {
                self.slices_of(namespace, name)
                    .flat_map(ready_addresses)
                    .collect()
            },
            |ip| vec![ip],
        );
        Found::Addresses(addresses)
    }

    /// A Pod of a `StatefulSet`, by its host name below its headless Service.
    fn pod(&self, namespace: &str, service: &str, pod: &str) -> Found {
        let endpoints = self
            .slices_of(namespace, service)
            .flat_map(|slice| slice.endpoints.iter().flatten());
        let named =
            endpoints.filter(|endpoint: &&Endpoint| endpoint.hostname.as_deref() == Some(pod));
        let addresses: Vec<IpAddr> = named
            .flat_map(|endpoint| &endpoint.addresses)
            .filter_map(|address| address.parse().ok())
            .collect();
        if addresses.is_empty() {
            Found::Nothing
        } else {
            Found::Addresses(addresses)
        }
    }

    fn slices_of(&self, namespace: &str, service: &str) -> impl Iterator<Item = &EndpointSlice> {
        let wanted = format!("{namespace}/{service}");
        let mut slices: Vec<&EndpointSlice> = self
            .slices
            .iter()
            .map(|slice| &**slice)
            .filter(|slice| owner(slice).as_ref() == Some(&wanted))
            .collect();
        slices.sort_by_key(|slice| slice.name_any());
        slices.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn resolve(name: &str) -> Found {
        let service = |name: &str, ip: &str| {
            let value = json!({ "metadata": { "namespace": "ns", "name": name }, "spec": { "clusterIP": ip } });
            Arc::new(serde_json::from_value(value).unwrap())
        };
        let slice = json!({
            "metadata": { "namespace": "ns", "name": "s", "labels": { "kubernetes.io/service-name": "db" } },
            "addressType": "IPv4",
            "endpoints": [
                { "addresses": ["10.244.1.2"], "hostname": "db-0", "conditions": { "ready": true } },
                { "addresses": ["10.244.1.3"], "hostname": "db-1", "conditions": { "ready": false } },
            ],
        });
        let names = Names {
            services: &[service("web", "10.96.1.9"), service("db", "None")],
            slices: &[Arc::new(serde_json::from_value(slice).unwrap())],
            hosts: &[("git.lab".to_owned(), IpAddr::from([10, 240, 0, 250]))].into(),
        };
        names.resolve(name)
    }

    fn found<const N: usize>(addresses: [[u8; 4]; N]) -> Found {
        Found::Addresses(addresses.into_iter().map(IpAddr::from).collect())
    }

    #[test]
    fn a_service_has_its_address_and_a_headless_one_those_of_its_ready_pods() {
        assert_eq!(resolve("web.ns.svc.cluster.local"), found([[10, 96, 1, 9]]));
        assert_eq!(resolve("db.ns.svc.cluster.local"), found([[10, 244, 1, 2]]));
        assert_eq!(
            resolve("db-1.db.ns.svc.cluster.local"),
            found([[10, 244, 1, 3]])
        );
    }

    #[test]
    fn configured_outside_names_are_resolved() {
        assert_eq!(resolve("git.lab"), found([[10, 240, 0, 250]]));
        for unknown in [
            "example.com",
            "web.other.svc.cluster.local",
            "svc.cluster.local",
            "",
        ] {
            assert_eq!(resolve(unknown), Found::Nothing, "{unknown}");
        }
    }
}
