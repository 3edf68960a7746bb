//! What each of our identities may do and did do, read from the audit logs of all stories before.

use std::{collections::BTreeSet, path::Path};

use anyhow::{Context as _, Result, ensure};
use lab::{audit::Entry, product};
use serde_json::Value;

use crate::stage::Stage;

/// Rights that no request shows: the API server asks for them while it looks at another request.
const ASKED_ON_THE_WAY: [&str; 4] = [
    // A server-side apply of what is not there yet: it is logged as the patch that it is.
    "create manifestworks.work.open-cluster-management.io",
    "approve signers.certificates.k8s.io",
    "sign signers.certificates.k8s.io",
    "update managedclusteraddons.addon.open-cluster-management.io/finalizers",
];

/// Rights for what these stories do not bring about.
const FOR_RARE_OCCASIONS: [&str; 3] = [
    // Certificates are renewed in place when a third of their life is left, a month from now.
    "update secrets",
    // Two replicas: the leader takes the mark off the other's pod. The mark itself is a patch.
    "create leases.coordination.k8s.io",
    // Events of one series are patched into one.
    "patch events.events.k8s.io",
];

/// Our programs did everything within the roles that we ship: the API servers refused them nothing.
pub(crate) async fn nothing_of_ours_was_forbidden(stage: &Stage) -> Result<()> {
    stage.enrolled(1).await?;
    let entries = requests(stage)?;
    ensure!(
        entries.len() > 20,
        "only {} requests of ours were seen",
        entries.len()
    );
    let refused: Vec<_> = entries
        .iter()
        .filter(|entry| entry.is_forbidden())
        .collect();
    ensure!(refused.is_empty(), "refused: {refused:#?}");
    Ok(())
}

/// Every right that we ship was used: one that nobody needs is one too many.
pub(crate) async fn every_right_of_ours_was_used(stage: &Stage) -> Result<()> {
    stage.enrolled(1).await?;
    let used: BTreeSet<String> = requests(stage)?
        .iter()
        .filter(|entry| !entry.is_forbidden())
        .filter_map(|entry| Some(format!("{} {}", entry.verb, entry.object.as_ref()?.kind())))
        .collect();
    let shipped = shipped(stage).await?;
    ensure!(
        shipped.len() > 20,
        "only {} rights were read: {shipped:?}",
        shipped.len()
    );
    let unused: Vec<_> = shipped
        .iter()
        .filter(|right| !used.contains(*right))
        .filter(|right| !ASKED_ON_THE_WAY.contains(&right.as_str()))
        .filter(|right| !FOR_RARE_OCCASIONS.contains(&right.as_str()))
        .collect();
    ensure!(
        unused.is_empty(),
        "shipped and never used (by the stories before on this lab): {unused:#?}\nused: {used:#?}"
    );
    Ok(())
}

/// What our service accounts asked for, on every cluster.
fn requests(stage: &Stage) -> Result<Vec<Entry>> {
    let manager = format!(
        "system:serviceaccount:{}:{}",
        product::NAMESPACE,
        product::MANAGER
    );
    let agent = format!(
        "system:serviceaccount:{}:argocd-agent-addon-agent",
        lab::steps::enrol::AGENT_NAMESPACE
    );
    let mut entries = Vec::new();
    for cluster in stage.lab.clusters() {
        let all = cluster.audit().entries()?;
        entries.extend(
            all.into_iter()
                .filter(|e| e.user == manager || e.user == agent),
        );
    }
    Ok(entries)
}

/// Every verb and kind in the roles that we ship for programs that stay, as the audit log calls them. What the chart
/// has for the time of an uninstallation has a story of its own.
async fn shipped(stage: &Stage) -> Result<BTreeSet<String>> {
    let spoke = Path::new(env!("CARGO_MANIFEST_DIR")).join("../manifests/spoke");
    let mut texts = vec![product::rendered(&stage.lab.helm()).await?];
    let files = std::fs::read_dir(&spoke).context("read the spoke's manifests")?;
    for file in files.flatten() {
        texts.push(std::fs::read_to_string(file.path())?);
    }
    let mut rights = BTreeSet::new();
    for document in texts.iter().flat_map(|text| text.split("\n---\n")) {
        let object: Value =
            serde_saphyr::from_str(document).with_context(|| format!("read YAML:\n{document}"))?;
        if object["metadata"]["annotations"]["helm.sh/hook"].is_null() {
            rights.extend(of_object(&object));
        }
    }
    Ok(rights)
}

/// The rights that a role gives; none for other objects.
pub(crate) fn of_object(object: &Value) -> Vec<String> {
    let rules = object["rules"].as_array().into_iter().flatten();
    rules.flat_map(of_rule).collect()
}

/// The rights that one rule gives.
fn of_rule(rule: &Value) -> Vec<String> {
    let texts = |key: &str| -> Vec<&str> {
        rule[key]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect()
    };
    let mut rights = Vec::new();
    for group in texts("apiGroups") {
        for resource in texts("resources") {
            let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
            let dot = if group.is_empty() { "" } else { "." };
            let slash = if subresource.is_empty() { "" } else { "/" };
            let kind = format!("{resource}{dot}{group}{slash}{subresource}");
            rights.extend(texts("verbs").iter().map(|verb| format!("{verb} {kind}")));
        }
    }
    rights
}
