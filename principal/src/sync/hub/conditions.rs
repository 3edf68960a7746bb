//! The conditions of hub Applications for users, of types that begin with `ArgoCDAgent`.
//!
//! One task walks the Applications whose conditions may have to change, in [turns](Turns). It keeps the conditions that the spoke reports,
//! and an equal list costs no write.

use std::{collections::HashMap, sync::Arc, time::Duration};

use argocd::{
    Patch,
    command::wants_refresh,
    keys,
    projection::{condition_patch_for_hub, release_patch_for_hub},
};
use futures::FutureExt as _;
use jiff::Timestamp;
use runtime::{backoff::Backoff, clock::Clock, error::Chain};
use serde_json::{Map, Value, json};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{
    index::Entry,
    objects::{Objects, State},
    serving::Serving,
    writer::Writer,
};
use crate::{
    domain::{Block, ClusterName, Key, Placement},
    store::WriteError,
};

pub(crate) use keys::{CONDITION_DISCONNECTED as DISCONNECTED, CONDITION_ERROR as ERROR};

mod turns;

use turns::Turns;

/// The grace period after the end of a session, during which a cluster counts as connected: agents restart.
pub(super) const GRACE: Duration = Duration::from_secs(10);

/// The pause before failed conditions are written again.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Every type that this principal sets and clears.
const KINDS: [&str; 8] = [
    keys::CONDITION_DELETION_UNCONFIRMED,
    keys::CONDITION_CONFLICT,
    keys::CONDITION_NAME_CONFLICT,
    keys::CONDITION_NOT_ADMITTED,
    keys::CONDITION_REPOSITORY,
    keys::CONDITION_CONTESTED,
    DISCONNECTED,
    ERROR,
];

/// The cost of a write: a cluster can make an Application large, and its conditions alternate.
struct Cost {
    cluster: ClusterName,
    /// The decoded size of the object, in bytes.
    memory: usize,
}

impl Cost {
    /// Until when the reserve of the cluster makes the write wait.
    fn waits(&self, objects: &Objects, now: Instant) -> Option<Instant> {
        let reserves = &objects.write_reserves;
        let wait = reserves.wait(&self.cluster, self.memory, now)?;
        Some(now + wait)
    }

    fn charge(&self, objects: &Objects) {
        let reserves = &objects.write_reserves;
        reserves.charge(&self.cluster, self.memory, Instant::now());
    }
}

/// Writes the conditions.
#[derive(Debug)]
pub(crate) struct Conditions {
    pub(super) objects: Arc<Objects>,
    pub(super) writer: Arc<Writer>,
    pub(super) clock: Clock,
}

impl Conditions {
    /// Keeps the conditions up to date while this replica serves, until the token is cancelled.
    pub(crate) async fn keep(&self, mut serving: Serving, token: CancellationToken) {
        // Each failing object has its own back-off and delays no other.
        let mut failing: HashMap<Key, Backoff> = HashMap::new();
        let mut turns = Turns::default();
        loop {
            let next = async {
                serving.wait().await;
                // Clusters can connect from now on.
                self.objects.lock().open.get_or_insert_with(Instant::now);
                self.next(&mut turns).await
            };
            let Some(key) = token.run_until_cancelled(next).await else {
                return;
            };
            let now = Instant::now();
            if let Some(at) = turns.throttled(&key, now) {
                self.objects.conditions.mark_at(at, &key);
                continue;
            }
            let cost = self.cost(&key);
            if let Some(at) = cost
                .as_ref()
                .and_then(|cost| cost.waits(&self.objects, now))
            {
                self.objects.conditions.mark_at(at, &key);
                continue;
            }
            match self.write(&key).await {
                Ok(changed) => {
                    failing.remove(&key);
                    if changed {
                        turns.wrote(&key, Instant::now());
                        cost.inspect(|cost| cost.charge(&self.objects));
                    }
                }
                Err(WriteError::Refused(reason)) => {
                    // The next change of the object triggers the next attempt.
                    tracing::warn!(object = %key, reason, "the hub rejected conditions");
                    failing.remove(&key);
                }
                Err(error) => {
                    tracing::debug!(object = %key, error = %Chain(&error), "cannot write conditions; retrying");
                    let now = Instant::now();
                    let backoff = failing
                        .entry(key.clone())
                        .or_insert_with(|| Backoff::new(FIRST_PAUSE, LONGEST_PAUSE, LONGEST_PAUSE));
                    let at = now + backoff.failed(now);
                    self.objects.conditions.mark_at(at, &key);
                }
            }
        }
    }

