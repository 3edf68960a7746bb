//! Leader election with a Lease, as a value to watch.
//!
//! Another holder's lease has expired when its record has not *changed* for its duration, by our own monotonic clock.
//! Clocks of other machines are never compared with ours. An earlier process of our own Pod needs no such wait: a
//! container is started again only after its process has ended.
//!
//! The writes of a leader pass a [`Fence`], which refuses them from shortly before another replica may lead.

use std::sync::Arc;
use std::time::Duration;

use ::kube::api::PostParams;
use ::kube::{Api, Client};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::clock::Clock;
use crate::error::Chain;
use crate::parts::Spawner;

pub(crate) mod fence;

pub use fence::{Fence, Refused};

/// The time without a change after which another replica takes the lease. With the pauses between reads, another replica
/// leads at most 12 seconds after a holder died (19 with the times of client-go).
const DURATION: Duration = Duration::from_secs(9);
/// A holder that could not renew for this long stops leading, well before another replica may take the lease.
const RENEW_DEADLINE: Duration = Duration::from_millis(6500);
/// The longest way of a write to the API. The fence of a leader ends that long before another replica may lead.
const TRAVEL: Duration = Duration::from_millis(400);
/// How long after a renewal the leader may write.
const WRITES: Duration = DURATION.saturating_sub(TRAVEL);
/// The time in which a former leader may finish its work: then its writes are refused.
pub const GRACE: Duration = WRITES.saturating_sub(RENEW_DEADLINE);
const RETRY: Duration = Duration::from_millis(1500);

/// A candidate for a lease.
#[derive(Debug, Clone)]
pub struct Candidate {
    /// Namespace of the Lease.
    pub namespace: String,
    /// Name of the Lease.
    pub name: String,
    /// Our identity; must differ between replicas and between restarts of a process.
    pub identity: String,
    /// Our Pod, if we run in one: its name is the first part of `identity`.
    pub pod: Option<String>,
}

impl Candidate {
    /// The identity of a process of this Pod, or of this program outside of a Pod.
    pub fn identity_of(pod: &str, process: u32, started: jiff::Timestamp) -> String {
        format!("{pod}_{process}_{}", started.as_millisecond())
    }

    /// Whether this holder was an earlier process of our Pod. No name of a Pod contains an underscore.
    fn succeeds(&self, holder: &str) -> bool {
        let pod = holder.split_once('_').map(|(pod, _)| pod);
        pod.is_some() && pod == self.pod.as_deref()
    }
}

/// Campaigns for the lease until the spawner stops, and then releases it.
///
/// The value is true only while we hold the lease and have renewed it so recently that no other replica can have taken
/// it. The fence is open for longer, by [`GRACE`], and closed before the lease is released.
pub fn campaign(
    client: Client,
    candidate: Candidate,
    clock: Clock,
    fence: Fence,
    spawner: &Spawner,
) -> watch::Receiver<bool> {
    let (leading, receive) = watch::channel(false);
    let api = Api::namespaced(client, &candidate.namespace);
    let mut campaign = Campaign {
        api,
        candidate: Arc::new(candidate),
        clock,
        fence,
        seen: None,
        renewed: None,
    };
    let token = spawner.token().clone();
    spawner.spawn("lease", async move {
        loop {
            // A silent API must not extend our leadership.
            let until = campaign.left(Instant::now()).unwrap_or(DURATION);
            match tokio::time::timeout(until, campaign.round()).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => {
                    tracing::warn!(error = %Chain(&error), "cannot read or write the lease");
                }
                Err(_elapsed) => {
                    campaign.renewed = None;
                    tracing::warn!("the API timed out for the lease");
                }
            }
            let holds = campaign.holds(Instant::now());
            leading.send_if_modified(|known| {
                let changed = *known != holds;
                if changed {
                    tracing::info!(leader = holds, "leadership changed");
                }
                *known = holds;
                changed
            });
            let pause = tokio::time::sleep(campaign.pause(Instant::now()));
            if token.run_until_cancelled(pause).await.is_none() {
                break;
            }
        }
        leading.send_replace(false);
        campaign.release().await;
    });
    receive
}

/// The next write of the lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Create,
    Take,
    Renew,
    Wait,
}

/// A record of the lease, and the time since which it has not changed.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SeenRecord {
    spec: LeaseSpec,
    pub(crate) since: Instant,
}

struct Campaign {
    api: Api<Lease>,
    candidate: Arc<Candidate>,
    clock: Clock,
    fence: Fence,
    seen: Option<SeenRecord>,
    renewed: Option<Instant>,
}

impl Campaign {
    /// The rest of our leadership; none if we have never led or another replica leads.
    fn left(&self, now: Instant) -> Option<Duration> {
        let renewed = self.renewed?;
        Some((renewed + RENEW_DEADLINE).saturating_duration_since(now))
    }

    fn holds(&self, now: Instant) -> bool {
        self.left(now).is_some_and(|left| !left.is_zero())
    }

