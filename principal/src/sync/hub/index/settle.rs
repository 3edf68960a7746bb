//! Routes Applications, resolves name conflicts on a spoke, and finds the messages to send.

use std::collections::BTreeSet;

use argocd::{
    AppProject, admission::Target, command::Introduced, project::Cluster, routing::route,
};

use super::{
    Effect, Index, Key,
    entry::{Blocked, Entry, Place, Placement, Uses},
    judge,
};

impl Index {
    /// Routes an Application again and settles all Applications that this affects.
    pub(super) fn place(&mut self, key: &Key, introduced: Introduced) -> Vec<Effect> {
        let Some(entry) = self.applications.get_mut(key) else {
            return Vec::new();
        };
        let application = entry.application();
        let placement = if application.is_ignored() {
            Placement::Ignored
        } else {
            let routed = route(application, &self.clusters, &self.settings);
            Placement::from_route(routed, application.name())
        };
        let claim = entry.claim();
        let is_enrolled = |cluster: &str| self.clusters.contains(cluster);
        let before = entry.set_placement(placement, is_enrolled);
        let mut effects = self.use_hosts(key);
        let Some(entry) = self.applications.get(key) else {
            return effects;
        };
        let (before, after) = (before.place().cloned(), entry.placement.place().cloned());
        if before == after {
            effects.extend(self.settle(key, introduced));
            return effects;
        }
        if let Some(after) = &after {
            self.claims
                .entry(after.clone())
                .or_default()
                .insert(claim.clone());
        }
        if let Some(before) = &before {
            self.release(before, &claim);
        }
        effects.extend(self.settle(key, introduced));
        for place in [before, after].iter().flatten() {
            effects.extend(self.settle_claimants(place));
        }
        effects
    }

    /// The cluster of an Application needs the keys of the hosts of its sources.
    fn use_hosts(&mut self, key: &Key) -> Vec<Effect> {
        let Some(entry) = self.applications.get_mut(key) else {
            return Vec::new();
        };
        let now = entry.uses_now();
        if entry.uses == now {
            return Vec::new();
        }
        let before = std::mem::replace(&mut entry.uses, now.clone());
        self.exchange_hosts(before, now)
    }

    pub(super) fn exchange_hosts(
        &mut self,
        before: Option<Uses>,
        after: Option<Uses>,
    ) -> Vec<Effect> {
        let none = BTreeSet::new();
        let (provisions, clusters) = (&mut self.provisions, &self.clusters);
        match (before, after) {
            (Some(before), Some(after)) if before.cluster == after.cluster => {
                provisions.set_hosts(&before.cluster, &before.hosts, &after.hosts, clusters)
            }
            (before, after) => {
                let mut effects = Vec::new();
                if let Some(Uses { cluster, hosts }) = after {
                    effects.extend(provisions.set_hosts(&cluster, &none, &hosts, clusters));
                }
                if let Some(Uses { cluster, hosts }) = before {
                    effects.extend(provisions.set_hosts(&cluster, &hosts, &none, clusters));
                }
                effects
            }
        }
    }

    pub(super) fn settle_claimants(&mut self, place: &Place) -> Vec<Effect> {
        let claimants: Vec<Key> = self
            .claims
            .get(place)
            .into_iter()
            .flatten()
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
        let Some(entry) = self.applications.get(key) else {
            return Vec::new();
        };
        let retained = self.judge(entry);
        let Some(entry) = self.applications.get_mut(key) else {
            return Vec::new();
        };
        entry.settle(key, retained, introduced)
    }

    fn judge(&self, entry: &Entry) -> Option<Blocked> {
        let place = entry.placement.place()?;
        let keeper = self.claims.get(place).and_then(BTreeSet::first);
        let other = keeper
            .filter(|(_, uid)| uid != entry.uid())
            .and_then(|(_, uid)| self.by_uid.get(uid));
        if let Some(other) = other {
            return Some(judge::name_conflict(place, other));
        }
        let application = entry.application();
        let enrolled = self.enrolled.get(&place.cluster);
        let unconfirmed = enrolled
            .and_then(|since| judge::unconfirmed_deletion(application, &place.cluster, *since));
        if unconfirmed.is_some() {
            return unconfirmed;
        }
        let project = self.provisions.project(application.project());
        let Cluster { name, server } = self.cluster(&place.cluster);
        let target = Target {
            argocd_namespace: &self.settings.argocd_namespace,
            cluster: name,
            server,
        };
        judge::admission(application, project.map(AppProject::of), target)
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