    /// The cost of a write to an Application of a cluster.
    fn cost(&self, key: &Key) -> Option<Cost> {
        let (cluster, object) = {
            let state = self.objects.lock();
            let entry = state.index.application(key)?;
            (entry.cluster()?.clone(), Arc::clone(entry.object()))
        };
        let memory = object.memory();
        Some(Cost { cluster, memory })
    }

    /// Waits for the next Application whose conditions may have to change. Cancel-safe.
    async fn next(&self, turns: &mut Turns) -> Key {
        loop {
            let marked = self.objects.conditions.ready();
            if turns.is_empty() {
                marked.await;
            } else {
                marked.now_or_never();
            }
            for key in self.objects.conditions.take() {
                let state = self.objects.lock();
                let cluster = state.index.application(&key).and_then(Entry::cluster);
                turns.add(cluster.cloned(), key);
            }
            if let Some(key) = turns.take() {
                return key;
            }
        }
    }

    /// Writes the conditions of one Application; true if they changed.
    async fn write(&self, key: &Key) -> Result<bool, WriteError> {
        let now = self.clock.now();
        let plan = |entry: &Entry| {
            let state = self.objects.lock();
            let cluster = entry.cluster();
            let connected = cluster.is_some_and(|it| self.counts_as_connected(&state, it, key));
            if is_releasable(&state, entry) {
                return release_patch_for_hub(entry.head());
            }
            let trouble = state.index.repository_trouble(entry);
            drop(state);
            plan(entry, connected, trouble, now)
        };
        self.writer.patch(key, plan).await
    }

    /// Whether the cluster has a session, or the grace period is not over; checks the object again after it.
    fn counts_as_connected(&self, state: &State, cluster: &ClusterName, key: &Key) -> bool {
        if state.sessions.contains_key(cluster) {
            return true;
        }
        let since = state.left.get(cluster).or(state.open.as_ref());
        let until = since.map(|since| *since + GRACE);
        let waits = until.filter(|until| Instant::now() < *until);
        if let Some(until) = waits {
            self.objects.conditions.mark_at(until, key);
        }
        waits.is_some()
    }
}

/// Whether a deletion waits for a copy that never existed: then only the hub can complete it.
fn is_releasable(state: &State, entry: &Entry) -> bool {
    let application = entry.application();
    application.is_deleting()
        && match &entry.placement {
            // An application controller on the hub ignores Applications of clusters, if there is one at all.
            Placement::Conflict(_) => state.index.is_for_a_cluster(application),
            Placement::Routed(_, blocked) => blocked
                .as_ref()
                .is_some_and(|blocked| blocked.why == Block::NameConflict),
            Placement::Local | Placement::Ignored | Placement::Mirror(_) => false,
        }
}

/// The patch that updates the conditions; none when they are up to date.
fn plan(
    entry: &Entry,
    connected: bool,
    repository_trouble: Option<String>,
    now: Timestamp,
) -> Option<Patch> {
    let conditions = entry.object().conditions();
    let mut wanted = wanted(entry, &conditions, connected);
    wanted.extend(repository_trouble.map(|trouble| (keys::CONDITION_REPOSITORY, trouble)));
    let now = rfc3339(now);
    let mut shown = json!({ "status": { "conditions": conditions } });
    let mut changed = false;
    for kind in KINDS {
        let message = wanted
            .iter()
            .find(|(wanted, _)| *wanted == kind)
            .map(|(_, text)| text.as_str());
        if let Some(patch) = condition_patch_for_hub(&shown, kind, message, &now) {
            shown = patch.applied_to(&shown);
            changed = true;
        }
    }
    let mut patch = Map::new();
    if changed {
        // As a whole: a list has no smaller patch.
        let conditions = shown.pointer("/status/conditions");
        patch.insert("status".to_owned(), json!({ "conditions": conditions }));
    }
    if refresh_is_in_vain(entry, connected) {
        // The client that requested the refresh waits for the annotation to go.
        let answered = keys::REQUESTS.map(|key| (key.to_owned(), Value::Null));
        let answer = json!({ "annotations": Map::from_iter(answered) });
        patch.insert("metadata".to_owned(), answer);
    }
    (!patch.is_empty()).then(|| Patch::Merge(patch.into()))
}

