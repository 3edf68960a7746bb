//! Makes the spoke match what the hub said.
//!
//! `observe` watches, `plan` decides, `apply` writes, `drift` brings back what was edited here. One
//! object is written by one task at a time; different objects do not wait for each other.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;
use std::time::Duration;

use argocd::projection::{
    SpokeContext, Unusable, Written, desired_on_spoke, desired_project_on_spoke,
};
use argocd::{Meta, digest, glob};
use kube::Client;
use protocol::{Event, Kind, ObjectKey, Target, Verb, Verdict};
use runtime::error::{Blame, Chain};
use runtime::parts::Spawner;
use serde_json::Value;
use tokio::sync::{Mutex, MutexGuard, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::config::{Policy, Scope};
use crate::link::Welcome;
use crate::metrics::Metrics;
use crate::report::Reports;
use crate::store::{Store, Wanted};

mod apply;
mod drift;
mod held;
mod observe;
mod plan;

use apply::Writer;
use drift::{Contests, Drift};
pub use held::Held;
use observe::Observer;
use plan::{Incoming, Memory, No, Plan};

/// Tasks that may write at once without waiting for each other by chance.
const LOCKS: usize = 64;
/// The cache catches up within milliseconds.
const STALE_PAUSE: Duration = Duration::from_millis(100);
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
    metrics: Metrics,
    scope: Scope,
    policy: Policy,
    // One object always has the same lock; others may share it.
    locks: Vec<Mutex<()>>,
}

/// Something that cannot be done with a message, now or later.
#[derive(Debug, thiserror::Error)]
enum Unfit {
    #[error("{0} is not supported yet")]
    Unsupported(Target),
    #[error("{verb} means nothing for {target}")]
    NoMeaning { target: Target, verb: Verb },
    #[error("the message names no object")]
    NoObject,
    #[error("the message is not an object")]
    NotAnObject(#[source] serde_json::Error),
    #[error("the message is about another object than it says")]
    OtherObject,
    #[error("{0:?} is not a name")]
    BadName(String),
    #[error("namespace {0:?} is not admitted on this cluster")]
    Namespace(String),
    #[error("the object cannot be used")]
    Unusable(#[source] Unusable),
}

/// What the hub wants done about an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    State,
    Delete,
    Sync,
    Terminate,
}

impl Order {
    fn of(kind: Kind, verb: Verb) -> Option<Self> {
        let of_any = [
            (Verb::Create, Self::State),
            (Verb::SpecUpdate, Self::State),
            (Verb::Delete, Self::Delete),
        ];
        let of_applications = [
            (Verb::SetOperation, Self::Sync),
            (Verb::TerminateOperation, Self::Terminate),
        ];
        let of_applications = of_applications
            .into_iter()
            .filter(|_| kind == Kind::Application);
        of_any
            .into_iter()
            .chain(of_applications)
            .find(|(v, _)| *v == verb)
            .map(|(_, order)| order)
    }
}

/// A message about an object, understood.
struct Message {
    order: Order,
    /// What it is called on the hub.
    hub: ObjectKey,
    /// What it is called here.
    key: ObjectKey,
    body: Value,
}

impl Replica {
    /// Ready to write, and to watch once [started](Self::start).
    pub fn new(
        client: Client,
        scope: Scope,
        policy: Policy,
        store: Arc<Store>,
        reports: Arc<Reports>,
        metrics: Metrics,
    ) -> Self {
        let writer = Writer {
            client,
            store: Arc::clone(&store),
            metrics: metrics.clone(),
        };
        Self {
            writer,
            store,
            reports,
            drift: Arc::default(),
            metrics,
            scope,
            policy,
            locks: (0..LOCKS).map(|_| Mutex::default()).collect(),
        }
    }

    /// Starts the watches and the drift loop; the value is true once everything was listed.
    pub fn start(self: &Arc<Self>, spawner: &Spawner) -> watch::Receiver<bool> {
        let observer = Observer {
            store: Arc::clone(&self.store),
            reports: Arc::clone(&self.reports),
            drift: Arc::clone(&self.drift),
        };
        let synced = observe::start(&self.writer.client, &self.scope, &observer, spawner);
        let (replica, token) = (Arc::clone(self), spawner.token().clone());
        spawner.spawn("drift", async move { replica.hold(token).await });
        synced
    }

    /// What is here from this principal, for a resync.
    pub fn held(&self, welcome: &Welcome) -> Held {
        held::held(&self.store, welcome)
    }

    /// Whether we hold this object, as an answer to the hub's list.
    pub fn holds(&self, asked: &protocol::payload::SyncedResource, welcome: &Welcome) -> Held {
        held::one(&self.store, &self.scope.argocd_namespace, asked, welcome)
    }