    /// The pause until the next read: at most the rest of our leadership.
    fn pause(&self, now: Instant) -> Duration {
        let left = self.left(now).filter(|left| !left.is_zero());
        left.map_or(RETRY, |left| left.min(RETRY))
    }

    /// Reads the lease and writes it at most once.
    async fn round(&mut self) -> Result<(), ::kube::Error> {
        let begun = Instant::now();
        let lease = self.api.get_opt(&self.candidate.name).await?;
        self.seen = observe(self.seen.take(), lease.as_ref(), begun);
        let step = plan(lease.as_ref(), &self.candidate, self.seen.as_ref(), begun);
        let next = self.record(step, lease);
        let written = match step {
            Step::Wait => {
                self.renewed = None;
                self.fence.close();
                return Ok(());
            }
            Step::Create => self.api.create(&PostParams::default(), &next).await,
            Step::Take | Step::Renew => {
                self.api
                    .replace(&self.candidate.name, &PostParams::default(), &next)
                    .await
            }
        };
        match written {
            Ok(_) => {
                // From before the write: other replicas count from their later read.
                self.renewed = Some(begun);
                self.fence.extend(begun + WRITES);
                Ok(())
            }
            // Another replica wrote first; the next round reads its record.
            Err(::kube::Error::Api(status)) if status.code == 409 => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn record(&self, step: Step, lease: Option<Lease>) -> Lease {
        let Lease { metadata, spec } = lease.unwrap_or_default();
        let old = spec.unwrap_or_default();
        let now = MicroTime(self.clock.now());
        let transitions = old.lease_transitions.unwrap_or_default();
        let acquired = Some(now.clone());
        let (acquire_time, lease_transitions) = match step {
            Step::Renew | Step::Wait => (old.acquire_time.or(acquired), transitions),
            Step::Create => (acquired, 0),
            Step::Take => (acquired, transitions.saturating_add(1)),
        };
        Lease {
            metadata: ObjectMeta {
                name: Some(self.candidate.name.clone()),
                ..metadata
            },
            spec: Some(LeaseSpec {
                holder_identity: Some(self.candidate.identity.clone()),
                lease_duration_seconds: i32::try_from(DURATION.as_secs()).ok(),
                acquire_time,
                renew_time: Some(now),
                lease_transitions: Some(lease_transitions),
                ..LeaseSpec::default()
            }),
        }
    }

    /// Releases the lease, so that the next leader need not wait until it expires.
    async fn release(&mut self) {
        self.fence.close();
        if self.renewed.take().is_none() {
            return;
        }
        if tokio::time::timeout(RETRY, self.fence.settled(TRAVEL))
            .await
            .is_err()
        {
            // The API may carry it out at any time. Other replicas wait until the lease expires.
            tracing::info!("a write has no answer; the lease is not released");
            return;
        }
        let given_back = async {
            let Some(mut lease) = self.api.get_opt(&self.candidate.name).await? else {
                return Ok(());
            };
            let spec = lease.spec.get_or_insert_default();
            if spec.holder_identity.as_ref() != Some(&self.candidate.identity) {
                return Ok(());
            }
            spec.holder_identity = None;
            self.api
                .replace(&self.candidate.name, &PostParams::default(), &lease)
                .await
                .map(drop)
        };
        match tokio::time::timeout(RETRY, given_back).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                tracing::info!(error = %Chain(&error), "could not release the lease");
            }
            Err(_elapsed) => tracing::info!("could not release the lease in time"),
        }
    }
}

/// Updates the time since which the record has not changed.
pub(crate) fn observe(
    seen: Option<SeenRecord>,
    lease: Option<&Lease>,
    now: Instant,
) -> Option<SeenRecord> {
    let spec = lease?.spec.clone().unwrap_or_default();
    let known = seen.filter(|seen| seen.spec == spec);
    Some(known.unwrap_or(SeenRecord { spec, since: now }))
}

/// Decides what to write; pure.
fn plan(lease: Option<&Lease>, me: &Candidate, seen: Option<&SeenRecord>, now: Instant) -> Step {
    let Some(lease) = lease else {
        return Step::Create;
    };
    let spec = lease.spec.as_ref();
    match spec.and_then(|spec| spec.holder_identity.as_deref()) {
        None | Some("") => Step::Take,
        Some(holder) if holder == me.identity => Step::Renew,
        Some(holder) if me.succeeds(holder) => Step::Take,
        Some(_) => {
            // The lease of another implementation has a duration of its own.
            let lasts = spec
                .and_then(|spec| spec.lease_duration_seconds)
                .and_then(|seconds| u64::try_from(seconds).ok())
                .map_or(DURATION, Duration::from_secs);
            let quiet = seen.map_or(Duration::ZERO, |seen| now.duration_since(seen.since));
            if quiet >= lasts {
                Step::Take
            } else {
                Step::Wait
            }
        }
    }
}

#[cfg(test)]
mod tests;
