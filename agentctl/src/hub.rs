//! The hub's API: lists in pages, single objects, patches. No decisions.

mod clock;
mod connect;
mod kind;
mod target;

use std::path::Path;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ListMeta;
use kube::{
    Client,
    api::{DeleteParams, GetParams, ListParams, PatchParams, PostParams, Preconditions},
    core::Request,
};
use runtime::error::Chain;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};

use crate::progress::Progress;

pub use clock::{About, Reading};
pub use kind::{
    ACCESS_REVIEWS, ADDONS, APPLICATIONS, ARGO_CDS, CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, CLUSTERS,
    CONFIG_MAPS, CONFIGURATIONS, DEFINITIONS, DEPLOYMENTS, FENCES, KLUSTERLETS, Kind, LEASES,
    NAMESPACES, OFFERS, OTHERS_ACCESS_REVIEWS, PODS, PROJECTS, SECRETS, SERVICES, STATEFUL_SETS,
};
pub use kube::api::Patch;
pub use target::Target;

/// How many objects come in one answer: a fleet of thousands is neither one answer nor thousands.
const PAGE: u32 = 500;

/// Who we are in `managedFields`.
const FIELD_MANAGER: &str = "argocd-agentctl";

/// Why the hub did not do what was asked, and the next step.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A right is missing: the verb, the resource and the place.
    #[error(
        "permission denied: you may not {0}; ask an administrator for the role in docs/agentctl.md"
    )]
    Forbidden(String),
    /// The hub does not know the kind.
    #[error("{0}")]
    NotServed(String),
    /// There was no answer, or none that can be read.
    #[error("{0}")]
    NotReached(String),
    /// Any other: the kubeconfig, an object that is not there, an error of the API.
    #[error("{0}")]
    Other(String),
}

/// Those with this name.
pub fn named(name: &str) -> ListParams {
    ListParams::default().fields(&format!("metadata.name={name}"))
}

/// Those with these labels, as a selector.
pub fn labelled(selector: &str) -> ListParams {
    ListParams::default().labels(selector)
}

/// All of them.
pub fn all() -> ListParams {
    ListParams::default()
}

#[derive(Deserialize)]
struct Page {
    #[serde(default)]
    metadata: ListMeta,
    #[serde(default)]
    items: Vec<Value>,
}

/// The hub, as the user of a kubeconfig; or, where `check` looks at one, a cluster of the fleet.
#[derive(Clone, derive_more::Debug)]
#[debug("Hub")]
pub struct Hub {
    client: Client,
    target: Target,
    /// The proxy on the way.
    proxy: Option<String>,
    /// Shows how much was read.
    progress: Progress,
}

impl Hub {
    /// The hub behind this client.
    #[cfg(test)]
    pub(crate) fn new(client: Client) -> Self {
        Self {
            client,
            target: Target::Hub,
            proxy: None,
            progress: Progress::new(false),
        }
    }

    /// The one of a kubeconfig, as kubectl finds it; shows progress if reading takes several pages.
    pub async fn connect(
        target: Target,
        kubeconfig: Option<&Path>,
        context: Option<&str>,
        progress: &Progress,
    ) -> Result<Self, Error> {
        let unusable = |cause| {
            let flags = target.flags();
            Error::Other(format!("cannot connect to {target}: {cause}; {flags}"))
        };
        let config = connect::config(kubeconfig, context).await;
        let except = connect::exceptions();
        let connected = config.and_then(|config| connect::client(config, &except));
        let (client, proxy) = connected.map_err(unusable)?;
        Ok(Self {
            client,
            target,
            proxy,
            progress: progress.clone(),
        })
    }

