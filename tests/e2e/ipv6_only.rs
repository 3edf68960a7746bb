//! Clusters whose Pods and Services have IPv6 addresses only.

use std::net::Ipv6Addr;

use anyhow::{Context as _, Result, ensure};
use lab::{
    product,
    steps::{At, deliver},
};

use crate::{kubectl::Kubectl, stage::Stage};

/// The chart and the add-on work with their defaults: the hub finds its address, a cluster is enrolled, an Application becomes
/// Synced there, and its Pods are seen from the hub.
pub(crate) async fn cluster_is_enrolled_synced_and_viewed_over_ipv6_only(
    stage: &Stage,
) -> Result<()> {
    stage.enrolled(1).await?;
    let service = At::service(product::NAMESPACE, product::SERVICE);
    let service = stage.hub.read(&service).await?;
    let balancer = &service["status"]["loadBalancer"]["ingress"][0]["ip"];
    for address in [&service["spec"]["clusterIP"], balancer] {
        let address = address.as_str().context("an address of the principal")?;
        ensure!(is_ipv6(address), "{address}");
    }

    let app = stage.greeter("six", 1).await?;
    app.apply(&stage.hub).await?;
    deliver::until_healthy(&stage.hub, &app.at, "").await?;
    stage.until_greets(1, "six", "hello").await?;

    let kubectl = Kubectl::with_secret_of(stage, "spoke1").await?;
    kubectl.until_it_sees(&["get", "--raw", "/version"]).await?;
    let addresses = "jsonpath={.items[*].status.podIP}";
    let pods = kubectl
        .prints(&["get", "pods", "-A", "-o", addresses])
        .await?;
    let mut pods_addresses = pods.split_whitespace().peekable();
    ensure!(pods_addresses.peek().is_some(), "no Pods are seen");
    ensure!(pods_addresses.all(is_ipv6), "{pods}");
    stage.clear(&app).await
}

fn is_ipv6(address: &str) -> bool {
    address.parse::<Ipv6Addr>().is_ok()
}
