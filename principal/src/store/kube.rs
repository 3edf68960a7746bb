//! The hub's API on Kubernetes.

use argocd::{
    Meta, Patch as Change,
    entries::Shared,
    global_projects::GlobalProjects,
    keys::{self, REPOSITORY_SELECTOR, addon::IDENTITY},
};
use async_trait::async_trait;
use futures::{
    FutureExt as _,
    future::{BoxFuture, join, join_all},
};
use k8s_openapi::{
    api::core::v1::{ConfigMap, Event as Noted, Secret},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::{
    Api, Client,
    api::{
        ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams,
        Preconditions,
    },
    core::DynamicResourceScope,
};
use live::events::{self, Observed};
use runtime::kube::{Event, Watch, watch_trimmed};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{Packed, Report, Reporter, Store, Watched, WriteError};
use crate::domain::Key;

mod object;

use object::Object;

/// The key of the `ConfigMap` with this principal's identity.
const IDENTITY_KEY: &str = "principal-uid";
/// Our name in the managed fields.
const FIELD_MANAGER: &str = "argocd-agent-principal";

/// The hub's Kubernetes API.
#[derive(Clone, derive_more::Debug)]
pub struct Kubernetes {
    #[debug(skip)]
    client: Client,
    argocd_namespace: String,
}

impl Kubernetes {
    /// The API behind `client`; projects and our identity are in Argo CD's namespace.
    pub const fn new(client: Client, argocd_namespace: String) -> Self {
        Self {
            client,
            argocd_namespace,
        }
    }

    /// Watches only the needed objects: of Secrets those of repositories, of `ConfigMap`s those of keys.
    fn watch_of(&self, kind: Watched) -> Watch<Object, Object> {
        let (client, resource) = (self.client.clone(), resource_of(kind));
        let watch = Watch::guarded(if kind == Watched::Application {
            Api::all_with(client, &resource)
        } else {
            Api::namespaced_with(client, &self.argocd_namespace, &resource)
        });
        let named = |shared: Shared| format!("metadata.name={}", shared.name());
        match kind {
            Watched::Application | Watched::AppProject => watch,
            Watched::Repository => watch.labels(REPOSITORY_SELECTOR),
            Watched::GpgKey => watch.fields(&named(Shared::GpgKeys)),
            Watched::TlsCerts => watch.fields(&named(Shared::TlsCerts)),
            Watched::SshKnownHosts => watch.fields(&named(Shared::SshKnownHosts)),
        }
    }

    /// Watches Argo CD's settings, of which the global projects count.
    fn watch_of_settings(&self) -> Watch<Object, Object> {
        let resource = ApiResource::erase::<ConfigMap>(&());
        let api = Api::namespaced_with(self.client.clone(), &self.argocd_namespace, &resource);
        Watch::guarded(api).fields(&format!("metadata.name={}", keys::SETTINGS))
    }

    fn objects<K>(&self, kind: Watched, namespace: &str) -> Api<K>
    where
        K: kube::Resource<DynamicType = ApiResource, Scope = DynamicResourceScope>,
    {
        let resource = resource_of(kind);
        Api::namespaced_with(self.client.clone(), namespace, &resource)
    }

    fn noted(&self, of: &Observed) -> Api<DynamicObject> {
        let resource = ApiResource::erase::<Noted>(&());
        Api::namespaced_with(self.client.clone(), &of.namespace, &resource)
    }
}

fn resource_of(kind: Watched) -> ApiResource {
    match kind {
        Watched::Application => resource("Application", "applications"),
        Watched::AppProject => resource("AppProject", "appprojects"),
        Watched::Repository => ApiResource::erase::<Secret>(&()),
        Watched::GpgKey | Watched::TlsCerts | Watched::SshKnownHosts => {
            ApiResource::erase::<ConfigMap>(&())
        }
    }
}

fn resource(kind: &str, plural: &str) -> ApiResource {
    ApiResource {
        group: "argoproj.io".to_owned(),
        version: "v1alpha1".to_owned(),
        api_version: keys::API_VERSION.to_owned(),
        kind: kind.to_owned(),
        plural: plural.to_owned(),
    }
}

#[async_trait]
impl Store for Kubernetes {
    fn watch(&self, report: Reporter, token: CancellationToken) -> BoxFuture<'static, ()> {
        let (listed, is_listed) = watch::channel(false);
        let watches = Watched::ALL.map(|kind| {
            let report = Reporter::clone(&report);
            let (watch, token, mut is_listed) =
                (self.watch_of(kind), token.clone(), is_listed.clone());
            async move {
                // No cluster gets a project without its global projects.
                let listed = async { is_listed.wait_for(|known| *known).await.is_ok() };
                if kind == Watched::AppProject
                    && token.run_until_cancelled(listed).await != Some(true)
                {
                    return;
                }
                let handle = move |event| {
                    if let Some(translated) = to_report(kind, event) {
                        report(translated);
                    }
                };
                watch_trimmed(watch, token, handle).await;
            }
        });
        let settings = watch_trimmed(self.watch_of_settings(), token, move |event| match event {
            Event::Applied { object, listed: _ } => {
                report(Report::GlobalProjects(global_projects_of(*object)));
            }
            Event::Deleted(_) => report(Report::GlobalProjects(GlobalProjects::default())),
            Event::Synced => {
                listed.send_replace(true);
            }
            Event::Rewound => {}
        });
        join(settings, join_all(watches)).map(drop).boxed()
    }

    async fn patch(
        &self,
        kind: Watched,
        key: &Key,
        version: &str,
        patch: Change,
    ) -> Result<Packed, WriteError> {
        let api = self.objects::<Object>(kind, &key.namespace);
        let (name, params) = (&key.name, patching());
        packed(match guarded(patch, version) {
            Change::Merge(body) => {
                let written = api.patch(name, &params, &Patch::Merge(body)).await;
                written.map_err(|error| answer_to_patch(error, false))?
            }
            Change::Json(body) => {
                let operations = serde_json::from_value(body).map_err(ours)?;
                let patch = Patch::<Value>::Json(operations);
                let written = api.patch(name, &params, &patch).await;
                written.map_err(|error| answer_to_patch(error, true))?
            }
        })
    }

    async fn create(&self, kind: Watched, object: &Value) -> Result<Packed, WriteError> {
        let api = self.objects(kind, Meta::of(object).namespace());
        let object: DynamicObject = serde_json::from_value(object.clone()).map_err(ours)?;
        let made = api.create(&posting(), &object).await.map_err(sorted)?;
        value(made).map(Packed::of)
    }

    async fn delete(
        &self,
        kind: Watched,
        key: &Key,
        uid: &str,
        version: &str,
    ) -> Result<(), WriteError> {
        let api = self.objects::<Object>(kind, &key.namespace);
        let params = DeleteParams::background().preconditions(Preconditions {
            uid: Some(uid.to_owned()),
            resource_version: Some(version.to_owned()),
        });
        let deleted = api.delete(&key.name, &params).await;
        deleted.map(drop).map_err(sorted)
    }

    async fn events(&self, of: &Observed) -> Result<Vec<Value>, WriteError> {
        let selected = ListParams::default()
            .labels(&of.labels())
            .fields(&of.fields());
        let listed = self.noted(of).list(&selected).await.map_err(sorted)?;
        listed.items.into_iter().map(value).collect()
    }

    async fn note(&self, of: &Observed, write: &events::Write) -> Result<(), WriteError> {
        let api = self.noted(of);
        let written = match write {
            events::Write::Create(event) => {
                let event = serde_json::from_value(event.clone()).map_err(ours)?;
                api.create(&posting(), &event).await
            }
            events::Write::Patch { name, body } => {
                api.patch(name, &patching(), &Patch::Merge(body)).await
            }
        };
        written.map(drop).map_err(sorted)
    }

    async fn principal_uid(&self) -> Result<String, WriteError> {
        let api = Api::<ConfigMap>::namespaced(self.client.clone(), &self.argocd_namespace);
        if let Some(known) = api.get_opt(IDENTITY).await.map_err(sorted)? {
            return identity(&known);
        }
        let uid = uuid::Uuid::new_v4().to_string();
        let fresh = ConfigMap {
            metadata: ObjectMeta {
                name: Some(IDENTITY.to_owned()),
                ..ObjectMeta::default()
            },
            data: Some([(IDENTITY_KEY.to_owned(), uid)].into()),
            ..ConfigMap::default()
        };
        match api.create(&PostParams::default(), &fresh).await {
            Ok(made) => identity(&made),
            // Another replica created it first; its identity counts.
            Err(error) if is_status(&error, 409) => {
                identity(&api.get(IDENTITY).await.map_err(sorted)?)
            }
            Err(error) => Err(sorted(error)),
        }
    }
}

