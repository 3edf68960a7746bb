//! The objects that an uninstall leaves on the hub are exactly the documented ones.

use anyhow::{Result, ensure};
use kube::{
    Api,
    api::{DynamicObject, ListParams},
    discovery::{Discovery, verbs},
};
use lab::{product, steps::enrol};

use crate::stage::Stage;

/// Objects that an uninstall keeps so that a later install finds the fleet unchanged; docs/decisions has the reasons.
const KEPT: [&str; 7] = [
    "Secret argocd-agent-ca",
    "Secret argocd-agent-jwt",
    "Secret argocd-agent-principal-tls",
    "Secret argocd-agent-resource-proxy-tls",
    "Lease argocd-agent-addon-manager",
    "ConfigMap argocd-agent-principal-identity",
    "ConfigMap argocd-agent-addon-modes",
];

/// Looks at every object of every kind.
pub(super) async fn are_as_promised(stage: &Stage) -> Result<()> {
    let look = || async { left(stage).await };
    let promised = |left: &Vec<String>| left.iter().all(|it| KEPT.contains(&it.as_str()));
    // Dependents of the objects that Helm deletes last are deleted in the background.
    let left = lab::wait::until("nothing but what is promised is left", look, promised).await?;
    ensure!(
        left.len() == KEPT.len(),
        "of what is promised only {left:?} is left"
    );
    Ok(())
}

/// Waits until no object of the product is left, not even those that an uninstall keeps.
pub(crate) async fn are_none(stage: &Stage) -> Result<()> {
    let look = || async { left(stage).await };
    lab::wait::until("nothing at all is left", look, Vec::is_empty)
        .await
        .map(drop)
}

/// Kind and name of everything that is ours by name, by label or by namespace.
async fn left(stage: &Stage) -> Result<Vec<String>> {
    let client = stage.lab.hub().client();
    let served = Discovery::new(client.clone()).run().await?;
    let mut left = Vec::new();
    for group in served.groups() {
        for (resource, capabilities) in group.recommended_resources() {
            // Events pass by themselves.
            let passing = resource.kind == "Event";
            if passing || !capabilities.supports_operation(verbs::LIST) {
                continue;
            }
            let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
            let all = api.list_metadata(&ListParams::default()).await?;
            let ours = all.items.iter().filter(|it| is_ours(&it.metadata));
            left.extend(ours.map(|it| {
                let name = it.metadata.name.as_deref().unwrap_or_default();
                format!("{} {name}", resource.kind)
            }));
        }
    }
    left.sort();
    Ok(left)
}

/// Not those that Kubernetes puts into every namespace.
const OF_KUBERNETES: [&str; 2] = ["kube-root-ca.crt", "default"];
/// Roles that people gave themselves for the command line are theirs; tests before may have.
const OF_PEOPLE: &str = "argocd-agentctl";

fn is_ours(metadata: &kube::core::ObjectMeta) -> bool {
    let name = metadata.name.as_deref().unwrap_or_default();
    if OF_KUBERNETES.contains(&name) || name.starts_with(OF_PEOPLE) {
        return false;
    }
    let namespace = metadata.namespace.as_deref().unwrap_or_default();
    let in_ours = namespace == product::NAMESPACE;
    let named = name.starts_with("argocd-agent") && [enrol::ARGOCD, ""].contains(&namespace);
    let labels = metadata.labels.iter().flatten();
    let labelled = labels
        .into_iter()
        .any(|(key, value)| key == "app.kubernetes.io/part-of" && value == "argocd-agent");
    // The namespace is not Helm's, and Helm leaves it.
    (in_ours || named || labelled) && name != product::NAMESPACE
}
