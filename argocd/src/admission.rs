//! The hub's own rule: the principal delivers an Application only if its project admits it.
//!
//! Argo CD on the spoke does not check this: it permits everything in its own namespace.

use crate::glob::{is_deny, matches_entry, matches_or_denies};
use crate::keys::{IN_CLUSTER, IN_CLUSTER_SERVER};
use crate::object::{AppProject, Application};

#[cfg(test)]
mod tests;

/// The target of the Application.
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    /// Namespace of Argo CD on the hub; every project admits Applications there.
    pub argocd_namespace: &'a str,
    /// The cluster.
    pub cluster: &'a str,
    /// The server of its cluster Secret, if known.
    pub server: Option<&'a str>,
}

/// Why it is not delivered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("project {project:?}, {field}: {message}")]
pub struct NotAdmitted {
    /// Name of the project.
    pub project: String,
    /// The field of the project that does not admit it.
    pub field: &'static str,
    /// The cause.
    pub message: String,
}

/// Whether the project, if it exists, admits the Application's namespace and destination.
pub fn admit(
    app: Application<'_>,
    project: Option<AppProject<'_>>,
    target: Target<'_>,
) -> Result<(), NotAdmitted> {
    let refuse = |field, message| {
        Err(NotAdmitted {
            project: app.project().to_owned(),
            field,
            message,
        })
    };
    let Some(project) = project else {
        return refuse(
            "metadata.name",
            "there is no such project on the hub".to_owned(),
        );
    };
    let namespace = app.namespace();
    if namespace != target.argocd_namespace
        && !project
            .source_namespaces()
            .iter()
            .any(|entry| matches_entry(entry, namespace))
    {
        return refuse(
            "spec.sourceNamespaces",
            format!("Applications of namespace {namespace:?} are not admitted"),
        );
    }
    if !admits_destination(project, app.destination().namespace, target) {
        return refuse(
            "spec.destinations",
            format!(
                "cluster {:?} with namespace {:?} is not admitted",
                target.cluster,
                app.destination().namespace
            ),
        );
    }
    Ok(())
}

/// Whether the project admits the hub itself, in every namespace.
///
/// Argo CD's server on the hub takes the destination `in-cluster` for the hub. With its own rights it reads and changes
/// objects there that the tree of such an Application names, without a look at the project.
pub fn admits_hub(project: AppProject<'_>) -> bool {
    let denies = |pattern, text| is_deny(pattern) && !matches_or_denies(pattern, text);
    let mut admitted = false;
    for item in project.destinations() {
        let (name, server) = (item.name, item.server);
        if is_deny(item.namespace) || denies(name, IN_CLUSTER) || denies(server, IN_CLUSTER_SERVER)
        {
            return false;
        }
        // Other patterns may match this text, too, but not every namespace.
        let has_all = !item.namespace.is_empty() && item.namespace.bytes().all(|it| it == b'*');
        let is_hub = matches_or_denies(name, IN_CLUSTER)
            || matches_or_denies(server, IN_CLUSTER_SERVER)
            || server == "*";
        admitted |= has_all && is_hub;
    }
    admitted
}

/// Argo CD's rule: one entry matches, and no denying entry does.
fn admits_destination(project: AppProject<'_>, namespace: &str, target: Target<'_>) -> bool {
    let mut admitted = false;
    for item in project.destinations() {
        let by_name = matches_or_denies(item.name, target.cluster);
        let by_server = target
            .server
            .is_some_and(|server| matches_or_denies(item.server, server))
            || item.server == "*";
        let by_namespace = matches_or_denies(item.namespace, namespace);
        if (by_name || by_server) && by_namespace {
            admitted = true;
        }
        let denied_cluster =
            (!by_name && is_deny(item.name)) || (!by_server && is_deny(item.server));
        let denied_namespace = !by_namespace && is_deny(item.namespace);
        if (denied_cluster && by_namespace) || (denied_namespace && (by_name || by_server)) {
            return false;
        }
    }
    admitted
}
