//! Two replicas of the hub program without the principal, over an API server in memory, through random histories.
//!
//! People opt clusters in and out, change configurations, revoke and restore; agents ask for certificates, honest and forged.
//! Processes are killed at any write, stall beyond their lease, and are restarted; requests are refused and lost, and watches
//! break. At the end the hub must have the objects that people want and no others, and be at rest.

use std::sync::Arc;
use std::sync::OnceLock;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::dice::{Dice, Trace};

mod api;
mod fault;
mod ledger;
mod line;
mod ocm;
mod oracle;
mod people;
mod planted;
mod plants;
mod replica;

pub(crate) use fault::{Fault, Last};

use api::{Api, Key, Write};
use ledger::{Ledger, OWN, holder, pod_of};
use line::{Interference, Kill, Line};
use ocm::{ADDON, OFFERS, Ocm};
use people::{CLUSTERS, CONFIGS, Intent, People};
use replica::Handle;

const NAMES: [&str; 3] = ["paris", "lima", "oslo"];
const PODS: [&str; 2] = ["pod-a", "pod-b"];
/// The hub is at rest when nothing changed for so long.
const REST: Duration = Duration::from_secs(20);
/// How long the hub may need to come to rest.
const LIMIT: Duration = Duration::from_mins(4);
/// The rest that the end of a history looks at: longer than each pause before a retry.
const LONG_REST: Duration = Duration::from_mins(3);

/// The key for tokens: slow to make, and the same in all histories.
fn token_key() -> &'static str {
    static KEY: OnceLock<String> = OnceLock::new();
    KEY.get_or_init(|| addon_manager::issuer::make::token_key().expect("a key"))
}

/// A hub with everything that people want of it.
struct World {
    api: Api,
    dice: Dice,
    trace: Trace,
    ledger: Ledger,
    interference: Interference,
    people: People,
    replicas: Vec<Handle>,
    stop: CancellationToken,
    tasks: JoinSet<()>,
}

/// Runs one history, and returns its findings and its trace.
pub(crate) async fn live(seed: u64, fault: Fault) -> (Vec<String>, Vec<String>) {
    runtime::random::seed(seed);
    let dice = Dice::new(seed);
    let mut world = World::new(&dice, fault);
    world.start(fault);
    for _ in 0..15 + dice.below(30) {
        world.step().await;
    }
    world.provoke(fault).await;
    let mut findings = world.end().await;
    world.stop.cancel();
    while world.tasks.join_next().await.is_some() {}
    findings.extend(world.ledger.findings());
    (findings, world.trace.lines())
}

/// Deletes the serving certificate again and again.
async fn disturb(api: Api, pause: Duration) {
    let name = "argocd-agent-principal-tls".to_owned();
    let key: Key = ("secrets".to_owned(), OWN.to_owned(), name);
    loop {
        sleep(pause).await;
        drop(api.write(&key, "", "nature", Write::Delete(None, None)));
    }
}

impl World {
    fn new(dice: &Dice, fault: Fault) -> Self {
        let (api, trace, ledger) = (Api::new(), Trace::new(), Ledger::default());
        let number = 1 + dice.below(NAMES.len());
        let intent = |name: &&str| Intent {
            name: (*name).to_owned(),
            ..Intent::default()
        };
        let intents: Vec<Intent> = NAMES.iter().take(number.max(2)).map(intent).collect();
        let world = Self {
            people: People {
                api: api.clone(),
                dice: dice.clone(),
                trace: trace.clone(),
                ledger: ledger.clone(),
                fault,
                intents,
                number: 0,
            },
            replicas: PODS.into_iter().map(Handle::new).collect(),
            interference: Interference::new(*dice.pick(&[0.0, 0.02, 0.1, 0.25])),
            stop: CancellationToken::new(),
            tasks: JoinSet::new(),
            api,
            dice: dice.clone(),
            trace,
            ledger,
        };
        world.furnish();
        world
    }

    fn put(&self, kind: &str, namespace: &str, name: &str, object: &Value) {
        let key: Key = (kind.to_owned(), namespace.to_owned(), name.to_owned());
        let made = self
            .api
            .write(&key, "", "setup", Write::Create(object.clone()));
        made.expect("a new object");
        if object.get("status").is_some() {
            let status = Write::Merge(json!({ "status": object["status"] }));
            let written = self.api.write(&key, "status", "setup", status);
            written.expect("a status");
        }
    }

