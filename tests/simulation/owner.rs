//! Histories of an autonomous cluster: in the end the hub mirrors the objects of the cluster.

use std::sync::Arc;
use std::time::Duration;

use agent::sync::api;
use argocd::{Meta, mirror};
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
use crate::network::{Conditions, Network};
use crate::process::{ARGOCD, Agent, Principal};
use crate::slow::{Manners, Slow};

const CLUSTER: &str = "spoke1";
const NAMES: [&str; 4] = ["one", "two", "three", "four"];
const QUIET: Duration = Duration::from_mins(6);

struct World {
    dice: Dice,
    releases: Releases,
    trace: Trace,
    network: Network,
    hub: Slow<Hub>,
    spoke: Slow<api::Memory>,
    deeds: Deeds,
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
    releases: Releases,
) -> (Vec<String>, Trace) {
    runtime::random::seed(seed);
    let mut world = World::new(Dice::new(seed), certificate, releases);
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
    fn new(dice: Dice, certificate: &CertificateDer<'static>, releases: Releases) -> Self {
        let trace = Trace::new();
        let network = Network::new(&dice, &trace, &[CLUSTER.to_owned()], Fault::None);
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
            releases,
            trace,
            network,
            hub,
            spoke,
            deeds,
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
            self.principal = Some(Principal::start(level, &self.hub, fleet, &self.network));
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
        match self.dice.below(20) {
            0..=6 => self.on_the_spoke(name),
            7..=8 => {
                self.trace.emit(format_args!("spoke: {name} deleted"));
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
            _ => {
                self.trace.emit("crashed programs start");
                self.start();
            }
        }
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
            "apiVersion": argocd::keys::API_VERSION,
            "kind": kind.as_str(),
            "metadata": { "name": name, "namespace": ARGOCD },
            "spec": { "project": "default", "destination": { "name": "in-cluster", "namespace": "x" } },
        });
        argocd::patch::merge(&mut object, &edit);
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
            2 => json!({ "metadata": { "annotations": { argocd::keys::REFRESH: "normal" } } }),
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

    /// Everything works again; when nothing changes any more, both sides are compared.
    async fn end(&mut self) -> Vec<String> {
        self.trace.emit("everything works again");
        self.network.set_conditions(CLUSTER, Conditions::FINE);
        self.hub.behave(Manners::GOOD);
        self.spoke.behave(Manners::GOOD);
        self.hub.inner.break_watches(false);
        self.spoke.inner.break_watches(false);
        self.start();
        let signature = |world: &Self| (world.hub.inner.version(), world.spoke.inner.version());
        let mut before = signature(self);
        for _ in 0..20 {
            tokio::time::sleep(QUIET).await;
            let now = signature(self);
            if now == before {
                return self.findings();
            }
            before = now;
        }
        vec!["never quiet".to_owned()]
    }

    fn findings(&self) -> Vec<String> {
        let mut findings = vec![];
        for (key, source) in self.spoke.inner.all() {
            let (wanted, mirror) = match key.kind {
                Kind::Application => (
                    mirror::application(&source, CLUSTER),
                    self.hub.inner.application(CLUSTER, &key.name),
                ),
                Kind::AppProject => (
                    mirror::project(&source, CLUSTER, ARGOCD),
                    self.hub
                        .inner
                        .project(ARGOCD, &format!("{CLUSTER}-{}", key.name)),
                ),
                Kind::Repository | Kind::GpgKey | Kind::TlsCerts | Kind::SshKnownHosts => continue,
            };
            let wanted = wanted.expect("it can be mirrored");
            let Some(mirror) = mirror else {
                findings.push(format!("{key} is not shown"));
                continue;
            };
            let metadata = |object: &Value| object["metadata"]["labels"].clone();
            if mirror["spec"] != wanted["spec"] || metadata(&mirror) != metadata(&wanted) {
                findings.push(format!(
                    "{key} is shown as {mirror:#}, and wanted {wanted:#}"
                ));
            }
            if Meta::of(&mirror).source_uid() != Some(Meta::of(&source).uid()) {
                findings.push(format!("{key} is shown as made of another one"));
            }
            if without_conditions(&mirror) != without_conditions(&source)
                && key.kind == Kind::Application
            {
                findings.push(format!(
                    "{key} is shown with {:#}, and has {:#}",
                    mirror["status"], source["status"]
                ));
            }
            for left in [
                "/operation",
                "/metadata/annotations/argocd.argoproj.io~1refresh",
            ] {
                if mirror.pointer(left).is_some_and(|value| !value.is_null()) {
                    findings.push(format!("{key}: {left} is never done"));
                }
            }
        }
        findings.extend(self.strays());
        let twice = self
            .deeds
            .syncs()
            .into_iter()
            .filter(|(_, times)| *times > 1);
        findings.extend(twice.map(|(name, times)| format!("{name} ran {times} times")));
        findings
    }

    /// Mirrors of nothing.
    fn strays(&self) -> impl Iterator<Item = String> {
        let has = |kind, name: &str| {
            let key = ObjectKey::new(kind, ARGOCD, name);
            self.spoke.inner.get(&key).is_some()
        };
        let applications = self.hub.inner.all(Watched::Application).into_keys();
        let applications = applications.filter(move |key| !has(Kind::Application, &key.name));
        let projects = self.hub.inner.all(Watched::AppProject).into_keys();
        let projects = projects.filter(move |key| {
            let source = mirror::source_name(CLUSTER, &key.name);
            !source.is_some_and(|name| has(Kind::AppProject, name))
        });
        let mirrors = applications.chain(projects);
        mirrors.map(|key| format!("{key:?} mirrors nothing"))
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

/// The hub's own conditions leave an empty list behind when they are removed.
fn without_conditions(object: &Value) -> Value {
    let mut status = object["status"].clone();
    if let Some(fields) = status.as_object_mut() {
        fields.remove("conditions");
    }
    status
}

fn own(name: &str) -> ObjectKey {
    ObjectKey::new(Kind::Application, ARGOCD, name)
}
