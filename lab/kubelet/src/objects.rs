//! The objects that Pods refer to.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{ConfigMap, Secret, Service};
use kube::{Api, Client};

use crate::{tasks::Tasks, watched::Watched};

/// Looks up the objects that Pods refer to. A trait, so that code that uses them can be
/// tested without a cluster.
pub(crate) trait Look {
    fn config_map(&self, namespace: &str, name: &str) -> Option<Arc<ConfigMap>>;
    fn secret(&self, namespace: &str, name: &str) -> Option<Arc<Secret>>;
    /// All Services of a namespace, in the order of their names.
    fn services(&self, namespace: &str) -> Vec<Arc<Service>>;
}

/// The objects of the cluster that Pods refer to, kept by watches.
#[derive(Clone)]
pub(crate) struct Objects {
    config_maps: Watched<ConfigMap>,
    secrets: Watched<Secret>,
    services: Watched<Service>,
}

impl Objects {
    pub(crate) fn start(client: &Client, services: Watched<Service>, tasks: &Tasks) -> Self {
        Self {
            config_maps: Watched::start(Api::all(client.clone()), tasks),
            secrets: Watched::start(Api::all(client.clone()), tasks),
            services,
        }
    }

    /// Whether all first lists have arrived: before, a missing object may still exist.
    pub(crate) fn are_ready(&self) -> bool {
        self.config_maps.is_ready() && self.secrets.is_ready() && self.services.is_ready()
    }

    /// Waits until an object has changed that a volume or a variable may use. Cancel safe.
    ///
    /// Services are excluded: the kubelet reads them when a container starts, like the real one.
    pub(crate) async fn changed(&mut self) {
        tokio::select! {
            () = self.config_maps.changed() => {}
            () = self.secrets.changed() => {}
            () = self.services.ready_now() => {}
        }
    }
}

impl Look for Objects {
    fn config_map(&self, namespace: &str, name: &str) -> Option<Arc<ConfigMap>> {
        self.config_maps.get(namespace, name)
    }

    fn secret(&self, namespace: &str, name: &str) -> Option<Arc<Secret>> {
        self.secrets.get(namespace, name)
    }

    fn services(&self, namespace: &str) -> Vec<Arc<Service>> {
        let mut services = self.services.all();
        services.retain(|service| service.metadata.namespace.as_deref() == Some(namespace));
        services.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
        services
    }
}

#[cfg(test)]
pub(crate) mod fake {
    use std::collections::BTreeMap;

    use super::*;

    /// A cluster of a few objects.
    #[derive(Default)]
    pub(crate) struct Few {
        pub(crate) config_maps: BTreeMap<String, Arc<ConfigMap>>,
        pub(crate) secrets: BTreeMap<String, Arc<Secret>>,
        pub(crate) services: Vec<Arc<Service>>,
    }

    impl Few {
        pub(crate) fn config_map(mut self, key: &str, value: serde_json::Value) -> Self {
            self.config_maps.insert(
                key.to_owned(),
                Arc::new(serde_json::from_value(value).unwrap()),
            );
            self
        }

        pub(crate) fn secret(mut self, key: &str, value: serde_json::Value) -> Self {
            self.secrets.insert(
                key.to_owned(),
                Arc::new(serde_json::from_value(value).unwrap()),
            );
            self
        }

        pub(crate) fn service(mut self, value: serde_json::Value) -> Self {
            self.services
                .push(Arc::new(serde_json::from_value(value).unwrap()));
            self
        }
    }

    impl Look for Few {
        fn config_map(&self, namespace: &str, name: &str) -> Option<Arc<ConfigMap>> {
            self.config_maps
                .get(&format!("{namespace}/{name}"))
                .cloned()
        }

        fn secret(&self, namespace: &str, name: &str) -> Option<Arc<Secret>> {
            self.secrets.get(&format!("{namespace}/{name}")).cloned()
        }

        fn services(&self, namespace: &str) -> Vec<Arc<Service>> {
            let in_namespace =
                |service: &&Arc<Service>| service.metadata.namespace.as_deref() == Some(namespace);
            self.services.iter().filter(in_namespace).cloned().collect()
        }
    }
}