    /// Makes the objects of the chart and of OCM before the first replica starts.
    fn furnish(&self) {
        let core = |kind: &str| json!({ "apiVersion": "v1", "kind": kind, "metadata": {} });
        for name in ["kube-system", "argocd", OWN] {
            self.put("namespaces", "", name, &core("Namespace"));
        }
        for pod in PODS {
            self.put("pods", OWN, pod, &core("Pod"));
        }
        let mut key = core("Secret");
        key["data"] = json!({ "jwt.key": STANDARD.encode(token_key()) });
        self.put("secrets", OWN, "argocd-agent-jwt", &key);
        let group = "addon.open-cluster-management.io";
        self.put(CONFIGS, OWN, ADDON, &json!({
            "apiVersion": format!("{group}/v1alpha1"), "kind": "AddOnDeploymentConfig", "metadata": {},
            "spec": { "nodePlacement": { "nodeSelector": { "pool": "pool-0" } } },
        }));
        self.put(OFFERS, "", ADDON, &json!({
            "apiVersion": format!("{group}/v1beta1"), "kind": "ClusterManagementAddOn", "metadata": {},
            "spec": {
                "installStrategy": { "type": "Manual" },
                "defaultConfigs": [{
                    "group": group, "resource": "addondeploymentconfigs", "namespace": OWN, "name": ADDON,
                }],
            },
        }));
        for intent in &self.people.intents {
            let condition = |kind: &str| {
                json!({
                    "type": kind, "status": "True", "reason": "R", "message": "",
                    "lastTransitionTime": "2026-01-01T00:00:00Z",
                })
            };
            let conditions = [
                "HubAcceptedManagedCluster",
                "ManagedClusterJoined",
                "ManagedClusterConditionAvailable",
            ];
            self.put(CLUSTERS, "", &intent.name, &json!({
                "apiVersion": "cluster.open-cluster-management.io/v1", "kind": "ManagedCluster",
                "metadata": {}, "spec": { "hubAcceptsClient": true },
                "status": {
                    "conditions": conditions.map(condition),
                    "clusterClaims": [{ "name": "id.k8s.io", "value": format!("id-{}", intent.name) }],
                },
            }));
        }
    }

    fn start(&mut self, fault: Fault) {
        let ocm = Ocm {
            api: self.api.clone(),
            dice: self.dice.clone(),
        };
        self.tasks.spawn(ocm.run(self.stop.clone()));
        if fault == Fault::Restless || fault == Fault::Endless {
            let after_rest = (REST + Ocm::SLOW) * 2;
            let is_endless = fault == Fault::Endless;
            let pause = if is_endless { REST / 4 } else { after_rest };
            let (api, stop) = (self.api.clone(), self.stop.clone());
            self.tasks.spawn(async move {
                stop.run_until_cancelled(disturb(api, pause)).await;
            });
        }
        let travels = TaskTracker::new();
        for replica in &self.replicas {
            let (api, dice, trace) = (self.api.clone(), self.dice.clone(), self.trace.clone());
            let (ledger, interference) = (self.ledger.clone(), self.interference.clone());
            let travels = travels.clone();
            let line = move |identity: String, stall| Line {
                identity,
                api: api.clone(),
                dice: dice.clone(),
                trace: trace.clone(),
                ledger: ledger.clone(),
                interference: interference.clone(),
                fault,
                stall,
                kill: Arc::default(),
                killed: tokio::sync::watch::Sender::new(false),
                travels: travels.clone(),
            };
            let running = replica.clone().run(line, self.stop.clone());
            self.tasks.spawn(running);
        }
    }

