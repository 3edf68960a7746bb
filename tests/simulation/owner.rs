//! Histories of an autonomous cluster: in the end the hub mirrors the objects of the cluster.

use std::sync::Arc;

use agent::sync::api;
use argocd::keys;
use principal::store::{Memory as Hub, Watched};
use principal::{Enrolment, Fleet};
use protocol::{Kind, Mode, ObjectKey};
use runtime::parts::Parts;
use rustls_pki_types::CertificateDer;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::controller::{Controller, Deeds};
use crate::dice::{Dice, Trace};
use crate::fault::Fault;
use crate::history::Releases;
use crate::ledger::Ledger;
use crate::network::{Conditions, Network};
use crate::process::{ARGOCD, Agent, Inputs, Principal};
use crate::refusals::Refusal;
use crate::slow::{Manners, Slow};

mod verdict;

const CLUSTER: &str = "spoke1";
const NAMES: [&str; 4] = ["one", "two", "three", "four"];

struct World {
    dice: Dice,
    fault: Fault,
    releases: Releases,
    trace: Trace,
    network: Network,
    hub: Slow<Hub>,
    spoke: Slow<api::Memory>,
    deeds: Deeds,
    ledger: Ledger,
    /// A write may have been refused for good, so that only the next session repeats it.
    refused: bool,
    fleet: watch::Sender<Arc<Fleet>>,
    principal: Option<Principal>,
    agent: Option<Agent>,
    certificate: CertificateDer<'static>,
    nature: Parts,
    stop: CancellationToken,
    number: u64,
}

/// Runs one history; returns the findings at its end and the trace.
pub(crate) async fn live(
    seed: u64,
    certificate: &CertificateDer<'static>,
    fault: Fault,
    releases: Releases,
) -> (Vec<String>, Trace) {
    runtime::random::seed(seed);
    let mut world = World::new(Dice::new(seed), certificate, fault, releases);
    for _ in 0..10 + world.dice.below(50) {
        world.step().await;
        let pause = world.dice.millis((0, 4000));
        tokio::time::sleep(pause).await;
    }
    let findings = world.end().await;
    let trace = world.trace.clone();
    world.close().await;
    (findings, trace)
}

impl World {
    fn new(
        dice: Dice,
        certificate: &CertificateDer<'static>,
        fault: Fault,
        releases: Releases,
    ) -> Self {
        let trace = Trace::new();
        let network = Network::new(&dice, &trace, &[CLUSTER.to_owned()], fault);
        let hub = Slow::new(Hub::new(), &dice);
        let (spoke, deeds) = (Slow::new(api::Memory::new(), &dice), Deeds::default());
        let stop = CancellationToken::new();
        let nature = Parts::new(stop.clone());
        nature.spawn("network", network.clone().keep(stop.clone()));
        let controller = Controller {
            cluster: CLUSTER.to_owned(),
            spoke: spoke.inner.clone(),
            deeds: deeds.clone(),
            dice: dice.clone(),
            trace: trace.clone(),
        };
        nature.spawn("argocd", controller.run(stop.clone()));
        let enrolment = Enrolment {
            mode: Mode::Autonomous,
            server: None,
            since: None,
            fresh: false,
            confirm_delete: None,
            shares_unscoped: Some(false),
            certificates: principal::Certificates::All,
        };
        let fleet = Fleet {
            clusters: [(CLUSTER.to_owned(), enrolment)].into(),
        };
        let mut world = Self {
            dice,
            fault,
            releases,
            trace,
            network,
            hub,
            spoke,
            deeds,
            ledger: Ledger::default(),
            refused: false,
            fleet: watch::Sender::new(Arc::new(fleet)),
            principal: None,
            agent: None,
            certificate: certificate.clone(),
            nature,
            stop,
            number: 0,
        };
        world.start();
        world
    }

    fn start(&mut self) {
        if self.principal.is_none() {
            let fleet = self.fleet.subscribe();
            let level = self.releases.principal(&self.dice);
            let (hub, network) = (&self.hub, &self.network);
            let principal = Principal::start(level, hub, fleet, network, Inputs::usual());
            self.principal = Some(principal);
        }
        if self.agent.is_none() {
            let (certificate, spoke) = (&self.certificate, &self.spoke);
            self.agent = Some(Agent::start(
                self.releases.agent(&self.dice),
                CLUSTER,
                Mode::Autonomous,
                certificate,
                spoke,
                &self.network,
            ));
        }
    }

