//! Reverts the local edits and deletions that [`drift`](super::drift) finds due.

use std::sync::Arc;

use protocol::{Kind, ObjectKey};
use runtime::error::Chain;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::drift::{Contests, Due};
use super::observe::gone;
use super::plan;
use super::state::Replica;

/// Reverts local changes, connected or not.
#[derive(Debug)]
pub(super) struct Reverter {
    replica: Arc<Replica>,
    contests: Contests,
}

impl Reverter {
    pub(super) fn new(replica: Arc<Replica>) -> Self {
        let contests = Contests::default();
        Self { replica, contests }
    }

    /// Reverts until `token` is cancelled.
    pub(super) async fn run(mut self, token: CancellationToken) {
        loop {
            let Due { look, over } = self.contests.due(&self.replica.drift, Instant::now());
            for key in over {
                self.replica.reports.uncontested(&key);
            }
            for key in look {
                if token.is_cancelled() {
                    return;
                }
                self.revert(key).await;
            }
            let next = self.contests.next();
            tokio::select! {
                biased;
                () = token.cancelled() => return,
                () = self.replica.drift.ready() => {}
                () = sleep_until(next.unwrap_or_else(Instant::now)), if next.is_some() => {}
            }
        }
    }

    async fn revert(&mut self, key: ObjectKey) {
        let replica = Arc::clone(&self.replica);
        let _only_writer = replica.locks.lock(&key).await;
        if let Some(uid) = replica.store.take_missed(&key) {
            self.ask_for(&key, &uid).await;
        }
        let entry = replica.store.get(&key);
        let Some(wanted) = entry.wanted.filter(|wanted| !wanted.leaving) else {
            return;
        };
        let live = entry.live.as_deref();
        let plan = plan::drift(
            &wanted.desired,
            live,
            wanted.written.as_ref(),
            replica.policy,
        );
        // The observer marks these objects again when Argo CD is installed.
        if plan.steps.is_empty() || !replica.sync_status.borrow().serves(key.kind) {
            return;
        }
        if key.kind == Kind::Application && self.contests.is_to_report(&key) {
            self.report_contest(&key).await;
        }
        tracing::info!(object = %key, deleted = live.is_none(), "reverting a local change");
        replica.metrics.reverts.inc();
        let mut known = Some((*wanted).clone());
        let reverted = replica.write_all(&key, plan.steps, &mut known).await;
        match (&reverted, known) {
            (Ok(()), Some(known)) => replica.store.remember(key.clone(), known),
            (Ok(()), None) => {}
            (Err(error), _) => drop(replica.verdict(&key, error)),
        }
        self.contests.wrote(key, reverted.is_err(), Instant::now());
    }

    /// A list lacked an object that we created. Asks the API whether the object is gone: the list may be older, or its label
    /// selector may not match.
    async fn ask_for(&mut self, key: &ObjectKey, uid: &str) {
        match self.replica.finds(key).await {
            Ok(true) => {}
            Ok(false) => {
                tracing::debug!(object = %key, "deleted before a watch reported it");
                gone(&self.replica, key, uid, false);
            }
            Err(error) => {
                tracing::debug!(object = %key, error = %Chain(&error), "cannot check whether the object exists; retrying");
                self.replica.store.still_missed(key);
                self.contests.wrote(key.clone(), true, Instant::now());
            }
        }
    }

    /// Reports the field manager that keeps changing the object: before the revert, which makes us the last writer.
    async fn report_contest(&self, key: &ObjectKey) {
        let by = match self.replica.spoke.last_writer(key).await {
            Ok(by) => by,
            Err(error) => {
                tracing::debug!(object = %key, error = %Chain(&error), "cannot read the field managers");
                None
            }
        };
        let by = by.map_or_else(
            || "by an unknown field manager".to_owned(),
            |by| format!("last by field manager {by:?}"),
        );
        tracing::warn!(object = %key, by, "another writer keeps changing fields that the hub owns");
        let message = format!(
            "a writer on the cluster keeps changing fields that the hub owns, {by}; the agent reverts them with \
            growing back-off until that ends or the change is made on the hub"
        );
        self.replica.reports.contested(key, message);
    }
}
