//! Makes the spoke match what the hub said.
//!
//! `observe` watches, `plan` decides, `apply` writes, `drift` brings back what was edited here. One
//! object is written by one task at a time; different objects do not wait for each other.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;
use std::time::Duration;

use argocd::projection::Written;
use argocd::{Meta, glob};
use protocol::payload::{Ranges, SyncedResourceList};
use protocol::{Event, Kind, Mode, ObjectKey, Verdict};
use runtime::error::{Blame, Chain};
use runtime::parts::Spawner;
use tokio::sync::{Mutex, MutexGuard, watch};

use crate::config::{Policy, Scope};
use crate::link::Welcome;
use crate::metrics::Metrics;
use crate::report::Reports;
use crate::spoke::{Spoke, shared};
use crate::store::{Entry, Store, Wanted};

mod apply;
mod command;
mod drift;
mod held;
mod hold;
mod message;
mod observe;
mod patience;
mod plan;
mod sight;
mod stuck;

use apply::Writer;
use drift::Drift;
pub use held::Held;
use message::{Message, Order, Reader};
use observe::Observer;
use patience::{Look, Patience};
use plan::{Incoming, Memory, No, Plan};
pub use sight::Sight;
use stuck::Stuck;

/// Tasks that may write at once without waiting for each other by chance.
const LOCKS: usize = 64;
/// The API server is away or busy.
const WEATHER_PAUSE: Duration = Duration::from_secs(2);
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
    stuck: Arc<Stuck>,
    patience: Patience,
    // Shared with the watches.
    sight: Arc<watch::Sender<Sight>>,
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
        let sight = Sight::none_of(observe::targets(&scope));
        Self {
            writer,
            store,
            reports,
            drift: Arc::default(),
            stuck: Arc::default(),
            patience: Patience::default(),
            sight: Arc::new(watch::Sender::new(sight)),
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
        observe::start(spoke, &self.scope, &observer, &self.sight, spawner);
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
    pub fn sight(&self) -> watch::Receiver<Sight> {
        self.sight.subscribe()
    }

    /// Whether the spoke's API serves Argo CD's kinds, so that an object that is not known is not there.
    pub fn sees_argocd(&self) -> bool {
        self.sight.borrow().argocd() == protocol::payload::ArgoCd::Installed
    }

    /// What is here from this principal, for a resync.
    pub fn held(&self, welcome: &Welcome) -> Held {
        held::held(
            &self.store,
            Reader {
                scope: &self.scope,
                welcome,
            },
        )
    }

    /// Sums over what is here from this principal, and over what we show of it.
    pub fn sums(&self, welcome: &Welcome) -> SyncedResourceList {
        held::sums(&self.store, self.reader(welcome))
    }

    /// What is here from this principal in some ranges.
    pub fn held_in(&self, welcome: &Welcome, ranges: &Ranges) -> Held {
        held::held_in(&self.store, self.reader(welcome), ranges)
    }

    /// The Applications in some ranges.
    pub fn shown_in(&self, welcome: &Welcome, ranges: &Ranges) -> Vec<ObjectKey> {
        held::shown_in(&self.store, self.reader(welcome), ranges)
    }

    const fn reader<'a>(&'a self, welcome: &'a Welcome) -> Reader<'a> {
        Reader {
            scope: &self.scope,
            welcome,
        }
    }

    /// Whether we hold this object, as an answer to the hub's list.
    pub fn holds(&self, asked: &protocol::payload::SyncedResource, welcome: &Welcome) -> Held {
        held::one(
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
            tracing::warn!(object = %message.key, reason, "refused what the hub asked for");
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
                    let plan = plan::state(incoming, live, written.as_ref(), self.policy);
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

    async fn obey(&self, reader: Reader<'_>, event: &Event, message: &Message) -> Verdict {
        let key = &message.key;
        let _only_writer = self.lock(key).await;
        if message.wants_it_gone()
            && self.store.live(key).is_none()
            && let Some(verdict) = self.doubt_absence(key).await
        {
            return verdict;
        }
        let (planned, wanted) = self.plan(reader, event, message);
        match planned {
            Err(No::Refused(reason)) => Verdict::Refused(reason),
            Err(No::Occupied(reason)) => {
                if let Some(wanted) = wanted {
                    self.store.remember(key.clone(), wanted);
                }
                Verdict::Refused(reason.to_owned())
            }
            Err(No::NotYet(why)) => {
                tracing::debug!(object = %key, why, "cannot do it yet");
                Verdict::Retry { after: BUSY_PAUSE }
            }
            Ok(plan) if !plan.steps.is_empty() && !self.sight.borrow().serves(key.kind) => {
                tracing::debug!(object = %key, "waits for Argo CD");
                Verdict::Retry {
                    after: WEATHER_PAUSE,
                }
            }
            Ok(plan) => {
                let is_new = plan
                    .steps
                    .iter()
                    .any(|step| matches!(step, plan::Step::Create(_)));
                let verdict = self.apply(key, plan, wanted).await;
                if is_new && verdict == Verdict::Done {
                    self.tell_if_overlooked(key).await;
                }
                verdict
            }
        }
    }

    /// What to answer instead of "it is not here", if that is not sure.
    ///
    /// The hub takes our word for it and lets its object go, for ever. A cache does not say so: its watch may be
    /// behind or broken, as in an agent whose rights ended while its successor already runs.
    async fn doubt_absence(&self, key: &ObjectKey) -> Option<Verdict> {
        match self.writer.finds(key).await {
            Ok(false) => None,
            Ok(true) => {
                tracing::debug!(object = %key, "is there, but no watch has told of it yet");
                Some(Verdict::Retry { after: BUSY_PAUSE })
            }
            Err(error) => Some(self.judge(key, &error)),
        }
    }

    /// Carries out a plan, and remembers only what was carried out to its end.
    async fn apply(&self, key: &ObjectKey, plan: Plan, wanted: Option<Wanted>) -> Verdict {
        let Plan {
            steps,
            memory,
            gone,
        } = plan;
        let mut wanted = wanted;
        if !steps.is_empty() {
            tracing::debug!(object = %key, steps = steps.len(), ?memory, "applying");
        }
        if memory == Memory::Leaving {
            self.expect_departure(key, wanted.as_ref());
        }
        for step in steps {
            let desired = wanted.as_ref().map(|wanted| &wanted.desired);
            match self.writer.carry_out(key, step, desired).await {
                Ok(Some(written)) => note(&mut wanted, written),
                Ok(None) => {}
                Err(error) => return self.judge(key, &error),
            }
            // The status in the answer may be newer than what a watch will tell us about.
            self.tell(key);
        }
        self.patience.end(key);
        self.memorise(key, memory, wanted);
        if let Some(source_uid) = gone {
            self.reports.gone(key, &source_uid, None);
        }
        Verdict::Done
    }

    /// The hub has to be told how the object is now.
    fn tell(&self, key: &ObjectKey) {
        match self.scope.mode {
            Mode::Managed => self.reports.status(key.clone()),
            Mode::Autonomous => self.reports.owned(key.clone()),
        }
    }

    /// From here on it may go at any moment, and that is not to be undone.
    ///
    /// Without a digest: until the deletion was really asked for, the hub must say it again after a
    /// lost connection.
    fn expect_departure(&self, key: &ObjectKey, wanted: Option<&Wanted>) {
        let known = self.store.get(key).wanted;
        if let Some(wanted) = wanted.or(known.as_deref()) {
            let leaving = Wanted {
                leaving: true,
                digest: String::new(),
                ..wanted.clone()
            };
            self.store.remember(key.clone(), leaving);
        }
    }

    fn memorise(&self, key: &ObjectKey, memory: Memory, wanted: Option<Wanted>) {
        match (memory, wanted) {
            (Memory::Forget, _) => self.store.forget(key),
            (Memory::Want, Some(wanted)) => {
                self.store.remember(key.clone(), wanted);
                // What changed here while we wrote is looked at again.
                self.drift.check(key.clone());
            }
            (Memory::Leaving, Some(wanted)) => {
                let leaving = Wanted {
                    leaving: true,
                    ..wanted
                };
                self.store.remember(key.clone(), leaving);
                if self.store.live(key).is_none() {
                    // It is gone already, and that was said when it went.
                    self.store.forget(key);
                }
            }
            (Memory::Keep, _) | (Memory::Want | Memory::Leaving, None) => {}
        }
    }

    /// An Application in a namespace that Argo CD does not look at stays as it is for ever.
    async fn tell_if_overlooked(&self, key: &ObjectKey) {
        let argocd_namespace = &self.scope.argocd_namespace;
        if key.kind != Kind::Application || key.namespace == *argocd_namespace {
            return;
        }
        let asked = self.writer.spoke.application_namespaces(argocd_namespace);
        let patterns = match asked.await {
            Ok(patterns) => patterns.unwrap_or_default(),
            Err(error) => {
                tracing::debug!(error = %Chain(&error), "cannot read which namespaces Argo CD looks at");
                return;
            }
        };
        let mut patterns = patterns.split(',').map(str::trim);
        if !patterns.any(|pattern| glob::matches_entry(pattern, &key.namespace)) {
            let namespace = &key.namespace;
            // The name on the hub is the same: other namespaces are kept.
            self.reports.error(
                key,
                key,
                format!(
                    "Argo CD on the cluster does not look at namespace {namespace:?}: add it to application.namespaces \
                     of its ConfigMap argocd-cmd-params-cm and restart its application controller"
                ),
            );
        }
    }

    /// What a failed write means for the message that asked for it.
    fn judge(&self, key: &ObjectKey, error: &apply::Error) -> Verdict {
        if error.is_final() {
            self.patience.end(key);
            return Verdict::Refused(Chain(error).to_string());
        }
        if error.is_stale() {
            return self.look_again(key, error);
        }
        tracing::warn!(object = %key, error = %Chain(error), "cannot write; trying again");
        if error.lacks_namespace() && key.kind == Kind::Application {
            let namespace = &key.namespace;
            let message = format!(
                "namespace {namespace:?} does not exist on the cluster: create it, or let the agent do so \
                 (--create-namespace)"
            );
            self.reports.error(key, key, message);
        }
        let after = match error.blame() {
            Blame::Weather => WEATHER_PAUSE,
            Blame::User | Blame::Us => PERSON_PAUSE,
        };
        Verdict::Retry { after }
    }

    fn look_again(&self, key: &ObjectKey, error: &apply::Error) -> Verdict {
        let Look {
            pause,
            is_strange,
            is_over,
        } = self.patience.look(key);
        if is_over && error.is_unclear() {
            self.patience.end(key);
            return Verdict::Refused(Chain(error).to_string());
        }
        // We see Secrets of repositories only; this is another one.
        if is_over && key.kind == Kind::Repository {
            self.patience.end(key);
            return Verdict::Refused(plan::TAKEN.to_owned());
        }
        if is_strange {
            tracing::warn!(object = %key, error = %Chain(error), "not as our watch tells it; looking on");
        } else {
            tracing::debug!(object = %key, error = %Chain(error), "looking again");
        }
        Verdict::Retry { after: pause }
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

fn note(wanted: &mut Option<Wanted>, written: Written) {
    if let Some(wanted) = wanted {
        wanted.written = Some(written);
    }
}
