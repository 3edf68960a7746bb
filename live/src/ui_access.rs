//! `UI_ACCESS`: what people at the hub's Argo CD may see and do on a cluster.
//!
//! Pure: the decision from the request and the level alone. The rights of the `ServiceAccount` for which the agent asks
//! are the second line behind it.

use std::fmt;
use std::str::FromStr;

use crate::request::{Object, Request, Subject, Verb};

#[cfg(test)]
mod tests;

/// The words, as they are told to whoever used another one.
pub const LEVELS: &str = "none, read, operate or terminal";

/// How much they may; each level has what the one before has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum UiAccess {
    /// Nothing.
    None,
    /// See what is there, but for Secrets, and read logs.
    Read,
    /// Change and delete what belongs to an Application of the cluster, and see its Secrets without their values.
    Operate,
    /// Open terminals in Pods that belong to an Application.
    Terminal,
}

/// What has to hold besides, of a request that the level allows. Whoever carries it out has to look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allowed {
    /// Nothing.
    AsItIs,
    /// The object belongs to an Application of the cluster ([`belonging`](crate::belonging)).
    IfItBelongs,
    /// It is made for something that belongs to an Application of the cluster, as its owner.
    IfItsOwnerBelongs,
}

/// A word that is no level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be {LEVELS}")]
pub struct UnknownLevel;

impl UiAccess {
    /// The word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Read => "read",
            Self::Operate => "operate",
            Self::Terminal => "terminal",
        }
    }
}

impl fmt::Display for UiAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for UiAccess {
    type Err = UnknownLevel;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        [Self::None, Self::Read, Self::Operate, Self::Terminal]
            .into_iter()
            .find(|level| level.as_str() == word)
            .ok_or(UnknownLevel)
    }
}

/// Why a request is not carried out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Forbidden {
    /// The level allows nothing.
    #[error("UI_ACCESS of this cluster is none")]
    Everything,
    /// It would change something.
    #[error("UI_ACCESS of this cluster is {level}, which does not allow to {verb} anything")]
    Verb {
        /// The level.
        level: UiAccess,
        /// What was to be done.
        verb: &'static str,
    },
    /// The level allows to do this with some things, and this is none of them.
    #[error("UI_ACCESS of this cluster is {level}, which does not allow to {verb} {resource}")]
    Kind {
        /// The level.
        level: UiAccess,
        /// What was to be done.
        verb: &'static str,
        /// The plural.
        resource: String,
    },
    /// It could show what Secrets hold.
    #[error("UI_ACCESS {level} does not allow access to Secrets")]
    Secrets {
        /// The level.
        level: UiAccess,
    },
    /// A part of an object that leads somewhere else.
    #[error("UI_ACCESS of this cluster is {level}, which does not allow {resource}/{part}")]
    Part {
        /// The level.
        level: UiAccess,
        /// The plural.
        resource: String,
        /// The part.
        part: String,
    },
}

/// Whether the level allows this, and on which condition.
pub fn judge(request: &Request, level: UiAccess) -> Result<Allowed, Forbidden> {
    if level == UiAccess::None {
        return Err(Forbidden::Everything);
    }
    let reads = request.verb.only_reads();
    let named = request
        .object()
        .is_some_and(|it| it.name.is_some() && it.namespace.is_some());
    if request.is_exec() && named && level >= UiAccess::Terminal {
        return match request.verb {
            // A WebSocket is asked for with the one, SPDY with the other.
            Verb::Get | Verb::Create => Ok(Allowed::IfItBelongs),
            Verb::List
            | Verb::Watch
            | Verb::Update
            | Verb::Patch
            | Verb::Delete
            | Verb::DeleteCollection => Err(Forbidden::Verb {
                level,
                verb: request.verb.as_str(),
            }),
        };
    }
    match &request.subject {
        Subject::Object(object) if reads => reading(object, request.verb, level),
        Subject::Object(object) if level >= UiAccess::Operate => {
            changing(object, request.verb, level)
        }
        // What there is, and not what is in it.
        Subject::Version
        | Subject::Groups { .. }
        | Subject::Kinds { .. }
        | Subject::Schema { .. }
            if reads =>
        {
            Ok(Allowed::AsItIs)
        }
        Subject::Object(_)
        | Subject::Version
        | Subject::Groups { .. }
        | Subject::Kinds { .. }
        | Subject::Schema { .. } => Err(Forbidden::Verb {
            level,
            verb: request.verb.as_str(),
        }),
    }
}

fn reading(object: &Object, verb: Verb, level: UiAccess) -> Result<Allowed, Forbidden> {
    // In whatever version, and in groups that might show them again under the same name.
    if object.resource == "secrets" {
        let one = object.is_secret() && verb == Verb::Get && object.subresource.is_none();
        return if one && level >= UiAccess::Operate {
            Ok(Allowed::IfItBelongs)
        } else {
            Err(Forbidden::Secrets { level })
        };
    }
    let Some(part) = object.subresource.as_deref() else {
        return Ok(Allowed::AsItIs);
    };
    let shows = match part {
        "status" | "scale" => true,
        "log" => object.is("", "pods"),
        // A name that leads into a Pod, to a Node or through the API server, or that nobody here knows.
        _ => false,
    };
    if shows && verb == Verb::Get {
        return Ok(Allowed::AsItIs);
    }
    Err(closed(object, part, level))
}

/// What Argo CD does for people: it patches (by hand or as an action of the kind), deletes, and makes what an action
/// makes of something that is there, such as a Job of a `CronJob`.
fn changing(object: &Object, verb: Verb, level: UiAccess) -> Result<Allowed, Forbidden> {
    let foreign_secrets = object.resource == "secrets" && !object.is_secret();
    let is_named = object.name.is_some();
    match (verb, object.subresource.as_deref()) {
        _ if foreign_secrets => Err(Forbidden::Secrets { level }),
        (Verb::Patch, None | Some("status" | "scale")) | (Verb::Delete, None) if is_named => {
            Ok(Allowed::IfItBelongs)
        }
        (Verb::Create, None) if !is_named && is_made_by_actions(object) => {
            Ok(Allowed::IfItsOwnerBelongs)
        }
        (Verb::Patch | Verb::Delete | Verb::Create, Some(part)) => Err(closed(object, part, level)),
        _ => Err(Forbidden::Kind {
            level,
            verb: verb.as_str(),
            resource: object.resource.clone(),
        }),
    }
}

/// Kinds of which an action of Argo CD makes new objects, with what they are made of as their owner.
fn is_made_by_actions(object: &Object) -> bool {
    let kind = object.is("batch", "jobs") || object.is("argoproj.io", "workflows");
    kind && object.namespace.is_some()
}

fn closed(object: &Object, part: &str, level: UiAccess) -> Forbidden {
    Forbidden::Part {
        level,
        resource: object.resource.clone(),
        part: part.to_owned(),
    }
}