    /// Gives every object of a namespace, or of all, to `take`, page by page, so that a fleet is never in memory as a
    /// whole.
    pub async fn each(
        &self,
        kind: Kind,
        namespace: Option<&str>,
        params: ListParams,
        mut take: impl FnMut(Value) + Send,
    ) -> Result<(), Error> {
        let request = Request::new(kind.path(namespace));
        let mut params = params.limit(PAGE);
        let mut read = 0_usize;
        loop {
            let asked = request.list(&params);
            let page: Page = self.ask("list", kind, namespace, asked).await?;
            read = read.saturating_add(page.items.len());
            page.items.into_iter().for_each(&mut take);
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => params.continue_token = Some(token),
                None => return Ok(()),
            }
            let kind = kind.plural();
            self.progress.show(format!("reading {kind}: {read}"));
        }
    }

    /// What `take` keeps of each of them.
    pub async fn collect<T: Send>(
        &self,
        kind: Kind,
        namespace: Option<&str>,
        params: ListParams,
        mut take: impl FnMut(Value) -> Option<T> + Send,
    ) -> Result<Vec<T>, Error> {
        let mut all = Vec::new();
        let keep = |object| all.extend(take(object));
        self.each(kind, namespace, params, keep).await?;
        Ok(all)
    }

    /// All of them, for findings: an error is one, too.
    pub async fn find_all(
        &self,
        kind: Kind,
        namespace: Option<&str>,
        params: ListParams,
    ) -> Result<Vec<Value>, String> {
        let all = self.collect(kind, namespace, params, Some).await;
        all.map_err(|error| error.to_string())
    }

    /// Like [`get`](Self::get), for findings: an error is one, too.
    pub async fn find(
        &self,
        kind: Kind,
        namespace: Option<&str>,
        name: &str,
    ) -> Result<Option<Value>, String> {
        let object = self.get(kind, namespace, name).await;
        object.map_err(|error| error.to_string())
    }

    /// One of them, if it is there.
    pub async fn get(
        &self,
        kind: Kind,
        namespace: Option<&str>,
        name: &str,
    ) -> Result<Option<Value>, Error> {
        let asked = Request::new(kind.path(namespace)).get(name, &GetParams::default());
        present(self.ask("get", kind, namespace, asked).await)
    }

    /// Changes one of them with a merge patch; false if it is not there.
    pub async fn merge(
        &self,
        kind: Kind,
        namespace: Option<&str>,
        name: &str,
        body: &Value,
    ) -> Result<bool, Error> {
        self.patch(kind, namespace, name, &Patch::Merge(body)).await
    }

    /// Changes one of them with any patch; false if it is not there.
    pub async fn patch(
        &self,
        kind: Kind,
        namespace: Option<&str>,
        name: &str,
        patch: &Patch<&Value>,
    ) -> Result<bool, Error> {
        let params = PatchParams {
            field_manager: Some(FIELD_MANAGER.to_owned()),
            ..PatchParams::default()
        };
        let asked = Request::new(kind.path(namespace)).patch(name, &params, patch);
        let patched = present(self.ask("patch", kind, namespace, asked).await)?;
        Ok(patched.is_some())
    }

    /// Creates one.
    pub async fn create(
        &self,
        kind: Kind,
        namespace: Option<&str>,
        object: &Value,
    ) -> Result<(), Error> {
        let params = PostParams {
            field_manager: Some(FIELD_MANAGER.to_owned()),
            ..PostParams::default()
        };
        let body = object.to_string().into_bytes();
        let asked = Request::new(kind.path(namespace)).create(&params, body);
        let created = self.ask::<Value>("create", kind, namespace, asked).await;
        created.map(drop)
    }

    /// Deletes one, if it is as it was read; false if it is not there.
    pub async fn delete(
        &self,
        kind: Kind,
        namespace: Option<&str>,
        name: &str,
        version: &str,
    ) -> Result<bool, Error> {
        let as_read = Preconditions {
            resource_version: Some(version.to_owned()),
            uid: None,
        };
        let params = DeleteParams::default().preconditions(as_read);
        let asked = Request::new(kind.path(namespace)).delete(name, &params);
        let deleted = present(self.ask("delete", kind, namespace, asked).await)?;
        Ok(deleted.is_some())
    }

    /// The kinds of a `group/version`; none if that is not served.
    pub async fn served(&self, version: &str) -> Result<Vec<String>, Error> {
        match self.client.list_api_group_resources(version).await {
            Ok(list) => Ok(list.resources.into_iter().map(|it| it.name).collect()),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(Vec::new()),
            Err(error) => Err(self.failed("discover", version, None, error)),
        }
    }

    /// Whether the API allows what an access review describes; why that is not known.
    pub async fn allows(&self, review: Kind, spec: &Value) -> Result<bool, String> {
        let name = if review == ACCESS_REVIEWS {
            "SelfSubjectAccessReview"
        } else {
            "SubjectAccessReview"
        };
        let body = json!({"apiVersion": "authorization.k8s.io/v1", "kind": name, "spec": spec});
        let body = body.to_string().into_bytes();
        let asked = Request::new(review.path(None)).create(&PostParams::default(), body);
        let answer = self.ask::<Value>("create", review, None, asked).await;
        let answer = answer.map_err(|error| error.to_string())?;
        Ok(answer.pointer("/status/allowed") == Some(&Value::Bool(true)))
    }

    async fn ask<T: DeserializeOwned>(
        &self,
        verb: &'static str,
        kind: Kind,
        namespace: Option<&str>,
        request: Result<http::Request<Vec<u8>>, kube::core::request::Error>,
    ) -> Result<T, Error> {
        let resource = kind.full();
        let malformed = |error| Error::Other(format!("{verb} {resource}: {}", chain(error)));
        let answer = self.client.request(request.map_err(malformed)?).await;
        answer.map_err(|error| self.failed(verb, &resource, namespace, error))
    }

    fn failed(
        &self,
        verb: &str,
        resource: &str,
        namespace: Option<&str>,
        error: kube::Error,
    ) -> Error {
        let target = self.target;
        let kube::Error::Api(status) = error else {
            let way = connect::by_way_of(self.proxy.as_deref());
            let cause = chain(error);
            return Error::NotReached(format!("{target} did not answer: {cause}{way}"));
        };
        match status.code {
            403 => {
                let place = match namespace {
                    Some(namespace) => format!("in namespace {namespace}"),
                    None => "in all namespaces".to_owned(),
                };
                Error::Forbidden(format!("{verb} {resource} {place}"))
            }
            404 => Error::NotServed(target.missing_kind(resource)),
            401 => Error::Other(format!(
                "{verb} {resource}: {target} rejected your credentials (unauthorized); log in again, or choose \
                 another context"
            )),
            _ => Error::Other(format!("{verb} {resource}: {}", status.message)),
        }
    }
}

/// None if the object is not there.
fn present(read: Result<Value, Error>) -> Result<Option<Value>, Error> {
    match read {
        Ok(object) => Ok(Some(object)),
        Err(Error::NotServed { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// An error with its causes.
pub(crate) fn chain(error: impl std::error::Error + 'static) -> String {
    Chain(&error).to_string()
}

#[cfg(test)]
mod tests;
