//! The attacked principal, its honest clusters, and a hostile cluster for each attack.

use std::{sync::Arc, time::Duration};

use anyhow::{Context as _, Result};
use protocol::Mode;
use serde_json::json;
use tokio::time::{Instant, timeout};

use super::{
    attacker::{Attacker, Named, neighbour, own_names},
    attacks::Attack,
};
use crate::{
    Lab,
    audit::Log,
    bench::{
        applications,
        simulated::{Principal, Received, Simulated},
    },
    certs::Pair,
    peers::{Make, Mapping, PRINCIPAL_HEALTH, Setting, healthy, prepare_on, principal},
    process::Process,
    raw_client::{Credentials, RawClient},
    steps::{At, Objects},
    wait,
};

/// The prefix of the names of honest clusters.
pub(super) const HONEST: &str = "honest";
/// The prefix of the names of hostile clusters.
pub(super) const HOSTILE: &str = "hostile";
/// The Application of each honest cluster.
pub(super) const PROBE: &str = "probe";
/// The time limit for a session of an honest agent.
const CONNECT: Duration = Duration::from_mins(1);
/// The time limit for another session of one that lost its own.
const RECONNECT: Duration = Duration::from_mins(3);

/// A principal under attack. Its clusters exist on the hub only; their agents are simulated.
pub struct Target {
    pub(super) hub: Objects,
    pub(super) audit: Log,
    /// Argo CD's namespace on the hub.
    pub(super) argocd: String,
    pub(super) process: Process,
    pub(super) honest: Vec<Simulated>,
    /// The certificates of the honest clusters, in the order of their agents.
    pairs: Vec<Pair>,
    client: RawClient,
    version: String,
    victim: Named,
    victims_credentials: Credentials,
    /// The certificates of the hostile clusters, in the order of the attacks.
    hostile: Vec<(Mode, Credentials)>,
}

impl std::fmt::Debug for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Target").finish_non_exhaustive()
    }
}

impl Target {
    /// Starts a principal with this many honest clusters, and a cluster for each of these attacks.
    pub async fn start(lab: &Lab, honest: usize, attacks: &[&Attack]) -> Result<Self> {
        let setting = prepare_on(lab, [lab.hub(); 2], "target", Mapping::Namespace).await?;
        let setting = Setting {
            admitted: vec![format!("{HONEST}-*"), format!("{HOSTILE}-*")],
            log_level: "info",
            ..setting
        };
        let hub = Objects::new(lab.hub().client());
        applications::allow(&hub, &setting.names.hub).await?;
        let mut pairs = Vec::new();
        for name in applications::names(HONEST, honest) {
            hub.apply(&At::namespace(&name), json!({})).await?;
            pairs.push(setting.enrol(&name).await?);
            applications::make(&hub, &name, &[PROBE.to_owned()]).await?;
        }
        let hostile = enrol_hostile(&hub, &setting, attacks).await?;
        let process = principal(Make::Ours, &setting)?.start()?;
        healthy(PRINCIPAL_HEALTH, wait::BOUND)
            .await
            .with_context(|| process.log_tail())?;
        let client = RawClient {
            address: format!("{}:{}", setting.way.host, setting.way.port),
            authority: setting.credentials.authority().to_owned(),
        };
        let victims_credentials = credentials(pairs.first().context("an honest cluster")?);
        let find_version = || async { client.version(&victims_credentials).await };
        let version = wait::until("the principal serves", find_version, |_| true).await?;
        // A healthy principal may not be ready for its first agent yet.
        let authenticate = || async {
            let answer = client
                .authenticate(Some(&victims_credentials), "managed", &version)
                .await?;
            answer.map(drop).context("authenticate")
        };
        wait::until("a first agent authenticates", authenticate, |()| true).await?;
        // Not the first one: the judge changes its Application all the time.
        let name = format!("{HONEST}-{}", honest.saturating_sub(1).min(1));
        let victim = hub.read(&At::application(&name, PROBE)).await?;
        let uid = victim["metadata"]["uid"].as_str().context("a UID")?;
        let mut target = Self {
            victim: Named {
                namespace: name,
                name: PROBE.to_owned(),
                uid: uid.to_owned(),
            },
            hub,
            audit: lab.hub().audit(),
            argocd: setting.names.hub.clone(),
            process,
            honest: Vec::new(),
            pairs,
            client,
            version,
            victims_credentials,
            hostile,
        };
        target.connect_honest().await?;
        Ok(target)
    }

    async fn connect_honest(&mut self) -> Result<()> {
        let names = applications::names(HONEST, self.pairs.len());
        for (name, pair) in names.into_iter().zip(self.pairs.clone()) {
            let agent = self.connect(name, pair).await?;
            self.honest.push(agent);
        }
        Ok(())
    }

