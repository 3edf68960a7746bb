//! Whether a certificate request may be approved and signed. Pure.
//!
//! The requester can write anything into a request. The SDK computes the expected content from the
//! cluster's name and the author's settings and compares it exactly: no prefix, pattern or default
//! favours the requester. A request that does not match stays pending, since after a denial the agent
//! would create new requests until it reaches its limit.

use std::collections::BTreeSet;

use k8s_openapi::api::certificates::v1::CertificateSigningRequest;

use self::request::Request;
use super::{Registration, registration::default_subject};
use crate::{
    api::{
        addon::{ManagedClusterAddOn, Subject},
        cluster::ManagedCluster,
    },
    keys,
    name::{AddonName, ClusterName},
};

mod awsirsa;
mod request;
mod summary;

pub(crate) use self::{
    request::public_key,
    summary::{OPEN_LIMIT, SIZE_LIMIT, Summary, queue},
};

/// Why a certificate request is left pending.
#[derive(Clone, Debug, PartialEq, Eq, derive_more::Display)]
#[display("{message}")]
pub(crate) struct Refusal {
    /// The reason for Events and metrics; [`REASONS`] has all of them.
    pub(crate) reason: &'static str,
    message: String,
}

/// The reason of every refusal.
pub(crate) const REASONS: [&str; 17] = [
    "AddonDeleting",
    "AddonNotEnabled",
    "ClusterDeleting",
    "ClusterNotAccepted",
    "ClusterNotServed",
    "Malformed",
    "NoCluster",
    "WrongAddonLabel",
    "WrongAlternativeName",
    "WrongClusterLabel",
    "WrongCommonName",
    "WrongOrganizationalUnits",
    "WrongOrganizations",
    "WrongRequester",
    "WrongSignature",
    "WrongSigner",
    "WrongUsages",
];

impl Refusal {
    pub(crate) fn new(reason: &'static str, message: impl Into<String>) -> Self {
        let message = message.into();
        Self { reason, message }
    }

    /// The label with the cluster is missing, or it is not a cluster's name.
    pub(crate) fn cluster_label() -> Self {
        let message =
            "the label open-cluster-management.io/cluster-name is missing or not a cluster's name";
        Self::new("WrongClusterLabel", message)
    }

    /// The add-on does not serve the cluster, for this reason.
    pub(crate) fn not_served(cluster: &ClusterName, why: &str) -> Self {
        let message = format!("the add-on does not serve cluster {cluster}: {why}");
        Self::new("ClusterNotServed", message)
    }

    fn malformed(why: &str) -> Self {
        Self::new("Malformed", format!("not a well-formed request: {why}"))
    }
}

/// The progress of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// Neither approved nor denied.
    Pending,
    /// Approved, but there is no certificate yet.
    Approved,
    /// Denied, or the signer gave up.
    Denied,
    /// There is a certificate.
    Issued,
}

/// The progress of a request.
pub(crate) fn progress(request: &CertificateSigningRequest) -> Progress {
    let status = request.status.as_ref();
    let certificate = status.and_then(|status| status.certificate.as_ref());
    if certificate.is_some_and(|pem| !pem.0.is_empty()) {
        return Progress::Issued;
    }
    let conditions = status.and_then(|status| status.conditions.as_deref());
    let conditions = conditions.unwrap_or_default();
    let has = |kind: &str| conditions.iter().any(|c| c.type_ == kind);
    if has("Denied") || has("Failed") {
        Progress::Denied
    } else if has("Approved") {
        Progress::Approved
    } else {
        Progress::Pending
    }
}

/// The cluster that a request claims; untrusted until [`check`].
pub(crate) fn claimed_cluster(request: &CertificateSigningRequest) -> Option<ClusterName> {
    let label = request.metadata.labels.as_ref()?.get(keys::CLUSTER_NAME)?;
    ClusterName::new(label.clone()).ok()
}

