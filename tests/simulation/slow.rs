//! Stores with the manners of an API server over a network: they take time, watches lag, writes fail, answers get lost.

use std::fmt::Debug;
use std::sync::{Arc, Mutex, PoisonError};

use agent::sync::api::{self, Spoke};
use agent::sync::kube as spoke;
use argocd::{Meta, Patch};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use live::events::{self, Observed};
use principal::store::{self, Store};
use protocol::ObjectKey;
use runtime::error::ErrorClass;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::dice::Dice;
use crate::refusals::{Refusals, Write};

/// How an API server behaves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Manners {
    /// Milliseconds before a write is carried out, and again before it is answered.
    pub(crate) write: (u64, u64),
    /// Milliseconds by which a watch lags.
    pub(crate) watch: (u64, u64),
    /// How often a write fails, of one.
    pub(crate) failing: f64,
    /// How often the answer to a write that was carried out is lost, of one.
    pub(crate) forgetful: f64,
}

impl Manners {
    pub(crate) const GOOD: Self = Self {
        write: (0, 5),
        watch: (0, 30),
        failing: 0.0,
        forgetful: 0.0,
    };
    pub(crate) const BAD: Self = Self {
        write: (0, 400),
        watch: (0, 2500),
        failing: 0.15,
        forgetful: 0.15,
    };
}

/// A store with manners that can change.
#[derive(Clone, Debug)]
pub(crate) struct Slow<S> {
    pub(crate) inner: S,
    /// The share of watch events that are dropped for good. An API server never drops one.
    pub(crate) forgets: f64,
    pub(crate) refusals: Refusals,
    dice: Dice,
    manners: Arc<Mutex<Manners>>,
    failures: Arc<Mutex<usize>>,
}

impl<S> Slow<S> {
    pub(crate) fn new(inner: S, dice: &Dice) -> Self {
        Self {
            inner,
            forgets: 0.0,
            refusals: Refusals::default(),
            dice: dice.clone(),
            manners: Arc::new(Mutex::new(Manners::GOOD)),
            failures: Arc::default(),
        }
    }

    pub(crate) fn behave(&self, manners: Manners) {
        *self.manners.lock().unwrap_or_else(PoisonError::into_inner) = manners;
    }

    /// How often a write failed or its answer was lost.
    pub(crate) fn failures(&self) -> usize {
        *self.failures.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn manners(&self) -> Manners {
        *self.manners.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the write comes to nothing: before it is carried out, or on the way back.
    async fn way(&self, often: f64) -> bool {
        tokio::time::sleep(self.dice.millis(self.manners().write)).await;
        let fails = self.dice.probability(often);
        if fails {
            *self.failures.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        }
        fails
    }

    /// Passes reports on as late as a watch lags, in order.
    fn lagging<R: Send + 'static>(
        &self,
        report: Arc<dyn Fn(R) + Send + Sync>,
        watch: impl FnOnce(Arc<dyn Fn(R) + Send + Sync>) -> BoxFuture<'static, ()>,
        token: CancellationToken,
    ) -> BoxFuture<'static, ()> {
        let (sender, mut receiver) = mpsc::channel::<(Instant, R)>(100_000);
        let slow = (self.dice.clone(), Arc::clone(&self.manners), self.forgets);
        let watching = watch(Arc::new(move |report| {
            let (dice, manners, forgets) = &slow;
            if dice.probability(*forgets) {
                return;
            }
            let lag = manners.lock().unwrap_or_else(PoisonError::into_inner).watch;
            let at = Instant::now() + dice.millis(lag);
            assert!(sender.try_send((at, report)).is_ok(), "room for reports");
        }));
        let passing = async move {
            while let Some((at, updates)) = receiver.recv().await {
                tokio::time::sleep_until(at).await;
                report(updates);
            }
        };
        async move {
            token
                .run_until_cancelled(futures::future::join(watching, passing))
                .await;
        }
        .boxed()
    }
}

#[tonic::async_trait]
impl Store for Slow<store::Memory> {
    fn watch(&self, report: store::Reporter, token: CancellationToken) -> BoxFuture<'static, ()> {
        let inner = |report| self.inner.watch(report, token.clone());
        self.lagging(report, inner, token.clone())
    }

    async fn patch(
        &self,
        kind: store::Watched,
        key: &principal::Key,
        version: &str,
        patch: Patch,
    ) -> Result<store::Packed, store::WriteError> {
        let which = Write::patch(&key.name, &patch);
        self.stored(which, self.inner.patch(kind, key, version, patch))
            .await
    }

    async fn create(
        &self,
        kind: store::Watched,
        object: &Value,
    ) -> Result<store::Packed, store::WriteError> {
        let which = Write::of(Meta::of(object).name());
        self.stored(which, self.inner.create(kind, object)).await
    }

    async fn delete(
        &self,
        kind: store::Watched,
        key: &principal::Key,
        uid: &str,
        version: &str,
    ) -> Result<(), store::WriteError> {
        let delete = Store::delete(&self.inner, kind, key, uid, version);
        self.stored(Write::of(&key.name), delete).await
    }

    async fn events(&self, of: &Observed) -> Result<Vec<Value>, store::WriteError> {
        self.sent(self.inner.events(of)).await
    }

    async fn note(&self, of: &Observed, write: &events::Write) -> Result<(), store::WriteError> {
        let note = self.inner.note(of, write);
        self.stored(Write::of(&of.name), note).await
    }

    async fn principal_uid(&self) -> Result<String, store::WriteError> {
        self.inner.principal_uid().await
    }
}

