//! Live copies of some kinds of one API server, and a signal when any of them changes.

use std::{collections::HashMap, sync::Arc, time::Duration};

use anyhow::{Context, Result};
use futures::StreamExt;
use kube::{
    Client,
    api::DynamicObject,
    runtime::{
        WatchStreamExt, reflector,
        reflector::{ObjectRef, Store},
        watcher,
    },
};
use tokio::sync::watch;

use crate::{kinds::Kind, tasks::Tasks};

/// First lists of a control plane that has only just come up.
const FILLED_WITHIN: Duration = Duration::from_mins(1);

/// A kind to copy, with an optional namespace, name and label selector.
#[derive(Clone, Debug)]
pub(crate) struct Watched {
    kind: Kind,
    namespace: Option<String>,
    config: watcher::Config,
}

impl Watched {
    /// Every object of a kind.
    pub(crate) fn all(kind: Kind) -> Self {
        Self {
            kind,
            namespace: None,
            config: watcher::Config::default(),
        }
    }

    /// Only the objects of one namespace.
    pub(crate) fn within(mut self, namespace: &str) -> Self {
        self.namespace = Some(namespace.to_owned());
        self
    }

    /// Only the objects of this name.
    pub(crate) fn named(mut self, name: &str) -> Self {
        self.config = self.config.fields(&format!("metadata.name={name}"));
        self
    }

    /// Only the objects that match a label selector.
    pub(crate) fn labelled(mut self, selector: &str) -> Self {
        self.config = self.config.labels(selector);
        self
    }
}

/// The copies. Cheap to read; as fresh as the watch.
#[derive(Debug)]
pub(crate) struct Cache {
    stores: HashMap<Kind, Store<DynamicObject>>,
    /// Counts changes. A watch channel holds one value: readers that are slow see fewer, later ones.
    changes: watch::Sender<u64>,
}

impl Cache {
    /// Starts copying and returns once every kind was listed.
    pub(crate) async fn fill(
        client: &Client,
        watched: Vec<Watched>,
        tasks: &mut Tasks,
    ) -> Result<Arc<Self>> {
        let changes = watch::Sender::new(0);
        let mut stores = HashMap::new();
        for Watched {
            kind,
            namespace,
            config,
        } in watched
        {
            let resource = kind.resource();
            let api = namespace.map_or_else(
                || kind.all(client),
                |namespace| kind.within(client, &namespace),
            );
            let writer = reflector::store::Writer::new(resource);
            stores.insert(kind, writer.as_reader());
            let changes = changes.clone();
            tasks.spawn(async move {
                let mut events = std::pin::pin!(
                    reflector(writer, watcher(api, config))
                        .default_backoff()
                        .modify(|object| object.metadata.managed_fields = None)
                );
                while let Some(event) = events.next().await {
                    match event {
                        Ok(_) => changes.send_modify(|count| *count += 1),
                        Err(error) => tracing::debug!(kind = kind.name, %error, "watch again"),
                    }
                }
            });
        }
        let cache = Arc::new(Self { stores, changes });
        cache.wait_filled().await?;
        Ok(cache)
    }

    async fn wait_filled(&self) -> Result<()> {
        for (kind, store) in &self.stores {
            tokio::time::timeout(FILLED_WITHIN, store.wait_until_ready())
                .await
                .with_context(|| {
                    format!("{} were not listed within {FILLED_WITHIN:?}", kind.plural)
                })?
                .with_context(|| format!("the watch of {} ended", kind.plural))?;
        }
        Ok(())
    }

    /// A receiver that wakes at every change of anything copied here.
    pub(crate) fn subscribe(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Every object of a kind, in the order of namespace and name.
    pub(crate) fn list(&self, kind: Kind) -> Vec<Arc<DynamicObject>> {
        let mut objects = self.stores.get(&kind).map(Store::state).unwrap_or_default();
        objects.sort_by(|a, b| {
            (&a.metadata.namespace, &a.metadata.name)
                .cmp(&(&b.metadata.namespace, &b.metadata.name))
        });
        objects
    }

    /// The objects of a kind in one namespace.
    pub(crate) fn within(&self, kind: Kind, namespace: &str) -> Vec<Arc<DynamicObject>> {
        let mut objects = self.list(kind);
        objects.retain(|object| object.metadata.namespace.as_deref() == Some(namespace));
        objects
    }

    /// One cluster-scoped object.
    pub(crate) fn get(&self, kind: Kind, name: &str) -> Option<Arc<DynamicObject>> {
        self.stores
            .get(&kind)?
            .get(&ObjectRef::new_with(name, kind.resource()))
    }

    /// One namespaced object.
    pub(crate) fn get_within(
        &self,
        kind: Kind,
        namespace: &str,
        name: &str,
    ) -> Option<Arc<DynamicObject>> {
        let key = ObjectRef::new_with(name, kind.resource()).within(namespace);
        self.stores.get(&kind)?.get(&key)
    }
}