    /// Connects an honest agent, and returns when it has its Application.
    async fn connect(&self, name: String, pair: Pair) -> Result<Simulated> {
        let endpoint = Arc::new(Principal {
            address: self.client.address.clone(),
            authority: self.client.authority.clone(),
        });
        let connect = Simulated::connect(endpoint, name, pair);
        let agent = timeout(CONNECT, connect).await.context("no session")??;
        let has_probe = |received: &Received| !received.is_empty();
        let received = agent.until(CONNECT, has_probe).await;
        received.with_context(|| format!("{} gets its Application", agent.name))?;
        Ok(agent)
    }

    /// The number of honest agents that have lost their session.
    pub(super) fn lost(&self) -> usize {
        let lost = self.honest.iter().filter(|agent| !agent.is_alive());
        lost.count()
    }

    /// Restarts the principal if it has ended, connects honest agents that lost their session, and returns when a change of
    /// an honest cluster arrives: a later attack does not inherit the damage of an earlier one.
    pub(super) async fn repair(&mut self) -> Result<()> {
        self.process.restart()?;
        healthy(PRINCIPAL_HEALTH, wait::BOUND)
            .await
            .with_context(|| self.process.log_tail())?;
        for number in 0..self.honest.len() {
            let (Some(agent), Some(pair)) = (self.honest.get(number), self.pairs.get(number))
            else {
                continue;
            };
            if agent.is_alive() {
                continue;
            }
            let (name, pair) = (agent.name.clone(), pair.clone());
            // A principal that has just started, or that was short of memory, may refuse it for a while.
            let connect = || self.connect(name.clone(), pair.clone());
            let what = "an honest agent connects again";
            let connected = wait::until_within(RECONNECT, what, connect, |_| true).await?;
            if let Some(agent) = self.honest.get_mut(number) {
                *agent = connected;
            }
        }
        let arrived = self.change("repaired", CONNECT).await?;
        arrived.context("no change of an honest cluster arrives after an attack")?;
        // The next repair has to make a change, too.
        self.change("before-an-attack", CONNECT).await.map(drop)
    }

    /// The hostile agent for an attack, by its place among those of [`Self::start`].
    pub(super) fn attacker(&self, number: usize) -> Result<Attacker> {
        let (mode, credentials) = self.hostile.get(number).context("a hostile cluster")?;
        Ok(Attacker {
            name: format!("{HOSTILE}-{number}"),
            mode: *mode,
            client: self.client.clone(),
            credentials: credentials.clone(),
            version: self.version.clone(),
            hub: self.hub.clone(),
            argocd: self.argocd.clone(),
            victim: self.victim.clone(),
            victims_credentials: self.victims_credentials.clone(),
        })
    }

    /// Changes the Application of the first honest cluster; returns how long the change took to reach its agent, or none if
    /// that took longer than the bound.
    pub(super) async fn change(&self, revision: &str, bound: Duration) -> Result<Option<Duration>> {
        let agent = self.honest.first().context("an honest cluster")?;
        let at = At::application(&agent.name, PROBE);
        let begin = Instant::now();
        self.hub.merge(&at, applications::wanted(revision)).await?;
        let arrived = agent.until(bound, |received| {
            received.get(PROBE).is_some_and(|it| it == revision)
        });
        Ok(arrived.await.map(|at| at - begin))
    }

    /// The first honest cluster reports a revision, and the hub shows it within the bound.
    pub(super) async fn report(&self, revision: &str, bound: Duration) -> Result<()> {
        let agent = self.honest.first().context("an honest cluster")?;
        agent.report(revision).await?;
        let at = At::application(&agent.name, PROBE);
        let shown = |app: &serde_json::Value| app["status"]["sync"]["revision"] == revision;
        let what = "shows the report of an honest cluster";
        self.hub.until(&at, what, bound, shown).await.map(drop)
    }

    /// Ends everything.
    pub async fn stop(mut self) {
        drop(self.honest);
        self.process.stop().await;
    }
}

/// Enrols a cluster for each attack, with an Application of its own if it is managed.
async fn enrol_hostile(
    hub: &Objects,
    setting: &Setting,
    attacks: &[&Attack],
) -> Result<Vec<(Mode, Credentials)>> {
    let mut hostile = Vec::new();
    for (name, attack) in applications::names(HOSTILE, attacks.len())
        .into_iter()
        .zip(attacks)
    {
        hub.apply(&At::namespace(&name), json!({})).await?;
        let pair = match attack.mode {
            Mode::Managed => {
                applications::make(hub, &name, &own_names(attack.applications)).await?;
                setting.enrol(&name).await?
            }
            Mode::Autonomous => {
                // A cluster whose name begins with the attacker's.
                let neighbour = neighbour(&name);
                hub.apply(&At::namespace(&neighbour), json!({})).await?;
                setting.enrol_as(&neighbour, Mapping::Autonomous).await?;
                setting.enrol_as(&name, Mapping::Autonomous).await?
            }
        };
        hostile.push((attack.mode, credentials(&pair)));
    }
    Ok(hostile)
}

fn credentials(pair: &Pair) -> Credentials {
    Credentials {
        certificate: pair.cert.clone(),
        key: pair.key.clone(),
    }
}
