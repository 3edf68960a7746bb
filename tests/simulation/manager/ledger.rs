//! The notes of the API server: writes beside the leader, and forged certificate requests.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::api::Api;
use super::api::http::Asked;

pub(crate) const OWN: &str = "argocd-agent-addon";
/// The lease of the leader.
pub(crate) const LEASE: &str = "argocd-agent-addon-manager";

/// The process that holds the lease.
pub(crate) fn holder(api: &Api) -> Option<String> {
    let lease = api.get("leases.coordination.k8s.io", OWN, LEASE)?;
    let holder = lease["spec"]["holderIdentity"].as_str()?;
    (!holder.is_empty()).then(|| holder.to_owned())
}

/// The Pod of a process.
pub(crate) fn pod_of(identity: &str) -> &str {
    identity.split('_').next().unwrap_or_default()
}

/// The notes of a history; clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ledger(Arc<Mutex<Notes>>);

#[derive(Debug, Default)]
struct Notes {
    findings: BTreeSet<String>,
    effective: usize,
    no_ops: usize,
    forged: BTreeMap<String, &'static str>,
}

impl Ledger {
    fn lock(&self) -> MutexGuard<'_, Notes> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a write of a process, before it is carried out.
    pub(crate) fn wrote(&self, identity: &str, asked: &Asked, api: &Api) {
        let (kind, _, name) = &asked.key;
        if kind.starts_with("leases") {
            return;
        }
        // Every replica removes the label from its own Pod.
        if kind == "pods" && name == pod_of(identity) {
            return;
        }
        if let Some(holder) = holder(api).filter(|it| it != identity) {
            self.find(format!(
                "{identity} wrote while {holder} led: {}",
                asked.title()
            ));
        }
    }

    pub(crate) fn counts(&self, is_effective: bool) {
        let mut notes = self.lock();
        if is_effective {
            notes.effective += 1;
        } else {
            notes.no_ops += 1;
        }
    }

    /// Writes that changed something, and those that did not.
    pub(crate) fn writes(&self) -> (usize, usize) {
        let notes = self.lock();
        (notes.effective, notes.no_ops)
    }

    /// A certificate request that must never be granted.
    pub(crate) fn forged(&self, name: &str, how: &'static str) {
        self.lock().forged.insert(name.to_owned(), how);
    }

    pub(crate) fn forgeries(&self) -> BTreeMap<String, &'static str> {
        self.lock().forged.clone()
    }

    pub(crate) fn find(&self, finding: String) {
        self.lock().findings.insert(finding);
    }

    pub(crate) fn findings(&self) -> Vec<String> {
        self.lock().findings.iter().cloned().collect()
    }
}
