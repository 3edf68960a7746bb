//! Restores of etcds: an API server goes back to an earlier state, with the versions of then.

use std::collections::BTreeMap;

use agent::sync::api;
use argocd::Meta;
use principal::store::{Watched, memory};
use serde_json::Value;

use super::World;
use crate::intents::Intents;

/// A snapshot of the hub, and the state of then.
#[derive(Clone)]
pub(super) struct HubPast {
    objects: memory::Snapshot,
    intents: Intents,
}

/// A snapshot of a spoke, and how often each sync had run then.
#[derive(Clone)]
pub(super) struct SpokePast {
    objects: api::Snapshot,
    syncs: BTreeMap<String, usize>,
}

/// The name of the sync that an Application asks for.
fn pending(app: &Value) -> Option<String> {
    let name = app["operation"]["info"][0]["value"].as_str()?;
    Some(name.to_owned())
}

impl World {
    /// A snapshot of one etcd.
    pub(super) fn save(&mut self) {
        let which = self.dice.below(self.sites.len() + 1);
        self.trace.emit(format_args!("etcd {which}: snapshot"));
        if let Some(site) = self.sites.get_mut(which) {
            site.past = Some(SpokePast {
                objects: site.store.inner.snapshot(),
                syncs: site.deeds.syncs(),
            });
        } else {
            self.past = Some(HubPast {
                objects: self.hub.inner.snapshot(),
                intents: self.people.intents.clone(),
            });
        }
    }

    /// Every etcd that has a snapshot may be put back.
    pub(super) fn put_back(&mut self) {
        if self.dice.probability(0.5)
            && let Some(past) = self.past.clone()
        {
            self.put_hub_back(past);
        }
        for number in 0..self.sites.len() {
            if self.dice.probability(0.5)
                && let Some(past) = self.sites[number].past.clone()
            {
                self.put_spoke_back(number, past);
            }
        }
    }

    /// Applications that were made since the snapshot go, and those that were deleted since are there again.
    fn put_hub_back(&mut self, past: HubPast) {
        self.trace.emit("hub: etcd put back");
        let hub = &self.hub.inner;
        let before = hub.all(Watched::Application);
        hub.put_back(past.objects);
        let after = hub.all(Watched::Application);
        for (key, app) in &before {
            let uid = Meta::of(app).uid();
            let stays = after.get(key).is_some_and(|it| Meta::of(it).uid() == uid);
            if !stays {
                self.people.ledger.lost_on_hub(app);
            }
        }
        // The clusters may have lost the records of their syncs, with their copies.
        for (key, app) in &after {
            let uid = Meta::of(app).uid();
            let has_copy = before
                .get(key)
                .map(Meta::of)
                .is_some_and(|it| it.uid() == uid && !it.is_deleting());
            if !has_copy && let Some(name) = pending(app) {
                for site in &self.sites {
                    site.deeds.forget_sync(&name);
                }
            }
        }
        self.people.intents = past.intents;
        self.network.witness().put_back();
        self.note_hub();
    }

    /// The cluster has lost all changes since the snapshot. A sync that the hub still asks for may run again.
    fn put_spoke_back(&self, number: usize, past: SpokePast) {
        let site = &self.sites[number];
        self.trace
            .emit(format_args!("{}: etcd put back", site.name));
        let spoke = &site.store.inner;
        let before = spoke.all();
        spoke.put_back(past.objects);
        site.forget_unseen_deletions(before);
        let on_hub = self.hub.inner.all(Watched::Application).into_values();
        let there = spoke.all().into_iter().map(|(_, app)| app);
        let asked: Vec<String> = on_hub
            .chain(there)
            .filter_map(|app| pending(&app))
            .collect();
        site.deeds.put_back(&past.syncs, &asked);
    }
}
