//! `UI_ACCESS`: what people at the hub's Argo CD may see and do on a cluster.
//!
//! Pure: the decision from the request and the level alone. The rights of the `ServiceAccount` for which the agent asks
//! are the second line behind it.

use std::fmt;
use std::str::FromStr;

use crate::request::{Object, Request, Subject, Verb};

#[cfg(test)]
mod tests;

/// How much they may; each level has what the one before has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum UiAccess {
    /// Nothing.
    None,
    /// See what is there, but for Secrets, and read logs.
    Read,
}

/// A word that is no level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be none or read")]
pub struct UnknownLevel;

impl UiAccess {
    /// The word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Read => "read",
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
        [Self::None, Self::Read]
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
    /// It could show what Secrets hold.
    #[error("Secrets are not shown with UI_ACCESS {level}")]
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

/// Whether the level allows this.
pub fn judge(request: &Request, level: UiAccess) -> Result<(), Forbidden> {
    if level == UiAccess::None {
        return Err(Forbidden::Everything);
    }
    if !request.verb.only_reads() {
        let verb = request.verb.as_str();
        return Err(Forbidden::Verb { level, verb });
    }
    match &request.subject {
        // What there is, and not what is in it.
        Subject::Version
        | Subject::Groups { .. }
        | Subject::Kinds { .. }
        | Subject::Schema { .. } => Ok(()),
        Subject::Object(object) => reading(object, request.verb, level),
    }
}

fn reading(object: &Object, verb: Verb, level: UiAccess) -> Result<(), Forbidden> {
    // In whatever version, and in groups that might show them again under the same name.
    if object.resource == "secrets" {
        return Err(Forbidden::Secrets { level });
    }
    let Some(part) = object.subresource.as_deref() else {
        return Ok(());
    };
    let shows = match part {
        "status" | "scale" => true,
        "log" => object.is("", "pods"),
        // A name that leads into a Pod, to a Node or through the API server, or that nobody here knows.
        _ => false,
    };
    if shows && verb == Verb::Get {
        return Ok(());
    }
    Err(Forbidden::Part {
        level,
        resource: object.resource.clone(),
        part: part.to_owned(),
    })
}
