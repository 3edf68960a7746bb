//! The end of a history: all faults are repaired, and the findings.

use std::collections::BTreeMap;
use std::time::Duration;

use agent::sync::api;
use principal::store::Watched;
use protocol::version::Capability;
use tokio::time::Instant;

use super::{World, fleet};
use crate::fault::Fault;
use crate::network::Conditions;
use crate::oracle::Oracle;
use crate::slow::Manners;

/// How long nothing must change before it counts as quiet; longer than any pause of the product between two attempts.
const QUIET: Duration = Duration::from_mins(6);
/// After so long something is stuck.
const TIME_LIMIT: Duration = Duration::from_hours(1);

impl World {
    /// Repairs all faults; then both sides have to agree, also after further connects, restarts and commands.
    pub(super) async fn end(&mut self) -> Vec<String> {
        self.trace.emit("everything works again");
        let names = self.names();
        self.hub.behave(Manners::GOOD);
        self.hub.refusals.set(None);
        self.hub.inner.break_watches(false);
        self.start_principal();
        // A cluster that has left gets a second session, in which the hub's spec wins everywhere.
        self.fleet.send_replace(fleet(&names, &[], false));
        for site in &mut self.sites {
            site.store.behave(Manners::GOOD);
            site.store.refusals.set(None);
            self.network.set_conditions(&site.name, Conditions::FINE);
        }
        for site in &mut self.sites {
            if let Some(other) = site.other.take() {
                other.crash(&self.network).await;
            }
        }
        self.start_agents();
        self.plant_at_the_end();
        let mut findings = self.settle("after the faults").await;
        // The resync of the next session would repair what this one lost.
        if !self.fleet_changed && (!self.refused || self.compares_in_sessions()) {
            let early = self.oracle_findings();
            findings.extend(early.iter().map(|it| format!("in a living session: {it}")));
        }
        self.plant_before_a_connection();
        for name in &names {
            self.network.break_lines(name);
        }
        findings.extend(self.settle("after a new connection").await);
        self.plant_before_a_look().await;
        findings.extend(self.oracle_findings());
        findings.extend(self.people.intents.findings(&self.hub.inner));
        findings.extend(self.once());
        if findings.is_empty() {
            findings.extend(self.rest().await);
        }
        if findings.is_empty() {
            findings.extend(self.run_new_commands().await);
        }
        // A planted fault needs the history in which it can be found.
        let often = if self.fault == Fault::None { 0.25 } else { 1.0 };
        if findings.is_empty() && self.is_harsh && self.dice.probability(often) {
            findings.extend(self.refuse_for_good().await);
        }
        findings
    }

    /// Whether each session compares both sides before nothing has changed for long enough.
    fn compares_in_sessions(&self) -> bool {
        let sums = Capability::RangeSums;
        let mut agents = self.sites.iter().map(|site| &site.level);
        self.compare_every < QUIET && self.level.has(sums) && agents.all(|it| it.has(sums))
    }

    /// Waits until nothing changes any more.
    pub(super) async fn settle(&self, when: &str) -> Vec<String> {
        let begun = Instant::now();
        let mut before = self.signature();
        while begun.elapsed() < TIME_LIMIT {
            tokio::time::sleep(QUIET).await;
            let now = self.signature();
            if now == before {
                self.trace.emit(format_args!("quiet {when}"));
                return vec![];
            }
            before = now;
        }
        vec![format!("never quiet {when}")]
    }

    fn signature(&self) -> Vec<u64> {
        let hub = self.hub.inner.version();
        let sites = self.sites.iter();
        let sites = sites.map(|site| site.store.inner.version());
        sites.chain([hub]).collect()
    }

    pub(super) fn spokes(&self) -> BTreeMap<String, api::Memory> {
        let sites = self.sites.iter();
        sites
            .map(|site| (site.name.clone(), site.store.inner.clone()))
            .collect()
    }

