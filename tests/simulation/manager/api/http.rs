//! The requests of Kubernetes clients: paths, parameters and bodies.

use std::collections::BTreeMap;

use ::http::{Method, Request, header};
use kube::client::Body;
use serde_json::{Value, json};

use super::select::Selector;
use super::{Api, Change, Key, Refusal, Write};

/// The API groups that the hub serves, each with a version and the kinds that the discovery lists.
const SERVED: [(&str, &str, &[&str]); 1] = [(
    "addon.open-cluster-management.io",
    "v1beta1",
    &["managedclusteraddons", "clustermanagementaddons"],
)];

/// The content type of a merge patch.
const MERGE: &str = "application/merge-patch+json";

/// A request.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) method: Method,
    pub(crate) key: Key,
    pub(crate) subresource: String,
    query: BTreeMap<String, String>,
    content: String,
    pub(crate) body: Value,
    /// The group and version, if only these are asked for.
    discovers: Option<(String, String)>,
}

/// The answer of the server.
#[derive(Debug)]
pub(crate) enum Answer {
    Object(u16, Value),
    /// A watch of these objects from this version on.
    Watch(Selector, u64),
}

impl Asked {
    pub(crate) async fn read(request: Request<Body>) -> Self {
        let (parts, body) = request.into_parts();
        let body = body.collect_bytes().await.expect("a body in memory");
        let content = parts.headers.get(header::CONTENT_TYPE);
        let content = content.and_then(|it| it.to_str().ok()).unwrap_or_default();
        let query = parts.uri.query().unwrap_or_default();
        let mut asked = Self {
            method: parts.method,
            key: Key::default(),
            subresource: String::new(),
            query: pairs(query),
            content: content.to_owned(),
            body: serde_json::from_slice(&body).unwrap_or_default(),
            discovers: None,
        };
        asked.locate(parts.uri.path());
        asked
    }

    fn locate(&mut self, path: &str) {
        let parts: Vec<&str> = path.split('/').filter(|it| !it.is_empty()).collect();
        let (group, version, rest) = match parts.as_slice() {
            ["api", version, rest @ ..] => ("", *version, rest),
            ["apis", group, version, rest @ ..] => (*group, *version, rest),
            _other => {
                assert!(path.is_empty(), "no path of Kubernetes: {path}");
                return;
            }
        };
        let (namespace, rest) = match rest {
            ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (*namespace, rest),
            rest => ("", rest),
        };
        let Some((plural, rest)) = rest.split_first() else {
            self.discovers = Some((group.to_owned(), version.to_owned()));
            return;
        };
        let kind = match group {
            "" => (*plural).to_owned(),
            group => format!("{plural}.{group}"),
        };
        let name = rest.first().copied().unwrap_or_default();
        self.key = (kind, namespace.to_owned(), name.to_owned());
        let subresource = rest.get(1).copied().unwrap_or_default();
        subresource.clone_into(&mut self.subresource);
    }

    pub(crate) fn is_write(&self) -> bool {
        self.method != Method::GET
    }

    pub(crate) fn is_watch(&self) -> bool {
        self.asks("watch")
    }

    fn asks(&self, name: &str) -> bool {
        matches!(self.value(name), "true" | "1")
    }

    fn value(&self, name: &str) -> &str {
        self.query.get(name).map_or("", String::as_str)
    }

    /// The request in a trace.
    pub(crate) fn title(&self) -> String {
        let (kind, namespace, name) = &self.key;
        let name = if name.is_empty() {
            self.body["metadata"]["name"].as_str().unwrap_or_default()
        } else {
            name
        };
        let (method, sub) = (&self.method, &self.subresource);
        format!("{method} {kind} {namespace}/{name} {sub}")
    }

    /// Carries the request out.
    pub(crate) fn carried_out(&self, api: &Api) -> Answer {
        if let Some((group, version)) = &self.discovers {
            return discovered(group, version);
        }
        if !self.is_write() {
            return self.read_from(api);
        }
        match self.write(api) {
            Ok(object) => Answer::Object(200, object),
            Err(refusal) => Answer::Object(refusal.code, refusal.status()),
        }
    }

