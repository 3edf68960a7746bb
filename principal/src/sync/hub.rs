//! The hub's side of all sessions: which objects each cluster should have, and the effects of its reports.
//!
//! ```text
//!   watches ──▶ objects (index, mailboxes) ──▶ subscription, encode ──▶ sessions
//!                  ▲           │ queues                                    │
//!                  │           ▼                                           ▼
//!                  └── writer ◀── conditions, mirrors ◀─────────────── reports
//! ```
//!
//! `objects` keeps everything that is known under one short lock; `index` and `known_mirrors` in it are pure. `writer`
//! does one conditional write. `reports` and `mirrors` apply the events of managed and autonomous clusters, `conditions`
//! writes conditions for users. `lookup` and `encode` answer the sessions. `changes`, `deliveries` and `views` are for pages.

use std::{sync::Arc, time::Duration};

use runtime::{backoff::Backoff, clock::Clock, error::Chain};
use tokio::{sync::watch, time::Instant};
use tokio_util::sync::CancellationToken;

use crate::{
    domain::ClusterName, fleet::Fleet, metrics::Metrics, settings::Settings, store::Store,
};

mod changes;
mod commands;
mod conditions;
mod deliveries;
mod encode;
mod failing_writes;
mod index;
mod known_mirrors;
mod lookup;
mod mailbox;
mod mirrors;
mod objects;
mod reports;
mod serving;
mod spans;
mod subscription;
mod views;
mod write_reserves;
mod writer;

pub(crate) use crate::domain::Sender;
pub use changes::Cursor;
use conditions::Conditions;
pub use deliveries::Delivery;
pub(crate) use encode::EventEncoder;
pub(crate) use index::Lookup;
pub(crate) use lookup::Expected;
use mirrors::Mirrors;
pub(crate) use objects::Objects;
use reports::Reports;
pub(crate) use serving::Serving;
pub(crate) use subscription::Subscription;
pub use views::Changes;
pub(crate) use views::Views;
pub(crate) use write_reserves::ONE_AT_A_TIME;
use writer::Writer;

/// The parts for the sessions.
#[derive(derive_more::Debug)]
#[debug("Hub")]
pub(crate) struct Hub {
    pub(crate) objects: Arc<Objects>,
    pub(crate) reports: Reports,
    pub(crate) mirrors: Arc<Mirrors>,
    pub(crate) conditions: Conditions,
    writer: Arc<Writer>,
}

impl Hub {
    pub(crate) fn new(
        settings: &Settings,
        store: Arc<dyn Store>,
        clock: Clock,
        metrics: Metrics,
    ) -> Self {
        let objects = Arc::new(Objects::new(settings, metrics.clone(), clock.clone()));
        let writer = Writer::new(Arc::clone(&objects), store, settings, metrics.clone());
        let writer = Arc::new(writer);
        let mirrors = Arc::new(Mirrors {
            objects: Arc::clone(&objects),
            writer: Arc::clone(&writer),
        });
        let reports = Reports {
            objects: Arc::clone(&objects),
            writer: Arc::clone(&writer),
            mirrors: Arc::clone(&mirrors),
            metrics,
        };
        let conditions = Conditions {
            objects: Arc::clone(&objects),
            writer: Arc::clone(&writer),
            clock,
        };
        Self {
            objects,
            reports,
            mirrors,
            conditions,
            writer,
        }
    }

    /// Reads our identity and follows the hub's objects; ready when both are known, and again when a restored hub has
    /// been read.
    ///
    /// Ends when a restored hub has another identity for us: the known state belongs to the former one.
    pub(crate) async fn follow(
        self: Arc<Self>,
        uid: watch::Sender<Option<Arc<str>>>,
        ready: watch::Sender<bool>,
        stop: CancellationToken,
    ) {
        let (reporter, mut synced) = Arc::clone(&self.objects).reporter();
        let watching = self.writer.store.watch(reporter, stop.clone());
        let serving = async {
            loop {
                let who: Arc<str> = self.identity().await.into();
                // An error means that the watch has ended, which only a stop causes.
                if synced.wait_for(|all| *all).await.is_err() {
                    return;
                }
                if !self.objects.set_principal_uid(&who) {
                    return tracing::error!("the identity of this principal changed on the hub");
                }
                uid.send_replace(Some(who));
                ready.send_replace(true);
                tracing::info!("the hub's objects are read; accepting agents");
                if synced.wait_for(|all| !*all).await.is_err() {
                    return;
                }
                uid.send_replace(None);
                ready.send_replace(false);
                tracing::info!("reading the hub's objects again; agents wait");
            }
        };
        tokio::select! {
            () = watching => {}
            Some(()) = stop.run_until_cancelled(serving) => {}
        }
    }

    async fn identity(&self) -> String {
        let (shortest, longest) = (Duration::from_millis(200), Duration::from_secs(15));
        let mut backoff = Backoff::new(shortest, longest, longest);
        let mut failing = false;
        loop {
            match self.writer.store.principal_uid().await {
                Ok(uid) => return uid,
                Err(error) => {
                    if !failing {
                        tracing::warn!(error = %Chain(&error), "cannot read the principal's identity; retrying");
                    }
                    failing = true;
                    tokio::time::sleep(backoff.failed(Instant::now())).await;
                }
            }
        }
    }

    /// Updates the enrolled clusters.
    pub(crate) fn set_fleet(&self, fleet: &Fleet) {
        self.objects.set_fleet(fleet);
        self.mirrors.judge_names();
    }

    /// Takes a spare write for an object of this decoded size; false if the hub has none for the cluster now.
    pub(crate) fn take_spare_write(
        &self,
        cluster: &ClusterName,
        memory: usize,
        now: Instant,
    ) -> bool {
        let (reserves, running) = (&self.objects.write_reserves, self.writer.running());
        reserves.take_spare(cluster, memory, running, now)
    }

    /// Subscribes a session: it is notified of every change from now on, and gets the list of current objects.
    pub(crate) fn subscribe(&self, cluster: &ClusterName) -> Subscription {
        Subscription::begin(&self.objects, cluster)
    }
}

#[cfg(test)]
impl Hub {
    /// Applies a report of a watch; true once all kinds have been listed.
    pub(crate) fn report(&self, report: crate::store::Report) -> bool {
        self.objects.report(report)
    }
}

#[cfg(test)]
mod tests;
