//! The hub's API: lists in pages, single objects, patches. No decisions.

mod clock;
mod connect;
mod kind;
mod target;

use std::path::Path;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ListMeta;
use kube::{
    Client,
    api::{GetParams, ListParams, Patch, PatchParams, PostParams},
    core::Request,
};
use runtime::error::Chain;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};

use crate::progress::Progress;

pub use clock::{About, Reading};
pub use kind::{
    ACCESS_REVIEWS, ADDONS, APPLICATIONS, CLUSTERS, CONFIG_MAPS, CONFIGURATIONS, DEFINITIONS,
    DEPLOYMENTS, FENCES, KLUSTERLETS, Kind, NAMESPACES, OFFERS, OTHERS_ACCESS_REVIEWS, PODS,
    PROJECTS, SECRETS, SERVICES, STATEFUL_SETS,
};
pub use target::Target;

/// How many objects come in one answer: a fleet of thousands is neither one answer nor thousands.
const PAGE: u32 = 500;

/// Who we are in `managedFields`.
const FIELD_MANAGER: &str = "argocd-agentctl";

/// Why the hub did not do what was asked, and the next step.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The kubeconfig cannot be used.
    #[error("cannot connect to {target}: {cause}; {}", target.flags())]
    Kubeconfig {
        /// Whose it is.
        target: Target,
        /// Why.
        cause: String,
    },
    /// A right is missing.
    #[error(
        "permission denied: you may not {verb} {resource} {place}; ask an administrator for the role in docs/agentctl.md"
    )]
    Forbidden {
        /// The verb.
        verb: &'static str,
        /// The resource.
        resource: String,
        /// Where.
        place: String,
    },
    /// The hub does not know the kind.
    #[error("{}", target.missing_kind(resource))]
    NotServed {
        /// Who was asked.
        target: Target,
        /// The resource.
        resource: String,
    },
    /// There is no such object.
    #[error("there is no {resource} {name} {place}; {next}")]
    NotFound {
        /// The resource.
        resource: String,
        /// Its name.
        name: String,
        /// Where.
        place: String,
        /// The next step.
        next: &'static str,
    },
    /// There was no answer, or none that can be read.
    #[error("{target} did not answer: {cause}{}", connect::by_way_of(proxy.as_deref()))]
    NotReached {
        /// Who was asked.
        target: Target,
        /// Why.
        cause: String,
        /// The proxy on the way, if there is one.
        proxy: Option<String>,
    },
    /// Any other error of the API.
    #[error("{verb} {resource}: {message}")]
    Api {
        /// The verb.
        verb: &'static str,
        /// The resource.
        resource: String,
        /// The API's message.
        message: String,
    },
}

impl Error {
    /// Whether it is a right that is missing.
    pub const fn is_forbidden(&self) -> bool {
        matches!(self, Self::Forbidden { .. })
    }
}

/// Which objects of a kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct By {
    /// In one namespace, or everywhere.
    pub namespace: Option<String>,
    /// With this name.
    pub name: Option<String>,
    /// With these labels, as a selector.
    pub labels: Option<String>,
}

impl By {
    /// Those with a name, in all namespaces.
    pub fn name(name: &str) -> Self {
        Self {
            name: Some(name.to_owned()),
            ..Self::default()
        }
    }

    /// Those with these labels, in all namespaces.
    pub fn labels(selector: &str) -> Self {
        Self {
            labels: Some(selector.to_owned()),
            ..Self::default()
        }
    }

    /// Those of a namespace.
    pub fn namespace(namespace: &str) -> Self {
        Self {
            namespace: Some(namespace.to_owned()),
            ..Self::default()
        }
    }
}

#[derive(Deserialize)]
struct Page {
    #[serde(default)]
    metadata: ListMeta,
    #[serde(default)]
    items: Vec<Value>,
}

/// The hub, as the user of a kubeconfig; or, where `check` looks at one, a cluster of the fleet.
#[derive(Clone)]
pub struct Hub {
    client: Client,
    target: Target,
    /// The proxy on the way.
    proxy: Option<String>,
    /// Shows how much was read.
    progress: Progress,
}

impl std::fmt::Debug for Hub {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hub").finish_non_exhaustive()
    }
}

impl Hub {
    /// The hub behind this client.
    pub fn new(client: Client) -> Self {
        Self {
            client,
            target: Target::Hub,
            proxy: None,
            progress: Progress::new(false),
        }
    }

    /// Like `list`, and shows progress if it takes several pages.
    #[must_use]
    pub fn watched_by(self, progress: &Progress) -> Self {
        let progress = progress.clone();
        Self { progress, ..self }
    }

