//! The objects that the hub wants on every cluster: Applications by name and UID with their placement, and provisions.
//!
//! Pure: objects and the fleet go in, effects come out. The index evaluates an Application again whenever it, its
//! project, the fleet, or another Application that claims the same name on a spoke changes. The index keeps the copies
//! of an Application that is not delivered any more, unless the hub deleted or moved it.

use std::collections::{BTreeMap, BTreeSet};

use argocd::{
    Application, Meta,
    command::Introduced,
    project::Cluster,
    repository::{Repository, normal_url, urls},
    routing::{Clusters, RoutingSettings},
};
use jiff::Timestamp;
use protocol::{Kind, ObjectKey};
use serde_json::Value;

use crate::{
    domain::Key,
    fleet::{Fleet, Mode},
};

mod entry;
mod judge;
mod problems;
mod provisions;
mod queries;
mod settle;

pub(crate) use entry::{Blocked, Entry, Place, Placement};
use problems::Complaints;
use provisions::Provisions;

/// An effect of a change.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Effect {
    /// Send the fields that the hub owns to this cluster.
    State { cluster: String, key: ObjectKey },
    /// Send a command on the object to this cluster.
    Command { cluster: String, key: ObjectKey },
    /// Delete the copy of this cluster.
    Gone {
        cluster: String,
        key: ObjectKey,
        uid: String,
    },
    /// The Application's conditions may have to change.
    Conditions(Key),
}

/// The object that a cluster should have by a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Provided {
    /// This object, with this digest.
    This(ObjectKey, String),
    /// Nothing.
    Nothing,
    /// The hub cannot decide now.
    Unclear,
}

/// The hub's objects as far as clusters are concerned.
#[derive(Debug)]
pub(crate) struct Index {
    settings: RoutingSettings,
    clusters: Clusters,
    /// When each cluster was enrolled, if that is known.
    enrolled: BTreeMap<String, Timestamp>,
    applications: BTreeMap<Key, Entry>,
    by_uid: BTreeMap<String, Key>,
    /// The Applications that claim a name on a spoke, the keeper first: creation time and UID.
    claims: BTreeMap<Place, BTreeSet<(String, String)>>,
    provisions: Provisions,
    complaints: Complaints,
}

impl Index {
    pub(crate) fn new(settings: RoutingSettings) -> Self {
        Self {
            provisions: Provisions::new(&settings.argocd_namespace),
            settings,
            clusters: Clusters::default(),
            enrolled: BTreeMap::new(),
            applications: BTreeMap::new(),
            by_uid: BTreeMap::new(),
            claims: BTreeMap::new(),
            complaints: Complaints::default(),
        }
    }

    /// Sets the secret salt of the names of Secret contents.
    #[must_use]
    pub(crate) fn salted(mut self, salt: String) -> Self {
        self.provisions.salt(salt);
        self
    }

    /// Updates the enrolled clusters. Deletes no copy: a cluster that leaves the fleet keeps everything.
    pub(crate) fn set_fleet(&mut self, fleet: &Fleet) -> Vec<Effect> {
        let server = |(name, enrolment): (&String, &crate::Enrolment)| {
            (name.clone(), enrolment.server.clone())
        };
        let autonomous = fleet
            .clusters
            .iter()
            .filter(|(_, enrolment)| enrolment.mode == Mode::Autonomous)
            .map(|(name, _)| name.clone());
        let clusters = Clusters::new(fleet.clusters.iter().map(server)).with_autonomous(autonomous);
        let since = |(name, it): (&String, &crate::Enrolment)| Some((name.clone(), it.since?));
        let enrolled = fleet.clusters.iter().filter_map(since).collect();
        let is_known = clusters == self.clusters && enrolled == self.enrolled;
        if is_known && self.provisions.shares_as(fleet) {
            return Vec::new();
        }
        (self.clusters, self.enrolled) = (clusters, enrolled);
        let mut effects = self.provisions.set_fleet(fleet, &self.clusters);
        let keys: Vec<Key> = self.applications.keys().cloned().collect();
        let placed = keys
            .iter()
            .flat_map(|key| self.place(key, Introduced::default()))
            .filter(|effect| !matches!(effect, Effect::Gone { .. }));
        effects.extend(placed);
        effects.extend(keys.into_iter().map(Effect::Conditions));
        effects
    }

    /// The hub was restored to an earlier state. Known objects of this kind stay until the watch reports them again;
    /// then every version counts as newer.
    pub(crate) fn outdate(&mut self, kind: Kind, salt: String) {
        if kind == Kind::Application {
            self.applications.values_mut().for_each(Entry::outdate);
        }
        // The same version numbers return with another content.
        self.provisions.salt(salt);
    }

    /// Sets an Application to the hub's version. An older version than the known one is ignored.
    ///
    ///
    /// `new`: an unknown Application was created just now, not found at the start.
    pub(crate) fn set_application(&mut self, object: Value, new: bool) -> Vec<Effect> {
        let key = Key::of(Meta::of(&object));
        let uid = Meta::of(&object).uid().to_owned();
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
        let mut effects = self.place(&key, introduced);
        effects.push(Effect::Conditions(key));
        effects
    }

    /// Sets an Application to the result of our own patch, unless it was deleted or replaced meanwhile: no watch event
    /// would correct that.
    pub(crate) fn set_written_application(&mut self, object: Value) -> Vec<Effect> {
        let meta = Meta::of(&object);
        let known = self.applications.get(&Key::of(meta));
        if known.is_some_and(|known| known.uid() == meta.uid()) {
            self.set_application(object, false)
        } else {
            Vec::new()
        }
    }