/// The hub's objects for the cluster that a request claims.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Situation<'a> {
    /// The add-on.
    pub(crate) addon: &'a AddonName,
    /// The cluster of the request's label.
    pub(crate) cluster: &'a ClusterName,
    /// That cluster, if it exists.
    pub(crate) managed_cluster: Option<&'a ManagedCluster>,
    /// The add-on on that cluster, if it exists.
    pub(crate) cluster_addon: Option<&'a ManagedClusterAddOn>,
    /// The identities that the author registers for it.
    pub(crate) wanted: &'a [Registration],
    /// Whether the author accepts clusters of the registration driver `awsirsa`.
    pub(crate) accepts_awsirsa: bool,
}

/// The result of a valid request: the content of its certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Granted {
    /// Whether the SDK signs the certificate.
    pub(crate) custom: bool,
    /// The subject, as the SDK computed it (not as the request has it).
    pub(crate) subject: Subject,
}

/// Checks a request: its requester, the state of the cluster, and its content.
pub(crate) fn check(
    request: &CertificateSigningRequest,
    situation: Situation<'_>,
) -> Result<Granted, Refusal> {
    check_labels(request, situation)?;
    check_requester(request, situation)?;
    check_enrolment(situation)?;
    let granted = grant(request, situation)?;
    check_usages(request)?;
    let content = Request::parse(&request.spec.request.0)?;
    check_subject(&content, &granted)?;
    let dns_name = situation.addon.dns_name();
    let is_own = |name: &Option<String>| name.as_ref() == Some(&dns_name);
    if !content.alternative_names.iter().all(is_own) {
        let message = format!("the only subject alternative name may be {dns_name}");
        return Err(Refusal::new("WrongAlternativeName", message));
    }
    Ok(granted)
}

fn check_labels(
    request: &CertificateSigningRequest,
    situation: Situation<'_>,
) -> Result<(), Refusal> {
    if claimed_cluster(request).as_ref() != Some(situation.cluster) {
        return Err(Refusal::cluster_label());
    }
    let labels = request.metadata.labels.as_ref();
    let addon = labels.and_then(|labels| labels.get(keys::ADDON_NAME));
    if addon.map(String::as_str) != Some(situation.addon.as_str()) {
        let message = format!("the label {} is not {}", keys::ADDON_NAME, situation.addon);
        return Err(Refusal::new("WrongAddonLabel", message));
    }
    Ok(())
}

/// The user who sent a request.
///
/// For requests through OCM's gRPC server the user is its service account, which records the requester in
/// an annotation; the annotation counts for this user only.
fn requester(request: &CertificateSigningRequest) -> &str {
    let username = request.spec.username.as_deref().unwrap_or_default();
    if username != keys::GRPC_SERVER_USER {
        return username;
    }
    let annotations = request.metadata.annotations.as_ref();
    let noted = annotations.and_then(|annotations| annotations.get(keys::CSR_USER));
    noted.map(String::as_str).unwrap_or_default()
}

/// The cluster whose registration agent sent a request, by the API server's word; `None` for other requesters.
pub(crate) fn sender(
    request: &CertificateSigningRequest,
    accepts_awsirsa: bool,
) -> Option<ClusterName> {
    let by_certificate = agent_cluster(requester(request));
    by_certificate.or_else(|| awsirsa::cluster(request).filter(|_| accepts_awsirsa))
}

/// The cluster whose registration agent this user is: the user must be the cluster's prefix and one more part.
fn agent_cluster(user: &str) -> Option<ClusterName> {
    let (cluster, agent) = user.strip_prefix(keys::IDENTITY_PREFIX)?.split_once(':')?;
    let is_agent = !agent.is_empty() && !agent.contains(':');
    ClusterName::new(cluster).ok().filter(|_| is_agent)
}

/// The user must be the cluster's registration agent, and a member of the cluster's group; or the cluster's access entry in
/// EKS.
fn check_requester(
    request: &CertificateSigningRequest,
    situation: Situation<'_>,
) -> Result<(), Refusal> {
    let (requester, cluster) = (requester(request), situation.cluster);
    let group = format!("{}{cluster}", keys::IDENTITY_PREFIX);
    let through_grpc = request.spec.username.as_deref() == Some(keys::GRPC_SERVER_USER);
    let is_member = through_grpc || request.spec.groups.iter().flatten().any(|g| *g == group);
    if agent_cluster(requester).as_ref() == Some(cluster) && is_member {
        return Ok(());
    }
    if awsirsa::cluster(request).as_ref() == Some(cluster) {
        return awsirsa::check(situation);
    }
    let message = format!(
        "requested by {requester:?}, which is not the registration agent of cluster {cluster}"
    );
    Err(Refusal::new("WrongRequester", message))
}