    pub(super) fn oracle_findings(&self) -> Vec<String> {
        let spokes = self.spokes();
        Oracle::new(&self.hub.inner, &spokes, self.network.witness()).findings()
    }

    /// Nothing was done twice, or without need.
    fn once(&self) -> Vec<String> {
        let mut findings = self.network.witness().findings();
        for site in &self.sites {
            for (sync, times) in site.deeds.syncs() {
                if times > 1 && sync != "-" {
                    findings.push(format!("{}: {sync} ran {times} times", site.name));
                }
            }
            let idle = site.store.inner.writes().idle;
            if idle > site.store.failures() && !site.was_doubled {
                findings.push(format!("{}: {idle} writes changed nothing", site.name));
            }
            let ledger = &self.people.ledger;
            findings.extend(ledger.findings(&site.name, &site.deeds.removed()));
        }
        let idle = self.hub.inner.all_writes().idle;
        if idle > self.hub.failures() {
            findings.push(format!("hub: {idle} writes changed nothing"));
        }
        findings
    }

    /// A restart of either end makes no writes when both sides agree.
    async fn rest(&mut self) -> Vec<String> {
        let mut findings = vec![];
        let before = self.signature();
        if let Some(principal) = self.principal.take() {
            principal.crash(&self.network).await;
        }
        self.start_principal();
        self.plant_at_a_restart();
        findings.extend(self.settle("with a new principal").await);
        if self.signature() != before {
            findings.push("a restart of the principal made writes".to_owned());
        }
        let before = self.signature();
        for site in &mut self.sites {
            if let Some(agent) = site.agent.take() {
                agent.crash(&self.network).await;
            }
        }
        self.plant_at_a_restart_of_agents();
        self.start_agents();
        findings.extend(self.settle("with new agents").await);
        if self.signature() != before {
            findings.push("a restart of the agents made writes".to_owned());
        }
        let principal = self.principal.as_ref();
        let reports = principal.map(|principal| principal.handle.sessions.borrow().clone());
        for site in &self.sites {
            let report = reports.as_ref().and_then(|all| all.get(&site.name));
            if !report.is_some_and(|report| report.connected && report.blocked_deletion.is_none()) {
                findings.push(format!("{}: the principal reports {report:?}", site.name));
            }
            let outbox = site
                .agent
                .as_ref()
                .map(|agent| agent.metrics.outbox_objects.get());
            if outbox != Some(0) {
                findings.push(format!("{}: {outbox:?} objects in the outbox", site.name));
            }
            let up = site.agent.as_ref().map(|agent| *agent.state.borrow());
            if up != Some(agent::session::LinkState::Up) {
                findings.push(format!("{}: the link is {up:?}", site.name));
            }
        }
        findings
    }

    /// New commands run once.
    async fn run_new_commands(&mut self) -> Vec<String> {
        let spokes = self.spokes();
        let delivered = Oracle::new(&self.hub.inner, &spokes, self.network.witness()).delivered();
        let mut asked = vec![];
        for (key, object) in &delivered {
            let action = self.people.sync(key, object);
            asked.push(action.split(' ').nth(1).unwrap_or_default().to_owned());
            self.trace.emit(format_args!("hub: {action}"));
            self.people.refresh(key);
            if self.fault == Fault::Unasked {
                let nothing = serde_json::json!({ "operation": null });
                let hub = &self.hub.inner;
                hub.edit(Watched::Application, &key.namespace, &key.name, nothing);
            }
        }
        let mut findings = self.settle("after the last commands").await;
        findings.extend(self.oracle_findings());
        let done: BTreeMap<String, usize> = self
            .sites
            .iter()
            .flat_map(|site| site.deeds.syncs())
            .collect();
        for name in asked {
            if done.get(&name) != Some(&1) {
                findings.push(format!("{name} ran {:?} times", done.get(&name)));
            }
        }
        findings
    }
}