    /// A cluster has no copy of this Application any more; returns whether the hub wanted that.
    pub(crate) fn note_gone_there(&mut self, key: &Key) -> bool {
        let Some(entry) = self.applications.get_mut(key) else {
            return false;
        };
        entry.note_gone_there(true);
        entry.is_gone_there()
    }

    /// A cluster connected again, and may have a copy again.
    pub(crate) fn clear_gone_there(&mut self, cluster: &str) {
        let all = self.applications.values_mut();
        let theirs = all.filter(|entry| entry.cluster() == Some(cluster));
        theirs.for_each(|entry| entry.note_gone_there(false));
    }

    /// Sets a project to the result of our own write, unless the watch has reported a newer version.
    pub(crate) fn set_written_project(&mut self, object: Value) -> Vec<Effect> {
        let meta = Meta::of(&object);
        let (name, version) = (meta.name().to_owned(), meta.resource_version());
        let is_old = self.provisions.project(&name).is_some_and(|known| {
            let known = Meta::of(known);
            known.uid() == meta.uid() && !entry::is_newer(version, known.resource_version())
        });
        if is_old {
            return Vec::new();
        }
        self.set_provision(Kind::AppProject, &name, Some(object))
    }

    /// The hub deleted an Application.
    pub(crate) fn remove_application(&mut self, key: &Key, uid: &str) -> Vec<Effect> {
        if self
            .applications
            .get(key)
            .is_none_or(|entry| entry.uid() != uid)
        {
            return Vec::new();
        }
        let Some(entry) = self.forget(key) else {
            return Vec::new();
        };
        if let Some(cluster) = entry.cluster().filter(|_| entry.report.is_some()) {
            self.complaints.change(cluster, key, false);
        }
        let mut effects = self.exchange_hosts(entry.uses.clone(), None);
        let autonomous = |cluster: &String| self.clusters.is_autonomous(cluster);
        if let Some(cluster) = entry.holder.clone().filter(|it| !autonomous(it)) {
            effects.push(Effect::Gone {
                cluster,
                key: key.object(),
                uid: uid.to_owned(),
            });
        }
        if let Some(place) = entry.placement.place() {
            effects.extend(self.settle_claimants(&place.clone()));
        }
        effects
    }

    /// Sets a project, a repository or keys of the Argo CD namespace, or removes it.
    pub(crate) fn set_provision(
        &mut self,
        kind: Kind,
        name: &str,
        object: Option<Value>,
    ) -> Vec<Effect> {
        let before = self.provisions.repository(name).cloned();
        let mut effects = self.provisions.set(kind, name, object, &self.clusters);
        if kind == Kind::AppProject {
            let members = self.keys_of(|application| application.project() == name);
            for key in &members {
                effects.extend(self.settle(key, Introduced::default()));
            }
            effects.extend(members.into_iter().map(Effect::Conditions));
        }
        if kind == Kind::Repository {
            let after = self.provisions.repository(name);
            let concerned: Vec<_> = before.iter().chain(after).collect();
            effects.extend(self.clusters_that_need(&concerned));
        }
        effects
    }

    /// The hub deleted a project, unless it was created again already.
    pub(crate) fn remove_project(&mut self, name: &str, uid: &str) -> Vec<Effect> {
        let known = self.provisions.project(name);
        if known.is_some_and(|known| Meta::of(known).uid() == uid) {
            self.set_provision(Kind::AppProject, name, None)
        } else {
            Vec::new()
        }
    }

    /// Records that a cluster refuses a provision.
    pub(crate) fn refuse(&mut self, cluster: &str, key: &ObjectKey, reason: &str) -> Vec<Effect> {
        let is_change = self.provisions.refuse(cluster, key, reason);
        let repository = self.provisions.repository(&key.name).filter(|_| is_change);
        self.clusters_that_need(&repository.into_iter().collect::<Vec<_>>())
    }

    /// Clears the refusals of a cluster, which receives everything again.
    pub(crate) fn clear_refusals(&mut self, cluster: &str) -> Vec<Effect> {
        let refused = self.provisions.clear_refusals(cluster);
        let refused: Vec<_> = refused
            .iter()
            .filter_map(|key| self.provisions.repository(&key.name))
            .collect();
        self.clusters_that_need(&refused)
    }

    fn clusters_that_need(&self, repositories: &[&Repository]) -> Vec<Effect> {
        if repositories.is_empty() {
            return Vec::new();
        }
        let needs = |url: &&str| {
            let url = normal_url(url);
            repositories
                .iter()
                .any(|repository| repository.is_for(&url))
        };
        let keys = self.keys_of(|application| urls(application).iter().any(needs));
        keys.into_iter().map(Effect::Conditions).collect()
    }

    fn keys_of(&self, fits: impl Fn(Application<'_>) -> bool) -> Vec<Key> {
        let entries = self.applications.iter();
        entries
            .filter(|(_, entry)| fits(entry.application()))
            .map(|(key, _)| key.clone())
            .collect()
    }

    /// The cluster with this server.
    pub(crate) fn cluster_at(&self, server: &str) -> Option<&str> {
        self.clusters.by_server(server)
    }

    fn cluster<'a>(&'a self, name: &'a str) -> Cluster<'a> {
        Cluster {
            name,
            server: self.clusters.server_of(name),
        }
    }

    fn forget(&mut self, key: &Key) -> Option<Entry> {
        let entry = self.applications.remove(key)?;
        self.by_uid.remove(entry.uid());
        if let Some(place) = entry.placement.place() {
            self.release(place, &entry.claim());
        }
        Some(entry)
    }
}

#[cfg(test)]
impl Index {
    fn set_project(&mut self, name: &str, object: Option<Value>) -> Vec<Effect> {
        self.set_provision(Kind::AppProject, name, object)
    }
}

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;
