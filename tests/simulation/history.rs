//! One history: a hub and some spokes, people, faults, and then quiet.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use agent::spoke;
use principal::store::{Memory as Hub, Watched};
use principal::{Certificates, Enrolment, Fleet, Mode};
use protocol::{ObjectKey, version::Capabilities};
use runtime::parts::Parts;
use rustls_pki_types::CertificateDer;
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::controller::{Controller, Deeds};
use crate::dice::{Dice, Trace};
use crate::lie::Lie;
use crate::network::{Network, Weather};
use crate::oracle::Oracle;
use crate::people::{People, project};
use crate::process::{Agent, Principal};
use crate::slow::{Manners, Slow};

/// How long nothing must change before it counts as quiet.
const QUIET: Duration = Duration::from_mins(5);
/// After so long an agent has seen what is on its spoke, however slow the API server is.
const FIRST_LOOK: Duration = Duration::from_secs(5);
/// After so long something is stuck.
const PATIENCE: Duration = Duration::from_hours(1);

/// Something that the product must not do.
pub(crate) struct Failure {
    pub(crate) findings: Vec<String>,
    pub(crate) trace: Vec<String>,
}

/// What a history came to.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) trace: Vec<String>,
    pub(crate) hub_writes: usize,
    pub(crate) spoke_writes: usize,
}

struct Site {
    name: String,
    certificate: CertificateDer<'static>,
    store: Slow<spoke::Memory>,
    deeds: Deeds,
    agent: Option<Agent>,
    started: Instant,
}

/// Everything.
struct World {
    dice: Dice,
    releases: Releases,
    trace: Trace,
    network: Network,
    hub: Slow<Hub>,
    fleet: watch::Sender<Arc<Fleet>>,
    principal: Option<Principal>,
    sites: Vec<Site>,
    people: People,
    nature: Parts,
    stop: CancellationToken,
    backup: Option<Vec<Value>>,
    deletions: usize,
}

/// Lives one history and says what was wrong at its end.
pub(crate) async fn live(
    seed: u64,
    certificates: &[CertificateDer<'static>],
    lie: Lie,
    releases: Releases,
) -> Result<Outcome, Failure> {
    runtime::chance::seed(seed);
    let dice = Dice::new(seed);
    let steps = 10 + dice.below(50);
    let mut world = World::new(dice, certificates, lie, releases);
    for _ in 0..steps {
        world.step().await;
    }
    let findings = world.end().await;
    let trace = world.trace.clone();
    let outcome = Outcome {
        hub_writes: world.hub.inner.writes(),
        spoke_writes: world
            .sites
            .iter()
            .map(|site| site.store.inner.writes().changes)
            .sum(),
        trace: trace.lines(),
    };
    world.close().await;
    if findings.is_empty() {
        Ok(outcome)
    } else {
        Err(Failure {
            findings,
            trace: trace.lines(),
        })
    }
}

/// Of which releases the programs are.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Releases {
    /// Each of this one or of one of the two before, and another one after each restart.
    Any,
    /// The principal of this level, and the agents of that.
    Of(u8, u8),
}

impl Releases {
    pub(crate) fn principal(self, dice: &Dice) -> Capabilities {
        Capabilities::of_level(match self {
            Self::Any => *dice.pick(&[1, 2, 3, 3, 3]),
            Self::Of(principal, _) => principal,
        })
    }

    pub(crate) fn agent(self, dice: &Dice) -> Capabilities {
        Capabilities::of_level(match self {
            Self::Any => *dice.pick(&[1, 2, 3, 3, 3]),
            Self::Of(_, agent) => agent,
        })
    }
}

fn fleet(clusters: &[String], gone: &[String], fresh: bool) -> Arc<Fleet> {
    let enrolment = Enrolment {
        mode: Mode::Managed,
        server: None,
        fresh,
        confirm_delete: None,
        shares_unscoped: Some(false),
        certificates: Certificates::All,
    };
    let there = clusters.iter().filter(|name| !gone.contains(name));
    let clusters = there.map(|name| (name.clone(), enrolment.clone()));
    Arc::new(Fleet {
        clusters: clusters.collect(),
    })
}

