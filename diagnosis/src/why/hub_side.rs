//! What the hub decides before anything is delivered: where it goes, who keeps a name, what the project admits. Pure.

use argocd::{
    AppProject, Application,
    admission::{Target, admit},
    keys::{IGNORE_SYNC, addon::MODE},
    routing::{Clusters, Delivery, Route, SpokeNamespace, names_hub, resolve_names, route},
};

use super::{Facts, Hop, State};
use crate::{facts::Addon, object::time};

/// An Application and what its route was found with.
#[derive(Clone, Copy, Debug)]
pub(super) struct Judged<'a> {
    pub(super) app: Application<'a>,
    pub(super) route: &'a Route,
    pub(super) clusters: &'a Clusters,
    pub(super) facts: &'a Facts<'a>,
}

/// The hops on the hub.
pub(super) fn hops(judged: &Judged<'_>) -> Vec<Hop> {
    let mut hops = vec![routing(judged)];
    if judged.app.is_ignored() {
        return hops;
    }
    if let Route::ToCluster { cluster, .. } = judged.route {
        hops.extend([name(judged, cluster), admission(judged, cluster)]);
    }
    hops
}

fn routing(judged: &Judged<'_>) -> Hop {
    let Judged { app, route, .. } = judged;
    if app.is_ignored() {
        let text = format!("its label {IGNORE_SYNC} is true, so the add-on ignores it");
        return Hop::new("routing", State::Good, text).next("remove the label to deliver it");
    }
    match route {
        Route::ToCluster {
            cluster,
            spoke_namespace,
        } => {
            let place = match spoke_namespace {
                SpokeNamespace::ArgoCd => "the namespace of Argo CD there".to_owned(),
                SpokeNamespace::Same(namespace) => format!("namespace {namespace} there"),
            };
            let rule = rule(judged, cluster);
            let text = format!("goes to cluster {cluster}, into {place}, because {rule}");
            delivered(*app, cluster, text)
        }
        Route::Mirror(cluster) => {
            let text = format!(
                "mirrors an Application of the autonomous cluster {cluster}, which owns it; only syncs and refreshes go there"
            );
            Hop::new("routing", State::Good, text)
        }
        Route::Local => local(judged),
        Route::Conflict(conflict) => {
            let text = format!("is not delivered: {conflict}");
            let at = time(app.value(), "/metadata/deletionTimestamp");
            let next = if app.is_deleting() {
                "wait for the hub program, which removes Argo CD's finalizers; workloads on clusters stay. If the \
                Application stays, check its other finalizers and that the hub program runs"
            } else {
                "correct spec.destination, or move the Application; an existing copy is left unchanged until then"
            };
            Hop::new("routing", State::Bad, text).at(at).next(next)
        }
    }
}

/// It goes to this cluster. Argo CD on the hub may look elsewhere for what it deploys there.
fn delivered(app: Application<'_>, cluster: &str, text: String) -> Hop {
    if !names_hub(app) {
        return Hop::new("routing", State::Good, text);
    }
    let text = format!(
        "{text}; but Argo CD on the hub takes its destination for the hub itself, so live views in the UI (tree, manifests, \
        logs) do not show the cluster"
    );
    let server = if app.destination().server.is_empty() {
        ""
    } else {
        " and remove spec.destination.server"
    };
    let next = format!(
        "to see its resources in the hub's UI, set spec.destination.name to {cluster}{server}"
    );
    Hop::new("routing", State::Good, text).next(next)
}

/// The rule by which it goes to this cluster.
fn rule(judged: &Judged<'_>, cluster: &str) -> String {
    let Judged { app, facts, .. } = judged;
    let (namespace, settings) = (app.namespace(), &facts.settings.routing);
    if namespace == cluster && namespace != settings.argocd_namespace {
        return "it is in the namespace of that cluster".to_owned();
    }
    let by_server = app.destination().name.is_empty();
    let by = if by_server { "server" } else { "name" };
    let from = if namespace == settings.argocd_namespace {
        "it is in the namespace of the hub's Argo CD"
    } else {
        "its namespace is allowed"
    };
    format!("{from} and its destination has the {by} of that cluster")
}

