//! The live replicas of a program. Each renews a Lease of its own, and reads those of the others.
//!
//! A Lease has expired when its record has not *changed* for its duration, by our own monotonic clock, as for the leader
//! ([`crate::lease`]). A replica that cannot renew its own Lease judges no other one: during an outage of the API the
//! members stay the same, and after it each of them has a whole duration to renew.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use ::kube::{
    Api, Client,
    api::{DeleteParams, ListParams, PostParams, Preconditions},
};
use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta, OwnerReference},
};
use tokio::{
    sync::watch,
    time::{Instant, MissedTickBehavior, interval, timeout},
};

use crate::{
    clock::Clock,
    error::Chain,
    lease::{SeenRecord, observe},
    parts::Spawner,
};

/// The time without a change after which a replica is no member any more.
const DURATION: Duration = Duration::from_secs(6);
/// The interval of renewals and reads.
const ROUND: Duration = Duration::from_millis(1500);

/// This replica, for the others.
#[derive(Clone, Debug)]
pub struct Replica {
    /// Namespace of the Leases.
    pub namespace: String,
    /// Name of the Lease: unique among the replicas, and the same after a restart of the container.
    pub name: String,
    /// Identity of the process: another one after each restart.
    pub identity: String,
    /// Label, with its value, of the Leases of all replicas.
    pub label: (&'static str, &'static str),
    /// The Pod, which owns the Lease: without the Pod the Lease is garbage.
    pub owner: OwnerReference,
    /// Annotations of the Lease.
    pub annotations: BTreeMap<String, String>,
}

/// The names of the live replicas, this one included; empty before the first renewal.
pub type Members = BTreeSet<String>;

/// Renews the Lease of this replica until the spawner stops, and then deletes it.
pub fn join(
    client: Client,
    replica: Replica,
    clock: Clock,
    spawner: &Spawner,
) -> watch::Receiver<Members> {
    let (sender, receiver) = watch::channel(Members::new());
    let api = Api::namespaced(client, &replica.namespace);
    let token = spawner.token().clone();
    let membership = Membership {
        api,
        replica,
        clock,
    };
    spawner.spawn("membership", async move {
        let mut roster = Roster::default();
        let mut failing = false;
        let mut rounds = interval(ROUND);
        rounds.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while token.run_until_cancelled(rounds.tick()).await.is_some() {
            let round = timeout(DURATION, membership.round());
            let Some(round) = token.run_until_cancelled(round).await else {
                break;
            };
            let failure = match round {
                Ok(Ok(leases)) => {
                    failing = false;
                    let now = roster.observe(&leases, Instant::now());
                    sender.send_if_modified(|known| replace(known, now));
                    continue;
                }
                Ok(Err(error)) => Chain(&error).to_string(),
                Err(elapsed) => elapsed.to_string(),
            };
            roster.suspend();
            if !std::mem::replace(&mut failing, true) {
                tracing::warn!(
                    error = failure,
                    "cannot renew the Lease of this replica; retrying"
                );
            }
        }
        membership.leave().await;
    });
    receiver
}

fn replace(known: &mut Members, now: Members) -> bool {
    if *known == now {
        return false;
    }
    tracing::info!(replicas = ?now, "the live replicas changed");
    *known = now;
    true
}

struct Membership {
    api: Api<Lease>,
    replica: Replica,
    clock: Clock,
}

impl Membership {
    /// Renews the own Lease and returns those of all replicas, as they were just before.
    async fn round(&self) -> Result<Vec<Lease>, ::kube::Error> {
        let (key, value) = self.replica.label;
        let selected = ListParams::default().labels(&format!("{key}={value}"));
        let mut leases = self.api.list(&selected).await?.items;
        let name = &self.replica.name;
        let own = leases
            .iter()
            .position(|it| it.metadata.name.as_ref() == Some(name));
        let own = own.map(|index| leases.swap_remove(index));
        let next = self.replica.record(own.as_ref(), self.clock.now());
        let (post, is_new) = (PostParams::default(), own.is_none());
        let written = if is_new {
            self.api.create(&post, &next).await
        } else {
            self.api.replace(name, &post, &next).await
        };
        leases.push(written?);
        Ok(leases)
    }

    /// Deletes the own Lease, so that others need not wait until it expires.
    async fn leave(&self) {
        let leaving = async {
            let Some(own) = self.api.get_opt(&self.replica.name).await? else {
                return Ok(());
            };
            // A later process of this replica may have it.
            if holder(&own) != self.replica.identity {
                return Ok(());
            }
            let only_this = Preconditions {
                uid: own.metadata.uid,
                resource_version: own.metadata.resource_version,
            };
            let params = DeleteParams::default().preconditions(only_this);
            self.api.delete(&self.replica.name, &params).await.map(drop)
        };
        match timeout(ROUND, leaving).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                tracing::info!(error = %Chain(&error), "could not delete the Lease of this replica");
            }
            Err(_elapsed) => tracing::info!("could not delete the Lease of this replica in time"),
        }
    }
}

impl Replica {
    /// The Lease as it should be.
    fn record(&self, known: Option<&Lease>, now: jiff::Timestamp) -> Lease {
        let known = known.cloned().unwrap_or_default();
        let old = known.spec.unwrap_or_default();
        let is_ours = old.holder_identity.as_ref() == Some(&self.identity);
        let acquire_time = old.acquire_time.filter(|_| is_ours);
        let (key, value) = self.label;
        Lease {
            metadata: ObjectMeta {
                name: Some(self.name.clone()),
                labels: Some([(key.to_owned(), value.to_owned())].into()),
                annotations: Some(self.annotations.clone()),
                owner_references: Some(vec![self.owner.clone()]),
                resource_version: known.metadata.resource_version,
                ..ObjectMeta::default()
            },
            spec: Some(LeaseSpec {
                holder_identity: Some(self.identity.clone()),
                lease_duration_seconds: i32::try_from(DURATION.as_secs()).ok(),
                acquire_time: Some(acquire_time.unwrap_or(MicroTime(now))),
                renew_time: Some(MicroTime(now)),
                ..LeaseSpec::default()
            }),
        }
    }
}

fn holder(lease: &Lease) -> &str {
    let spec = lease.spec.as_ref();
    spec.and_then(|spec| spec.holder_identity.as_deref())
        .unwrap_or_default()
}

/// The Leases that were read, and since when each has not changed. Pure.
#[derive(Debug, Default)]
struct Roster {
    seen: BTreeMap<String, SeenRecord>,
    /// Whether this replica could not renew its own Lease since the last list.
    is_suspended: bool,
}

impl Roster {
    /// The members as of a complete list of Leases.
    fn observe(&mut self, leases: &[Lease], now: Instant) -> Members {
        let mut before = std::mem::take(&mut self.seen);
        if std::mem::take(&mut self.is_suspended) {
            before.clear();
        }
        for lease in leases {
            let name = lease.metadata.name.clone().unwrap_or_default();
            let seen = observe(before.remove(&name), Some(lease), now);
            self.seen.extend(seen.map(|seen| (name, seen)));
        }
        let is_live = |seen: &SeenRecord| now.duration_since(seen.since) < DURATION;
        let live = self.seen.iter().filter(|(_, seen)| is_live(seen));
        live.map(|(name, _)| name.clone()).collect()
    }

    /// The next list gives each replica a whole duration to renew.
    fn suspend(&mut self) {
        self.is_suspended = true;
    }
}

#[cfg(test)]
mod tests;
