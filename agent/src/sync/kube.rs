//! The Kubernetes API of the spoke.

use argocd::keys::REPOSITORY_SELECTOR;
use argocd::{Meta, Patch};
use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use kube::api::{
    DeleteParams, DynamicObject, ListParams, Patch as Body, PatchParams, PostParams, Preconditions,
};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client};
use protocol::{Kind, ObjectKey};
use runtime::kube::{Event, Observation, Watch, watch_if_served};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::sync::api::{Answer, Error, Report, Reporter, Spoke, Target, shared};

mod error;

use error::{malformed, sorted, sorted_operations};

/// The error of a merge or JSON patch that the API refuses. Simulations refuse writes with it, too.
pub fn answer_to_patch(error: kube::Error, is_json: bool) -> Error {
    if is_json {
        sorted_operations(error)
    } else {
        sorted(error, &[404, 409])
    }
}

/// Our name in the managed fields.
const FIELD_MANAGER: &str = "argocd-agent";

/// The `ConfigMap` with the settings of Argo CD's programs, and its key with the namespaces that Argo CD watches.
const SETTINGS: &str = "argocd-cmd-params-cm";
const APPLICATION_NAMESPACES: &str = "application.namespaces";

/// The spoke's Kubernetes API.
#[derive(Clone, derive_more::Debug)]
#[debug("Kubernetes")]
pub struct Kubernetes {
    client: Client,
    label_selector: String,
}

impl Kubernetes {
    /// The API behind `client`; watches report only objects that match the selector.
    pub const fn new(client: Client, label_selector: String) -> Self {
        Self {
            client,
            label_selector,
        }
    }

    fn api(&self, key: &ObjectKey) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), &key.namespace, &resource(key.kind))
    }
}

/// The API resource of a kind.
fn resource(kind: Kind) -> ApiResource {
    let of_argocd = |name| {
        let kind = GroupVersionKind::gvk("argoproj.io", "v1alpha1", name);
        ApiResource::from_gvk(&kind)
    };
    match kind {
        Kind::AppProject => of_argocd("AppProject"),
        Kind::Application => of_argocd("Application"),
        Kind::Repository => ApiResource::erase::<Secret>(&()),
        Kind::GpgKey | Kind::TlsCerts | Kind::SshKnownHosts => ApiResource::erase::<ConfigMap>(&()),
    }
}

