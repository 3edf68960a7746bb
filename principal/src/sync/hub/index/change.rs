//! Changes of the index: each routes and evaluates the concerned Applications again, and returns the effects.

use std::{collections::BTreeMap, sync::Arc};

use argocd::{
    Application, Meta,
    command::Introduced,
    repository::{Repository, normal_url, urls},
    routing::Clusters,
};
use protocol::{Kind, ObjectKey};
use serde_json::Value;

use super::{
    Effect, Index,
    entry::{Entry, is_newer},
};
use crate::{
    domain::{ClusterName, Key},
    fleet::{Enrolment, Fleet, Mode},
};

/// Changes on the hub.
impl Index {
    /// Sets the secret salt of the names of Secret contents.
    #[must_use]
    pub(crate) fn salted(mut self, salt: String) -> Self {
        self.provisions.salt(salt);
        self
    }

    /// Updates the enrolled clusters. Deletes no copy: a cluster that leaves the fleet keeps everything.
    pub(crate) fn set_fleet(&mut self, fleet: &Fleet) -> Vec<Effect> {
        // No agent can have another name.
        let enrolled: BTreeMap<ClusterName, _> = fleet
            .clusters
            .iter()
            .filter_map(|(name, enrolment)| {
                Some((ClusterName::try_from(name.as_str()).ok()?, enrolment))
            })
            .collect();
        let servers = enrolled
            .iter()
            .map(|(name, enrolment)| (name.to_string(), enrolment.server.clone()));
        let autonomous = enrolled
            .iter()
            .filter(|(_, enrolment)| enrolment.mode == Mode::Autonomous)
            .map(|(name, _)| name.to_string());
        let clusters = Clusters::new(servers).with_autonomous(autonomous);
        let is_since = |(name, enrolment): (&ClusterName, &&Enrolment)| {
            let known = self.by_cluster.get(name);
            known.is_some_and(|of| of.since == enrolment.since)
        };
        let is_known = clusters == self.clusters && enrolled.iter().all(is_since);
        if is_known && self.provisions.shares_as(&enrolled) {
            return Vec::new();
        }
        self.clusters = clusters;
        self.by_cluster
            .retain(|name, _| enrolled.contains_key(name));
        for (name, enrolment) in &enrolled {
            self.by_cluster.entry(name.clone()).or_default().since = enrolment.since;
        }
        let mut effects = self.provisions.set_fleet(&enrolled, &self.clusters);
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

    /// Sets an object to the hub's version.
    ///
    /// `new`: an unknown Application was created just now, not found at the start.
    pub(crate) fn set(&mut self, kind: Kind, object: Arc<Value>, new: bool) -> Vec<Effect> {
        if kind == Kind::Application {
            return self.set_application(object, new);
        }
        let name = Meta::of(&object).name().to_owned();
        self.set_provision(kind, &name, Some(object))
    }

    /// Like [`Self::set`], to the result of our own write, unless the watch has reported a newer version.
    pub(crate) fn set_written(&mut self, kind: Kind, object: Arc<Value>) -> Vec<Effect> {
        let meta = Meta::of(&object);
        let key = ObjectKey::new(kind, meta.namespace(), meta.name());
        let is_old = self.object(&key).is_some_and(|known| {
            let (known, version) = (Meta::of(known), meta.resource_version());
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
    pub(super) fn set_application(
        &mut self,
        object: impl Into<Arc<Value>>,
        new: bool,
    ) -> Vec<Effect> {
        let object = object.into();
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

    pub(super) fn remove_application(&mut self, key: &Key, uid: &str) -> Vec<Effect> {
        let known = self.applications.get(key);
        if known.is_none_or(|entry| entry.uid() != uid) {
            return Vec::new();
        }
        let Some(entry) = self.forget(key) else {
            return Vec::new();
        };
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
        object: Option<Arc<Value>>,
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
            let keys = self.keys_of(|application| needs(application, &concerned));
            effects.extend(keys.into_iter().map(Effect::Conditions));
        }
        effects
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

/// Reports of clusters.
impl Index {
    /// Records that a cluster refuses a provision. The first reason counts until the provision changes.
    pub(crate) fn refuse(
        &mut self,
        cluster: &ClusterName,
        key: &ObjectKey,
        reason: &str,
    ) -> Vec<Effect> {
        if self.provisions.refuse(cluster, key, reason) {
            self.that_need(cluster, &[&key.name])
        } else {
            Vec::new()
        }
    }

    /// A cluster connected again. It receives everything again, and reports again what it still finds.
    pub(crate) fn clear_reports(&mut self, cluster: &ClusterName) -> Vec<Effect> {
        let refused = self.provisions.clear_refusals(cluster);
        let refused: Vec<&str> = refused.iter().map(|key| key.name.as_str()).collect();
        let mut effects = self.that_need(cluster, &refused);
        let theirs: Vec<Key> = self
            .routed_to(cluster)
            .map(|(key, _)| key.clone())
            .collect();
        for key in theirs {
            if let Some(entry) = self.applications.get_mut(&key) {
                entry.note_gone_there(false);
            }
            effects.extend(self.set_contest(&key, None));
        }
        effects
    }

    /// Sets the field manager that keeps changing an Application on its cluster, or clears it.
    pub(crate) fn set_contest(&mut self, key: &Key, contest: Option<String>) -> Vec<Effect> {
        match self.applications.get_mut(key) {
            Some(entry) if entry.contest != contest => {
                entry.contest = contest;
                vec![Effect::Conditions(key.clone())]
            }
            Some(_) | None => Vec::new(),
        }
    }

    /// Sets the error that a cluster reported for an Application; its next status clears it.
    pub(crate) fn set_report(&mut self, key: &Key, report: Option<String>) -> Vec<Effect> {
        match self.applications.get_mut(key) {
            Some(entry) if entry.report != report => {
                entry.report = report;
                let of = entry.cluster().and_then(|it| self.by_cluster.get_mut(it));
                if let Some(of) = of {
                    of.complaints = of.complaints.wrapping_add(1);
                }
                vec![Effect::Conditions(key.clone())]
            }
            Some(_) | None => Vec::new(),
        }
    }

    /// The conditions of the cluster's Applications that need one of these repositories.
    fn that_need(&self, cluster: &ClusterName, repositories: &[&str]) -> Vec<Effect> {
        let of = |name: &&str| self.provisions.repository(name);
        let repositories: Vec<_> = repositories.iter().filter_map(of).collect();
        if repositories.is_empty() {
            return Vec::new();
        }
        self.routed_to(cluster)
            .filter(|(_, entry)| needs(entry.application(), &repositories))
            .map(|(key, _)| Effect::Conditions(key.clone()))
            .collect()
    }
}

fn needs(application: Application<'_>, repositories: &[&Repository]) -> bool {
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
    pub(super) fn set_project(&mut self, name: &str, object: Option<Value>) -> Vec<Effect> {
        self.set_provision(Kind::AppProject, name, object.map(Arc::new))
    }
}
