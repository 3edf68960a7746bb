//! Carries out what [`drift`](super::drift) finds due.

use protocol::ObjectKey;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::drift::Contests;
use super::{Replica, note, plan};

impl Replica {
    /// Holds what the hub wants against local changes, connected or not.
    pub(super) async fn hold(&self, token: CancellationToken) {
        let mut contests = Contests::default();
        loop {
            for key in contests.due(&self.drift, Instant::now()) {
                if token.is_cancelled() {
                    return;
                }
                self.revert(key, &mut contests).await;
            }
            let next = contests.next();
            let pause = async {
                match next {
                    Some(next) => tokio::time::sleep_until(next).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = token.cancelled() => return,
                () = self.drift.changed() => {}
                () = pause => {}
            }
        }
    }

    async fn revert(&self, key: ObjectKey, contests: &mut Contests) {
        let _only_writer = self.lock(&key).await;
        let entry = self.store.get(&key);
        let Some(wanted) = entry.wanted.filter(|wanted| !wanted.leaving) else {
            return;
        };
        let live = entry.live.as_deref();
        let plan = plan::drift(&wanted.desired, live, wanted.written.as_ref(), self.policy);
        // What waits for Argo CD is looked at again when that comes.
        if plan.steps.is_empty() || !self.sight.borrow().serves(key.kind) {
            return;
        }
        tracing::info!(object = %key, deleted = live.is_none(), "reverting a local change");
        self.metrics.reverts.inc();
        let mut known = Some((*wanted).clone());
        let mut failed = false;
        for step in plan.steps {
            match self
                .writer
                .carry_out(&key, step, Some(&wanted.desired))
                .await
            {
                Ok(Some(written)) => note(&mut known, written),
                Ok(None) => {}
                Err(error) => {
                    failed = true;
                    drop(self.judge(&key, &error));
                    break;
                }
            }
        }
        if !failed && let Some(known) = known {
            self.patience.end(&key);
            self.store.remember(key.clone(), known);
            self.reports.status(key.clone());
        }
        contests.wrote(key, failed, Instant::now());
    }
}