impl Spoke for Kubernetes {
    fn watch(
        &self,
        target: Target,
        report: Reporter,
        token: CancellationToken,
    ) -> BoxFuture<'static, ()> {
        let Target { kind, namespace } = target;
        let client = self.client.clone();
        let api = match &namespace {
            None => Api::all_with(client, &resource(kind)),
            Some(namespace) => Api::namespaced_with(client, namespace, &resource(kind)),
        };
        let watch = narrowed(Watch::new(api), kind, &self.label_selector);
        Box::pin(watch_if_served(watch, token, move |observation| {
            if let Some(translated) = to_report(kind, observation) {
                report(translated);
            }
        }))
    }

    /// Uses a list, which the agent's Role allows already.
    fn has<'a>(&'a self, key: &'a ObjectKey) -> Answer<'a, bool> {
        Box::pin(async move {
            let labels = labels(key.kind, "");
            let selected = only(key).labels(&labels);
            match self.api(key).list_metadata(&selected).await {
                Ok(found) => Ok(!found.items.is_empty()),
                // The spoke does not serve this kind.
                Err(kube::Error::Api(status)) if status.code == 404 => Ok(false),
                Err(error) => Err(sorted(error, &[])),
            }
        })
    }

    /// Every authenticated client may read the version, so a 401 means that the API rejects our identity.
    fn knows_us(&self) -> BoxFuture<'_, bool> {
        Box::pin(async move {
            let asked = self.client.apiserver_version().await;
            !matches!(asked, Err(kube::Error::Api(status)) if status.code == 401)
        })
    }

    fn create<'a>(&'a self, key: &'a ObjectKey, object: &'a Value) -> Answer<'a, Value> {
        Box::pin(async move {
            let object = serde_json::from_value(object.clone()).map_err(malformed)?;
            let made = self.api(key).create(&creates(), &object).await;
            value(made.map_err(|error| sorted(error, &[409]))?)
        })
    }

    fn patch<'a>(&'a self, key: &'a ObjectKey, uid: &'a str, patch: Patch) -> Answer<'a, Value> {
        Box::pin(async move {
            let body = body(patch.only_for(uid)).map_err(malformed)?;
            let params = PatchParams::apply(FIELD_MANAGER);
            let is_json = matches!(body, Body::Json(_));
            let patched = self.api(key).patch(&key.name, &params, &body).await;
            value(patched.map_err(|error| answer_to_patch(error, is_json))?)
        })
    }

    fn make_namespace<'a>(&'a self, name: &'a str) -> Answer<'a, ()> {
        Box::pin(async move {
            let mut namespace = Namespace::default();
            namespace.metadata.name = Some(name.to_owned());
            let namespaces = Api::<Namespace>::all(self.client.clone());
            match namespaces.create(&creates(), &namespace).await {
                Ok(_made) => Ok(()),
                Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
                Err(error) => Err(sorted(error, &[])),
            }
        })
    }

    fn application_namespaces<'a>(&'a self, argocd: &'a str) -> Answer<'a, Option<String>> {
        Box::pin(async move {
            let maps = Api::<ConfigMap>::namespaced(self.client.clone(), argocd);
            let settings = maps.get_opt(SETTINGS).await;
            let settings = settings.map_err(|error| sorted(error, &[]))?;
            Ok(settings.and_then(|map| map.data?.remove(APPLICATION_NAMESPACES)))
        })
    }

    fn last_writer<'a>(&'a self, key: &'a ObjectKey) -> Answer<'a, Option<String>> {
        Box::pin(async move {
            // A list of one object, since reading it would need another right.
            let list = self.api(key).list(&only(key)).await;
            let list = list.map_err(|error| sorted(error, &[]))?;
            let object = list.items.into_iter().next();
            Ok(object.and_then(|object| last_writer(object.metadata.managed_fields?)))
        })
    }

    fn delete<'a>(&'a self, key: &'a ObjectKey, uid: &'a str) -> Answer<'a, Option<Value>> {
        Box::pin(async move {
            let params = DeleteParams::background().preconditions(Preconditions {
                uid: Some(uid.to_owned()),
                resource_version: None,
            });
            let deleted = self.api(key).delete(&key.name, &params).await;
            let answer = deleted.map_err(|error| sorted(error, &[404, 409]))?;
            // The API answers with a status if the object is gone, or with its last version.
            let left = answer.left().map(|object| json!(object));
            Ok(left.filter(|left| Meta::of(left).is_deleting()))
        })
    }
}

/// Selects one object of a list.
fn only(key: &ObjectKey) -> ListParams {
    let name = format!("metadata.name={}", key.name);
    ListParams::default().fields(&name).limit(1)
}

fn creates() -> PostParams {
    PostParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PostParams::default()
    }
}

/// Restricts a watch: to Secrets of repositories, and to Argo CD's `ConfigMap`s of keys, which a user's label selector
/// does not match.
fn narrowed(watch: Watch<DynamicObject>, kind: Kind, label_selector: &str) -> Watch<DynamicObject> {
    let watch = watch.labels(&labels(kind, label_selector));
    match shared(kind) {
        Some(shared) => watch.fields(&format!("metadata.name={}", shared.name())),
        None => watch,
    }
}

fn labels(kind: Kind, label_selector: &str) -> String {
    match (shared(kind), kind) {
        (Some(_), _) => String::new(),
        (None, Kind::Repository) if label_selector.is_empty() => REPOSITORY_SELECTOR.to_owned(),
        (None, Kind::Repository) => format!("{REPOSITORY_SELECTOR},{label_selector}"),
        (None, _) => label_selector.to_owned(),
    }
}