    /// One act of people or of nature, and a pause.
    async fn step(&mut self) {
        let often = self.dice.probability(0.4);
        let act = if often && self.people.fault == Fault::NoFence {
            7
        } else if often && self.people.fault == Fault::BlindRestore {
            9
        } else {
            self.dice.below(10)
        };
        match act {
            0..=5 => self.people.act(),
            6 => self.kill(),
            7 => self.stall().await,
            8 => {
                let replica = self.dice.pick(&self.replicas);
                self.trace.emit(format!("{} is to restart", replica.pod));
                replica.restart();
            }
            // The manager may be about to restore annotations that another client removed.
            _ => {
                if let Some(at) = self.people.wipe_revoked() {
                    sleep(self.dice.millis((20, 250))).await;
                    self.people.restore(at);
                } else {
                    self.people.revoke_any();
                }
            }
        }
        let pauses = [(0, 50), (0, 3_000), (0, 3_000), (5_000, 30_000)];
        sleep(self.dice.millis(*self.dice.pick(&pauses))).await;
    }

    /// Makes sure that a history meets its broken promise.
    async fn provoke(&mut self, fault: Fault) {
        if fault == Fault::None {
            return;
        }
        self.interference.set(0.0);
        sleep(Duration::from_mins(1)).await;
        if matches!(fault, Fault::LeftWork | Fault::LeftSecret) {
            self.people.leave_any();
        }
        if fault == Fault::WrongUser {
            self.people.forge_all();
        }
    }

    fn kill(&self) {
        let kill = Kill {
            after: self.dice.below(6),
            carried_out: self.dice.probability(0.5),
        };
        let replica = self.dice.pick(&self.replicas);
        self.trace.emit(format!("{}: {kill:?}", replica.pod));
        replica.kill(Some(kill));
    }

    /// The replica that holds the lease.
    fn leader(&self) -> Option<&Handle> {
        let holder = holder(&self.api)?;
        self.replicas.iter().find(|it| it.pod == pod_of(&holder))
    }

    /// A replica stalls, mostly the leader. Often people are busy just before it continues.
    async fn stall(&mut self) {
        let leader = self.leader().filter(|_| self.dice.probability(0.8));
        let replica = leader.unwrap_or_else(|| self.dice.pick(&self.replicas));
        let time = self.dice.millis((500, 25_000));
        self.trace
            .emit(format!("{} stalls for {time:?}", replica.pod));
        replica.stall(time);
        if self.dice.probability(0.7) {
            sleep(time.saturating_sub(self.dice.millis((0, 300)))).await;
            for _ in 0..=self.dice.below(5) {
                self.people.act();
                sleep(self.dice.millis((0, 100))).await;
            }
        }
    }

    /// Waits until nothing has changed for this time. False if that never happens.
    async fn rests(&self, rest: Duration) -> bool {
        let (begun, mut quiet) = (Instant::now(), Instant::now());
        let mut writes = self.ledger.writes();
        while quiet.elapsed() < rest {
            sleep(Duration::from_millis(500)).await;
            let now = self.ledger.writes();
            if now != writes {
                (writes, quiet) = (now, Instant::now());
            }
            if begun.elapsed() > LIMIT {
                return false;
            }
        }
        true
    }

    /// Ends all trouble, and returns the findings.
    async fn end(&mut self) -> Vec<String> {
        self.interference.set(0.0);
        for replica in &self.replicas {
            replica.kill(None);
        }
        self.trace.emit("no more trouble");
        // The last stall ends, and a killed process starts.
        sleep(Duration::from_secs(40)).await;
        if !self.rests(REST + Ocm::SLOW).await {
            return vec!["the writes never end".to_owned()];
        }
        let asked = self.ask_all().await;
        if let Fault::Last(last) = self.people.fault {
            self.plant(last, &asked);
        }
        let mut findings = self.judge(&asked);
        let before = self.ledger.writes();
        if matches!(self.people.fault, Fault::None | Fault::Restless) {
            sleep(LONG_REST).await;
        }
        let (effective, no_ops) = self.ledger.writes();
        if (effective, no_ops) != before {
            findings.push(format!(
                "at rest the replicas wrote {} times, and {} times without a change",
                effective - before.0,
                no_ops - before.1
            ));
        }
        findings
    }

    /// Each cluster asks for one more certificate.
    async fn ask_all(&mut self) -> Vec<(Intent, String)> {
        let mut asked = vec![];
        for intent in self.people.intents.clone() {
            let request = self.people.ask(&intent.name, None);
            asked.push((intent, request));
        }
        sleep(REST).await;
        asked
    }
}
