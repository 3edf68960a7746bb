//! A request for the API of a cluster, taken apart: what Argo CD on the hub asks of a spoke.
//!
//! Method, path and query become values, and only from these values is a request written again ([`Request::target`]):
//! what was not understood is never carried on. Both ends read every request anew, so neither relies on the other.
//! Whether a request is allowed is for [`ui_access`](crate::ui_access).

use std::fmt;

mod path;
mod query;
#[cfg(test)]
mod tests;

pub use query::Query;

/// Longest path with its query that is read. `argocd` asks for selectors of some hundred bytes at most.
const LONGEST: usize = 8 << 10;

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// What to do.
    pub verb: Verb,
    /// With what.
    pub subject: Subject,
    /// How, as far as it is known.
    pub query: Query,
}

/// What to do, in the words of RBAC.
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

/// What a request is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// What the API is: `/version`.
    Version,
    /// Which groups it serves: `/api`, `/apis`, and with a name one of them.
    Groups {
        /// Whether it is `/api`, which has the core alone.
        core: bool,
        /// The one that is asked for.
        group: Option<String>,
    },
    /// Which kinds it serves in a version of a group.
    Kinds {
        /// The group; empty for the core.
        group: String,
        /// The version.
        version: String,
    },
    /// What the kinds look like: `/openapi/v2`, `/openapi/v3` and one document of the latter.
    Schema {
        /// The segments after `/openapi`.
        document: Vec<String>,
    },
    /// Objects.
    Object(Object),
}

/// An object, all of a kind, or a part of one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Object {
    /// The API group; empty for the core.
    pub group: String,
    /// The version.
    pub version: String,
    /// The plural.
    pub resource: String,
    /// The namespace, where there is one.
    pub namespace: Option<String>,
    /// The name; none for all of them.
    pub name: Option<String>,
    /// `log`, `status` and the like.
    pub subresource: Option<String>,
}

/// Why a request cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    /// Not one of those with which objects are read and changed.
    #[error("the method {0:?} is not forwarded to clusters")]
    Method(String),
    /// Longer than any that is meant well.
    #[error("the path is longer than {LONGEST} bytes")]
    TooLong,
    /// Not a path of the Kubernetes API, or one that means something else once it is decoded.
    #[error("the path is not one of the Kubernetes API: {0}")]
    Path(&'static str),
    /// A parameter that nobody here knows.
    #[error("the parameter {0:?} is not forwarded to clusters with this request")]
    Parameter(String),
    /// A parameter that cannot be read.
    #[error("the parameters cannot be read: {0}")]
    Query(&'static str),
}

impl Request {
    /// Reads a request, from its method and its path with the query as they came.
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

    /// The path with the query, written anew from what was read.
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

    /// Whether it opens a terminal in a Pod, or runs something there.
    pub fn is_exec(&self) -> bool {
        self.object()
            .is_some_and(|it| it.is("", "pods") && it.subresource.as_deref() == Some("exec"))
    }

    /// The object, if it is about one.
    pub const fn object(&self) -> Option<&Object> {
        match &self.subject {
            Subject::Object(object) => Some(object),
            Subject::Version
            | Subject::Groups { .. }
            | Subject::Kinds { .. }
            | Subject::Schema { .. } => None,
        }
    }
}

impl Object {
    /// Whether it is of this kind.
    pub fn is(&self, group: &str, resource: &str) -> bool {
        self.group == group && self.resource == resource
    }

    /// Whether it is a Secret, whose values nobody at the hub sees.
    pub fn is_secret(&self) -> bool {
        self.is("", "secrets")
    }
}

impl Verb {
    /// The word.
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

    /// Whether it leaves everything as it is.
    pub const fn only_reads(self) -> bool {
        matches!(self, Self::Get | Self::List | Self::Watch)
    }
}

/// For people: `deployments.apps shop/front`, `pods/log shop/front-1`.
impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Object(object) => object.fmt(f),
            Self::Version | Self::Groups { .. } | Self::Kinds { .. } | Self::Schema { .. } => {
                f.write_str(&path::written(self))
            }
        }
    }
}

impl fmt::Display for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            group,
            version: _,
            resource,
            namespace,
            name,
            subresource,
        } = self;
        f.write_str(resource)?;
        if !group.is_empty() {
            write!(f, ".{group}")?;
        }
        if let Some(subresource) = subresource {
            write!(f, "/{subresource}")?;
        }
        match (namespace, name) {
            (None, None) => Ok(()),
            (None, Some(name)) => write!(f, " {name}"),
            (Some(namespace), name) => {
                write!(f, " {namespace}/{}", name.as_deref().unwrap_or_default())
            }
        }
    }
}

/// As the API server itself tells them apart.
fn verb(method: &str, subject: &Subject, watches: bool) -> Result<Verb, Unreadable> {
    let named = match subject {
        Subject::Object(object) => object.name.is_some(),
        Subject::Version
        | Subject::Groups { .. }
        | Subject::Kinds { .. }
        | Subject::Schema { .. } => true,
    };
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

/// Whether a header makes its sender somebody else at an API server; such a request is refused, not stripped.
pub fn is_impersonation(header: &str) -> bool {
    let begins = |prefix: &str| {
        let head = header.get(..prefix.len());
        head.is_some_and(|head| head.eq_ignore_ascii_case(prefix))
    };
    begins("impersonate-") || begins("x-remote-")
}

/// What a Kubernetes client is told when there is no other answer: a `Status`.
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
