//! Makes the spoke match the desired state of the hub.
//!
//! `observe` watches, `plan` decides, `reconcile` runs plans, `apply` writes, `drift` reverts local edits. One task at a
//! time writes an object; different objects do not wait for each other.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;
use std::time::Duration;

use argocd::{Meta, keys};
use protocol::payload::{Ranges, SyncedResourceList};
use protocol::{Event, Kind, Mode, ObjectKey, Verdict};
use runtime::error::Chain;
use runtime::parts::Spawner;
use tokio::sync::{Mutex, MutexGuard, watch};

use crate::config::{Policy, Scope};
use crate::metrics::Metrics;
use crate::sync::api::{Spoke, shared};
use crate::sync::cache::{Entry, Store, Wanted};
use crate::sync::report::Reports;
use crate::transport::Welcome;

mod apply;
mod cache_status;
mod command;
mod drift;
mod inventory;
mod local_edits;
mod message;
mod observe;
mod plan;
mod reconcile;
mod refresh_nudger;
mod stale_cache_backoff;

use apply::Writer;
pub use cache_status::{CacheStatus, Running};
use drift::Drift;
pub use inventory::Inventory;
use message::{Message, Order, Reader};
use observe::Observer;
use plan::{Incoming, No, Plan};
use refresh_nudger::RefreshNudger;
use stale_cache_backoff::StaleCacheBackoff;

/// Number of locks; two objects rarely share one.
const LOCKS: usize = 64;
/// The pause while the API server is unavailable or busy.
const TRANSIENT_PAUSE: Duration = Duration::from_secs(2);
/// The pause when an administrator has to act first, such as grant a right or install Argo CD.
const PERSON_PAUSE: Duration = Duration::from_secs(15);
/// The pause of a command that waits for another one to end.
const BUSY_PAUSE: Duration = Duration::from_secs(1);

/// Applies the hub's desired state to the spoke.
#[derive(Debug)]
pub struct Replica {
    writer: Writer,
    store: Arc<Store>,
    reports: Arc<Reports>,
    drift: Arc<Drift>,
    stuck: Arc<RefreshNudger>,
    backoff: StaleCacheBackoff,
    // Shared with the watches.
    sync_status: Arc<watch::Sender<CacheStatus>>,
    metrics: Metrics,
    scope: Scope,
    policy: Policy,
    // One object always has the same lock; others may share it.
    locks: Vec<Mutex<()>>,
}

impl Replica {
    /// Ready to write, and to watch once [started](Self::start).
    pub fn new(
        spoke: Arc<dyn Spoke>,
        scope: Scope,
        policy: Policy,
        store: Arc<Store>,
        reports: Arc<Reports>,
        metrics: Metrics,
    ) -> Self {
        let writer = Writer {
            spoke,
            store: Arc::clone(&store),
            metrics: metrics.clone(),
            creates_namespaces: scope.create_namespaces,
        };
        let sync_status = CacheStatus::none_of(observe::targets(&scope));
        Self {
            writer,
            store,
            reports,
            drift: Arc::default(),
            stuck: Arc::default(),
            backoff: StaleCacheBackoff::default(),
            sync_status: Arc::new(watch::Sender::new(sync_status)),
            metrics,
            scope,
            policy,
            locks: (0..LOCKS).map(|_| Mutex::default()).collect(),
        }
    }

    /// Starts the watches and the drift loop.
    pub fn start(self: &Arc<Self>, spawner: &Spawner) {
        let observer = self.observer();
        let spoke = &self.writer.spoke;
        observe::start(spoke, &self.scope, &observer, &self.sync_status, spawner);
        let (replica, token) = (Arc::clone(self), spawner.token().clone());
        spawner.spawn("drift", async move { replica.revert_drift(token).await });
        let (replica, token) = (Arc::clone(self), spawner.token().clone());
        spawner.spawn("stuck", async move { replica.refresh_stuck(token).await });
    }

    fn observer(&self) -> Observer {
        Observer {
            store: Arc::clone(&self.store),
            reports: Arc::clone(&self.reports),
            drift: Arc::clone(&self.drift),
            stuck: Arc::clone(&self.stuck),
            mode: self.scope.mode,
        }
    }

    /// Whether the API of this cluster accepts this agent's identity; true unless it answers 401.
    pub async fn is_known(&self) -> bool {
        self.writer.is_known().await
    }

    /// Who owns the Applications.
    pub const fn mode(&self) -> Mode {
        self.scope.mode
    }

    /// Argo CD's namespace here.
    pub fn argocd_namespace(&self) -> &str {
        &self.scope.argocd_namespace
    }

    /// How complete the caches of the spoke are.
    pub fn sync_status(&self) -> watch::Receiver<CacheStatus> {
        self.sync_status.subscribe()
    }

    /// Sets the result of the probe of Argo CD.
    pub fn set_running(&self, runs: Running) {
        self.sync_status
            .send_if_modified(|sync_status| sync_status.set_running(runs));
    }

