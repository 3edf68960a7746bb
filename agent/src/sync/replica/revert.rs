//! Reverts the local edits and deletions that [`drift`](super::drift) finds due.

use protocol::{Kind, ObjectKey};
use runtime::error::Chain;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::drift::{Contests, Due};
use super::plan;
use super::state::Replica;

impl Replica {
    /// Reverts local changes until `token` is cancelled, connected or not.
    pub(super) async fn revert_drift(&self, token: CancellationToken) {
        let mut contests = Contests::default();
        loop {
            let Due { look, over } = contests.due(&self.drift, Instant::now());
            for key in over {
                self.reports.uncontested(&key);
            }
            for key in look {
                if token.is_cancelled() {
                    return;
                }
                self.revert(&mut contests, key).await;
            }
            let next = contests.next();
            tokio::select! {
                biased;
                () = token.cancelled() => return,
                () = self.drift.ready() => {}
                () = sleep_until(next.unwrap_or_else(Instant::now)), if next.is_some() => {}
            }
        }
    }

    async fn revert(&self, contests: &mut Contests, key: ObjectKey) {
        let _only_writer = self.lock(&key).await;
        if let Some(uid) = self.store.take_missed(&key) {
            self.ask_for(contests, &key, &uid).await;
        }
        let entry = self.store.get(&key);
        let Some(wanted) = entry.wanted.filter(|wanted| !wanted.leaving) else {
            return;
        };
        let live = entry.live.as_deref();
        let plan = plan::drift(&wanted.desired, live, wanted.written.as_ref(), self.policy);
        // The observer marks these objects again when Argo CD is installed.
        if plan.steps.is_empty() || !self.sync_status.borrow().serves(key.kind) {
            return;
        }
        if key.kind == Kind::Application && contests.is_to_report(&key) {
            self.report_contest(&key).await;
        }
        tracing::info!(object = %key, deleted = live.is_none(), "reverting a local change");
        self.metrics.reverts.inc();
        let mut known = Some((*wanted).clone());
        let reverted = self.write_all(&key, plan.steps, &mut known).await;
        match (&reverted, known) {
            (Ok(()), Some(known)) => self.store.remember(key.clone(), known),
            (Ok(()), None) => {}
            (Err(error), _) => drop(self.verdict(&key, error)),
        }
        contests.wrote(key, reverted.is_err(), Instant::now());
    }

    /// A list lacked an object that we created. Asks the API whether the object is gone: the list may be older, or its label
    /// selector may not match.
    async fn ask_for(&self, contests: &mut Contests, key: &ObjectKey, uid: &str) {
        match self.finds(key).await {
            Ok(true) => {}
            Ok(false) => {
                tracing::debug!(object = %key, "deleted before a watch reported it");
                self.gone(key, uid, false);
            }
            Err(error) => {
                tracing::debug!(object = %key, error = %Chain(&error), "cannot check whether the object exists; retrying");
                self.store.still_missed(key);
                contests.wrote(key.clone(), true, Instant::now());
            }
        }
    }

    /// Reports the field manager that keeps changing the object: before the revert, which makes us the last writer.
    async fn report_contest(&self, key: &ObjectKey) {
        let by = match self.spoke.last_writer(key).await {
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
        self.reports.contested(key, message);
    }
}