fn posting() -> PostParams {
    PostParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PostParams::default()
    }
}

fn patching() -> PatchParams {
    PatchParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PatchParams::default()
    }
}

fn identity(config: &ConfigMap) -> Result<String, WriteError> {
    let uid = config.data.as_ref().and_then(|data| data.get(IDENTITY_KEY));
    uid.filter(|uid| !uid.is_empty()).cloned().ok_or_else(|| {
        WriteError::Refused(format!(
            "ConfigMap {IDENTITY} has no {IDENTITY_KEY}; delete it to get a new one"
        ))
    })
}

/// The global projects in Argo CD's settings; none where Argo CD has none.
fn global_projects_of(settings: Object) -> GlobalProjects {
    let read = settings.packed().and_then(|settings| {
        GlobalProjects::of(settings.head()).map_err(|error| error.to_string())
    });
    read.unwrap_or_else(|error| {
        let config = keys::SETTINGS;
        tracing::warn!(
            config,
            error,
            "there are no global projects until this setting is corrected"
        );
        GlobalProjects::default()
    })
}

fn to_report(kind: Watched, event: Event<Object>) -> Option<Report> {
    match event {
        Event::Applied { object, listed: _ } => match object.packed() {
            Ok(object) => Some(Report::Applied(kind, object)),
            Err(error) => {
                tracing::warn!(?kind, error, "skipping an unreadable object");
                None
            }
        },
        Event::Deleted(gone) => {
            let key = Key {
                namespace: gone.namespace.unwrap_or_default(),
                name: gone.name,
            };
            Some(Report::Deleted {
                kind,
                key,
                uid: gone.uid,
                is_seen: gone.is_seen,
            })
        }
        Event::Synced => Some(Report::Synced(kind)),
        Event::Rewound => Some(Report::Rewound(kind)),
    }
}

