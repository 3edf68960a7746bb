//! Clusters that joined with OCM's registration driver `awsirsa`, on a hub in EKS. Pure.
//!
//! Such a cluster has no certificate of OCM. OCM makes an access entry in EKS for an IAM role of the cluster: its user is the
//! cluster's name, and it has one group. Neither begins with `system:`, so another source of identities on the hub (OIDC, a
//! webhook) could issue both; they count only where the author accepts the driver.

use k8s_openapi::api::certificates::v1::CertificateSigningRequest;

use super::{Refusal, Situation};
use crate::{api::cluster::ManagedCluster, keys, name::ClusterName};

/// The cluster whose access entry sent a request: the user and all groups must be those of the entry.
///
/// The access entry authenticates with the hub's API server itself, so an annotation of OCM's gRPC server does not count.
pub(super) fn cluster(request: &CertificateSigningRequest) -> Option<ClusterName> {
    let cluster = ClusterName::new(request.spec.username.as_deref()?).ok()?;
    let own = format!("{}{cluster}", keys::AWSIRSA_GROUP_PREFIX);
    let groups = request.spec.groups.as_deref().unwrap_or_default();
    // The API server adds the latter to every user.
    let is_known = |group: &String| *group == own || group == "system:authenticated";
    (groups.contains(&own) && groups.iter().all(is_known)).then_some(cluster)
}

/// The author must accept the driver, and this cluster, which sent the request, must have joined with it.
pub(super) fn check(situation: Situation<'_>) -> Result<(), Refusal> {
    let cluster = situation.cluster;
    let sent = format!("requested by cluster {cluster} with OCM's registration driver awsirsa");
    let refused = |why: String| Err(Refusal::new("WrongRequester", format!("{sent}, {why}")));
    if !situation.accepts_awsirsa {
        let next = "if clusters join this hub with it, set --accept-awsirsa";
        return refused(format!("which is switched off: {next}"));
    }
    let Some(key) = wrong_annotation(situation.managed_cluster) else {
        return Ok(());
    };
    refused(format!(
        "but the annotation {key} of its ManagedCluster is missing or malformed: OCM's registration agent sets it when \
        a cluster joins with this driver"
    ))
}

/// The first annotation of the driver that a ManagedCluster does not have in OCM's form.
///
/// The ARN may name another cluster than the ManagedCluster, since names in EKS are unique in a region of an account only.
/// The suffix is a digest of this ARN and the hub's: OCM compares it before it makes the access entry.
fn wrong_annotation(cluster: Option<&ManagedCluster>) -> Option<&'static str> {
    let annotations = cluster.and_then(|cluster| cluster.metadata.annotations.as_ref());
    let has = |key: &str, is_valid: fn(&str) -> bool| {
        annotations
            .and_then(|annotations| annotations.get(key))
            .is_some_and(|value| is_valid(value))
    };
    if !has(keys::MANAGED_CLUSTER_ARN, is_cluster_arn) {
        return Some(keys::MANAGED_CLUSTER_ARN);
    }
    (!has(keys::MANAGED_CLUSTER_ROLE_SUFFIX, is_role_suffix))
        .then_some(keys::MANAGED_CLUSTER_ROLE_SUFFIX)
}

/// `arn:aws:eks:REGION:ACCOUNT:cluster/NAME`, as a whole and as OCM's Klusterlet validates it.
fn is_cluster_arn(value: &str) -> bool {
    let is_name = |text: &str| {
        let is_inner = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        !text.is_empty() && text.bytes().all(is_inner)
    };
    let is_account = |text: &str| text.len() == 12 && text.bytes().all(|it| it.is_ascii_digit());
    let parts = value
        .strip_prefix("arn:aws:eks:")
        .and_then(|rest| rest.split_once(':'))
        .and_then(|(region, rest)| Some((region, rest.split_once(":cluster/")?)));
    parts.is_some_and(|(region, (account, name))| {
        is_name(region) && is_account(account) && is_name(name)
    })
}

