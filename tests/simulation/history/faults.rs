//! The steps of a history: user actions and faults.

use principal::store::Watched;

use super::{World, fleet};
use crate::network::Conditions;
use crate::people::NAMES;
use crate::process::{self, Inputs, Principal};
use crate::refusals::Refusal;
use crate::slow::Manners;

impl World {
    /// A user action or a fault; then time passes.
    pub(super) async fn step(&mut self) {
        let kinds = if self.is_harsh { 112 } else { 100 };
        match self.dice.below(kinds) {
            0..60 => {
                let action = self.people.act_on_hub(self.is_harsh);
                self.note_hub();
                self.trace.emit(format_args!("hub: {action}"));
            }
            60..75 => {
                let site = self.dice.pick(&self.sites);
                let before = site.store.inner.all();
                let action = self.people.act_on_spoke(&site.name, &site.store.inner);
                site.forget_unseen_deletions(before);
                self.trace.emit(format_args!("{}: {action}", site.name));
            }
            75..82 => self.change_conditions(),
            82..86 => self.change_manners(),
            86..90 => self.end_an_agent().await,
            90..93 => self.end_the_principal().await,
            93 => self.change_fleet(),
            94 => {
                let broken = self.dice.probability(0.7);
                self.trace
                    .emit(format_args!("hub: watches are broken: {broken}"));
                self.hub.inner.break_watches(broken);
            }
            95..97 => {
                let site = self.dice.pick(&self.sites);
                self.trace
                    .emit(format_args!("{}: connections break", site.name));
                self.network.break_lines(&site.name);
            }
            97 => {
                let apps = self.hub.inner.all(Watched::Application);
                let intents = self.people.intents.clone();
                self.backup = Some((apps.into_values().collect(), intents));
                self.trace.emit("hub: backup");
            }
            98 | 99 => self.restore().await,
            // In harsh histories only.
            100..104 => self.refuse_writes(),
            104 | 105 => self.save(),
            106 | 107 => self.put_back(),
            108 => {
                self.trace.emit("another key signs tokens");
                process::rotate(&self.jwt_key);
            }
            _ => self.start_another_agent().await,
        }
        let pause = *self
            .dice
            .pick(&[(0, 20), (0, 300), (0, 300), (0, 3000), (0, 40_000)]);
        let pause = self.dice.millis(pause);
        tokio::time::sleep(pause).await;
    }

    fn change_conditions(&mut self) {
        let (cut, often) = (self.dice.probability(0.4), [0.0, 0.0, 0.1, 0.3]);
        let conditions = Conditions {
            cut,
            loss: *self.dice.pick(&often),
            twice: *self.dice.pick(&often),
            delay: *self.dice.pick(&[(0, 20), (0, 20), (100, 300), (0, 2000)]),
        };
        let site = self.dice.pick(&self.sites);
        self.trace
            .emit(format_args!("{}: {conditions:?}", site.name));
        self.network.set_conditions(&site.name, conditions);
    }

    fn change_manners(&mut self) {
        let manners = if self.dice.probability(0.5) {
            Manners::BAD
        } else {
            Manners::GOOD
        };
        let which = self.dice.below(self.sites.len() + 1);
        self.trace
            .emit(format_args!("API server {which}: {manners:?}"));
        match self.sites.get(which) {
            Some(site) => site.store.behave(manners),
            None => self.hub.behave(manners),
        }
    }

    /// An API server refuses writes for a time.
    fn refuse_writes(&mut self) {
        let refusal = Refusal::drawn(&self.dice, &NAMES);
        let which = self.dice.below(self.sites.len() + 1);
        let text = format_args!("API server {which} refuses: {refusal}");
        self.trace.emit(text);
        self.refused |= refusal.answer.is_final();
        match self.sites.get(which) {
            Some(site) => site.store.refusals.set(Some(refusal)),
            None => self.hub.refusals.set(Some(refusal)),
        }
    }