    async fn step(&mut self) {
        self.number += 1;
        let name = *self.dice.pick(&NAMES);
        match self.dice.below(21) {
            0..=6 => self.on_the_spoke(name),
            7..=8 => {
                self.trace.emit(format_args!("spoke: {name} deleted"));
                if let Some(app) = self.spoke.inner.get(&own(name)) {
                    self.ledger.deleted_locally(CLUSTER, &app);
                }
                self.spoke.inner.delete(&own(name));
            }
            9..=11 => self.on_the_hub(name),
            12..=13 => {
                self.trace.emit(format_args!("hub: {name} deleted"));
                self.hub.inner.delete(Watched::Application, CLUSTER, name);
            }
            14 => {
                self.trace.emit("agent crashes");
                if let Some(agent) = self.agent.take() {
                    agent.crash(&self.network).await;
                }
            }
            15 => {
                self.trace.emit("principal crashes");
                if let Some(principal) = self.principal.take() {
                    principal.crash(&self.network).await;
                }
            }
            16 => self.change_conditions(),
            17 => {
                let (hub, spoke) = (self.dice.probability(0.4), self.dice.probability(0.4));
                self.trace.emit(format_args!(
                    "watches are broken: the hub's {hub}, the spoke's {spoke}"
                ));
                self.hub.inner.break_watches(hub);
                self.spoke.inner.break_watches(spoke);
            }
            18 => self.refuse_writes(),
            _ => {
                self.trace.emit("crashed programs start");
                self.start();
            }
        }
    }

    /// An API server refuses writes for a time.
    fn refuse_writes(&mut self) {
        let (refusal, of_hub) = (
            Refusal::drawn(&self.dice, &NAMES),
            self.dice.probability(0.7),
        );
        self.trace
            .emit(format_args!("refused by the hub {of_hub}: {refusal}"));
        self.refused |= refusal.answer.is_final();
        let refusals = if of_hub {
            &self.hub.refusals
        } else {
            &self.spoke.refusals
        };
        refusals.set(Some(refusal));
    }

    fn on_the_spoke(&self, name: &str) {
        let edit = json!({
            "metadata": { "labels": { "edit": self.number.to_string() } },
            "spec": { "source": { "path": format!("p{}", self.number) } },
        });
        if self.spoke.inner.get(&own(name)).is_some() {
            let number = self.number;
            self.trace
                .emit(format_args!("spoke: {name} edited as {number}"));
            return self.spoke.inner.edit(&own(name), edit);
        }
        let kind = if self.dice.probability(0.2) {
            Kind::AppProject
        } else {
            Kind::Application
        };
        let mut object = json!({
            "apiVersion": keys::API_VERSION,
            "kind": kind.as_str(),
            "metadata": { "name": name, "namespace": ARGOCD },
            "spec": { "project": "default", "destination": { "name": "in-cluster", "namespace": "x" } },
        });
        argocd::patch::merge(&mut object, &edit);
        if kind == Kind::Application && self.dice.probability(0.5) {
            object["metadata"]["finalizers"] = json!([keys::RESOURCES_FINALIZER]);
        }
        let number = self.number;
        self.trace
            .emit(format_args!("spoke: {kind} {name} made as {number}"));
        self.spoke.inner.put(kind, object);
    }

    /// An edit, a sync or a refresh, where there is a mirror.
    fn on_the_hub(&self, name: &str) {
        let Some(mirror) = self.hub.inner.application(CLUSTER, name) else {
            return;
        };
        let edit = match self.dice.below(4) {
            0 => json!({ "spec": { "source": { "path": "edited" } } }),
            1 => json!({ "metadata": { "labels": { "mine": "true" } } }),
            2 => json!({ "metadata": { "annotations": { keys::REFRESH: "normal" } } }),
            _ if mirror.get("operation").is_none_or(Value::is_null) => json!({ "operation": {
                "info": [{ "name": "by", "value": format!("sync-{}", self.number) }],
                "sync": { "revision": "HEAD" },
            } }),
            _ => return,
        };
        self.trace.emit(format_args!("hub: {name} gets {edit}"));
        self.hub
            .inner
            .edit(Watched::Application, CLUSTER, name, edit);
    }

    fn change_conditions(&self) {
        let conditions = match self.dice.below(3) {
            0 => Conditions {
                cut: true,
                ..Conditions::FINE
            },
            1 => Conditions {
                loss: 0.1,
                twice: 0.2,
                delay: (0, 800),
                ..Conditions::FINE
            },
            _ => Conditions::FINE,
        };
        self.network.set_conditions(CLUSTER, conditions);
        let is_bad = self.dice.probability(0.5);
        let manners = if is_bad { Manners::BAD } else { Manners::GOOD };
        self.trace.emit(format_args!(
            "{conditions:?}, and the API servers are bad: {is_bad}"
        ));
        self.hub.behave(manners);
        self.spoke.behave(manners);
    }

    async fn close(mut self) {
        if let Some(agent) = self.agent.take() {
            agent.crash(&self.network).await;
        }
        if let Some(principal) = self.principal.take() {
            principal.crash(&self.network).await;
        }
        self.stop.cancel();
        self.nature.crash().await;
    }
}

fn own(name: &str) -> ObjectKey {
    ObjectKey::new(Kind::Application, ARGOCD, name)
}
