//! The example add-on of the SDK, installed on the hub as its tutorial describes.

use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use lab_kubelet::{Image, Images};
use lab_ocm_stand_in::newest_add_on_api;

use crate::{Cluster, product, steps::At};

/// Its name: of the `ClusterManagementAddOn`, the `ManagedClusterAddOns`, the lease, the agent.
pub const ADDON: &str = "hello";
/// The namespace of its manager.
pub const NAMESPACE: &str = "hello-addon";
/// The manager's Deployment and service account.
pub const MANAGER: &str = "hello-manager";

/// The manager's user on the hub.
pub const USER: &str = "system:serviceaccount:hello-addon:hello-manager";

/// Registers the replacement of the image with the kubelets.
pub fn provide_image(images: &Images) -> Result<()> {
    let program = product::programs()?.join("examples/hello_addon");
    ensure!(
        program.is_file(),
        "no {}: run `make build`",
        program.display()
    );
    let image = Image::of_program("/usr/local/bin/hello", program).user(65532);
    images.insert("example.com/hello:v1", image);
    Ok(())
}

/// Applies the tutorial's manifests for a hub.
pub async fn apply(hub: &Cluster) -> Result<()> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../ocm/examples/hello_addon/hub.yaml");
    let text = tokio::fs::read_to_string(&file).await;
    let text = text.with_context(|| format!("read {}", file.display()))?;
    hub.apply(&text).await.context("install the example add-on")
}

/// The `ClusterManagementAddOn`.
pub fn definition() -> At {
    At::of(
        &add_on_api(),
        ("ClusterManagementAddOn", "clustermanagementaddons"),
        None,
        ADDON,
    )
}

/// The `ManagedClusterAddOn` of a cluster.
pub fn addon(cluster: &str) -> At {
    At::of(
        &add_on_api(),
        ("ManagedClusterAddOn", "managedclusteraddons"),
        Some(cluster),
        ADDON,
    )
}

/// The newest version of the add-on API that the hub serves.
fn add_on_api() -> String {
    format!("addon.open-cluster-management.io/{}", newest_add_on_api())
}