    async fn end_an_agent(&mut self) {
        let (which, crash, stay) = (
            self.dice.below(self.sites.len()),
            self.dice.probability(0.7),
            self.dice.probability(0.3),
        );
        let site = &mut self.sites[which];
        match site.agent.take() {
            Some(agent) if crash => {
                self.trace
                    .emit(format_args!("{}: agent crashes", site.name));
                agent.crash(&self.network).await;
            }
            Some(agent) => {
                self.trace.emit(format_args!("{}: agent stops", site.name));
                agent.stop().await;
            }
            None => {}
        }
        if !stay {
            let level = self.releases.agent(&self.dice);
            site.start(level, &self.network, &self.trace);
        }
    }

    /// An old Pod of an agent still runs when its successor starts, or ends.
    async fn start_another_agent(&mut self) {
        let which = self.dice.below(self.sites.len());
        let level = self.releases.agent(&self.dice);
        let site = &mut self.sites[which];
        if let Some(other) = site.other.take() {
            self.trace
                .emit(format_args!("{}: the other agent crashes", site.name));
            other.crash(&self.network).await;
        } else if site.agent.is_some() {
            let text = format_args!("{}: another agent starts: {level:?}", site.name);
            self.trace.emit(text);
            site.other = Some(site.made(level, &self.network));
            site.was_doubled = true;
        }
    }

    pub(super) fn start_agents(&mut self) {
        for site in &mut self.sites {
            let level = self.releases.agent(&self.dice);
            site.start(level, &self.network, &self.trace);
        }
    }

    async fn end_the_principal(&mut self) {
        let (crash, stay) = (self.dice.probability(0.7), self.dice.probability(0.3));
        match self.principal.take() {
            Some(principal) if crash => {
                self.trace.emit("principal crashes");
                principal.crash(&self.network).await;
            }
            Some(principal) => {
                self.trace.emit("principal stops");
                principal.stop(&self.network).await;
            }
            None => {}
        }
        if !stay {
            self.start_principal();
        }
    }

    pub(super) fn start_principal(&mut self) {
        if self.principal.is_none() {
            let level = self.releases.principal(&self.dice);
            let fleet = self.fleet.subscribe();
            self.level = level.clone();
            let jumps: &[i64] = if self.is_harsh {
                &[0, 0, -2, 2, -180, 180]
            } else {
                &[0]
            };
            let minutes = *self.dice.pick(jumps);
            let text = format_args!("principal starts at {minutes} minutes: {level:?}");
            self.trace.emit(text);
            let inputs = Inputs {
                compare_every: self.compare_every,
                jwt_key: self.jwt_key.subscribe(),
                clock: process::clock(minutes),
            };
            let principal = Principal::start(level, &self.hub, fleet, &self.network, inputs);
            self.principal = Some(principal);
        }
    }

    fn change_fleet(&mut self) {
        let names = self.names();
        let gone: Vec<String> = names
            .iter()
            .filter(|_| self.dice.probability(0.3))
            .cloned()
            .collect();
        let fresh = self.dice.probability(0.3);
        self.fleet_changed = true;
        self.trace
            .emit(format_args!("out of the fleet: {gone:?}, fresh: {fresh}"));
        self.fleet.send_replace(fleet(&names, &gone, fresh));
    }

    /// Everything on the hub is as it was, as other objects; the principal is down meanwhile.
    async fn restore(&mut self) {
        let Some((backup, intents)) = self.backup.clone() else {
            return;
        };
        self.trace.emit("hub: restored from the backup");
        if let Some(principal) = self.principal.take() {
            principal.crash(&self.network).await;
        }
        let hub = &self.hub.inner;
        for (key, _) in hub.all(Watched::Application) {
            hub.edit(
                Watched::Application,
                &key.namespace,
                &key.name,
                serde_json::json!({ "metadata": { "finalizers": null } }),
            );
            hub.delete(Watched::Application, &key.namespace, &key.name);
        }
        self.people.intents = intents.restored(&backup);
        for mut object in backup {
            // As a restore does: nothing that only the server knows, and no command.
            for field in [
                "uid",
                "resourceVersion",
                "creationTimestamp",
                "deletionTimestamp",
            ] {
                object["metadata"]
                    .as_object_mut()
                    .map(|it| it.remove(field));
            }
            object.as_object_mut().map(|it| it.remove("operation"));
            hub.put(Watched::Application, object);
        }
        self.note_hub();
        self.start_principal();
    }
}