    /// Whether the spoke's API serves Argo CD's kinds, so that an object that is not cached does not exist.
    pub fn serves_argocd(&self) -> bool {
        self.sync_status.borrow().argocd() == protocol::payload::ArgoCd::Installed
    }

    /// The objects from this principal, for a resync.
    pub fn inventory(&self, welcome: &Welcome) -> Inventory {
        inventory::all(
            &self.store,
            Reader {
                scope: &self.scope,
                welcome,
            },
        )
    }

    /// Sums over the objects from this principal and over their statuses.
    pub fn sums(&self, welcome: &Welcome) -> SyncedResourceList {
        inventory::sums(&self.store, self.reader(welcome))
    }

    /// The objects from this principal in some ranges.
    pub fn inventory_in(&self, welcome: &Welcome, ranges: &Ranges) -> Inventory {
        inventory::in_ranges(&self.store, self.reader(welcome), ranges)
    }

    /// The Applications in some ranges.
    pub fn apps_in(&self, welcome: &Welcome, ranges: &Ranges) -> Vec<ObjectKey> {
        inventory::apps_in(&self.store, self.reader(welcome), ranges)
    }

    const fn reader<'a>(&'a self, welcome: &'a Welcome) -> Reader<'a> {
        Reader {
            scope: &self.scope,
            welcome,
        }
    }

    /// The state of one object, as an answer to the hub's list.
    pub fn find(&self, asked: &protocol::payload::SyncedResource, welcome: &Welcome) -> Inventory {
        inventory::one(
            &self.store,
            Reader {
                scope: &self.scope,
                welcome,
            },
            asked,
        )
    }

    /// Carries out an event. Failures become verdicts.
    pub async fn carry_out(&self, event: &Event, welcome: &Welcome) -> Verdict {
        if self.scope.mode == Mode::Autonomous {
            return self.command(event).await;
        }
        let reader = Reader {
            scope: &self.scope,
            welcome,
        };
        let message = match reader.understand(event) {
            Ok(message) => message,
            Err(unfit) => {
                tracing::info!(?event, error = %Chain(&unfit), "refused a message");
                return Verdict::Refused(Chain(&unfit).to_string());
            }
        };
        let verdict = self.reconcile(reader, event, &message).await;
        if let Verdict::Refused(reason) = &verdict {
            tracing::warn!(object = %message.key, reason, "refused a change of the hub");
            // The acknowledgement has the reason for our principal; a Go principal accepts errors of Applications only.
            if message.key.kind == Kind::Application && !welcome.capabilities.is_ours() {
                self.reports
                    .error(&message.key, &message.hub, reason.clone());
            }
        }
        verdict
    }

    /// The plan for a message, and the new desired state.
    fn plan(
        &self,
        reader: Reader<'_>,
        event: &Event,
        message: &Message,
    ) -> (Result<Plan, No>, Option<Wanted>) {
        let Message {
            order,
            hub: _,
            key,
            body,
        } = message;
        let Entry { live, wanted } = self.store.get(key);
        let live = live.as_deref();
        let same_name = live.is_some_and(|live| reader.is_same_name(message, live));
        match order {
            Order::Delete => {
                let take_away = match shared(key.kind) {
                    Some(_) => plan::withdraw,
                    None => plan::delete,
                };
                let (uid, principal) = (Meta::of(body).uid(), reader.principal_uid(event));
                let plan = take_away(uid, same_name, principal, live);
                let wanted = wanted.as_deref().map(|wanted| &wanted.desired);
                (Ok(plan.forgetting(uid, wanted)), None)
            }
            Order::Sync => (plan::sync(&event.event_id, body, live, self.policy), None),
            Order::Terminate => (plan::terminate(body, live, self.policy), None),
            Order::State => match reader.desired(event, message) {
                Err(unfit) => (Err(No::Refused(Chain(&unfit).to_string())), None),
                Ok(desired) => {
                    let written = wanted.and_then(|wanted| wanted.written.clone());
                    let incoming = Incoming {
                        message: body,
                        desired: &desired,
                        same_name,
                    };
                    let mut plan = plan::state(incoming, live, written.as_ref(), self.policy);
                    if !reader.welcome.capabilities.is_ours() {
                        let taken = self.store.taken(key, Meta::of(body).uid());
                        let before = taken.iter().find(|(it, _)| *it == keys::LAST_COMMAND);
                        let before = before.map(|(_, record)| record.as_str());
                        plan = plan.map(|it| plan::along(it, &event.event_id, body, live, before));
                    }
                    let wanted = Wanted {
                        desired,
                        digest: message::digest(key.kind, body),
                        written,
                        leaving: false,
                    };
                    (plan, Some(wanted))
                }
            },
        }
    }

    async fn lock(&self, key: &ObjectKey) -> Option<MutexGuard<'_, ()>> {
        let mut hasher = DefaultHasher::new();
        key.hash(&mut hasher);
        let slot = usize::try_from(hasher.finish() % LOCKS as u64).unwrap_or_default();
        match self.locks.get(slot) {
            Some(lock) => Some(lock.lock().await),
            None => None,
        }
    }
}
