//! A parsed request of Argo CD on the hub to the API of a cluster.
//!
//! Method, path and query become values, and only these values are serialized again ([`Request::target`]), so nothing
//! unknown is forwarded. Both ends parse every request, so neither relies on the other. The module
//! [`ui_access`](crate::ui_access) decides whether a request is allowed.

use std::fmt;

mod path;
mod query;
#[cfg(test)]
mod tests;

pub use query::Query;

/// Longest accepted path with its query. Selectors of `argocd` have some hundred bytes at most.
const LONGEST: usize = 8 << 10;

/// A parsed request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The verb.
    pub verb: Verb,
    /// The subject.
    pub subject: Subject,
    /// The known parameters.
    pub query: Query,
}

/// The verbs of RBAC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the words of RBAC")]
pub enum Verb {
    Get,
    List,
    Watch,
    Create,
    Update,
    Patch,
    Delete,
    DeleteCollection,
}

/// The subject of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// The version of the API: `/version`.
    Version,
    /// The served groups: `/api`, `/apis`, and with a name one of them.
    Groups {
        /// Whether it is `/api`, which has the core group only.
        core: bool,
        /// The requested group.
        group: Option<String>,
    },
    /// The served kinds in a version of a group.
    Kinds {
        /// The group; empty for the core.
        group: String,
        /// The version.
        version: String,
    },
    /// The schemas: `/openapi/v2`, `/openapi/v3` and one document of the latter.
    Schema {
        /// The segments after `/openapi`.
        document: Vec<String>,
    },
    /// Objects.
    Object(Object),
}

/// An object, all objects of a kind, or a subresource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Object {
    /// The API group; empty for the core.
    pub group: String,
    /// The version.
    pub version: String,
    /// The plural.
    pub resource: String,
    /// The namespace, if any.
    pub namespace: Option<String>,
    /// The name; none for all objects.
    pub name: Option<String>,
    /// The subresource, such as `log` or `status`.
    pub subresource: Option<String>,
}

/// Why a request cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    /// Not a method that reads or changes objects.
    #[error("the method {0:?} is not forwarded to clusters")]
    Method(String),
    /// Longer than any legitimate request.
    #[error("the path is longer than {LONGEST} bytes")]
    TooLong,
    /// Not a path of the Kubernetes API, or one with another meaning after decoding.
    #[error("the path is not one of the Kubernetes API: {0}")]
    Path(&'static str),
    /// An unknown parameter.
    #[error("the parameter {0:?} is not forwarded to clusters with this request")]
    Parameter(String),
    /// An invalid parameter.
    #[error("the parameters cannot be read: {0}")]
    Query(&'static str),
}

impl Request {
    /// Parses a request from its method and its path with the query.
    pub fn parse(method: &str, target: &str) -> Result<Self, Unreadable> {
        if target.len() > LONGEST {
            return Err(Unreadable::TooLong);
        }
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let subject = path::read(path)?;
        let pairs = query::read(query)?;
        let watches = pairs.is_on("watch");
        let verb = verb(method, &subject, watches)?;
        let query = pairs.for_request(verb, &subject)?;
        Ok(Self {
            verb,
            subject,
            query,
        })
    }

    /// Serializes the path with the query.
    pub fn target(&self) -> String {
        let mut text = path::written(&self.subject);
        self.query.write_to(&mut text);
        text
    }

    /// Reports whether the response has no end of its own: a watch, a terminal or a log that is followed.
    pub fn is_lasting(&self) -> bool {
        self.verb == Verb::Watch || self.is_exec() || self.is_log() && self.query.is_on("follow")
    }

    /// Reports whether it reads the log of a Pod.
    pub fn is_log(&self) -> bool {
        self.object()
            .is_some_and(|it| it.subresource.as_deref() == Some("log"))
    }

    /// Whether it opens a terminal or runs a command in a Pod.
    pub fn is_exec(&self) -> bool {
        self.object()
            .is_some_and(|it| it.is("", "pods") && it.subresource.as_deref() == Some("exec"))
    }

    /// The object, if the subject is one.
    pub const fn object(&self) -> Option<&Object> {
        self.subject.object()
    }
}

impl Subject {
    const fn object(&self) -> Option<&Object> {
        if let Self::Object(object) = self {
            Some(object)
        } else {
            None
        }
    }
}

impl Object {
    /// Whether it is of this kind.
    pub fn is(&self, group: &str, resource: &str) -> bool {
        self.group == group && self.resource == resource
    }

    /// Whether it is a Secret, whose values no user of the hub may see.
    pub fn is_secret(&self) -> bool {
        self.is("", "secrets")
    }
}

impl Verb {
    /// The name of the verb.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Delete => "delete",
            Self::DeleteCollection => "deletecollection",
        }
    }

    /// Whether it changes nothing.
    pub const fn only_reads(self) -> bool {
        matches!(self, Self::Get | Self::List | Self::Watch)
    }
}

/// For messages: `deployments.apps shop/front`, `pods/log shop/front-1`.
impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.object() {
            Some(object) => object.fmt(f),
            None => f.write_str(&path::written(self)),
        }
    }
}

impl fmt::Display for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.resource)?;
        if !self.group.is_empty() {
            write!(f, ".{}", self.group)?;
        }
        if let Some(subresource) = &self.subresource {
            write!(f, "/{subresource}")?;
        }
        let name = self.name.as_deref();
        match &self.namespace {
            Some(namespace) => write!(f, " {namespace}/{}", name.unwrap_or_default()),
            None => name.map_or(Ok(()), |name| write!(f, " {name}")),
        }
    }
}

/// Derives the verb as the API server does.
fn verb(method: &str, subject: &Subject, watches: bool) -> Result<Verb, Unreadable> {
    let named = subject.object().is_none_or(|it| it.name.is_some());
    Ok(match (method, named) {
        ("GET", true) => Verb::Get,
        ("GET", false) if watches => Verb::Watch,
        ("GET", false) => Verb::List,
        ("POST", _) => Verb::Create,
        ("PUT", _) => Verb::Update,
        ("PATCH", _) => Verb::Patch,
        ("DELETE", true) => Verb::Delete,
        ("DELETE", false) => Verb::DeleteCollection,
        (other, _) => return Err(Unreadable::Method(other.chars().take(16).collect())),
    })
}

/// Whether a header impersonates another user at an API server; such a request is rejected, not stripped.
pub fn is_impersonation(header: &str) -> bool {
    let begins = |prefix: &str| {
        let head = header.get(..prefix.len());
        head.is_some_and(|head| head.eq_ignore_ascii_case(prefix))
    };
    begins("impersonate-") || begins("x-remote-")
}

/// The `Status` of a failure, for Kubernetes clients.
pub fn status(code: u16, reason: &str, message: &str) -> serde_json::Value {
    serde_json::json!({
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
        "code": code,
    })
}
