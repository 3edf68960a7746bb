//! Valid requests, as OCM's registration agent creates them; tests modify them.

use k8s_openapi::{
    ByteString,
    api::certificates::v1::CertificateSigningRequestSpec,
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference},
};
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair, SanType};

use super::super::*;

pub(crate) const SIGNER: &str = "open-cluster-management.io/a";

/// The content of a request.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    pub(crate) common_names: Vec<String>,
    pub(crate) groups: Vec<String>,
    pub(crate) units: Vec<String>,
    pub(crate) names: Vec<SanType>,
    pub(crate) other: Option<(Vec<u64>, String)>,
}

pub(crate) fn addon_name() -> AddonName {
    AddonName::new("a").unwrap()
}

pub(crate) fn cluster_name() -> ClusterName {
    ClusterName::new("ab").unwrap()
}

impl Sample {
    pub(crate) fn good() -> Self {
        let subject = default_subject(&addon_name(), &cluster_name());
        Self {
            common_names: vec![subject.user],
            groups: subject.groups,
            units: Vec::new(),
            names: vec![SanType::DnsName(
                addon_name().dns_name().try_into().unwrap(),
            )],
            other: None,
        }
    }

    /// rcgen keeps one value an attribute type, so the second gets a type of the same OID.
    pub(crate) fn params(&self) -> CertificateParams {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        let parts = [
            (DnType::CommonName, vec![2, 5, 4, 3], &self.common_names),
            (DnType::OrganizationName, vec![2, 5, 4, 10], &self.groups),
            (
                DnType::OrganizationalUnitName,
                vec![2, 5, 4, 11],
                &self.units,
            ),
        ];
        for (kind, oid, values) in parts {
            let kinds = [kind, DnType::CustomDnType(oid)];
            for (kind, value) in kinds.into_iter().zip(values) {
                params.distinguished_name.push(kind, value.as_str());
            }
        }
        if let Some((oid, value)) = &self.other {
            params
                .distinguished_name
                .push(DnType::CustomDnType(oid.clone()), value.as_str());
        }
        params.subject_alt_names.clone_from(&self.names);
        params
    }

    pub(crate) fn pem(&self, key: &KeyPair) -> String {
        self.params().serialize_request(key).unwrap().pem().unwrap()
    }

    pub(crate) fn request(&self) -> CertificateSigningRequest {
        request(&self.pem(&KeyPair::generate().unwrap()))
    }
}

pub(crate) fn request(pem: &str) -> CertificateSigningRequest {
    let labels = [(keys::ADDON_NAME, "a"), (keys::CLUSTER_NAME, "ab")];
    let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned()));
    CertificateSigningRequest {
        metadata: ObjectMeta {
            name: Some("addon-ab-a-x".to_owned()),
            labels: Some(labels.into()),
            ..ObjectMeta::default()
        },
        spec: CertificateSigningRequestSpec {
            request: ByteString(pem.as_bytes().to_vec()),
            signer_name: SIGNER.to_owned(),
            username: Some("system:open-cluster-management:ab:agent".to_owned()),
            groups: Some(vec![
                "system:open-cluster-management:ab".to_owned(),
                "system:authenticated".to_owned(),
            ]),
            usages: Some(
                ["digital signature", "key encipherment", "client auth"]
                    .map(str::to_owned)
                    .into(),
            ),
            ..CertificateSigningRequestSpec::default()
        },
        status: None,
    }
}

pub(crate) fn wanted() -> Vec<Registration> {
    vec![
        Registration::custom_signer(SIGNER, &addon_name(), &cluster_name()),
        Registration::KubeClient,
    ]
}

/// The add-on on the cluster, with its owner reference from OCM.
pub(crate) fn cluster_addon() -> ManagedClusterAddOn {
    let mut addon = ManagedClusterAddOn::default();
    addon.metadata.owner_references = Some(vec![OwnerReference {
        api_version: "addon.open-cluster-management.io/v1beta1".to_owned(),
        kind: "ClusterManagementAddOn".to_owned(),
        name: addon_name().to_string(),
        controller: Some(true),
        ..OwnerReference::default()
    }]);
    addon
}

pub(crate) fn managed_cluster() -> ManagedCluster {
    let mut cluster = ManagedCluster::default();
    cluster.spec.hub_accepts_client = true;
    cluster
}
