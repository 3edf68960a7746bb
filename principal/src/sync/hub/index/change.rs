//! Changes of objects: each places and settles the Applications that it concerns, and returns the effects.
//!
//! To place an Application is to route it and to list it under its cluster and its name there; to settle it is to compare
//! it with the state that its cluster was sent.

use std::{collections::BTreeSet, sync::Arc};

use argocd::{
    AppProject, Application, Meta,
    admission::{NotAdmitted, Target, admit, admits_hub},
    command::Introduced,
    global_projects::GlobalProjects,
    keys,
    repository::{Repository, normal_url, urls},
    routing::{Route, names_hub, route},
};
use jiff::Timestamp;
use protocol::{Kind, ObjectKey};

use super::{
    Index,
    effect::Effect,
    entry::{Entry, is_newer},
};
use crate::{
    domain::{Block, Blocked, ClusterName, Key, Place, Placement},
    store::Packed,
};

/// Changes on the hub.
impl Index {
    /// Sets an object to the hub's version.
    ///
    /// `new`: an unknown Application was created just now, not found at the start.
    pub(crate) fn set(&mut self, kind: Kind, object: Arc<Packed>, new: bool) -> Vec<Effect> {
        if kind == Kind::Application {
            return self.set_application(object, new);
        }
        let name = object.meta().name().to_owned();
        self.set_provision(kind, &name, Some(object))
    }

    /// Like [`Self::set`], to the result of our own write, unless the watch has reported a newer version.
    pub(crate) fn set_written(&mut self, kind: Kind, object: Arc<Packed>) -> Vec<Effect> {
        let meta = object.meta();
        let key = ObjectKey::new(kind, meta.namespace(), meta.name());
        let is_old = self.object(&key).is_some_and(|known| {
            let (known, version) = (known.meta(), meta.resource_version());
            known.uid() == meta.uid() && !is_newer(version, known.resource_version())
        });
        // An older Application is ignored anyway, unless it is from before a restore.
        if is_old && kind != Kind::Application {
            return Vec::new();
        }
        self.set(kind, object, false)
    }

    /// The hub deleted the object with this UID.
    pub(crate) fn remove(&mut self, key: &ObjectKey, uid: &str) -> Vec<Effect> {
        match key.kind {
            Kind::Application => self.remove_application(&key.into(), uid),
            // Unless it was created again already.
            Kind::AppProject => match self.provisions.project(&key.name) {
                Some(known) if Meta::of(known).uid() == uid => {
                    self.set_provision(key.kind, &key.name, None)
                }
                Some(_) | None => Vec::new(),
            },
            Kind::Repository | Kind::GpgKey | Kind::TlsCerts | Kind::SshKnownHosts => {
                self.set_provision(key.kind, &key.name, None)
            }
        }
    }

    /// Sets an Application to the hub's version. An older version than the known one is ignored.
    pub(super) fn set_application(&mut self, object: Arc<Packed>, new: bool) -> Vec<Effect> {
        let key = Key::of(object.meta());
        let uid = object.meta().uid().to_owned();
        let known = self
            .applications
            .get_mut(&key)
            .filter(|known| known.uid() == uid);
        let introduced = if let Some(known) = known {
            let Some(introduced) = known.replace(object) else {
                return Vec::new();
            };
            introduced
        } else {
            // Replaces one of the same name: the copy stays and is adopted, a new UID alone deletes nothing.
            let replaced = self.forget(&key);
            let mut entry = Entry::new(object, new);
            if let Some(replaced) = replaced {
                entry.holder = replaced.holder;
                entry.uses = replaced.uses;
            }
            self.applications.insert(key.clone(), entry);
            self.by_uid.insert(uid, key.clone());
            Introduced::default()
        };
        self.note_change(&key, false);
        let mut effects = self.place(&key, introduced);
        effects.push(Effect::Conditions(key));
        effects
    }

    pub(super) fn remove_application(&mut self, key: &Key, uid: &str) -> Vec<Effect> {
        let known = self.applications.get(key);
        if known.is_none_or(|entry| entry.uid() != uid) {
            return Vec::new();
        }
        let Some(entry) = self.forget(key) else {
            return Vec::new();
        };
        self.note_change(key, true);
        let mut effects = self
            .provisions
            .exchange_hosts(entry.uses, None, &self.clusters);
        if let Some(cluster) = entry.holder.filter(|it| !self.is_autonomous(it)) {
            effects.push(Effect::Gone {
                cluster,
                key: key.object(),
                uid: uid.to_owned(),
            });
        }
        if let Some(place) = entry.placement.place() {
            effects.extend(self.settle_claimants(place));
        }
        effects
    }