    /// Does what an event says. Never fails: what cannot be done is a verdict.
    pub async fn carry_out(&self, event: &Event, welcome: &Welcome) -> Verdict {
        let message = match self.understand(event, welcome) {
            Ok(message) => message,
            Err(unfit) => {
                tracing::info!(?event, error = %Chain(&unfit), "refused a message");
                return Verdict::Refused(Chain(&unfit).to_string());
            }
        };
        let verdict = self.obey(event, &message, welcome).await;
        if let Verdict::Refused(reason) = &verdict {
            tracing::warn!(object = %message.key, reason, "refused what the hub asked for");
            // Ours is told by the acknowledgement.
            if !welcome.capabilities.is_ours() {
                self.reports
                    .error(&message.key, &message.hub, reason.clone());
            }
        }
        verdict
    }

    async fn obey(&self, event: &Event, message: &Message, welcome: &Welcome) -> Verdict {
        let Message {
            order: _,
            hub: _,
            key,
            body,
        } = message;
        let _only_writer = self.lock(key).await;
        let entry = self.store.get(key);
        let live = entry.live.as_deref();
        let principal = principal_uid(event, welcome);
        let (planned, desired) = match message.order {
            Order::Delete => (
                Ok(plan::delete(Meta::of(body).uid(), principal, live)),
                None,
            ),
            Order::Sync => (plan::sync(&event.event_id, body, live), None),
            Order::Terminate => (plan::terminate(body, live), None),
            Order::State => match self.desired(key.kind, body, welcome, principal) {
                Err(unfit) => (Err(No::Refused(Chain(&unfit).to_string())), None),
                Ok(desired) => {
                    let incoming = Incoming {
                        message: body,
                        desired: &desired,
                    };
                    let written = entry.wanted.as_ref().and_then(|w| w.written.as_ref());
                    (
                        plan::state(incoming, live, written, self.policy),
                        Some(desired),
                    )
                }
            },
        };
        match planned {
            Err(No::Refused(reason)) => Verdict::Refused(reason),
            Err(No::NotYet(why)) => {
                tracing::debug!(object = %key, why, "cannot do it yet");
                Verdict::Retry { after: BUSY_PAUSE }
            }
            Ok(plan) => {
                let remembered = desired.map(|desired| Wanted {
                    desired,
                    digest: digest::agreed(body),
                    written: entry
                        .wanted
                        .as_ref()
                        .and_then(|wanted| wanted.written.clone()),
                    leaving: false,
                });
                self.apply(key, plan, remembered).await
            }
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
        for step in steps {
            let desired = wanted.as_ref().map(|wanted| &wanted.desired);
            match self.writer.carry_out(key, step, desired).await {
                Ok(Some(written)) => note(&mut wanted, written),
                Ok(None) => {}
                Err(error) => return verdict_on(key, &error),
            }
            // The status in the answer may be newer than what a watch will tell us about.
            self.reports.status(key.clone());
        }
        self.memorise(key, memory, wanted);
        if let Some(source_uid) = gone {
            self.reports.gone(key, &source_uid, None);
        }
        Verdict::Done
    }

    fn memorise(&self, key: &ObjectKey, memory: Memory, wanted: Option<Wanted>) {
        match memory {
            Memory::Keep => {}
            Memory::Forget => self.store.forget(key),
            Memory::Want => {
                if let Some(wanted) = wanted {
                    self.store.remember(key.clone(), wanted);
                    // What changed here while we wrote, or was deleted, is looked at again.
                    self.drift.check(key.clone());
                }
            }
            Memory::Leaving => {
                let known = self.store.get(key).wanted.map(|wanted| (*wanted).clone());
                if let Some(wanted) = wanted.or(known) {
                    self.store.remember(
                        key.clone(),
                        Wanted {
                            leaving: true,
                            ..wanted
                        },
                    );
                }
                if self.store.live(key).is_none() {
                    self.store.forget(key);
                }
            }
        }
    }

    /// Holds what the hub wants against local changes, connected or not.
    async fn hold(&self, token: CancellationToken) {
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
        if plan.steps.is_empty() {
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
                    drop(verdict_on(&key, &error));
                    break;
                }
            }
        }
        if !failed && let Some(known) = known {
            self.store.remember(key.clone(), known);
            self.reports.status(key.clone());
        }
        contests.wrote(key, failed, Instant::now());
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