impl Slow<store::Memory> {
    async fn stored<T>(
        &self,
        which: Write<'_>,
        write: impl Future<Output = Result<T, store::WriteError>>,
    ) -> Result<T, store::WriteError> {
        let refused = self.refusals.of(which.name, &self.dice);
        let write = async {
            match refused {
                Some(answer) => Err(store::kube::answer_to_patch(answer.error(), which.is_json)),
                None => write.await,
            }
        };
        self.sent(write).await
    }

    async fn sent<T>(
        &self,
        write: impl Future<Output = Result<T, store::WriteError>>,
    ) -> Result<T, store::WriteError> {
        let away = || store::WriteError::Unavailable("the API server is away".into());
        if self.way(self.manners().failing).await {
            return Err(away());
        }
        let written = write.await;
        if self.way(self.manners().forgetful).await {
            return Err(away());
        }
        written
    }
}

impl Slow<api::Memory> {
    async fn written<T>(
        &self,
        which: Write<'_>,
        write: impl Future<Output = Result<T, api::Error>>,
    ) -> Result<T, api::Error> {
        let refused = self.refusals.of(which.name, &self.dice);
        let write = async {
            match refused {
                Some(answer) => Err(spoke::answer_to_patch(answer.error(), which.is_json)),
                None => write.await,
            }
        };
        self.sent(write).await
    }

    async fn sent<T>(
        &self,
        write: impl Future<Output = Result<T, api::Error>>,
    ) -> Result<T, api::Error> {
        let away = || api::Error::Failed {
            error_class: ErrorClass::Transient,
            source: "the API server is away".into(),
        };
        if self.way(self.manners().failing).await {
            return Err(away());
        }
        let written = write.await;
        if self.way(self.manners().forgetful).await {
            return Err(away());
        }
        written
    }
}

impl Spoke for Slow<api::Memory> {
    fn watch(
        &self,
        target: api::Target,
        report: api::Reporter,
        token: CancellationToken,
    ) -> BoxFuture<'static, ()> {
        let inner = |report| self.inner.watch(target, report, token.clone());
        self.lagging(report, inner, token.clone())
    }

    fn has<'a>(&'a self, key: &'a ObjectKey) -> BoxFuture<'a, Result<bool, api::Error>> {
        self.sent(self.inner.has(key)).boxed()
    }

    fn knows_us(&self) -> BoxFuture<'_, bool> {
        self.inner.knows_us()
    }

    fn create<'a>(
        &'a self,
        key: &'a ObjectKey,
        object: &'a Value,
    ) -> BoxFuture<'a, Result<Value, api::Error>> {
        let create = self.inner.create(key, object);
        self.written(Write::of(&key.name), create).boxed()
    }

    fn patch<'a>(
        &'a self,
        key: &'a ObjectKey,
        uid: &'a str,
        patch: Patch,
    ) -> BoxFuture<'a, Result<Value, api::Error>> {
        let which = Write::patch(&key.name, &patch);
        self.written(which, self.inner.patch(key, uid, patch))
            .boxed()
    }

    fn make_namespace<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<(), api::Error>> {
        self.sent(self.inner.make_namespace(name)).boxed()
    }

    fn application_namespaces<'a>(
        &'a self,
        argocd_namespace: &'a str,
    ) -> BoxFuture<'a, Result<Option<String>, api::Error>> {
        self.inner.application_namespaces(argocd_namespace)
    }

    fn last_writer<'a>(
        &'a self,
        key: &'a ObjectKey,
    ) -> BoxFuture<'a, Result<Option<String>, api::Error>> {
        self.inner.last_writer(key)
    }

    fn delete<'a>(
        &'a self,
        key: &'a ObjectKey,
        uid: &'a str,
    ) -> BoxFuture<'a, Result<Option<Value>, api::Error>> {
        let delete = Spoke::delete(&self.inner, key, uid);
        self.written(Write::of(&key.name), delete).boxed()
    }
}
