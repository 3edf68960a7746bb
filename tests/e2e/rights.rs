//! The rights of our identities against the audit logs of all earlier tests.

use std::{collections::BTreeSet, ffi::OsStr, path::Path};

use anyhow::{Context as _, Result, ensure};
use kube::Client;
use lab::{
    audit::{Entry, Mark},
    certs::Pair,
    kubeconfig::{Access, Credential},
    product,
    steps::{At, Objects, enrol},
};
use serde_json::Value;

use crate::{
    chart::UNINSTALL,
    stage::{Stage, text},
};

/// Rights that no request shows: the API server asks for them while it looks at another request.
const ASKED_ON_THE_WAY: [&str; 6] = [
    // The audit log has it as a request of the other user.
    "impersonate serviceaccounts",
    // A server-side apply that creates an object: the audit log has it as a patch.
    "create manifestworks.work.open-cluster-management.io",
    // OCM's webhook checks it, with a feature gate.
    "execute-as manifestworks.work.open-cluster-management.io",
    "approve signers.certificates.k8s.io",
    "sign signers.certificates.k8s.io",
    "update managedclusteraddons.addon.open-cluster-management.io/finalizers",
];

/// Rights for situations that these tests do not cause.
const FOR_RARE_OCCASIONS: [&str; 4] = [
    // Hashes of a cluster's own configuration, which OCM usually writes first; and an add-on that another client made at
    // the same moment.
    "get managedclusteraddons.addon.open-cluster-management.io",
    // Certificates are renewed in place when a third of their life is left, a month from now.
    "update secrets",
    // Two replicas: the leader takes the mark off the other's pod. The mark itself is a patch.
    "create leases.coordination.k8s.io",
    // Events of one series are patched into one.
    "patch events.events.k8s.io",
];

/// The rights of live access; tests do not use all of them.
const FOR_PEOPLE: [&str; 3] = [
    "ui-read-clusterrole.yaml",
    "ui-operate-clusterrole.yaml",
    "ui-terminal-clusterrole.yaml",
];

/// A Role of the chart for Argo CD's controller of `ApplicationSets`, and for no program of ours.
const FOR_ARGO_CD: &str = "argocd-agent-addon-placement-generator";

/// OCM's work agent, which brings our objects to a spoke with the rights that OCM gives it.
const WORK_AGENT: &str = "system:serviceaccount:open-cluster-management-agent:klusterlet-work-sa";

/// Our programs did everything within the roles that we ship: the API servers refused them nothing. Nor did they refuse
/// the work agent anything of ours.
pub(crate) async fn nothing_of_ours_was_forbidden(stage: &Stage) -> Result<()> {
    stage.enrolled(1).await?;
    for user in [&*manager(), &*agent(), WORK_AGENT] {
        let entries = requests(stage, user)?;
        let seen = entries.len();
        ensure!(seen > 10, "only {seen} requests of {user} were seen");
        // An API server that restarts refuses requests until it has read the roles.
        let allowed: BTreeSet<_> = (entries.iter().filter(|it| !it.is_forbidden()))
            .filter_map(asked)
            .collect();
        let is_lasting = |it: &&Entry| asked(it).is_none_or(|it| !allowed.contains(&it));
        let refused = entries.iter().filter(|it| it.is_forbidden());
        let refused: Vec<_> = refused.filter(is_lasting).collect();
        ensure!(refused.is_empty(), "refused: {refused:#?}");
    }
    Ok(())
}

/// The audit logs show a use of every right that we ship; an unused right is a fault.
pub(crate) async fn every_right_of_ours_was_used(stage: &Stage) -> Result<()> {
    stage.enrolled(1).await?;
    let hub = of_the_hub(stage).await?;
    let (on_hub, on_spoke) = (hub.len(), of_the_spoke()?.len());
    ensure!(
        on_hub > 20 && on_spoke > 4,
        "only {on_hub} and {on_spoke} rights were read"
    );
    for (user, shipped) in [(manager(), hub), (agent(), of_the_spoke()?)] {
        let entries = requests(stage, &user)?;
        let used: BTreeSet<String> = entries
            .iter()
            .filter(|entry| !entry.is_forbidden())
            .filter_map(|entry| Some(format!("{} {}", entry.verb, entry.object.as_ref()?.kind())))
            .collect();
        let unused: Vec<_> = shipped
            .difference(&used)
            .filter(|right| !ASKED_ON_THE_WAY.contains(&right.as_str()))
            .filter(|right| !FOR_RARE_OCCASIONS.contains(&right.as_str()))
            .collect();
        ensure!(
            unused.is_empty(),
            "{user} has and never used (in the tests before on this lab): {unused:#?}\nused: {used:#?}"
        );
    }
    Ok(())
}

