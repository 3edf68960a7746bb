//! Repository and repo-creds Secrets: their URLs and projects, and their wire form.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Map, Value, json};

use crate::keys;
use crate::object::{Application, Meta};
use crate::projection::{SpokeContext, Unusable, check_identity, stamped, wire_metadata};

#[cfg(test)]
mod tests;

/// Entries that locate a repository and name its project, without credentials.
const PLACE: [&str; 4] = ["url", "name", "type", "project"];

/// A Secret that gives Argo CD access to a repository, or to all repositories whose URL begins like its own.
///
/// Has none of its credentials.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repository {
    /// Its own URL, in the form in which URLs are compared.
    pub url: String,
    /// Its project; none if it is for all projects.
    pub project: Option<String>,
    /// Whether it applies to every URL that begins with its own.
    pub is_template: bool,
    /// Whether it has credentials: without them no cluster needs it.
    pub gives_access: bool,
}

impl Repository {
    /// Reads a Secret; none if it is not for a repository, or if the user excludes it from replication.
    pub fn of(secret: &Value) -> Option<Self> {
        let meta = Meta::of(secret);
        let is_template = is_template(meta)?;
        if meta.is_ignored() {
            return None;
        }
        let data = meta.field("data").and_then(Value::as_object);
        let gives_access =
            data.is_some_and(|data| data.keys().any(|entry| !PLACE.contains(&entry.as_str())));
        Some(Self {
            url: normal_url(&entry(data, "url")),
            project: Some(entry(data, "project")).filter(|project| !project.is_empty()),
            is_template,
            gives_access,
        })
    }

    /// Whether Argo CD would use it for this URL, in the form in which URLs are compared.
    pub fn is_for(&self, url: &str) -> bool {
        if self.url.is_empty() {
            false
        } else if self.is_template {
            url.starts_with(&self.url)
        } else {
            url == self.url
        }
    }
}

fn is_template(meta: Meta<'_>) -> Option<bool> {
    match meta.label(keys::SECRET_TYPE) {
        Some(keys::REPOSITORY) => Some(false),
        Some(keys::REPO_CREDS) => Some(true),
        Some(_) | None => None,
    }
}

/// One entry as text; empty if it is absent or not text.
fn entry(data: Option<&Map<String, Value>>, name: &str) -> String {
    data.and_then(|data| data.get(name)?.as_str())
        .and_then(|encoded| STANDARD.decode(encoded).ok())
        .and_then(|bytes| String::from_utf8(bytes).ok())
        .map(|text| text.trim().to_owned())
        .unwrap_or_default()
}

/// A repository's URL in the form in which Argo CD compares URLs.
pub fn normal_url(url: &str) -> String {
    let url = url.trim().to_lowercase();
    let url = url.strip_suffix(".git").unwrap_or(&url);
    let bare = url.strip_prefix("ssh://").unwrap_or(url);
    if !is_ssh(bare) {
        return url.to_owned();
    }
    if bare.len() < url.len() {
        bare.to_owned()
    } else {
        // git@host:path
        bare.replacen(':', "/", 1)
    }
}

/// Whether a URL is `user@host…`, and not a URL of another kind.
fn is_ssh(url: &str) -> bool {
    url.split_once('@').is_some_and(|(user, rest)| {
        !user.contains(['/', ':']) && !rest.is_empty() && !rest.contains('@')
    })
}

/// The repository URLs of an Application, as it spells them.
pub fn urls(application: Application<'_>) -> Vec<&str> {
    let Some(spec) = application.spec() else {
        return Vec::new();
    };
    let several = spec.get("sources").and_then(Value::as_array);
    let hydrated = spec.pointer("/sourceHydrator/drySource");
    let sources = spec.get("source").into_iter();
    sources
        .chain(several.into_iter().flatten())
        .chain(hydrated)
        .filter_map(|source| source.get("repoURL")?.as_str())
        .filter(|url| !url.is_empty())
        .collect()
}

/// The wire form of a Secret. `content_id` identifies the content without revealing it.
///
/// Without the tracking label and annotation: Argo CD on the spoke must not take the Secret for a resource of an
/// Application there.
pub fn wire_secret(hub: &Value, content_id: &str) -> Value {
    let mut metadata = wire_metadata(hub);
    metadata.remove("finalizers");
    if let Some(labels) = metadata.get_mut("labels").and_then(Value::as_object_mut) {
        labels.retain(|key, _| !keys::is_tracking(key));
    }
    let annotations = metadata
        .entry("annotations")
        .or_insert_with(|| json!({}))
        .as_object_mut();
    if let Some(annotations) = annotations {
        annotations.retain(|key, _| !keys::is_tracking(key));
        annotations.insert(keys::CONTENT_ID.to_owned(), content_id.into());
    }
    json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": metadata,
        "type": "Opaque",
        "data": hub.get("data").cloned().unwrap_or_else(|| json!({})),
    })
}

/// The id of a received Secret's content: the principal's id, or the object's version.
///
/// It is no digest, which would let a reader verify guesses of a password.
pub fn content_id(message: &Value) -> String {
    let meta = Meta::of(message);
    meta.annotation(keys::CONTENT_ID).map_or_else(
        || format!("{}/{}", meta.uid(), meta.resource_version()),
        str::to_owned,
    )
}

/// The desired object on the spoke for an incoming Secret.
///
/// Rejects every Secret that is not for a repository. The type is always `Opaque`, regardless of the hub.
pub fn desired_secret_on_spoke(
    incoming: &Value,
    context: &SpokeContext<'_>,
) -> Result<Value, Unusable> {
    let meta = Meta::of(incoming);
    check_identity(meta)?;
    is_template(meta).ok_or(Unusable::NotForARepository)?;
    let empty = Map::new();
    let data = match incoming.get("data") {
        None | Some(Value::Null) => &empty,
        Some(data) => data.as_object().ok_or(Unusable::BadData)?,
    };
    let is_encoded = |it: &Value| {
        it.as_str()
            .is_some_and(|text| STANDARD.decode(text).is_ok())
    };
    if !data.values().all(is_encoded) {
        return Err(Unusable::BadData);
    }
    Ok(json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": meta.name(),
            "namespace": context.argocd_namespace,
            "labels": meta.labels(),
            "annotations": stamped(meta, context),
            "finalizers": [],
        },
        "type": "Opaque",
        "data": data,
    }))
}
