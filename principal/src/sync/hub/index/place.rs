//! Places Applications, resolves name conflicts on a spoke, and finds the messages to send.

use argocd::{
    AppProject, Application,
    admission::{NotAdmitted, Target, admit, admits_hub},
    command::Introduced,
    keys,
    routing::{Route, names_hub, route},
};
use jiff::Timestamp;

use super::{Effect, Index, entry::Entry};
use crate::domain::{Block, Blocked, ClusterName, Key, Place, Placement};

impl Index {
    /// Routes an Application again and settles all Applications that this affects.
    pub(super) fn place(&mut self, key: &Key, introduced: Introduced) -> Vec<Effect> {
        let Some(mut entry) = self.applications.remove(key) else {
            return Vec::new();
        };
        let placement = self.placement(entry.application());
        let is_enrolled = |cluster: &ClusterName| self.is_cluster(cluster.as_str());
        let before = entry.set_placement(placement, is_enrolled);
        self.list(key, &entry, before.cluster(), entry.cluster());
        let uses = entry.uses_now();
        let former = std::mem::replace(&mut entry.uses, uses.clone());
        let (claim, after) = (entry.claim(), entry.placement.place().cloned());
        self.applications.insert(key.clone(), entry);
        let mut effects = self.provisions.exchange_hosts(former, uses, &self.clusters);
        if before.place() == after.as_ref() {
            effects.extend(self.settle(key, introduced));
            return effects;
        }
        if let Some(after) = &after {
            let claims = self.claims.entry(after.clone()).or_default();
            claims.insert(claim.clone());
        }
        if let Some(before) = before.place() {
            self.release(before, &claim);
        }
        effects.extend(self.settle(key, introduced));
        for place in before.place().into_iter().chain(&after) {
            effects.extend(self.settle_claimants(place));
        }
        effects
    }

    fn placement(&self, application: Application<'_>) -> Placement {
        if application.is_ignored() {
            return Placement::Ignored;
        }
        let placed = match route(application, &self.clusters, &self.settings) {
            Route::Local => None,
            Route::Conflict(reason) => Some(Placement::Conflict(reason)),
            Route::Mirror(cluster) => self.enrolled(&cluster).map(Placement::Mirror),
            Route::ToCluster {
                cluster,
                spoke_namespace,
            } => self.enrolled(&cluster).map(|cluster| {
                let name = application.name().to_owned();
                let place = Place {
                    cluster,
                    spoke_namespace,
                    name,
                };
                Placement::Routed(place, None)
            }),
        };
        placed.unwrap_or(Placement::Local)
    }

    /// Lists an Application under its new cluster.
    pub(super) fn list(
        &mut self,
        key: &Key,
        entry: &Entry,
        before: Option<&ClusterName>,
        after: Option<&ClusterName>,
    ) {
        if before == after {
            return;
        }
        let is_reported = u64::from(entry.report.is_some());
        if let Some(of) = before.and_then(|it| self.by_cluster.get_mut(it)) {
            of.keys.remove(key);
            of.complaints = of.complaints.wrapping_add(is_reported);
        }
        if let Some(of) = after.and_then(|it| self.by_cluster.get_mut(it)) {
            of.keys.insert(key.clone());
            of.complaints = of.complaints.wrapping_add(is_reported);
        }
    }

    pub(super) fn settle_claimants(&mut self, place: &Place) -> Vec<Effect> {
        let claims = self.claims.get(place).into_iter().flatten();
        let claimants: Vec<Key> = claims
            .filter_map(|(_, uid)| self.by_uid.get(uid).cloned())
            .collect();
        let mut effects = Vec::new();
        for key in claimants {
            effects.extend(self.settle(&key, Introduced::default()));
            effects.push(Effect::Conditions(key));
        }
        effects
    }

    /// Evaluates one Application and returns the messages to send.
    pub(super) fn settle(&mut self, key: &Key, introduced: Introduced) -> Vec<Effect> {
        let entry = self.applications.get(key);
        let blocked = entry.and_then(|entry| self.blocked(entry));
        let entry = self.applications.get_mut(key);
        entry.map_or_else(Vec::new, |entry| entry.settle(key, blocked, introduced))
    }

    /// Why an Application is not delivered to its cluster: an older one has its name, or its project does not admit it.
    fn blocked(&self, entry: &Entry) -> Option<Blocked> {
        let place = entry.placement.place()?;
        if let Some((keeper, other)) = self.keeper(place)
            && other.uid() != entry.uid()
        {
            return Some(Blocked {
                why: Block::NameConflict,
                message: format!(
                    "on cluster {:?} the name {:?} is taken by the older Application of namespace {:?}; \
                     rename one of them",
                    place.cluster.as_str(),
                    place.name,
                    keeper.namespace
                ),
            });
        }
        let application = entry.application();
        if application.is_deleting() {
            // Copies that were delivered have to be cleaned up.
            let since = self.by_cluster.get(&place.cluster)?.since?;
            return unconfirmed_deletion(application, &place.cluster, since);
        }
        let refused = self.admitted(application, place).err()?;
        Some(Blocked {
            why: Block::NotAdmitted,
            message: refused.to_string(),
        })
    }

    fn admitted(&self, application: Application<'_>, place: &Place) -> Result<(), NotAdmitted> {
        let project = self.provisions.project(application.project());
        let target = Target {
            argocd_namespace: &self.settings.argocd_namespace,
            cluster: place.cluster.as_str(),
            server: self.clusters.server_of(place.cluster.as_str()),
        };
        admit(application, project.map(AppProject::of), target)
    }

    /// Whether the hub shows the state of an Application from its cluster: it has its name there, and its project admits it,
    /// also while it is being deleted. Its copy there may be another one.
    ///
    /// If its destination is `in-cluster`, the project has to admit the hub, where Argo CD's server would look for the
    /// resources.
    pub(crate) fn is_shown(&self, entry: &Entry) -> bool {
        let application = entry.application();
        let is_kept = |place: &Place| {
            let keeper = self.keeper(place);
            keeper.is_none_or(|(_, keeper)| keeper.uid() == entry.uid())
                && self.admitted(application, place).is_ok()
        };
        let project = self.provisions.project(application.project());
        entry.placement.place().is_none_or(is_kept)
            && (!names_hub(application) || project.is_some_and(|it| admits_hub(AppProject::of(it))))
    }

    pub(super) fn release(&mut self, place: &Place, claim: &(String, String)) {
        if let Some(claims) = self.claims.get_mut(place) {
            claims.remove(claim);
            if claims.is_empty() {
                self.claims.remove(place);
            }
        }
    }
}

/// The cluster was removed and enrolled again since the deletion was requested: its user may not expect it any more.
fn unconfirmed_deletion(
    application: Application<'_>,
    cluster: &ClusterName,
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
        why: Block::DeletionUnconfirmed,
        message: format!(
            "it was deleted at {text}, before cluster {cluster} was enrolled; nothing is deleted there. To delete \
            it: kubectl -n {namespace} annotate applications.argoproj.io {name} {key}={text}; to keep it: set the label \
            {ignore}=true on the copy on the cluster, then remove the finalizers here",
            ignore = keys::IGNORE_SYNC
        ),
    })
}