    /// Checks a message and finds out what its object is called here.
    fn understand(&self, event: &Event, welcome: &Welcome) -> Result<Message, Unfit> {
        let Target::Object(kind) = event.target else {
            return Err(Unfit::Unsupported(event.target));
        };
        if !matches!(kind, Kind::Application | Kind::AppProject) {
            return Err(Unfit::Unsupported(event.target));
        }
        let order = Order::of(kind, event.verb).ok_or(Unfit::NoMeaning {
            target: event.target,
            verb: event.verb,
        })?;
        let hub = event.object().ok_or(Unfit::NoObject)?;
        let body: Value = serde_json::from_slice(&event.payload).map_err(Unfit::NotAnObject)?;
        let meta = Meta::of(&body);
        if meta.name() != hub.name || meta.namespace() != hub.namespace {
            return Err(Unfit::OtherObject);
        }
        // A name goes into the path of a request.
        for name in [&hub.name, &hub.namespace] {
            if !is_name(name) {
                return Err(Unfit::BadName(name.chars().take(64).collect()));
            }
        }
        let namespace = self.namespace_here(&hub, welcome);
        if !self.is_admitted(&namespace) {
            return Err(Unfit::Namespace(namespace));
        }
        let key = ObjectKey::new(kind, namespace, hub.name.clone());
        Ok(Message {
            order,
            hub,
            key,
            body,
        })
    }

    fn namespace_here(&self, hub: &ObjectKey, welcome: &Welcome) -> String {
        let context = self.context(&hub.namespace, welcome, None);
        match hub.kind {
            Kind::Application => context.spoke_namespace(&hub.namespace).to_owned(),
            Kind::AppProject | Kind::Repository | Kind::GpgKey => {
                self.scope.argocd_namespace.clone()
            }
        }
    }

    fn is_admitted(&self, namespace: &str) -> bool {
        namespace == self.scope.argocd_namespace
            || self
                .scope
                .further_namespaces
                .iter()
                .any(|entry| glob::matches_entry(entry, namespace))
    }

    fn desired(
        &self,
        kind: Kind,
        body: &Value,
        welcome: &Welcome,
        principal_uid: Option<&str>,
    ) -> Result<Value, Unfit> {
        let context = self.context(Meta::of(body).namespace(), welcome, principal_uid);
        match kind {
            Kind::AppProject => desired_project_on_spoke(body, &context),
            Kind::Application | Kind::Repository | Kind::GpgKey => desired_on_spoke(body, &context),
        }
        .map_err(Unfit::Unusable)
    }

    /// Where we are, as seen from an object in `hub_namespace`.
    fn context<'a>(
        &'a self,
        hub_namespace: &'a str,
        welcome: &'a Welcome,
        principal_uid: Option<&'a str>,
    ) -> SpokeContext<'a> {
        // A Go principal that maps by namespace says neither our name nor that it does: then every
        // namespace is ours.
        let every = !welcome.capabilities.is_ours() && !self.scope.keep_namespaces;
        let cluster = if every {
            hub_namespace
        } else {
            welcome.agent_name.as_deref().unwrap_or_default()
        };
        SpokeContext {
            argocd_namespace: &self.scope.argocd_namespace,
            principal_namespace: &welcome.principal_namespace,
            principal_uid,
            cluster,
        }
    }
}

/// Ours says it once, a Go principal with each object.
fn principal_uid<'a>(event: &'a Event, welcome: &'a Welcome) -> Option<&'a str> {
    event
        .principal_uid
        .as_deref()
        .or(welcome.principal_uid.as_deref())
}

fn note(wanted: &mut Option<Wanted>, written: Written) {
    if let Some(wanted) = wanted {
        wanted.written = Some(written);
    }
}

/// What a failed write means for the message that asked for it.
fn verdict_on(key: &ObjectKey, error: &apply::Error) -> Verdict {
    if error.is_final() {
        return Verdict::Refused(Chain(error).to_string());
    }
    if error.is_stale() {
        tracing::debug!(object = %key, error = %Chain(error), "looking again");
        return Verdict::Retry { after: STALE_PAUSE };
    }
    tracing::warn!(object = %key, error = %Chain(error), "cannot write; trying again");
    let after = match error.blame() {
        Blame::Weather => WEATHER_PAUSE,
        Blame::User | Blame::Us => PERSON_PAUSE,
    };
    Verdict::Retry { after }
}

/// A DNS subdomain, as names of objects and namespaces are.
fn is_name(text: &str) -> bool {
    let good = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'.';
    let edge = |b: Option<&u8>| b.is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    text.len() <= 253
        && text.bytes().all(good)
        && !text.contains("..")
        && edge(text.as_bytes().first())
        && edge(text.as_bytes().last())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_name_never_gets_into_a_path() {
        for good in ["a", "guestbook-1", "my.app"] {
            assert!(is_name(good), "{good}");
        }
        let long = "a".repeat(254);
        for bad in [
            "",
            "..",
            "a/b",
            "a..b",
            "../secrets/x",
            "A",
            "-a",
            "a.",
            "a%2fb",
            "ä",
            &long,
        ] {
            assert!(!is_name(bad), "{bad}");
        }
    }
}
