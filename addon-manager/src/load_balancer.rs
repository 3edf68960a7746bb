//! The address that the principal's Service received from its load balancer.

use k8s_openapi::api::core::v1::Service;
use kube::{Api, Client};
use runtime::kube::{Event, Watch, watch_trimmed};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::{
    address::{Address, DEFAULT_PORT},
    keys,
};

/// Follows the Service until the token is cancelled.
///
/// An address that is gone stays in use: agents that know it lose nothing, and a Service that is made
/// anew has its new address soon. `looked` becomes true when the Service was looked for once.
pub async fn follow(
    client: Client,
    namespace: String,
    address: watch::Sender<Option<Address>>,
    looked: watch::Sender<bool>,
    token: CancellationToken,
) {
    let watched = Watch::<Service>::new(Api::namespaced(client, &namespace))
        .fields(&format!("metadata.name={}", keys::PRINCIPAL_SERVICE));
    watch_trimmed(watched, token, |event| {
        let object = match event {
            Event::Applied { object, .. } => object,
            Event::Synced => {
                looked.send_replace(true);
                return;
            }
            Event::Deleted(_) => return,
        };
        let Some(found) = found(&object) else { return };
        address.send_if_modified(|known| {
            let changed = known.as_ref() != Some(&found);
            if changed {
                tracing::info!(address = %found, "the principal's Service has an address");
                *known = Some(found);
            }
            changed
        });
    })
    .await;
}

/// The first address of the Service, with its first port.
fn found(service: &Service) -> Option<Address> {
    let ingress = service
        .status
        .as_ref()?
        .load_balancer
        .as_ref()?
        .ingress
        .as_ref()?
        .first()?;
    let host = ingress
        .hostname
        .as_ref()
        .filter(|it| !it.is_empty())
        .or(ingress.ip.as_ref())?;
    let port = service
        .spec
        .as_ref()
        .and_then(|spec| spec.ports.as_ref()?.first());
    let port = port.map_or(Some(DEFAULT_PORT), |port| u16::try_from(port.port).ok())?;
    let text = if host.contains(':') {
        format!("[{host}]:{port}")
    } else {
        format!("{host}:{port}")
    };
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn service(ingress: &serde_json::Value) -> Service {
        serde_json::from_value(json!({
            "spec": { "ports": [{ "name": "grpc", "port": 443 }] },
            "status": { "loadBalancer": { "ingress": ingress } },
        }))
        .unwrap()
    }

    #[test]
    fn a_name_or_an_address_will_do_and_nothing_else() {
        for (ingress, expected) in [
            (json!([{ "ip": "10.240.0.1" }]), Some("10.240.0.1:443")),
            (
                json!([{ "ip": "10.240.0.1", "hostname": "lb.example.org" }]),
                Some("lb.example.org:443"),
            ),
            (json!([{ "ip": "2001:db8::1" }]), Some("[2001:db8::1]:443")),
            (json!([]), None),
            (json!([{ "ip": "" }]), None),
        ] {
            let address = found(&service(&ingress)).map(|address| address.to_string());
            assert_eq!(address.as_deref(), expected);
        }
    }
}
