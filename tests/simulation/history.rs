//! One history: a hub and some spokes, people, faults, and then quiet.

use std::sync::Arc;
use std::time::Duration;

use agent::sync::api;
use principal::store::{Memory as Hub, Watched};
use principal::{Certificates, Enrolment, Fleet, JwtKey, Mode};
use protocol::version::Capabilities;
use runtime::parts::Parts;
use rustls_pki_types::CertificateDer;
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::controller::{Controller, Deeds};
use crate::dice::{Dice, Trace};
use crate::fault::{Fault, is_harsh};
use crate::intents::Intents;
use crate::network::Network;
use crate::people::{People, project};
use crate::process::{self, COMPARE_EVERY, Principal};
use crate::slow::Slow;

mod faults;
mod past;
mod planted;
mod refused;
mod site;
mod verdict;

use past::HubPast;
use site::Site;

/// The intervals of comparisons in one session. With the second one nothing repairs an update that a session lost.
const COMPARISONS: [Duration; 2] = [COMPARE_EVERY, Duration::from_hours(24)];

/// Something that the product must not do.
pub(crate) struct Failure {
    pub(crate) findings: Vec<String>,
    pub(crate) trace: Vec<String>,
}

/// The result of a history.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) trace: Vec<String>,
    pub(crate) hub_writes: usize,
    pub(crate) spoke_writes: usize,
}

/// Everything.
struct World {
    dice: Dice,
    fault: Fault,
    releases: Releases,
    trace: Trace,
    network: Network,
    hub: Slow<Hub>,
    compare_every: Duration,
    fleet: watch::Sender<Arc<Fleet>>,
    /// The key that signs tokens.
    jwt_key: watch::Sender<Arc<JwtKey>>,
    /// A cluster may have left, so that only its next session makes it equal to the hub.
    fleet_changed: bool,
    /// An API server may have refused a write for good, so that only the next comparison repeats it.
    refused: bool,
    /// The capabilities of the principal.
    level: Capabilities,
    /// It has the faults and actions that only harsh histories have.
    is_harsh: bool,
    principal: Option<Principal>,
    sites: Vec<Site>,
    people: People,
    nature: Parts,
    stop: CancellationToken,
    backup: Option<(Vec<Value>, Intents)>,
    past: Option<HubPast>,
}

/// Runs one history and returns the findings at its end.
pub(crate) async fn live(
    seed: u64,
    certificates: &[CertificateDer<'static>],
    fault: Fault,
    releases: Releases,
) -> Result<Outcome, Failure> {
    runtime::random::seed(seed);
    let dice = Dice::new(seed);
    let steps = 10 + dice.below(50);
    let mut world = World::new(dice, certificates, fault, releases);
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
        since: None,
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

/// Starts a task that never ends.
#[expect(
    clippy::disallowed_methods,
    reason = "a planted fault: nothing supervises it"
)]
fn leave_task() {
    tokio::spawn(std::future::pending::<()>());
}

/// A cluster without an agent.
fn site(dice: &Dice, name: &str, certificate: &CertificateDer<'static>) -> Site {
    Site {
        agent: None,
        other: None,
        was_doubled: false,
        started: Instant::now(),
        level: Capabilities::default(),
        past: None,
        name: name.to_owned(),
        certificate: certificate.clone(),
        store: Slow::new(api::Memory::new(), dice),
        deeds: Deeds::default(),
    }
}

impl World {
    fn new(
        dice: Dice,
        certificates: &[CertificateDer<'static>],
        fault: Fault,
        releases: Releases,
    ) -> Self {
        let trace = Trace::new();
        let number = 1 + dice.below(certificates.len());
        let names: Vec<String> = (1..=number).map(|it| format!("spoke{it}")).collect();
        let network = Network::new(&dice, &trace, &names, fault);
        let mut hub = Slow::new(Hub::new(), &dice);
        if fault == Fault::LossyWatch {
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
            let site = site(&dice, name, certificate);
            let controller = Controller {
                cluster: name.clone(),
                spoke: site.store.inner.clone(),
                deeds: site.deeds.clone(),
                dice: dice.clone(),
                trace: trace.clone(),
            };
            nature.spawn("argocd", controller.run(stop.clone()));
            sites.push(site);
        }
        let fleet = watch::Sender::new(fleet(&names, &[], false));
        let mut world = Self {
            people: People::new(&dice, &hub.inner, &names),
            principal: None,
            compare_every: *dice.pick(&COMPARISONS),
            dice,
            fault,
            releases,
            trace,
            network,
            hub,
            fleet,
            jwt_key: process::jwt_key(),
            fleet_changed: false,
            refused: false,
            is_harsh: is_harsh(fault),
            level: Capabilities::default(),
            sites,
            nature,
            stop,
            backup: None,
            past: None,
        };
        world.note_hub();
        world.start_principal();
        world.start_agents();
        world
    }

    /// The network has to know where each object belongs before it carries it.
    fn note_hub(&self) {
        self.network
            .witness()
            .note(&self.hub.inner, &self.people.clusters);
    }

    fn names(&self) -> Vec<String> {
        self.sites.iter().map(|site| site.name.clone()).collect()
    }

    /// Ends everything.
    async fn close(mut self) {
        if self.fault == Fault::LeftTask {
            leave_task();
        }
        for site in &mut self.sites {
            for agent in site.agent.take().into_iter().chain(site.other.take()) {
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
