//! Assigns addresses to Services of type `LoadBalancer`.

use std::{net::IpAddr, sync::Arc};

use k8s_openapi::api::core::v1::Service;
use kube::{
    Api, Client, ResourceExt,
    api::{Patch, PatchParams},
};
use serde_json::json;

use super::table::balancer_ip;
use crate::{node, watched::key};

/// Writes the missing addresses of load balancers; true if all could be written.
pub(super) async fn write_addresses(
    client: &Client,
    services: &[Arc<Service>],
    address: &impl Fn(&str) -> Option<IpAddr>,
) -> bool {
    let mut all = true;
    for service in services {
        let Some(ip) = balancer_ip(service, &key(&**service), address) else {
            continue;
        };
        if emits(service, ip) {
            continue;
        }
        let api: Api<Service> =
            Api::namespaced(client.clone(), &service.namespace().unwrap_or_default());
        let status =
            json!({ "status": { "loadBalancer": { "ingress": [{ "ip": ip, "ipMode": "VIP" }] } } });
        let params = PatchParams {
            field_manager: Some(node::MANAGER.to_owned()),
            ..PatchParams::default()
        };
        match api
            .patch_status(&service.name_any(), &params, &Patch::Merge(&status))
            .await
        {
            Ok(_) => {}
            // Gone meanwhile.
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            Err(error) => {
                tracing::debug!(service = key(&**service), %error, "address will be written again");
                all = false;
            }
        }
    }
    all
}

fn emits(service: &Service, ip: IpAddr) -> bool {
    let status = service
        .status
        .as_ref()
        .and_then(|status| status.load_balancer.as_ref());
    let mut ingress = status
        .iter()
        .flat_map(|status| status.ingress.iter().flatten());
    ingress.any(|ingress| ingress.ip == Some(ip.to_string()))
}
