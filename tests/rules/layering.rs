//! The arrows between our crates, held against what cargo says.

use std::collections::{BTreeMap, BTreeSet};

use cargo_metadata::{DependencyKind, MetadataCommand};

/// Who may use whom. A new arrow is a decision: change `docs/architecture.md` with it.
const ARROWS: &[(&str, &[&str])] = &[
    ("runtime", &[]),
    ("argocd", &[]),
    ("protocol", &[]),
    ("live", &["argocd"]),
    ("ocm", &[]),
    ("principal", &["argocd", "live", "protocol", "runtime"]),
    (
        "addon-manager",
        &["argocd", "live", "ocm", "principal", "protocol", "runtime"],
    ),
    ("agent", &["argocd", "live", "protocol", "runtime"]),
    ("agentctl", &["argocd", "live", "ocm", "runtime"]),
    ("lab-kubelet", &[]),
    ("lab-ocm-stand-in", &[]),
    (
        "lab",
        &[
            "lab-kubelet",
            "lab-ocm-stand-in",
            "live",
            "protocol",
            "runtime",
        ],
    ),
];

/// The test bed may use everything, and nothing may use it.
const TEST_BED: &str = "tests";

#[test]
fn crates_use_only_what_the_table_allows() {
    let metadata = MetadataCommand::new()
        .no_deps()
        .exec()
        .expect("cargo describes the workspace");
    let members: BTreeSet<&str> = metadata.packages.iter().map(|p| p.name.as_str()).collect();
    let allowed: BTreeMap<&str, BTreeSet<&str>> = ARROWS
        .iter()
        .map(|(from, to)| (*from, to.iter().copied().collect()))
        .collect();

    let mut wrong = Vec::new();
    for package in metadata
        .packages
        .iter()
        .filter(|p| p.name.as_str() != TEST_BED)
    {
        let name = package.name.as_str();
        let Some(allowed) = allowed.get(name) else {
            wrong.push(format!("{name} is not in the table of arrows"));
            continue;
        };
        let ours = package
            .dependencies
            .iter()
            .filter(|d| d.kind != DependencyKind::Development && members.contains(d.name.as_str()));
        for dependency in ours.filter(|d| !allowed.contains(d.name.as_str())) {
            wrong.push(format!("{name} must not use {}", dependency.name));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_crate_of_the_table_exists() {
    let metadata = MetadataCommand::new()
        .no_deps()
        .exec()
        .expect("cargo describes the workspace");
    let members: BTreeSet<&str> = metadata.packages.iter().map(|p| p.name.as_str()).collect();
    let missing: Vec<_> = ARROWS
        .iter()
        .map(|(n, _)| *n)
        .filter(|n| !members.contains(n))
        .collect();
    assert!(
        missing.is_empty(),
        "in the table but not in the workspace: {missing:?}"
    );
}