    /// Sets a project, a repository or keys of the Argo CD namespace, or removes it.
    pub(super) fn set_provision(
        &mut self,
        kind: Kind,
        name: &str,
        object: Option<Arc<Packed>>,
    ) -> Vec<Effect> {
        if kind == Kind::AppProject {
            let changed = self.provisions.set_project(name, object);
            return self.projects_changed(&changed);
        }
        let before = self.provisions.repository(name).cloned();
        let mut effects = self.provisions.set(kind, name, object, &self.clusters);
        if kind == Kind::Repository {
            let after = self.provisions.repository(name);
            let concerned: Vec<_> = before.iter().chain(after).collect();
            let keys = self.keys_of(|application| needs(application, &concerned));
            effects.extend(keys.into_iter().map(Effect::Conditions));
        }
        effects
    }

    /// Sets the global projects.
    pub(crate) fn set_globals(&mut self, globals: GlobalProjects) -> Vec<Effect> {
        let changed = self.provisions.set_globals(globals);
        self.projects_changed(&changed)
    }

    fn projects_changed(&mut self, names: &BTreeSet<String>) -> Vec<Effect> {
        if names.is_empty() {
            return Vec::new();
        }
        let mut effects = self.provisions.emit_projects(names, &self.clusters);
        let members = self.keys_of(|application| names.contains(application.project()));
        for key in &members {
            effects.extend(self.settle(key, Introduced::default()));
        }
        effects.extend(members.into_iter().map(Effect::Conditions));
        effects
    }

    /// Notes a change or the removal of an Application for readers.
    fn note_change(&mut self, key: &Key, is_removal: bool) {
        if let Some(changes) = &mut self.changes {
            changes.note(key, is_removal);
        }
    }

    fn forget(&mut self, key: &Key) -> Option<Entry> {
        let entry = self.applications.remove(key)?;
        self.by_uid.remove(entry.uid());
        if let Some(place) = entry.placement.place() {
            self.release(place, &entry.claim());
        }
        self.list(key, &entry, entry.cluster(), None);
        Some(entry)
    }
}

/// Places and names on the clusters.
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

    /// A cluster has a copy of the Application with this UID, which is not delivered now. If it belongs there, it goes with
    /// the Application, although this principal did not deliver it.
    pub(in crate::sync::hub) fn note_copy(&mut self, cluster: &ClusterName, uid: &str) {
        let Some(entry) = (self.by_uid.get(uid)).and_then(|key| self.applications.get_mut(key))
        else {
            return;
        };
        let belongs = match &entry.placement {
            Placement::Routed(place, Some(blocked)) => {
                // Without a confirmation of its deletion the hub takes back no copy.
                place.cluster == *cluster && blocked.why != Block::DeletionUnconfirmed
            }
            Placement::Ignored => {
                let route = route(entry.application(), &self.clusters, &self.settings);
                matches!(route, Route::ToCluster { cluster: to, .. } if to == cluster.as_str())
            }
            Placement::Routed(_, None)
            | Placement::Local
            | Placement::Conflict(_)
            | Placement::Mirror(_) => false,
        };
        if belongs && entry.holder.is_none() {
            entry.holder = Some(cluster.clone());
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
        let Some(entry) = self.applications.get_mut(key) else {
            return Vec::new();
        };
        let mut effects = entry.settle(key, blocked, introduced);
        let is_mirror = matches!(entry.placement, Placement::Mirror(_));
        if !is_mirror && entry.placement.delivered_to().is_none() {
            // No status of a cluster will clear them.
            effects.extend(self.set_report(key, None));
            effects.extend(self.set_contest(key, None));
        }
        effects
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
        let project = self.provisions.merged_project(application.project());
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
        let project = self.provisions.merged_project(application.project());
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

/// Whether an Application needs one of these repositories.
pub(super) fn needs(application: Application<'_>, repositories: &[&Repository]) -> bool {
    !repositories.is_empty()
        && urls(application)
            .iter()
            .map(|url| normal_url(url))
            .any(|url| {
                repositories
                    .iter()
                    .any(|repository| repository.is_for(&url))
            })
}

#[cfg(test)]
impl Index {
    pub(super) fn set_project(
        &mut self,
        name: &str,
        object: Option<serde_json::Value>,
    ) -> Vec<Effect> {
        let object = object.map(|it| Arc::new(Packed::of(it)));
        self.set_provision(Kind::AppProject, name, object)
    }
}