    /// The one of a kubeconfig, as kubectl finds it.
    pub async fn connect(
        target: Target,
        kubeconfig: Option<&Path>,
        context: Option<&str>,
    ) -> Result<Self, Error> {
        let unusable = |cause| Error::Kubeconfig { target, cause };
        let config = connect::config(kubeconfig, context).await;
        let config = config.map_err(unusable)?;
        let except = connect::exceptions();
        let (client, proxy) = connect::client(config, &except).map_err(unusable)?;
        Ok(Self {
            client,
            target,
            proxy,
            progress: Progress::new(false),
        })
    }

    /// Gives every object to `take`, page by page, so that a fleet is never in memory as a whole.
    pub async fn each(
        &self,
        kind: Kind,
        by: &By,
        mut take: impl FnMut(Value) + Send,
    ) -> Result<(), Error> {
        let request = Request::new(kind.path(by.namespace.as_deref()));
        let fields = by.name.as_ref().map(|name| format!("metadata.name={name}"));
        let mut params = ListParams {
            label_selector: by.labels.clone(),
            field_selector: fields,
            limit: Some(PAGE),
            ..ListParams::default()
        };
        let namespace = by.namespace.as_deref();
        let mut read = 0_usize;
        loop {
            let asked = request.list(&params);
            let page: Page = self.ask("list", kind, namespace, asked).await?;
            read = read.saturating_add(page.items.len());
            page.items.into_iter().for_each(&mut take);
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => {
                    self.progress
                        .show(format!("reading {}: {read}", kind.plural));
                    params.continue_token = Some(token);
                }
                None => return Ok(()),
            }
        }
    }

    /// All of them.
    pub async fn list(&self, kind: Kind, by: &By) -> Result<Vec<Value>, Error> {
        self.collect(kind, by, Some).await
    }

    /// What `take` keeps of each of them.
    pub async fn collect<T: Send>(
        &self,
        kind: Kind,
        by: &By,
        mut take: impl FnMut(Value) -> Option<T> + Send,
    ) -> Result<Vec<T>, Error> {
        let mut all = Vec::new();
        self.each(kind, by, |object| all.extend(take(object)))
            .await?;
        Ok(all)
    }

    /// Like [`list`](Self::list), for findings: an error is one, too.
    pub async fn find_all(&self, kind: Kind, by: &By) -> Result<Vec<Value>, String> {
        let all = self.list(kind, by).await;
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

    /// Changes one of them; false if it is not there.
    pub async fn merge(
        &self,
        kind: Kind,
        namespace: Option<&str>,
        name: &str,
        body: &Value,
    ) -> Result<bool, Error> {
        let params = PatchParams {
            field_manager: Some(FIELD_MANAGER.to_owned()),
            ..PatchParams::default()
        };
        let asked = Request::new(kind.path(namespace)).patch(name, &params, &Patch::Merge(body));
        let patched = present(self.ask("patch", kind, namespace, asked).await)?;
        Ok(patched.is_some())
    }

    /// The kinds of a `group/version`; none if that is not served.
    pub async fn served(&self, version: &str) -> Result<Vec<String>, Error> {
        match self.client.list_api_group_resources(version).await {
            Ok(list) => Ok(list.resources.into_iter().map(|it| it.name).collect()),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(Vec::new()),
            Err(error) => Err(self.failed("discover", version.to_owned(), None, error)),
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
        let request = request.map_err(|error| Error::Api {
            verb,
            resource: resource.clone(),
            message: chain(error),
        })?;
        let answer = self.client.request(request).await;
        answer.map_err(|error| self.failed(verb, resource, namespace, error))
    }

    fn failed(
        &self,
        verb: &'static str,
        resource: String,
        namespace: Option<&str>,
        error: kube::Error,
    ) -> Error {
        let place = namespace.map_or_else(
            || "in all namespaces".to_owned(),
            |namespace| format!("in namespace {namespace}"),
        );
        let kube::Error::Api(status) = error else {
            return Error::NotReached {
                target: self.target,
                cause: chain(error),
                proxy: self.proxy.clone(),
            };
        };
        match status.code {
            403 => Error::Forbidden {
                verb,
                resource,
                place,
            },
            404 => Error::NotServed {
                target: self.target,
                resource,
            },
            401 => Error::Api {
                verb,
                resource,
                message: format!(
                    "{} rejected your credentials (unauthorized); log in again, or choose another context",
                    self.target
                ),
            },
            _ => Error::Api {
                verb,
                resource,
                message: status.message.clone(),
            },
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

fn chain(error: impl std::error::Error + 'static) -> String {
    Chain(&error).to_string()
}

#[cfg(test)]
mod tests;
