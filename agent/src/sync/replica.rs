//! Makes the spoke match what the hub said.
//!
//! `observe` watches, `plan` decides, `obey` sees to it, `apply` writes, `drift` brings back what was edited here. One
//! object is written by one task at a time; different objects do not wait for each other.

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

/// Tasks that may write at once without waiting for each other by chance.
const LOCKS: usize = 64;
/// The API server is away or busy.
const TRANSIENT_PAUSE: Duration = Duration::from_secs(2);
/// A person has to do something first, such as grant a right or install Argo CD.
const PERSON_PAUSE: Duration = Duration::from_secs(15);
/// A command waits for another one to end.
const BUSY_PAUSE: Duration = Duration::from_secs(1);

/// The spoke's side of what the hub says.
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
        spawner.spawn("drift", async move { replica.hold(token).await });
        let (replica, token) = (Arc::clone(self), spawner.token().clone());
        spawner.spawn("stuck", async move { replica.unstick(token).await });
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

    /// Whether the API of this cluster knows this agent; yes, as long as it does not say no.
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

    /// What the watches see of the spoke.
    pub fn sync_status(&self) -> watch::Receiver<CacheStatus> {
        self.sync_status.subscribe()
    }

    /// Somebody has looked at what of an Argo CD runs here.
    pub fn saw_running(&self, runs: Running) {
        self.sync_status
            .send_if_modified(|sync_status| sync_status.saw_running(runs));
    }

    /// Whether the spoke's API serves Argo CD's kinds, so that an object that is not known is not there.
    pub fn sees_argocd(&self) -> bool {
        self.sync_status.borrow().argocd() == protocol::payload::ArgoCd::Installed
    }

    /// What is here from this principal, for a resync.
    pub fn retained(&self, welcome: &Welcome) -> Inventory {
        inventory::retained(
            &self.store,
            Reader {
                scope: &self.scope,
                welcome,
            },
        )
    }

    /// Sums over what is here from this principal, and over what we show of it.
    pub fn sums(&self, welcome: &Welcome) -> SyncedResourceList {
        inventory::sums(&self.store, self.reader(welcome))
    }

    /// What is here from this principal in some ranges.
    pub fn held_in(&self, welcome: &Welcome, ranges: &Ranges) -> Inventory {
        inventory::held_in(&self.store, self.reader(welcome), ranges)
    }

    /// The Applications in some ranges.
    pub fn shown_in(&self, welcome: &Welcome, ranges: &Ranges) -> Vec<ObjectKey> {
        inventory::shown_in(&self.store, self.reader(welcome), ranges)
    }

    const fn reader<'a>(&'a self, welcome: &'a Welcome) -> Reader<'a> {
        Reader {
            scope: &self.scope,
            welcome,
        }
    }

    /// Whether we hold this object, as an answer to the hub's list.
    pub fn holds(&self, asked: &protocol::payload::SyncedResource, welcome: &Welcome) -> Inventory {
        inventory::one(
            &self.store,
            Reader {
                scope: &self.scope,
                welcome,
            },
            asked,
        )
    }

    /// Does what an event says. Never fails: what cannot be done is a verdict.
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
        let verdict = self.obey(reader, event, &message).await;
        if let Verdict::Refused(reason) = &verdict {
            tracing::warn!(object = %message.key, reason, "refused a change of the hub");
            // Ours is told by the acknowledgement, and Go's listens for Applications only.
            if message.key.kind == Kind::Application && !welcome.capabilities.is_ours() {
                self.reports
                    .error(&message.key, &message.hub, reason.clone());
            }
        }
        verdict
    }

    /// What a message comes to here, and what the hub then wants.
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