fn check_enrolment(situation: Situation<'_>) -> Result<(), Refusal> {
    let name = situation.cluster;
    let refused = |reason, message: String| Err(Refusal { reason, message });
    let Some(cluster) = situation.managed_cluster else {
        return refused("NoCluster", format!("there is no cluster {name}"));
    };
    if cluster.is_deleting() {
        return refused(
            "ClusterDeleting",
            format!("cluster {name} is being deleted"),
        );
    }
    if !cluster.is_admitted() {
        return refused(
            "ClusterNotAccepted",
            format!("cluster {name} is not accepted"),
        );
    }
    let Some(addon) = situation.cluster_addon else {
        let message = format!("the add-on is not enabled on cluster {name}");
        return refused("AddonNotEnabled", message);
    };
    if addon.is_deleting() {
        let message = format!("the add-on is being disabled on cluster {name}");
        return refused("AddonDeleting", message);
    }
    if !addon.is_managed_by(situation.addon) {
        // The SDK does not reconcile such an add-on, so it registers no agent.
        let why = "its ClusterManagementAddOn does not own it";
        return Err(Refusal::not_served(name, why));
    }
    Ok(())
}

/// The content that the request's signer may certify for this cluster, from the registrations alone.
fn grant(
    request: &CertificateSigningRequest,
    situation: Situation<'_>,
) -> Result<Granted, Refusal> {
    let asked = request.spec.signer_name.as_str();
    let granted = situation.wanted.iter().find_map(|wanted| match wanted {
        Registration::KubeClient if asked == keys::KUBE_SIGNER => {
            let subject = default_subject(situation.addon, situation.cluster);
            Some(Granted {
                custom: false,
                subject,
            })
        }
        // A registration cannot declare the hub's own signer as a custom signer.
        Registration::CustomSigner {
            signer_name,
            subject,
        } if asked == signer_name && asked != keys::KUBE_SIGNER => Some(Granted {
            custom: true,
            subject: subject.clone(),
        }),
        Registration::KubeClient | Registration::CustomSigner { .. } => None,
    });
    let message = || format!("signer {asked:?} is not one that this add-on uses");
    granted.ok_or_else(|| Refusal::new("WrongSigner", message()))
}

fn check_usages(request: &CertificateSigningRequest) -> Result<(), Refusal> {
    let usages = request.spec.usages.iter().flatten();
    let usages: BTreeSet<_> = usages.map(String::as_str).collect();
    let allowed = BTreeSet::from(["digital signature", "key encipherment", "client auth"]);
    if usages.contains("client auth") && usages.is_subset(&allowed) {
        return Ok(());
    }
    let message =
        "the usages must be client auth, with digital signature and key encipherment at most";
    Err(Refusal::new("WrongUsages", message))
}

fn check_subject(content: &Request, granted: &Granted) -> Result<(), Refusal> {
    let wanted = &granted.subject;
    let (found, user) = (&content.common_name, &wanted.user);
    if found != user {
        let message = format!("the common name is {found:?}, wanted is {user:?}");
        return Err(Refusal::new("WrongCommonName", message));
    }
    let mut found = content.organizations.clone();
    let groups: BTreeSet<_> = wanted.groups.iter().cloned().collect();
    // Old agents also request this group of the hub's own signer; every user is in it anyway.
    if !granted.custom && !groups.contains("system:authenticated") {
        found.remove("system:authenticated");
    }
    if found != groups {
        let message = format!("the organizations are {found:?}, wanted are {groups:?}");
        return Err(Refusal::new("WrongOrganizations", message));
    }
    let found = &content.organizational_units;
    let units: BTreeSet<_> = wanted.organization_units.iter().cloned().collect();
    if *found != units {
        let message = format!("the organizational units are {found:?}, wanted are {units:?}");
        return Err(Refusal::new("WrongOrganizationalUnits", message));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
#[cfg(test)]
pub(crate) use self::tests::samples;