/// Guards the patch: it fails with a conflict unless the object still has this version.
fn guarded(patch: Change, version: &str) -> Change {
    match patch {
        Change::Merge(mut body) => {
            argocd::patch::merge(
                &mut body,
                &json!({ "metadata": { "resourceVersion": version } }),
            );
            Change::Merge(body)
        }
        Change::Json(mut operations) => {
            // The API server answers a failed `test` with Invalid, as it does a bad patch.
            let guard =
                json!({ "op": "replace", "path": "/metadata/resourceVersion", "value": version });
            if let Some(list) = operations.as_array_mut() {
                list.insert(0, guard);
            }
            Change::Json(operations)
        }
    }
}

/// The answer to a patch. A body that cannot be read may be another object's, as an error page's.
fn packed(object: Object) -> Result<Packed, WriteError> {
    let read = object.packed();
    read.map_err(|error| WriteError::Unavailable(error.into()))
}

fn value(object: DynamicObject) -> Result<Value, WriteError> {
    let mut object = object;
    object.metadata.managed_fields = None;
    serde_json::to_value(object).map_err(ours)
}

fn ours(error: serde_json::Error) -> WriteError {
    WriteError::Unavailable(Box::new(error))
}

fn is_status(error: &kube::Error, code: u16) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == code)
}

/// The error of a merge or JSON patch that the API refuses. Simulations refuse writes with it, too.
pub fn answer_to_patch(error: kube::Error, is_json: bool) -> WriteError {
    if is_json {
        sorted_operations(error)
    } else {
        sorted(error)
    }
}

/// The API server applies the operations before it checks the guard: on another version they may not fit.
fn sorted_operations(error: kube::Error) -> WriteError {
    if is_status(&error, 422) {
        return WriteError::Unfit(error.to_string());
    }
    sorted(error)
}

fn sorted(error: kube::Error) -> WriteError {
    let kube::Error::Api(status) = &error else {
        return WriteError::Unavailable(Box::new(error));
    };
    match status.code {
        409 => WriteError::Conflict,
        404 => WriteError::NotFound,
        // Only an invalid value stays invalid. A missing permission does not: an API server that has just started denies
        // everything until it has read its roles, and an administrator can fix a role.
        400 | 413 | 422 => WriteError::Refused(error.to_string()),
        _ => WriteError::Unavailable(Box::new(error)),
    }
}

#[cfg(test)]
mod tests;
