//! Detects an Argo CD in another namespace of this cluster, so that the hub installs no second one beside it.
//!
//! The agent itself may read only its own namespaces and Argo CD's. Every client may see whether the API serves the kind of
//! Argo CD's operator. If users of the hub may read this cluster, the probe lists its instances and programs as their user.

use std::time::Duration;

use argocd::keys::OF_ARGOCD;
use http::Request;
use http::header::{ACCEPT, HeaderValue};
use kube::Client;
use serde_json::Value;
use tokio::time::Instant;

use crate::live::IMPERSONATE;

/// The versions of Argo CD's group that may have the kind of the operator.
const OPERATOR: [&str; 2] = ["/apis/argoproj.io/v1alpha1", "/apis/argoproj.io/v1beta1"];
const OPERATORS_KIND: &str = "argocds";

/// The kinds of Argo CD's programs.
const PROGRAMS: [&str; 2] = ["/apis/apps/v1/deployments", "/apis/apps/v1/statefulsets"];
const METADATA: HeaderValue =
    HeaderValue::from_static("application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1");

/// How long an answer is kept.
const RECHECK: Duration = Duration::from_mins(5);
/// How long a denial is kept: at the first enrolment the roles may come after the agent.
const DENIED_RECHECK: Duration = Duration::from_mins(1);

/// The answer of the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    /// No other Argo CD.
    Nowhere,
    /// Another one.
    Somewhere,
    /// The cluster does not show it to the probe.
    Denied,
}

/// The last answer, as a cache.
#[derive(Debug)]
pub(super) struct Elsewhere {
    /// The user that may read the whole cluster.
    reader: Option<HeaderValue>,
    /// The namespace that the probe watches itself.
    namespace: String,
    asked: Option<(Instant, Answer)>,
}

impl Elsewhere {
    /// Lists programs outside of this namespace, as this user, if any.
    pub(super) fn new(namespace: &str, reader: Option<&str>) -> Self {
        let reader = reader.and_then(|user| HeaderValue::from_str(user).ok());
        Self {
            reader,
            namespace: namespace.to_owned(),
            asked: None,
        }
    }

    /// Whether another namespace has an Argo CD. Where the cluster does not show that, CRDs of another owner count as one.
    pub(super) async fn has_argocd(
        &mut self,
        client: &Client,
        kinds_installed: bool,
    ) -> Result<bool, kube::Error> {
        let answer = match self.asked {
            Some((at, answer)) if at.elapsed() < self.recheck(answer) => answer,
            _ => self.ask(client).await?,
        };
        Ok(match answer {
            Answer::Nowhere => false,
            Answer::Somewhere => true,
            Answer::Denied => !kinds_installed,
        })
    }

    /// Forgets the answer, when it no longer matters.
    pub(super) const fn forget(&mut self) {
        self.asked = None;
    }

    /// When to ask again; none if the answer does not matter.
    pub(super) fn recheck_after(&self) -> Option<Duration> {
        self.asked.map(|(_, answer)| self.recheck(answer))
    }

    fn recheck(&self, answer: Answer) -> Duration {
        let is_passing = answer == Answer::Denied && self.reader.is_some();
        if is_passing { DENIED_RECHECK } else { RECHECK }
    }

    async fn ask(&mut self, client: &Client) -> Result<Answer, kube::Error> {
        let (answer, found) = self.look(client).await?;
        if self.asked.is_none_or(|(_, before)| before != answer) {
            tracing::info!(?answer, %found, "looked for an Argo CD in other namespaces");
        }
        self.asked = Some((Instant::now(), answer));
        Ok(answer)
    }

    /// The answer, and what it is about.
    async fn look(&self, client: &Client) -> Result<(Answer, String), kube::Error> {
        for version in OPERATOR {
            let served = get(client, version, None).await?;
            if served.is_none_or(|it| !has_operators_kind(&it)) {
                continue;
            }
            if let Some(found) = self.operated(client, version).await? {
                return Ok((Answer::Somewhere, found));
            }
        }
        let Some(reader) = &self.reader else {
            return Ok((Answer::Denied, "no access to other namespaces".to_owned()));
        };
        let (label, value) = OF_ARGOCD;
        let label = label.replace('/', "%2F");
        // The API server's cache is new enough.
        let query = format!("labelSelector={label}%3D{value}&resourceVersion=0");
        for programs in PROGRAMS {
            let path = format!("{programs}?{query}");
            let Some(list) = get(client, &path, Some(reader)).await? else {
                return Ok((Answer::Denied, "the list of programs is denied".to_owned()));
            };
            if let Some(found) = first(&list, &self.namespace) {
                return Ok((Answer::Somewhere, found));
            }
        }
        Ok((Answer::Nowhere, String::new()))
    }

    /// An instance of the operator, or the operator itself where the cluster does not show its instances. Its kind alone may
    /// be the CRD of an operator that is gone.
    async fn operated(
        &self,
        client: &Client,
        version: &str,
    ) -> Result<Option<String>, kube::Error> {
        let path = format!("{version}/{OPERATORS_KIND}?resourceVersion=0");
        let list = match &self.reader {
            Some(reader) => get(client, &path, Some(reader)).await?,
            None => None,
        };
        Ok(list.map_or_else(
            || Some("its operator".to_owned()),
            |list| first(&list, "").map(|it| format!("ArgoCD {it}")),
        ))
    }
}

/// The JSON at this path, as the user if one is given; none if it does not exist or is denied.
async fn get(
    client: &Client,
    path: &str,
    reader: Option<&HeaderValue>,
) -> Result<Option<Value>, kube::Error> {
    let request = Request::get(path).body(Vec::new());
    let mut request = request.map_err(kube::Error::HttpError)?;
    if let Some(reader) = reader {
        let headers = request.headers_mut();
        headers.insert(IMPERSONATE, reader.clone());
        headers.insert(ACCEPT, METADATA);
    }
    match client.request::<Value>(request).await {
        Ok(answer) => Ok(Some(answer)),
        Err(kube::Error::Api(status)) if matches!(status.code, 401 | 403 | 404) => Ok(None),
        Err(error) => Err(error),
    }
}

fn has_operators_kind(version: &Value) -> bool {
    let mut kinds = version["resources"].as_array().into_iter().flatten();
    kinds.any(|kind| kind["name"] == OPERATORS_KIND)
}

/// Namespace and name of the first object of a list that is not in this namespace.
fn first(list: &Value, namespace: &str) -> Option<String> {
    let items = list["items"].as_array().into_iter().flatten();
    let mut places = items.map(|it| {
        let text = |path: &str| {
            let text = it.pointer(path).and_then(Value::as_str);
            text.unwrap_or_default()
        };
        (text("/metadata/namespace"), text("/metadata/name"))
    });
    let (place, name) = places.find(|(place, _)| *place != namespace)?;
    Some(format!("{place}/{name}"))
}

#[cfg(test)]
mod tests;