/// An MD5 digest in hexadecimal digits.
fn is_role_suffix(value: &str) -> bool {
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    value.len() == 32 && value.bytes().all(is_digit)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::sdk::csr::{
        samples::{Sample, addon_name, cluster_addon, cluster_name, managed_cluster, wanted},
        sender,
    };

    const ARN: &str = "arn:aws:eks:us-west-2:123456789012:cluster/edge-1";
    const SUFFIX: &str = "7f8141296c75f2871e3d030f85c35692";
    const GROUP: &str = "open-cluster-management:ab";

    /// What OCM's registration agent sends with the driver.
    fn request() -> CertificateSigningRequest {
        let mut request = Sample::good().request();
        from(&mut request, "ab", &[GROUP, "system:authenticated"]);
        request
    }

    fn from(request: &mut CertificateSigningRequest, user: &str, groups: &[&str]) {
        request.spec.username = Some(user.to_owned());
        request.spec.groups = Some(groups.iter().map(|&group| group.to_owned()).collect());
    }

    fn annotate(cluster: &mut ManagedCluster, key: &str, value: &str) {
        let annotations = cluster.metadata.annotations.get_or_insert_default();
        annotations.insert(key.to_owned(), value.to_owned());
    }

    /// A cluster that joined with the driver.
    fn joined() -> ManagedCluster {
        let mut cluster = managed_cluster();
        annotate(&mut cluster, keys::MANAGED_CLUSTER_ARN, ARN);
        annotate(&mut cluster, keys::MANAGED_CLUSTER_ROLE_SUFFIX, SUFFIX);
        cluster
    }

    /// The reason and the message of the refusal, both empty for a request that is granted.
    fn judge(
        request: &CertificateSigningRequest,
        managed_cluster: Option<&ManagedCluster>,
        accepts_awsirsa: bool,
    ) -> (&'static str, String) {
        let (addon, cluster, wanted) = (addon_name(), cluster_name(), wanted());
        let cluster_addon = cluster_addon();
        let situation = Situation {
            addon: &addon,
            cluster: &cluster,
            managed_cluster,
            cluster_addon: Some(&cluster_addon),
            wanted: &wanted,
            accepts_awsirsa,
        };
        crate::sdk::csr::check(request, situation).map_or_else(
            |refusal| (refusal.reason, refusal.to_string()),
            |_granted| ("", String::new()),
        )
    }

    #[test]
    fn awsirsa_request_needs_the_switch_and_both_annotations() {
        let (arn, suffix) = (keys::MANAGED_CLUSTER_ARN, keys::MANAGED_CLUSTER_ROLE_SUFFIX);
        let (mut no_arn, mut no_suffix) = (managed_cluster(), managed_cluster());
        annotate(&mut no_arn, suffix, SUFFIX);
        annotate(&mut no_suffix, arn, ARN);
        let (mut odd_arn, mut odd_suffix) = (joined(), joined());
        annotate(&mut odd_arn, arn, "arn:aws:eks:x");
        annotate(&mut odd_suffix, suffix, "");
        let cases = [
            (Some(joined()), true, "", ""),
            (Some(joined()), false, "WrongRequester", "--accept-awsirsa"),
            (Some(managed_cluster()), true, "WrongRequester", arn),
            (Some(no_arn), true, "WrongRequester", arn),
            (Some(no_suffix), true, "WrongRequester", suffix),
            (Some(odd_arn), true, "WrongRequester", arn),
            (Some(odd_suffix), true, "WrongRequester", suffix),
            (None, true, "WrongRequester", arn),
        ];
        for (index, (cluster, accepts, reason, part)) in cases.into_iter().enumerate() {
            let (found, message) = judge(&request(), cluster.as_ref(), accepts);
            assert_eq!(found, reason, "case {index}");
            assert!(message.contains(part), "case {index}: {message}");
        }
        let mut rejected = joined();
        rejected.spec.hub_accepts_client = false;
        let (reason, message) = judge(&request(), Some(&rejected), true);
        assert_eq!(reason, "ClusterNotAccepted", "{message}");
    }

    #[test]
    fn user_and_groups_of_an_access_entry_are_compared_as_a_whole() {
        type Spoil = fn(&mut CertificateSigningRequest);
        let cases: [Spoil; 12] = [
            |r| from(r, "ab", &["open-cluster-management:a"]),
            |r| from(r, "ab", &["open-cluster-management:abc"]),
            |r| from(r, "ab", &["system:open-cluster-management:ab"]),
            |r| from(r, "ab", &["system:authenticated"]),
            |r| from(r, "ab", &[GROUP, "system:masters"]),
            |r| from(r, "ab", &[GROUP, "open-cluster-management:abc"]),
            |r| r.spec.groups = None,
            |r| from(r, "system:open-cluster-management:ab", &[GROUP]),
            |r| from(r, "system:open-cluster-management:ab:agent", &[GROUP]),
            |r| from(r, "abc", &["open-cluster-management:abc"]),
            |r| from(r, "abc", &[GROUP]),
            |r| r.spec.username = None,
        ];
        for (index, spoil) in cases.into_iter().enumerate() {
            let mut request = request();
            spoil(&mut request);
            let (reason, message) = judge(&request, Some(&joined()), true);
            assert_eq!(reason, "WrongRequester", "case {index}: {message}");
        }
    }

    #[test]
    fn grpc_annotation_with_a_cluster_name_is_no_access_entry() {
        let mut request = request();
        from(&mut request, keys::GRPC_SERVER_USER, &[GROUP]);
        let annotations = request.metadata.annotations.get_or_insert_default();
        annotations.insert(keys::CSR_USER.to_owned(), "ab".to_owned());
        let (reason, message) = judge(&request, Some(&joined()), true);
        assert_eq!(reason, "WrongRequester", "{message}");
    }

    #[test]
    fn requests_with_certificates_do_not_depend_on_the_switch() {
        for accepts in [false, true] {
            let request = Sample::good().request();
            let (reason, message) = judge(&request, Some(&managed_cluster()), accepts);
            assert_eq!(reason, "", "{message}");
            assert_eq!(sender(&request, accepts), Some(cluster_name()));
        }
    }

    #[test]
    fn access_entry_uses_the_cluster_limits_only_where_it_is_accepted() {
        assert_eq!(sender(&request(), true), Some(cluster_name()));
        assert_eq!(sender(&request(), false), None);
    }

    #[test]
    fn annotations_of_the_driver_have_the_form_of_ocm() {
        assert!(is_cluster_arn(ARN) && is_role_suffix(SUFFIX));
        for wrong in [
            "",
            "edge-1",
            "arn:aws:eks:us-west-2:123456789012:cluster/",
            "arn:aws:eks:us-west-2:123456789012:cluster/a/b",
            "arn:aws:eks:us-west-2:123456789012:cluster/a:b",
            "arn:aws:eks:us-west-2:123456789012:cluster/a\n",
            "arn:aws:eks:us-west-2:123456789012:nodegroup/a",
            "arn:aws:eks:us-west-2:12345678901:cluster/a",
            "arn:aws:eks:us-west-2:1234567890123:cluster/a",
            "arn:aws:eks:us-west-2:12345678901x:cluster/a",
            "arn:aws:eks::123456789012:cluster/a",
            "arn:aws:iam::123456789012:role/a",
            "xarn:aws:eks:us-west-2:123456789012:cluster/a",
        ] {
            assert!(!is_cluster_arn(wrong), "{wrong:?}");
        }
        for (digit, count) in [("a", 0), ("a", 31), ("a", 33), ("A", 32), ("g", 32)] {
            assert!(!is_role_suffix(&digit.repeat(count)), "{count} of {digit}");
        }
    }

    proptest! {
        #[test]
        fn only_the_exact_access_entry_is_a_requester(
            user in "(ab|[ab:]{1,3})", group in "(ab|[ab:]{1,3})",
        ) {
            let mut request = request();
            from(&mut request, &user, &[&format!("open-cluster-management:{group}")]);
            let (reason, _message) = judge(&request, Some(&joined()), true);
            prop_assert_eq!(reason.is_empty(), user == "ab" && group == "ab");
        }
    }
}
