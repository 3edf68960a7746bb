//! Which act of a user allowed the deletion of which workload, by UID.

use std::collections::BTreeMap;

use argocd::{Meta, keys};
use serde_json::Value;

use crate::controller::Removed;

/// The deletions of Applications by users.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ledger {
    /// On the hub, by UID.
    hub: BTreeMap<String, Act>,
    /// On a cluster, by its name and the UID there.
    local: BTreeMap<(String, String), Act>,
}

/// One deletion by a user.
#[derive(Clone, Debug)]
struct Act {
    /// The Application had the finalizer, so its workload goes, too.
    cascades: bool,
    text: String,
}

impl Act {
    fn new(app: &Value, text: String) -> Self {
        let finalizers = Meta::of(app).finalizers();
        let cascades = finalizers.contains(&keys::RESOURCES_FINALIZER);
        Self { cascades, text }
    }
}

impl Ledger {
    /// A user deletes this Application on the hub.
    pub(crate) fn deleted_on_hub(&mut self, app: &Value) {
        let meta = Meta::of(app);
        if !meta.is_deleting() {
            let text = format!("{}/{} deleted on the hub", meta.namespace(), meta.name());
            self.hub.insert(meta.uid().to_owned(), Act::new(app, text));
        }
    }

    /// A restore of the hub takes this Application back, so clusters delete its copies.
    pub(crate) fn lost_on_hub(&mut self, app: &Value) {
        let meta = Meta::of(app);
        let text = format!("{}/{} lost by a restore", meta.namespace(), meta.name());
        let act = Act::new(app, text);
        self.hub.entry(meta.uid().to_owned()).or_insert(act);
    }

    /// A user deletes this Application on a cluster.
    pub(crate) fn deleted_locally(&mut self, cluster: &str, app: &Value) {
        let meta = Meta::of(app);
        if !meta.is_deleting() {
            let text = format!("{} deleted on {cluster}", meta.name());
            let place = (cluster.to_owned(), meta.uid().to_owned());
            self.local.insert(place, Act::new(app, text));
        }
    }

    /// The workloads of this cluster whose deletion no user requested.
    pub(crate) fn findings(&self, cluster: &str, removed: &[Removed]) -> Vec<String> {
        let unasked = removed.iter().filter_map(|removed| {
            let place = (cluster.to_owned(), removed.uid.clone());
            let source = removed.source.as_ref();
            let acts: Vec<&Act> = self
                .local
                .get(&place)
                .into_iter()
                .chain(source.and_then(|uid| self.hub.get(uid)))
                .collect();
            let is_allowed = acts.iter().any(|act| act.cascades);
            (!is_allowed).then(|| {
                let acts: Vec<&str> = acts.iter().map(|act| act.text.as_str()).collect();
                format!(
                    "{cluster}: the workload of {} with UID {} from {source:?} on the hub was deleted, and \
                     no user deleted it with its finalizer; acts: {acts:?}",
                    removed.key, removed.uid
                )
            })
        });
        unasked.collect()
    }
}
