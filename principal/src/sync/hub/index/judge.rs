//! Decisions about single objects: the part that a cluster may see, and the reason to block an Application.

use argocd::{
    AppProject, Application,
    admission::{Target, admit},
    digest, keys, mirror,
    project::{self, Cluster},
    projection,
};
use jiff::Timestamp;
use serde_json::Value;

use super::{Blocked, Key, Place};

/// The project as this cluster may see it; none if it does not concern the cluster.
pub(super) fn project_for(project: &Value, cluster: Cluster<'_>) -> Option<Value> {
    // A project that a spoke owns stays there: no other cluster gets it.
    if AppProject::of(project).is_ignored() || mirror::is_mirror(project) {
        None
    } else {
        project::compile(project, cluster)
    }
}

/// The digest of the state that a cluster should have of this Application.
pub(super) fn application_digest(application: &Value) -> String {
    digest::agreed(&projection::wire_application(application))
}

/// The hub's own rule: the project exists and admits the Application.
///
/// A deletion always passes: copies that were delivered have to be cleaned up.
pub(super) fn admission(
    application: Application<'_>,
    project: Option<AppProject<'_>>,
    target: Target<'_>,
) -> Option<Blocked> {
    if application.is_deleting() {
        return None;
    }
    let refused = admit(application, project, target).err()?;
    Some(Blocked {
        condition: keys::CONDITION_NOT_ADMITTED,
        message: refused.to_string(),
    })
}

/// The cluster was removed and enrolled again since the deletion was requested: its user may not expect it any more.
pub(super) fn unconfirmed_deletion(
    application: Application<'_>,
    cluster: &str,
    enrolled: Timestamp,
) -> Option<Blocked> {
    let text = application.deletion_timestamp()?;
    let is_older = text.parse::<Timestamp>().is_ok_and(|at| at < enrolled);
    if !is_older || application.annotation(keys::CONFIRM_DELETE) == Some(text) {
        return None;
    }
    let (namespace, name) = (application.namespace(), application.name());
    let key = keys::CONFIRM_DELETE;
    Some(Blocked {
        condition: keys::CONDITION_DELETION_UNCONFIRMED,
        message: format!(
            "it was deleted at {text}, before cluster {cluster} was enrolled; nothing is deleted there. To delete \
            it: kubectl -n {namespace} annotate applications.argoproj.io {name} {key}={text}; to keep the copy: \
            remove the finalizers"
        ),
    })
}

/// An older Application keeps the name.
pub(super) fn name_conflict(place: &Place, keeper: &Key) -> Blocked {
    let Place {
        cluster,
        spoke_namespace: _,
        name,
    } = place;
    Blocked {
        condition: keys::CONDITION_NAME_CONFLICT,
        message: format!(
            "on cluster {cluster:?} the name {name:?} is taken by the older Application of namespace {:?}; \
             rename one of them",
            keeper.namespace
        ),
    }
}
