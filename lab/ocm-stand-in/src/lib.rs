//! Open Cluster Management for the lab: the hub's half and each spoke's half.
//!
//! Two implementations share one API. With `OCM_BIN_DIR` set, [`Hub`] and [`Spoke`] run the *real*
//! OCM binaries of that directory as bare processes. Without it they run a **stand-in**: our own tasks
//! that reproduce the parts of OCM which an add-on can notice. Tests cannot distinguish the two, and
//! every test about OCM is meant to run against both.
//!
//! ```text
//!  Hub   conversion webhook · cluster join and accept · lease, taints, feature labels · cluster sets
//!        placement · add-on manager (owner, install, configuration, progress) · cluster removal
//!  Spoke registration agent (cluster lease, claims, add-on certificates) · work agent
//! ```
//!
//! Both runners have the identities of the real thing: the hub half is cluster admin, the spoke half
//! uses a client certificate of its own cluster on the hub, and on the spoke service accounts with the
//! klusterlet's rights. The module of the stand-in lists its omissions at the top.

#![expect(
    clippy::indexing_slicing,
    reason = "objects are JSON here: reading an absent member gives null, and only objects by their CRD are written to"
)]
#![expect(
    clippy::doc_markdown,
    reason = "the kinds of OCM are the terms of this crate"
)]

mod cache;
mod client;
mod condition;
mod control;
mod conversion;
pub mod crds;
mod help;
mod kinds;
mod klusterlet;
mod placement;
mod real;
mod rollout;
mod stand_in;
mod tasks;

mod hub;
mod spoke;

pub use help::Help;
pub use hub::{Conversion, Hub, HubConfig};
pub use spoke::{Spoke, SpokeConfig};

/// A new key and a request for a certificate, both PEM, in the form that OCM's registration agent makes them: for
/// tests that play a cluster.
pub fn certificate_request(
    user: &str,
    groups: &[String],
    units: &[String],
    dns_names: &[&str],
) -> anyhow::Result<(String, String)> {
    let subject = stand_in::Subject {
        common_name: user.to_owned(),
        organizations: groups.iter().cloned().collect(),
        units: units.iter().cloned().collect(),
    };
    let made = stand_in::request(&subject, dns_names)?;
    Ok((made.key_pem, made.csr_pem))
}

/// The newest version of the add-on API on a hub with this OCM: v1alpha1 before OCM 1.2, else v1beta1.
///
/// Programs that cannot be asked count as new ones: [`Hub::start`] reports what is wrong with them.
pub fn newest_add_on_api() -> &'static str {
    static NEWEST: std::sync::OnceLock<&str> = std::sync::OnceLock::new();
    NEWEST.get_or_init(|| match real_binaries().map(|dir| real::converts(&dir)) {
        Some(Ok(false)) => crds::OLD,
        Some(Ok(true) | Err(_)) | None => crds::NEW,
    })
}

/// Whether the admission webhooks of OCM run on a hub: those of real OCM, since 1.3.
pub fn has_admission_webhooks() -> bool {
    real_binaries().is_some_and(|dir| real::admits(&dir).unwrap_or_default())
}

/// The directory of real OCM binaries, if the caller set it: `OCM_BIN_DIR`.
pub fn real_binaries() -> Option<std::path::PathBuf> {
    std::env::var_os("OCM_BIN_DIR")
        .filter(|dir| !dir.is_empty())
        .map(Into::into)
}
