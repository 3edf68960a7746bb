//! Approves an accepted cluster's request to renew its own certificate, and no other request.
//!
//! A cluster's first certificate is approved when it is accepted, an add-on's by its manager.

use anyhow::Result;
use kube::{ResourceExt, api::DynamicObject};

use super::{Hub, for_each};
use crate::{
    condition,
    control::Again,
    kinds::{
        CERTIFICATE_SIGNING_REQUEST, MANAGED_CLUSTER,
        words::{ADD_ON_NAME, CLUSTER_NAME, KUBE_SIGNER},
    },
    klusterlet,
    stand_in::pki,
};

pub(super) async fn pass(hub: Hub) -> Result<Again> {
    let requests = hub.cache.list(CERTIFICATE_SIGNING_REQUEST);
    for_each(requests, async |request| {
        if is_renewal(&hub, &request) {
            let reason = "AutoApprovedByHubCSRApprovingController";
            let message =
                "Auto approving Managed cluster agent certificate after SubjectAccessReview.";
            klusterlet::approve(&hub.client, &request.name_any(), reason, message).await?;
        }
        Ok(None)
    })
    .await
}

fn is_renewal(hub: &Hub, request: &DynamicObject) -> bool {
    let spec = &request.data["spec"];
    let Some(cluster) = request.labels().get(CLUSTER_NAME) else {
        return false;
    };
    let user = spec["username"].as_str().unwrap_or_default();
    let accepted = hub
        .cache
        .get(MANAGED_CLUSTER, cluster)
        .is_some_and(|known| known.data["spec"]["hubAcceptsClient"] == true);
    accepted
        && condition::all(&request.data).is_empty()
        && !request.labels().contains_key(ADD_ON_NAME)
        && spec["signerName"] == KUBE_SIGNER
        && user.starts_with(&format!("system:open-cluster-management:{cluster}:"))
        && wanted_name(spec["request"].as_str().unwrap_or_default()).as_deref() == Some(user)
}

fn wanted_name(request: &str) -> Option<String> {
    use base64::Engine as _;
    let pem = base64::engine::general_purpose::STANDARD
        .decode(request)
        .ok()?;
    Some(pki::subject_of_request(&pem).ok()?.common_name)
}
