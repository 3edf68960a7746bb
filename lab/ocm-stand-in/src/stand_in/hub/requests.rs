//! Approves an accepted cluster's request to renew its own certificate, and no other request.
//!
//! A cluster's first certificate is approved when it is accepted, an add-on's by its manager.

use anyhow::Result;
use k8s_openapi::api::authorization::v1::SubjectAccessReview;
use kube::{
    Api, ResourceExt,
    api::{DynamicObject, PostParams},
};
use serde_json::{Value, json};

use super::{Hub, for_each};
use crate::{
    condition,
    control::Again,
    kinds::{
        CERTIFICATE_SIGNING_REQUEST,
        words::{CLUSTER_NAME, KUBE_SIGNER},
    },
    klusterlet,
    stand_in::pki::{self, Subject},
};

/// What user names and groups of clusters begin with.
const PREFIX: &str = "system:open-cluster-management:";
/// A group that a request may have besides its cluster's.
const COMMON_GROUP: &str = "system:open-cluster-management:managed-clusters";

pub(super) async fn pass(hub: Hub) -> Result<Again> {
    let requests = hub.cache.list(CERTIFICATE_SIGNING_REQUEST);
    for_each(requests, async |request| {
        if is_renewal(&request) && may_renew(&hub, &request.data["spec"]).await? {
            let reason = "AutoApprovedByHubCSRApprovingController";
            let message =
                "Auto approving Managed cluster agent certificate after SubjectAccessReview.";
            klusterlet::approve(&hub.client, &request.name_any(), reason, message).await?;
        }
        Ok(None)
    })
    .await
}

/// Whether an open request is for the certificate of the cluster that makes it.
fn is_renewal(request: &DynamicObject) -> bool {
    let spec = &request.data["spec"];
    let Some(cluster) = request.labels().get(CLUSTER_NAME) else {
        return false;
    };
    condition::all(&request.data).is_empty()
        && spec["signerName"] == KUBE_SIGNER
        && subject(spec).is_some_and(|subject| {
            is_of_cluster(&subject, cluster) && spec["username"] == subject.common_name
        })
}

/// Whether a subject is an agent of this cluster, with its group and at most the common one.
fn is_of_cluster(subject: &Subject, cluster: &str) -> bool {
    let mut groups = subject.organizations.clone();
    groups.remove(COMMON_GROUP);
    let group = format!("{PREFIX}{cluster}");
    let agent = subject
        .common_name
        .strip_prefix(&group)
        .and_then(|rest| rest.strip_prefix(':'));
    groups.len() == 1
        && groups.contains(&group)
        && agent.is_some_and(|agent| !agent.is_empty() && !agent.contains(':'))
}

/// Whether the hub lets the requester renew: it does while it accepts the cluster.
async fn may_renew(hub: &Hub, spec: &Value) -> Result<bool> {
    let review: SubjectAccessReview = serde_json::from_value(json!({
        "metadata": {},
        "spec": {
            "user": spec["username"],
            "uid": spec["uid"],
            "groups": spec["groups"],
            "extra": spec["extra"],
            "resourceAttributes": {
                "group": "register.open-cluster-management.io",
                "resource": "managedclusters",
                "subresource": "clientcertificates",
                "verb": "renew",
            },
        },
    }))?;
    let api: Api<SubjectAccessReview> = Api::all(hub.client.clone());
    let review = api.create(&PostParams::default(), &review).await?;
    Ok(review.status.is_some_and(|status| status.allowed))
}

fn subject(spec: &Value) -> Option<Subject> {
    use base64::Engine as _;
    let pem = base64::engine::general_purpose::STANDARD
        .decode(spec["request"].as_str()?)
        .ok()?;
    pki::subject_of_request(&pem).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_agent_of_the_cluster_renews() {
        let own = "system:open-cluster-management:a";
        let agent = "system:open-cluster-management:a:agent";
        let cases: [(&str, &[&str], bool); 8] = [
            (agent, &[own], true),
            (agent, &[own, COMMON_GROUP], true),
            (agent, &[], false),
            (agent, &[own, "system:masters"], false),
            ("system:open-cluster-management:ab:agent", &[own], false),
            ("system:open-cluster-management:a:", &[own], false),
            ("system:open-cluster-management:a:b:c", &[own], false),
            ("a:agent", &[own], false),
        ];
        for (name, groups, wanted) in cases {
            let subject = Subject {
                common_name: name.to_owned(),
                organizations: groups.iter().map(|it| (*it).to_owned()).collect(),
                ..Subject::default()
            };
            assert_eq!(is_of_cluster(&subject, "a"), wanted, "{name} {groups:?}");
        }
    }
}