/// It stays on the hub; maybe because a cluster is not there yet.
fn local(judged: &Judged<'_>) -> Hop {
    let Judged { app, facts, .. } = judged;
    let destination = app.destination();
    let meant = |addon: &&Addon| {
        !addon.is_in_force()
            && (addon.cluster == destination.name || addon.cluster == app.namespace())
    };
    if let Some(addon) = facts.addons.iter().find(meant) {
        let cluster = &addon.cluster;
        let why = addon
            .deleting
            .map_or(" yet", |_since| ", it is being removed");
        let text =
            format!("is not delivered: cluster {cluster} has the add-on, but not in force{why}");
        let next = format!("look at `argocd-agentctl status {cluster} -o wide`");
        return Hop::new("routing", State::Waiting, text).next(next);
    }
    let text = "stays on the hub: its destination is not a cluster with the add-on";
    let name = destination.name;
    let next = if matches!(name, "" | "in-cluster") {
        "to deliver it, set spec.destination.name to a cluster that `argocd-agentctl status` lists"
            .to_owned()
    } else {
        format!(
            "if {name} is a managed cluster, opt it in: kubectl label managedcluster {name} {MODE}=managed; if another is \
             meant, name it in spec.destination.name as `argocd-agentctl status` lists it"
        )
    };
    Hop::new("routing", State::Good, text).next(next)
}

/// Of several that would have one name on the cluster, the older keeps it.
fn name(judged: &Judged<'_>, cluster: &str) -> Hop {
    let namesakes = judged.facts.namesakes.iter().map(Application::of);
    let losers = resolve_names(namesakes.filter_map(|other| delivery(other, judged)));
    let Some(keeper) = losers.get(judged.app.uid()) else {
        let text = "nothing older has its name on the cluster";
        return Hop::new("name", State::Good, text);
    };
    let text = format!(
        "is not delivered: on cluster {cluster} the name is taken by the older Application in namespace {keeper}"
    );
    Hop::new("name", State::Bad, text).next(
        "create one of the two again under another name, and for another namespace of the cluster if both deploy the \
         same objects",
    )
}

fn delivery(app: Application<'_>, judged: &Judged<'_>) -> Option<Delivery> {
    if app.is_ignored() {
        return None;
    }
    let Route::ToCluster {
        cluster,
        spoke_namespace,
    } = route(app, judged.clusters, &judged.facts.settings.routing)
    else {
        return None;
    };
    Some(Delivery {
        namespace: app.namespace().to_owned(),
        name: app.name().to_owned(),
        uid: app.uid().to_owned(),
        created: app.creation_timestamp().unwrap_or_default().to_owned(),
        cluster,
        spoke_namespace,
    })
}

fn admission(judged: &Judged<'_>, cluster: &str) -> Hop {
    let Judged { app, facts, .. } = judged;
    let (name, argocd) = (app.project(), &facts.settings.routing.argocd_namespace);
    let project = match &facts.project {
        Ok(project) => project.as_ref(),
        Err(reason) => {
            let text = format!("project {name} could not be read: {reason}");
            return Hop::new("project", State::Unclear, text);
        }
    };
    if app.is_deleting() {
        let text = "is being deleted; its project cannot prevent that";
        let at = time(app.value(), "/metadata/deletionTimestamp");
        return Hop::new("project", State::Good, text).at(at);
    }
    let target = Target {
        argocd_namespace: argocd,
        cluster,
        server: judged.clusters.server_of(cluster),
    };
    match admit(*app, project.map(AppProject::of), target) {
        Ok(()) => {
            let text = format!("project {name} admits its namespace and its destination");
            Hop::new("project", State::Good, text)
        }
        Err(refused) => {
            let text = format!("is not delivered: {refused}");
            let (there, field) = (argocd, refused.field);
            let change = match project {
                None => format!(
                    "create the AppProject {there}/{name}, or choose another in spec.project"
                ),
                Some(_) => format!("change {field} of the AppProject {there}/{name}"),
            };
            let next = format!("{change}; delivery then continues by itself");
            Hop::new("project", State::Bad, text).next(next)
        }
    }
}