    fn read_from(&self, api: &Api) -> Answer {
        let (kind, namespace, name) = &self.key;
        if !name.is_empty() {
            return match api.get(kind, namespace, name) {
                Some(object) => Answer::Object(200, (*object).clone()),
                None => Answer::Object(404, Refusal::absent(&self.key).status()),
            };
        }
        let (labels, fields) = (self.value("labelSelector"), self.value("fieldSelector"));
        let selector = Selector::new(kind, namespace, labels, fields);
        if self.is_watch() {
            let from = self.value("resourceVersion").parse();
            return Answer::Watch(selector, from.unwrap_or_default());
        }
        let all = api.list(kind, namespace).into_iter();
        let items = all.filter(|(_, object)| selector.selects(object));
        let items: Vec<Value> = items.map(|(_, object)| (*object).clone()).collect();
        let version = api.version().to_string();
        Answer::Object(
            200,
            json!({
                "kind": "List", "apiVersion": "v1", "metadata": { "resourceVersion": version },
                "items": items,
            }),
        )
    }

    fn write(&self, api: &Api) -> Result<Value, Refusal> {
        let mut key = self.key.clone();
        let manager = match self.value("fieldManager") {
            "" => "unnamed",
            manager => manager,
        };
        let body = self.body.clone();
        let write = match (self.method.as_str(), self.content.as_str()) {
            ("POST", _) => {
                let name = body["metadata"]["name"].as_str().map(str::to_owned);
                key.2 = name.unwrap_or_else(|| format!("generated-{}", api.version()));
                Write::Create(body)
            }
            ("PUT", _) => Write::Replace(body),
            ("DELETE", _) => {
                let part = |field| body["preconditions"][field].as_str().map(str::to_owned);
                Write::Delete(part("uid"), part("resourceVersion"))
            }
            ("PATCH", MERGE) => Write::Merge(body),
            ("PATCH", "application/apply-patch+yaml") => Write::Apply(body, self.asks("force")),
            _other => return Err(Refusal::new(415, "UnsupportedMediaType", self.title())),
        };
        let written = api.write(&key, &self.subresource, manager, write)?;
        Ok((*written).clone())
    }
}

/// The parameters of a query, decoded.
fn pairs(query: &str) -> BTreeMap<String, String> {
    let pair = |pair: &str| {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        (decoded(key), decoded(value))
    };
    query
        .split('&')
        .filter(|it| !it.is_empty())
        .map(pair)
        .collect()
}

fn decoded(text: &str) -> String {
    let mut bytes = vec![];
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let digits: String = rest.by_ref().take(2).map(char::from).collect();
                u8::from_str_radix(&digits, 16).expect("two digits")
            }
            other => other,
        });
    }
    String::from_utf8(bytes).expect("UTF-8")
}

fn discovered(group: &str, version: &str) -> Answer {
    let found = SERVED
        .iter()
        .find(|(of, is, _)| (*of, *is) == (group, version));
    let Some((_, _, kinds)) = found else {
        let refusal = Refusal::new(404, "NotFound", "404 page not found");
        return Answer::Object(404, refusal.status());
    };
    let resource = |plural: &&str| json!({ "name": plural, "singularName": "", "namespaced": true, "kind": "K", "verbs": ["get"] });
    let resources: Vec<Value> = kinds.iter().map(resource).collect();
    Answer::Object(
        200,
        json!({
            "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": format!("{group}/{version}"),
            "resources": resources,
        }),
    )
}

/// The event of a watch about a change, if the watch has one.
pub(crate) fn event(change: &Change, selector: &Selector) -> Option<Value> {
    let (kind, namespace, _) = &change.key;
    if *kind != selector.kind || !selector.namespace.is_empty() && selector.namespace != *namespace
    {
        return None;
    }
    let selected = |object: &Option<_>| {
        let object: Option<&std::sync::Arc<Value>> = object.as_ref();
        object.filter(|it| selector.selects(it)).cloned()
    };
    let (type_, object) = match (selected(&change.before), selected(&change.after)) {
        (None, None) => return None,
        (None, Some(after)) => ("ADDED", after),
        (Some(_), Some(after)) => ("MODIFIED", after),
        (Some(before), None) => ("DELETED", before),
    };
    let mut object = (*object).clone();
    object["metadata"]["resourceVersion"] = json!(change.version.to_string());
    Some(json!({ "type": type_, "object": object }))
}