/// Whether no cluster will do a requested refresh: an immediate answer is better than a timeout.
fn refresh_is_in_vain(entry: &Entry, connected: bool) -> bool {
    let delivered = matches!(
        entry.placement,
        Placement::Routed(_, None) | Placement::Mirror(_)
    );
    wants_refresh(entry.head()) && entry.cluster().is_some() && !(delivered && connected)
}

/// The conditions of ours that the Application should have, where it has those that are shown.
fn wanted(entry: &Entry, shown: &[Value], connected: bool) -> Vec<(&'static str, String)> {
    let mut wanted = Vec::new();
    match &entry.placement {
        Placement::Conflict(reason) => wanted.push((keys::CONDITION_CONFLICT, reason.clone())),
        Placement::Routed(_, Some(blocked)) => {
            wanted.push((blocked.why.condition(), blocked.message.clone()));
        }
        Placement::Routed(place, None) if !connected => {
            let waits = waiting(entry, shown, &place.cluster);
            wanted.extend(waits.map(|message| (DISCONNECTED, message)));
        }
        Placement::Mirror(cluster) if !connected => {
            let waits = waiting(entry, shown, cluster);
            wanted.extend(waits.map(|message| (DISCONNECTED, message)));
        }
        Placement::Local => wanted.extend(left_behind(entry, shown).map(|it| (DISCONNECTED, it))),
        Placement::Routed(_, None) | Placement::Mirror(_) | Placement::Ignored => {}
    }
    if let Some(contest) = &entry.contest {
        wanted.push((keys::CONDITION_CONTESTED, contest.clone()));
    }
    if let Some(report) = &entry.report {
        wanted.push((ERROR, report.clone()));
    }
    wanted
}

/// The deletion that waits for a cluster that left the fleet. After a restart, only the condition names that cluster.
fn left_behind(entry: &Entry, shown: &[Value]) -> Option<String> {
    const END: &str =
        "left the fleet; enrol it again and confirm the deletion, or remove the finalizers";
    let application = entry.application();
    if !application.is_deleting() || application.finalizers().is_empty() {
        return None;
    }
    let known = || {
        let it = shown.iter().find(|it| it["type"] == DISCONNECTED)?;
        it["message"]
            .as_str()
            .filter(|message| message.ends_with(END))
    };
    match &entry.left {
        Some(cluster) => Some(format!(
            "the deletion waits for cluster {cluster}, which {END}"
        )),
        None => known().map(str::to_owned),
    }
}

/// The request that waits while the cluster is not connected.
fn waiting(entry: &Entry, shown: &[Value], cluster: &ClusterName) -> Option<String> {
    let application = entry.application();
    if application.is_deleting() && !application.finalizers().is_empty() {
        return Some(format!(
            "the deletion waits for cluster {cluster}, which is not connected"
        ));
    }
    let refused = format!("not refreshed: cluster {cluster} is not connected");
    // Once answered, the condition itself keeps the answer, until the cluster is back.
    let is_answered = shown
        .iter()
        .any(|it| it["type"] == DISCONNECTED && it["message"] == refused);
    (is_answered || wants_refresh(entry.head())).then_some(refused)
}

/// Kubernetes writes times in whole seconds.
fn rfc3339(now: Timestamp) -> String {
    Timestamp::from_second(now.as_second())
        .unwrap_or(now)
        .to_string()
}

#[cfg(test)]
mod tests;