fn to_report(kind: Kind, observation: Observation<DynamicObject>) -> Option<Report> {
    Some(match observation {
        Observation::NotServed => Report::NotServed,
        Observation::Seen(Event::Synced) => Report::Synced,
        Observation::Seen(Event::Rewound) => Report::Rewound,
        Observation::Seen(Event::Applied { object, .. }) => match serde_json::to_value(*object) {
            Ok(object) => Report::Applied(object),
            Err(error) => {
                tracing::warn!(%kind, %error, "skipping an object that cannot be cached");
                return None;
            }
        },
        Observation::Seen(Event::Deleted(gone)) => Report::Gone {
            key: ObjectKey::new(kind, gone.namespace.unwrap_or_default(), gone.name),
            uid: gone.uid,
            is_seen: gone.is_seen,
        },
    })
}

/// The other field manager that last wrote the spec, or else labels, annotations or finalizers.
fn last_writer(fields: Vec<ManagedFieldsEntry>) -> Option<String> {
    let writes = |entry: &ManagedFieldsEntry, field: &str| {
        let written = entry.fields_v1.as_ref();
        written.is_some_and(|written| written.0.get(field).is_some())
    };
    let others = fields.into_iter().filter(|entry| {
        entry
            .manager
            .as_deref()
            .is_some_and(|it| it != FIELD_MANAGER)
            && entry.subresource.as_deref().unwrap_or_default().is_empty()
            && (writes(entry, "f:spec") || writes(entry, "f:metadata"))
    });
    others
        .max_by_key(|entry| (writes(entry, "f:spec"), entry.time.clone()))?
        .manager
}

/// The patch as the body of a request.
fn body(patch: Patch) -> Result<Body<Value>, serde_json::Error> {
    match patch {
        Patch::Merge(patch) => Ok(Body::Merge(patch)),
        Patch::Json(operations) => serde_json::from_value(operations).map(Body::Json),
    }
}

fn value(mut object: DynamicObject) -> Result<Value, Error> {
    object.metadata.managed_fields = None;
    serde_json::to_value(object).map_err(malformed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contest_names_the_last_spec_writer_not_the_status_writer() {
        let entries = json!([
            { "manager": "argocd-agent", "time": "2026-01-01T00:00:09Z", "fieldsV1": { "f:spec": {} } },
            { "manager": "argocd-application-controller", "time": "2026-01-01T00:00:08Z", "fieldsV1": { "f:status": {} } },
            { "manager": "annotator", "time": "2026-01-01T00:00:07Z", "fieldsV1": { "f:metadata": {} } },
            { "manager": "helm", "time": "2026-01-01T00:00:02Z", "fieldsV1": { "f:spec": {} } },
            { "manager": "kubectl-edit", "time": "2026-01-01T00:00:03Z", "fieldsV1": { "f:spec": {} } },
        ]);
        let entries: Vec<ManagedFieldsEntry> = serde_json::from_value(entries).unwrap();
        assert_eq!(
            last_writer(entries.clone()).as_deref(),
            Some("kubectl-edit")
        );
        assert_eq!(
            last_writer(entries[..3].to_vec()).as_deref(),
            Some("annotator")
        );
        assert_eq!(last_writer(entries[..2].to_vec()), None);
    }

    #[test]
    fn a_patch_applies_only_to_the_object_with_its_uid() {
        let merge = body(Patch::Merge(json!({ "spec": {} })).only_for("u1")).unwrap();
        assert!(matches!(merge, Body::Merge(patch)
            if patch == json!({ "spec": {}, "metadata": { "uid": "u1" } })));
        let operations = json!([{ "op": "remove", "path": "/spec/a" }]);
        let patch = body(Patch::Json(operations).only_for("u1")).unwrap();
        let Body::Json(patch) = patch else {
            panic!("another kind of patch")
        };
        let first = serde_json::to_value(patch.0.first()).unwrap();
        assert_eq!(
            first,
            json!({ "op": "test", "path": "/metadata/uid", "value": "u1" })
        );
    }
}
