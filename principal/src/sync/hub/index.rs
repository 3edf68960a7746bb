//! What the hub wants of every cluster: Applications by name and UID and where each goes, and what goes with them.
//!
//! Pure: objects and the fleet go in, effects come out. An Application is judged again whenever it, its project,
//! the fleet, or another Application that wants the same name on a spoke changes. What a cluster may still hold of
//! an Application that is not delivered any more is left alone, unless the hub deleted or moved it.

use std::collections::{BTreeMap, BTreeSet};

use argocd::{
    Application, Meta,
    command::Introduced,
    project::Cluster,
    repository::{Repository, normal_url, urls},
    routing::{Clusters, RoutingSettings},
};
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

/// What follows from a change.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Effect {
    /// What the hub owns of the object has to be said to this cluster.
    State { cluster: String, key: ObjectKey },
    /// A command on the object has to be said to this cluster.
    Command { cluster: String, key: ObjectKey },
    /// This cluster's copy has to go.
    Gone {
        cluster: String,
        key: ObjectKey,
        uid: String,
    },
    /// The Application's conditions may have to change.
    Conditions(Key),
}

/// What a cluster should have of something by this name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Provided {
    /// This one, with this digest.
    This(ObjectKey, String),
    /// Nothing.
    Nothing,
    /// Nobody here can say.
    Unclear,
}

/// The hub's objects as far as clusters are concerned.
#[derive(Debug)]
pub(crate) struct Index {
    settings: RoutingSettings,
    clusters: Clusters,
    applications: BTreeMap<Key, Entry>,
    by_uid: BTreeMap<String, Key>,
    /// Who wants a name on a spoke, the keeper first: creation time and UID.
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
            applications: BTreeMap::new(),
            by_uid: BTreeMap::new(),
            claims: BTreeMap::new(),
            complaints: Complaints::default(),
        }
    }

    /// With something that nobody else knows, under what names the content of Secrets.
    #[must_use]
    pub(crate) fn salted(mut self, salt: String) -> Self {
        self.provisions.salt(salt);
        self
    }

    /// Takes in who is enrolled now. Never makes a copy go: leaving the fleet leaves everything where it is.
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
        if clusters == self.clusters && self.provisions.shares_as(fleet) {
            return Vec::new();
        }
        self.clusters = clusters;
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

    /// The hub is back at an earlier state. What is known of this kind stays until it is reported anew, and then every
    /// version is news.
    pub(crate) fn outdate(&mut self, kind: Kind, salt: String) {
        if kind == Kind::Application {
            self.applications.values_mut().for_each(Entry::outdate);
        }
        // Numbers of versions come again, with another content.
        self.provisions.salt(salt);
    }

    /// Takes in an Application as the hub has it now. An older version than the known one is ignored.
    ///
    /// `new`: one that is not known yet was made just now, as opposed to found.
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
            // One of the same name before it: the copy stays and is adopted, a new UID alone deletes nothing.
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

    /// Takes in an Application as one of our own patches has left it, unless it is gone or another one by now: nobody
    /// would tell that a second time.
    pub(crate) fn set_written_application(&mut self, object: Value) -> Vec<Effect> {
        let meta = Meta::of(&object);
        let known = self.applications.get(&Key::of(meta));
        if known.is_some_and(|known| known.uid() == meta.uid()) {
            self.set_application(object, false)
        } else {
            Vec::new()
        }
    }

    /// A cluster has nothing of this Application any more; whether that was to be.
    pub(crate) fn note_gone_there(&mut self, key: &Key) -> bool {
        let Some(entry) = self.applications.get_mut(key) else {
            return false;
        };
        entry.note_gone_there(true);
        entry.is_gone_there()
    }

    /// A cluster comes anew, and may have something again of what was gone there.
    pub(crate) fn ask_anew(&mut self, cluster: &str) {
        let all = self.applications.values_mut();
        let theirs = all.filter(|entry| entry.cluster() == Some(cluster));
        theirs.for_each(|entry| entry.note_gone_there(false));
    }

    /// Takes in a project as one of our own writes has left it, unless the watch has told of a newer version.
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

    /// Takes in a project, a repository or keys of the Argo CD namespace, or their deletion.
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

    /// The hub deleted a project, unless another of its name is there already.
    pub(crate) fn remove_project(&mut self, name: &str, uid: &str) -> Vec<Effect> {
        let known = self.provisions.project(name);
        if known.is_some_and(|known| Meta::of(known).uid() == uid) {
            self.set_provision(Kind::AppProject, name, None)
        } else {
            Vec::new()
        }
    }

    /// A cluster refuses something that it is provided with.
    pub(crate) fn refuse(&mut self, cluster: &str, key: &ObjectKey, reason: &str) -> Vec<Effect> {
        let is_change = self.provisions.refuse(cluster, key, reason);
        let repository = self.provisions.repository(&key.name).filter(|_| is_change);
        self.clusters_that_need(&repository.into_iter().collect::<Vec<_>>())
    }

    /// A cluster is asked anew; what it refused before counts no more.
    pub(crate) fn forgive(&mut self, cluster: &str) -> Vec<Effect> {
        let refused = self.provisions.forgive(cluster);
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