impl World {
    fn new(
        dice: Dice,
        certificates: &[CertificateDer<'static>],
        lie: Lie,
        releases: Releases,
    ) -> Self {
        let trace = Trace::new();
        let number = 1 + dice.below(certificates.len());
        let names: Vec<String> = (1..=number).map(|it| format!("spoke{it}")).collect();
        let network = Network::new(&dice, &trace, &names, lie);
        let mut hub = Slow::new(Hub::new(), &dice);
        if lie == Lie::WatchesForget {
            hub.forgets = 0.1;
        }
        for name in ["default", "team"] {
            hub.inner.put(Watched::AppProject, project(name, "*", 0));
        }
        let stop = CancellationToken::new();
        let nature = Parts::new(stop.clone());
        nature.spawn("network", network.clone().keep(stop.clone()));
        let mut sites = vec![];
        for (name, certificate) in names.iter().zip(certificates) {
            let (store, deeds) = (Slow::new(spoke::Memory::new(), &dice), Deeds::default());
            let controller = Controller {
                cluster: name.clone(),
                spoke: store.inner.clone(),
                deeds: deeds.clone(),
                dice: dice.clone(),
                trace: trace.clone(),
            };
            nature.spawn("argocd", controller.run(stop.clone()));
            sites.push(Site {
                agent: None,
                started: Instant::now(),
                name: name.clone(),
                certificate: certificate.clone(),
                store,
                deeds,
            });
        }
        let fleet = watch::Sender::new(fleet(&names, &[], false));
        let mut world = Self {
            people: People::new(&dice, &hub.inner, &names),
            principal: None,
            dice,
            releases,
            trace,
            network,
            hub,
            fleet,
            sites,
            nature,
            stop,
            backup: None,
            deletions: 0,
        };
        world.start_principal();
        world.start_agents();
        world
    }

    fn names(&self) -> Vec<String> {
        self.sites.iter().map(|site| site.name.clone()).collect()
    }

    /// Somebody does something, or something goes wrong; then time passes.
    async fn step(&mut self) {
        match self.dice.below(100) {
            0..60 => {
                let said = self.people.act_on_hub();
                self.deletions += usize::from(said.contains("deleted"));
                self.trace.say(format_args!("hub: {said}"));
            }
            60..75 => {
                let site = self.dice.pick(&self.sites);
                let before = site.store.inner.all();
                let said = self.people.act_on_spoke(&site.store.inner);
                site.forget_what_nobody_saw_go(before);
                self.deletions += usize::from(said.contains("deleted"));
                self.trace.say(format_args!("{}: {said}", site.name));
            }
            75..82 => self.change_weather(),
            82..86 => self.change_manners(),
            86..90 => self.end_an_agent().await,
            90..93 => self.end_the_principal().await,
            93..95 => self.change_fleet(),
            95..97 => {
                let site = self.dice.pick(&self.sites);
                self.trace
                    .say(format_args!("{}: connections break", site.name));
                self.network.break_lines(&site.name);
            }
            97 => {
                let apps = self.hub.inner.all(Watched::Application);
                self.backup = Some(apps.into_values().collect());
                self.trace.say("hub: backup");
            }
            _ => self.restore().await,
        }
        let pause = *self
            .dice
            .pick(&[(0, 20), (0, 300), (0, 300), (0, 3000), (0, 40_000)]);
        let pause = self.dice.millis(pause);
        tokio::time::sleep(pause).await;
    }

    fn change_weather(&mut self) {
        let (cut, often) = (self.dice.chance(0.4), [0.0, 0.0, 0.1, 0.3]);
        let weather = Weather {
            cut,
            loss: *self.dice.pick(&often),
            twice: *self.dice.pick(&often),
            delay: *self.dice.pick(&[(0, 20), (0, 20), (100, 300), (0, 2000)]),
        };
        let site = self.dice.pick(&self.sites);
        self.trace.say(format_args!("{}: {weather:?}", site.name));
        self.network.set_weather(&site.name, weather);
    }

    fn change_manners(&mut self) {
        let manners = if self.dice.chance(0.5) {
            Manners::BAD
        } else {
            Manners::GOOD
        };
        let which = self.dice.below(self.sites.len() + 1);
        self.trace
            .say(format_args!("API server {which}: {manners:?}"));
        match self.sites.get(which) {
            Some(site) => site.store.behave(manners),
            None => self.hub.behave(manners),
        }
    }

    async fn end_an_agent(&mut self) {
        let (which, crash, stay) = (
            self.dice.below(self.sites.len()),
            self.dice.chance(0.7),
            self.dice.chance(0.3),
        );
        let site = &mut self.sites[which];
        match site.agent.take() {
            Some(agent) if crash => {
                self.trace.say(format_args!("{}: agent crashes", site.name));
                agent.crash(&self.network).await;
            }
            Some(agent) => {
                self.trace.say(format_args!("{}: agent stops", site.name));
                agent.stop().await;
            }
            None => {}
        }
        if !stay {
            let level = self.releases.agent(&self.dice);
            site.start(level, &self.network, &self.trace);
        }
    }

    fn start_agents(&mut self) {
        for site in &mut self.sites {
            let level = self.releases.agent(&self.dice);
            site.start(level, &self.network, &self.trace);
        }
    }

    async fn end_the_principal(&mut self) {
        let (crash, stay) = (self.dice.chance(0.7), self.dice.chance(0.3));
        match self.principal.take() {
            Some(principal) if crash => {
                self.trace.say("principal crashes");
                principal.crash(&self.network).await;
            }
            Some(principal) => {
                self.trace.say("principal stops");
                principal.stop(&self.network).await;
            }
            None => {}
        }
        if !stay {
            self.start_principal();
        }
    }

    fn start_principal(&mut self) {
        if self.principal.is_none() {
            let level = self.releases.principal(&self.dice);
            self.trace.say(format_args!("principal starts: {level:?}"));
            let fleet = self.fleet.subscribe();
            let principal = Principal::start(level, &self.hub, fleet, &self.network);
            self.principal = Some(principal);
        }
    }

    fn change_fleet(&mut self) {
        let names = self.names();
        let gone: Vec<String> = names
            .iter()
            .filter(|_| self.dice.chance(0.3))
            .cloned()
            .collect();
        let fresh = self.dice.chance(0.3);
        self.trace
            .say(format_args!("out of the fleet: {gone:?}, fresh: {fresh}"));
        self.fleet.send_replace(fleet(&names, &gone, fresh));
    }

    /// Everything on the hub is as it was, as other objects; the principal is down meanwhile.
    async fn restore(&mut self) {
        let Some(backup) = self.backup.clone() else {
            return;
        };
        self.trace.say("hub: restored from the backup");
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
        self.start_principal();
    }

    /// Everything works again; then both sides have to agree, and go on agreeing.
    async fn end(&mut self) -> Vec<String> {
        self.trace.say("everything works again");
        let names = self.names();
        self.hub.behave(Manners::GOOD);
        self.start_principal();
        // A cluster that has left comes back to a second session, in which the hub's word counts in full.
        self.fleet.send_replace(fleet(&names, &[], false));
        for site in &mut self.sites {
            site.store.behave(Manners::GOOD);
            self.network.set_weather(&site.name, Weather::FINE);
        }
        self.start_agents();
        let mut findings = self.settle("after the faults").await;
        for name in &names {
            self.network.break_lines(name);
        }
        findings.extend(self.settle("after a new connection").await);
        findings.extend(self.oracle_says());
        findings.extend(self.once());
        if findings.is_empty() {
            findings.extend(self.rest().await);
        }
        if findings.is_empty() {
            findings.extend(self.obeys().await);
        }
        findings
    }

    /// Waits until nothing changes any more.
    async fn settle(&self, when: &str) -> Vec<String> {
        let begun = Instant::now();
        let mut before = self.signature();
        while begun.elapsed() < PATIENCE {
            tokio::time::sleep(QUIET).await;
            let now = self.signature();
            if now == before {
                self.trace.say(format_args!("quiet {when}"));
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

    fn spokes(&self) -> BTreeMap<String, spoke::Memory> {
        let sites = self.sites.iter();
        sites
            .map(|site| (site.name.clone(), site.store.inner.clone()))
            .collect()
    }

    fn oracle_says(&self) -> Vec<String> {
        let spokes = self.spokes();
        Oracle::new(&self.hub.inner, &spokes).findings()
    }

    /// Nothing was done twice, or without need.
    fn once(&self) -> Vec<String> {
        let mut findings = vec![];
        let mut cascades = 0;
        for site in &self.sites {
            for (sync, times) in site.deeds.syncs() {
                if times > 1 && sync != "-" {
                    findings.push(format!("{}: {sync} ran {times} times", site.name));
                }
            }
            let idle = site.store.inner.writes().idle;
            if idle > site.store.failures() {
                findings.push(format!("{}: {idle} writes changed nothing", site.name));
            }
            cascades += site.deeds.cascades();
        }
        if cascades > self.deletions {
            findings.push(format!(
                "workloads were deleted {cascades} times, and only {} deletions asked for",
                self.deletions
            ));
        }
        let idle = self.hub.inner.all_writes().idle;
        if idle > self.hub.failures() {
            findings.push(format!("hub: {idle} writes changed nothing"));
        }
        findings
    }

    /// Whoever is restarted when both sides agree has nothing to write.
    async fn rest(&mut self) -> Vec<String> {
        let mut findings = vec![];
        let before = self.signature();
        if let Some(principal) = self.principal.take() {
            principal.crash(&self.network).await;
        }
        self.start_principal();
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
        self.start_agents();
        findings.extend(self.settle("with new agents").await);
        if self.signature() != before {
            findings.push("a restart of the agents made writes".to_owned());
        }
        let principal = self.principal.as_ref();
        let reports = principal.map(|principal| principal.handle.sessions.borrow().clone());
        for site in &self.sites {
            let report = reports.as_ref().and_then(|all| all.get(&site.name));
            if !report.is_some_and(|report| report.connected && report.held.is_none()) {
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
            if up != Some(agent::link::LinkState::Up) {
                findings.push(format!("{}: the link is {up:?}", site.name));
            }
        }
        findings
    }

    /// What is asked for now is done, once.
    async fn obeys(&mut self) -> Vec<String> {
        let spokes = self.spokes();
        let delivered = Oracle::new(&self.hub.inner, &spokes).delivered();
        let mut asked = vec![];
        for (key, object) in &delivered {
            let said = self.people.sync(key, object);
            asked.push(said.split(' ').nth(1).unwrap_or_default().to_owned());
            self.trace.say(format_args!("hub: {said}"));
            self.people.refresh(key);
        }
        let mut findings = self.settle("after the last commands").await;
        findings.extend(self.oracle_says());
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

    /// Ends everything.
    async fn close(mut self) {
        for site in &mut self.sites {
            if let Some(agent) = site.agent.take() {
                agent.stop().await;
            }
        }
        if let Some(principal) = self.principal.take() {
            principal.stop(&self.network).await;
        }
        self.stop.cancel();
        let stopped = self.nature.run_until_stopped(Duration::from_secs(10)).await;
        stopped.expect("nature goes on");
    }
}

impl Site {
    fn start(&mut self, level: Capabilities, network: &Network, trace: &Trace) {
        if self.agent.is_none() {
            trace.say(format_args!("{}: agent starts: {level:?}", self.name));
            self.started = Instant::now();
            self.agent = Some(Agent::start(
                level,
                &self.name,
                Mode::Managed,
                &self.certificate,
                &self.store,
                network,
            ));
        }
    }

    /// What was deleted just now while no agent looked has taken the record of its last sync along.
    fn forget_what_nobody_saw_go(&self, before: Vec<(ObjectKey, Value)>) {
        if self.agent.is_some() && self.started.elapsed() > FIRST_LOOK {
            return;
        }
        for (key, app) in before {
            if self.store.inner.get(&key).is_none() {
                self.deeds.forget(&app);
            }
        }
    }
}
