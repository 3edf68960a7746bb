//! Fixtures for the tests: a certificate authority, names, and Argo CD objects.

use std::sync::{Arc, LazyLock};

use serde_json::{Value, json};

use crate::{
    admission::{identity::PeerCertificate, tokens::JwtKey},
    fleet::{Certificates, ClusterName, Enrolment, Fleet, Mode},
    store::{Packed, Report, Watched},
};

pub(crate) use super::authority::{Authority, Leaf, rsa_key};

/// RSA keys are slow to generate: one for all tests.
pub(crate) static SIGNING_KEY: LazyLock<JwtKey> =
    LazyLock::new(|| JwtKey::from_pem(rsa_key().as_bytes()).unwrap());

/// The report of a watch about an object.
pub(crate) fn applied(kind: Watched, object: Value) -> Report {
    Report::Applied(kind, Packed::of(object))
}

pub(crate) fn packed(object: Value) -> Arc<Packed> {
    Arc::new(Packed::of(object))
}

pub(crate) fn name(raw: &str) -> ClusterName {
    ClusterName::try_from(raw).unwrap()
}

pub(crate) fn enrolment(mode: Mode) -> Enrolment {
    Enrolment {
        mode,
        server: None,
        since: None,
        fresh: false,
        confirm_delete: None,
        shares_unscoped: Some(false),
        certificates: Certificates::All,
    }
}

pub(crate) fn fleet(clusters: &[&str]) -> Fleet {
    let clusters = clusters
        .iter()
        .map(|name| ((*name).to_owned(), enrolment(Mode::Managed)));
    Fleet {
        clusters: clusters.collect(),
    }
}

impl Authority {
    /// The certificate of a cluster's agent with an organizational unit.
    pub(crate) fn agent_of_unit(&self, cluster: &str, unit: &str) -> Leaf {
        let addon = "argocd-agent-addon";
        let mut subject = super::authority::common_name(&format!(
            "system:open-cluster-management:cluster:{cluster}:addon:{addon}:agent:{addon}"
        ));
        subject.push(rcgen::DnType::OrganizationalUnitName, unit);
        let usage = rcgen::ExtendedKeyUsagePurpose::ClientAuth;
        self.leaf(subject, usage, time::Duration::hours(1))
    }
}

impl Leaf {
    pub(crate) fn peer_certificate(&self) -> PeerCertificate {
        PeerCertificate::from_pem(&self.chain).unwrap()
    }
}

/// An Application as the API server has it; `version` is also part of its UID where none is given.
pub(crate) fn application(namespace: &str, name: &str, uid: &str, version: u64) -> Value {
    json!({
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Application",
        "metadata": {
            "namespace": namespace, "name": name, "uid": uid,
            "resourceVersion": version.to_string(),
            "creationTimestamp": "2026-01-01T00:00:00Z",
        },
        "spec": {
            "project": "default",
            "source": { "repoURL": "https://example.com/repo.git", "path": "." },
            "destination": { "name": "in-cluster", "namespace": "work" },
        },
    })
}

/// The object with changes, as a merge patch.
#[expect(clippy::needless_pass_by_value, reason = "reads better in the tests")]
pub(crate) fn with(mut object: Value, change: Value) -> Value {
    argocd::patch::merge(&mut object, &change);
    object
}

/// A project that admits everything.
pub(crate) fn open_project(name: &str) -> Value {
    json!({
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "AppProject",
        "metadata": { "namespace": "argocd", "name": name, "uid": format!("project-{name}"), "resourceVersion": "1" },
        "spec": {
            "sourceRepos": ["*"],
            "sourceNamespaces": ["*"],
            "destinations": [{ "name": "*", "server": "*", "namespace": "*" }],
        },
    })
}
