//! Who wrote an Application, and when: its managed fields, which the principal does not keep.
//!
//! They are read when a page asks for the path of an Application, once for each version of it. Only the field managers, the
//! times and the names of the parts are kept.

use std::{collections::BTreeMap, sync::Mutex, time::Duration};

use argocd::Meta;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, ListParams},
    core::GroupVersionKind,
};
use runtime::error::Chain;
use serde_json::{Map, Value, json};
use tokio::time::timeout;

use super::cut;
use crate::lock::lock;

/// For so many Applications the last read fields are kept.
const KEPT: usize = 512;
/// The time for a read; without an answer the page shows the rest.
const TIME_LIMIT: Duration = Duration::from_secs(2);

/// Reads managed fields of Applications.
#[derive(derive_more::Debug)]
#[debug("ManagedFields")]
pub struct ManagedFields {
    client: Client,
    /// By namespace and name: the version and its fields. Locked for a lookup, never over an await.
    known: Mutex<BTreeMap<(String, String), (String, Value)>>,
}

impl ManagedFields {
    /// With no fields yet.
    pub fn new(client: Client) -> Self {
        Self {
            client,
            known: Mutex::default(),
        }
    }

    /// Adds its managed fields to an Application. Returns why that is not possible.
    pub async fn add(&self, application: &mut Value) -> Option<String> {
        let meta = Meta::of(application);
        let key = (meta.namespace().to_owned(), meta.name().to_owned());
        let version = meta.resource_version().to_owned();
        let known = lock(&self.known).get(&key).cloned();
        let fields = match known.filter(|(of, _)| *of == version) {
            Some((_, fields)) => fields,
            None => match timeout(TIME_LIMIT, self.read(&key)).await {
                Ok(Ok(fields)) => self.remember(key, version, fields),
                Ok(Err(error)) => {
                    return Some(format!("who wrote it: {}", Chain(&error)));
                }
                Err(_elapsed) => {
                    return Some("who wrote it: the API did not answer in time".to_owned());
                }
            },
        };
        let metadata = application.get_mut("metadata");
        if let Some(metadata) = metadata.and_then(Value::as_object_mut) {
            metadata.insert("managedFields".to_owned(), fields);
        }
        None
    }

    /// Our role may list Applications, but not get them.
    async fn read(&self, (namespace, name): &(String, String)) -> Result<Value, kube::Error> {
        let kind = GroupVersionKind::gvk("argoproj.io", "v1alpha1", "Application");
        let resource = ApiResource::from_gvk(&kind);
        let api: Api<DynamicObject> =
            Api::namespaced_with(self.client.clone(), namespace, &resource);
        let named = ListParams::default().fields(&format!("metadata.name={name}"));
        let found = api.list_metadata(&named).await?.items.into_iter().next();
        let entries = found.and_then(|it| it.metadata.managed_fields);
        Ok(pruned(&entries.unwrap_or_default()))
    }

    fn remember(&self, key: (String, String), version: String, fields: Value) -> Value {
        let mut known = lock(&self.known);
        if known.len() >= KEPT {
            known.pop_first();
        }
        known.insert(key, (version, fields.clone()));
        fields
    }
}

/// The manager, the time and the parts of each entry.
fn pruned(entries: &[ManagedFieldsEntry]) -> Value {
    let first = entries.iter().take(cut::ENTRIES);
    first
        .map(|entry| {
            let fields = entry.fields_v1.as_ref();
            let parts = fields.and_then(|it| it.0.as_object()).into_iter().flatten();
            let parts = parts.take(cut::ENTRIES);
            let parts: Map<_, _> = parts.map(|(part, _)| (part.clone(), json!({}))).collect();
            json!({ "manager": entry.manager, "time": entry.time, "fieldsV1": parts })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    };

    use kube::client::Body;

    use super::*;

    /// A client whose API answers lists with this status and counts them.
    fn client(status: u16) -> (Client, Arc<AtomicUsize>) {
        let asked = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&asked);
        let service = tower::service_fn(move |request: http::Request<Body>| {
            counter.fetch_add(1, Ordering::SeqCst);
            let query = request.uri().query().unwrap_or_default();
            assert!(query.contains("metadata.name%3Dshop"), "{query}");
            let fields = json!([{
                "manager": "kubectl", "time": "2026-11-22T11:00:00Z",
                "fieldsV1": { "f:spec": { "f:source": { "f:path": {} } } },
            }]);
            let item = json!({
                "apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata",
                "metadata": { "name": "shop", "namespace": "argocd", "managedFields": fields },
            });
            let body = json!({
                "apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadataList",
                "metadata": {}, "items": [item], "code": status, "status": "Failure",
                "message": "no", "reason": "Forbidden",
            });
            async move {
                http::Response::builder()
                    .status(status)
                    .body(Body::from(body.to_string().into_bytes()))
            }
        });
        (Client::new(service, "ours"), asked)
    }

    fn application(version: &str) -> Value {
        json!({ "metadata": { "namespace": "argocd", "name": "shop", "resourceVersion": version } })
    }

    #[tokio::test]
    async fn fields_are_read_once_for_each_version() {
        let (client, asked) = client(200);
        let managed = ManagedFields::new(client);
        for (version, reads) in [("1", 1), ("1", 1), ("2", 2)] {
            let mut object = application(version);
            assert_eq!(managed.add(&mut object).await, None);
            let fields = &object["metadata"]["managedFields"];
            assert_eq!(fields[0]["manager"], "kubectl");
            assert_eq!(fields[0]["fieldsV1"], json!({ "f:spec": {} }));
            assert_eq!(asked.load(Ordering::SeqCst), reads);
        }
    }

    #[tokio::test]
    async fn failure_is_a_doubt_and_the_application_stays_as_it_is() {
        let managed = ManagedFields::new(client(403).0);
        let mut object = application("1");
        let doubt = managed.add(&mut object).await.unwrap();
        assert!(doubt.starts_with("who wrote it: "), "{doubt}");
        assert_eq!(object, application("1"));
    }
}