/// An agent's certificate is valid at the principal only: the hub's API does not trust it, and the user name in it has no
/// rights in any cluster's namespace.
pub(crate) async fn an_issued_identity_is_refused_at_the_hubs_api(stage: &Stage) -> Result<()> {
    stage.enrolled(1).await?;
    let hub = stage.lab.hub();
    let at = At::secret(enrol::AGENT_NAMESPACE, enrol::CERTIFICATE);
    let secret = stage.spoke(1).read(&at).await?;
    let access = Access {
        cluster: "hub".to_owned(),
        server: hub.api_url().to_owned(),
        authority: hub.ca_pem().to_owned(),
        user: "agent".to_owned(),
        credential: Credential::Certificate(Pair {
            cert: text(&secret, "tls.crt")?,
            key: text(&secret, "tls.key")?,
        }),
    };
    let with_certificate = access.client().await?;
    for cluster in ["spoke1", "spoke2"] {
        let code = answer(with_certificate.clone(), cluster).await?;
        ensure!(code == 401, "the hub's API knows the certificate: {code}");
    }
    let registrations = stage.hub.read(&At::addon("spoke1")).await?["status"].clone();
    let subject = &registrations["registrations"][0]["subject"];
    let user = subject["user"]
        .as_str()
        .with_context(|| format!("a user in {registrations}"))?;
    let groups = subject["groups"].as_array().into_iter().flatten();
    let groups: Vec<&str> = groups.filter_map(Value::as_str).collect();
    ensure!(!groups.is_empty(), "no groups in {subject}");
    let by_name = hub.client_as(user, &groups).await?;
    for cluster in ["spoke1", "spoke2", product::NAMESPACE, enrol::ARGOCD] {
        let code = answer(by_name.clone(), cluster).await?;
        ensure!(code == 403, "{user} may look into {cluster}: {code}");
    }
    Ok(())
}

/// The status code when this client lists the Secrets of a namespace, and then its Applications; 200 if it may list either.
async fn answer(client: Client, namespace: &str) -> Result<u16> {
    let mut last = 200;
    for at in [At::secret(namespace, ""), At::application(namespace, "")] {
        let listed = Objects::new(client.clone()).list(&at, "").await;
        let Err(error) = listed else { return Ok(200) };
        match error.downcast_ref::<kube::Error>() {
            Some(kube::Error::Api(status)) => last = status.code,
            _ => return Err(error),
        }
    }
    Ok(last)
}

fn manager() -> String {
    let (namespace, name) = (product::NAMESPACE, product::MANAGER);
    format!("system:serviceaccount:{namespace}:{name}")
}

fn agent() -> String {
    let namespace = enrol::AGENT_NAMESPACE;
    format!("system:serviceaccount:{namespace}:argocd-agent-addon-agent")
}

/// The right for a request: the verb, the kind and the namespace.
fn asked(entry: &Entry) -> Option<(&str, String, &str)> {
    let object = entry.object.as_ref()?;
    Some((&entry.verb, object.kind(), &object.namespace))
}

/// All requests of a user, on every cluster.
fn requests(stage: &Stage, user: &str) -> Result<Vec<Entry>> {
    let mut entries = Vec::new();
    for cluster in stage.lab.clusters() {
        entries.extend(cluster.audit().by(user, Mark::default())?);
    }
    Ok(entries)
}

/// Every verb and kind in the roles that the chart has for the hub program, as the audit log calls them. What it has for
/// the time of an uninstallation has a test of its own.
async fn of_the_hub(stage: &Stage) -> Result<BTreeSet<String>> {
    let rendered = product::rendered(&stage.lab.helm()).await?;
    of_documents(&rendered)
}

/// As [`of_the_hub`], of the agent.
fn of_the_spoke() -> Result<BTreeSet<String>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../manifests/spoke");
    let mut rights = BTreeSet::new();
    let files = std::fs::read_dir(&folder).context("read the spoke's manifests")?;
    // The manifests of Argo CD are in a folder of their own, with rights of their own.
    let of_ours = |name: &OsStr| name != "argocd" && !FOR_PEOPLE.iter().any(|it| name == *it);
    for file in files.flatten().filter(|it| of_ours(&it.file_name())) {
        rights.extend(of_documents(&std::fs::read_to_string(file.path())?)?);
    }
    Ok(rights)
}

fn of_documents(text: &str) -> Result<BTreeSet<String>> {
    let mut rights = BTreeSet::new();
    for document in text.split("\n---\n") {
        let object: Value =
            serde_saphyr::from_str(document).with_context(|| format!("read YAML:\n{document}"))?;
        let metadata = &object["metadata"];
        let of_others = [FOR_ARGO_CD, UNINSTALL]
            .iter()
            .any(|it| metadata["name"] == *it);
        if metadata["annotations"]["helm.sh/hook"].is_null() && !of_others {
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
