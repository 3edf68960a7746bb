//! Makes the spoke match the desired state of the hub.
//!
//! `observe` watches, `message` checks what the hub sends, `plan` decides, `apply` writes and remembers. Beside the hub's
//! messages, `revert` undoes local edits and `refresh_nudger` refreshes what Argo CD compared too early. One task at a
//! time writes an object; different objects do not wait for each other.

use std::sync::Arc;

use argocd::{Meta, keys};
use protocol::payload::ArgoCd;
use protocol::{Event, Kind, Mode, Verdict};
use runtime::error::Chain;
use runtime::parts::Spawner;
use tokio::sync::watch;

use crate::config::{Policy, Scope};
use crate::metrics::Metrics;
use crate::sync::api::{Spoke, shared};
use crate::sync::cache::{Entry, Store, Wanted};
use crate::sync::report::Reports;
use crate::transport::Welcome;

mod apply;
mod cache_status;
mod drift;
mod inventory;
mod message;
mod observe;
mod plan;
mod refresh_nudger;
mod revert;
mod stale_cache_backoff;
mod state;

use apply::BUSY_PAUSE;
pub use cache_status::{CacheStatus, Running};
use drift::Drift;
pub(crate) use inventory::{Inventory, checksum};
use message::{Message, Order, Reader};
use observe::Observer;
use plan::{Deleted, Incoming, No, Plan};
use refresh_nudger::RefreshNudger;
use revert::Reverter;
use stale_cache_backoff::StaleCacheBackoff;
use state::Locks;
pub use state::Replica;

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
        let cache_status = CacheStatus::none_of(observe::targets(&scope));
        Self {
            spoke,
            scope,
            policy,
            metrics,
            store,
            reports,
            sync_status: watch::Sender::new(cache_status),
            drift: Drift::default(),
            backoff: StaleCacheBackoff::default(),
            locks: Locks::default(),
        }
    }

    /// Starts the watches, the reverts of local edits and the refreshes.
    pub fn start(self: &Arc<Self>, spawner: &Spawner) {
        let stuck = Arc::<RefreshNudger>::default();
        let observer = Observer {
            replica: Arc::clone(self),
            stuck: Arc::clone(&stuck),
        };
        observe::start(&observer, spawner);
        let token = || spawner.token().clone();
        let (replica, stops) = (Arc::clone(self), token());
        spawner.spawn("drift", Reverter::new(replica).run(stops));
        let (replica, stops) = (Arc::clone(self), token());
        spawner.spawn("stuck", async move { stuck.run(&replica, stops).await });
    }

    /// Who owns the Applications.
    pub fn mode(&self) -> Mode {
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
        self.sync_status.borrow().argocd() == ArgoCd::Installed
    }

    /// The objects from this principal, for a resync.
    pub(crate) fn inventory<'a>(&'a self, welcome: &'a Welcome) -> Inventory<'a> {
        Inventory::new(&self.store, self.reader(welcome))
    }

    fn reader<'a>(&'a self, welcome: &'a Welcome) -> Reader<'a> {
        Reader {
            scope: &self.scope,
            welcome,
        }
    }

    /// Carries out an event. Failures become verdicts.
    pub async fn carry_out(&self, event: &Event, welcome: &Welcome) -> Verdict {
        let reader = self.reader(welcome);
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
            // The acknowledgement has the reason for our principal; a Go principal accepts errors of Applications of
            // managed clusters only.
            if message.key.kind == Kind::Application
                && self.mode() == Mode::Managed
                && !welcome.capabilities.is_ours()
            {
                let reports = &self.reports;
                reports.error(&message.key, &message.hub, reason.clone());
            }
        }
        verdict
    }

    async fn reconcile(&self, reader: Reader<'_>, event: &Event, message: &Message) -> Verdict {
        let (key, store) = (&message.key, &self.store);
        let _only_writer = self.locks.lock(key).await;
        if message.is_deletion()
            && store.live(key).is_none()
            && let Some(verdict) = self.confirm_absence(key).await
        {
            return verdict;
        }
        let (plan, wanted) = self.plan(reader, event, message);
        match plan {
            Ok(plan) => self.apply(key, plan, wanted).await,
            Err(No::Refused(reason)) => Verdict::Refused(reason),
            Err(No::Occupied(reason)) => {
                if let Some(wanted) = wanted {
                    store.remember(key.clone(), wanted);
                }
                Verdict::Refused(reason.to_owned())
            }
            Err(No::NotYet(why)) => {
                tracing::debug!(object = %key, why, "cannot run the command yet; retrying");
                Verdict::Retry { after: BUSY_PAUSE }
            }
        }
    }

    /// The plan for a message, and the new desired state.
    fn plan(
        &self,
        reader: Reader<'_>,
        event: &Event,
        message: &Message,
    ) -> (Result<Plan, No>, Option<Wanted>) {
        let Message { key, body, .. } = message;
        let store = &self.store;
        let Entry { live, wanted } = store.get(key);
        let live = live.as_deref();
        let same_name = live.is_some_and(|live| reader.is_same_name(message, live));
        let plan = match message.order {
            Order::Delete => {
                let take_away = match shared(key.kind) {
                    Some(_) => plan::withdraw,
                    None => plan::delete,
                };
                let uid = Meta::of(body).uid();
                let principal_uid = reader.principal_uid(event);
                let deleted = Deleted {
                    uid,
                    same_name,
                    principal_uid,
                };
                let plan = take_away(deleted, live);
                Ok(plan.forgetting(uid, wanted.as_deref().map(|wanted| &wanted.desired)))
            }
            Order::Sync => plan::sync(&event.event_id, body, live, self.policy),
            Order::Terminate => plan::terminate(body, live, self.policy),
            Order::OfMirror(verb) => plan::of_mirror(verb, &event.event_id, body, live),
            Order::State => match reader.desired(event, message) {
                Err(unfit) => Err(No::Refused(Chain(&unfit).to_string())),
                Ok(desired) => {
                    let written = wanted.and_then(|wanted| wanted.written.clone());
                    let incoming = Incoming {
                        message: body,
                        desired: &desired,
                        same_name,
                    };
                    let mut plan = plan::state(incoming, live, written.as_ref(), self.policy);
                    if !reader.welcome.capabilities.is_ours() {
                        let taken = store.taken(key, Meta::of(body).uid());
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
                    return (plan, Some(wanted));
                }
            },
        };
        (plan, None)
    }
}
