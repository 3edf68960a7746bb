//! Changes of clusters: the fleet, and the reports of its agents.

use std::collections::BTreeMap;

use argocd::{command::Introduced, routing::Clusters};
use protocol::{Kind, ObjectKey};

use super::{Index, change::needs, effect::Effect, entry::Entry};
use crate::{
    domain::{ClusterName, Key},
    fleet::{Enrolment, Fleet, Mode},
};

/// The fleet.
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
    /// then every version counts as newer. Readers of the changes start over.
    pub(crate) fn outdate(&mut self, kind: Kind, salt: String) {
        if kind == Kind::Application {
            self.applications.values_mut().for_each(Entry::outdate);
            self.changes = None;
        }
        // The same version numbers return with another content.
        self.provisions.salt(salt);
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
