//! `UI_ACCESS`: the access of users of the hub's Argo CD to a cluster.
//!
//! Pure: decides from the request and the level only. The RBAC of the agent's `ServiceAccount` is the second line of
//! defence.

use std::str::FromStr;

use crate::request::{Object, Request, Verb};

#[cfg(test)]
mod tests;

/// The names of the levels, for error messages.
pub const LEVELS: &str = "none, applications, read, operate or terminal";

/// The access levels; each includes the previous one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, derive_more::Display)]
#[display("{}", self.as_str())]
pub enum UiAccess {
    /// No access.
    None,
    /// Read single objects of the cluster's Applications, except Secrets, with their logs and Events.
    Applications,
    /// Read all objects, except Secrets, and logs.
    Read,
    /// Change and delete objects of the cluster's Applications, and read their Secrets without values.
    Operate,
    /// Open terminals in Pods that belong to an Application.
    Terminal,
}

/// The further condition of an allowed request, which the handler has to check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allowed {
    /// None.
    AsItIs,
    /// The object belongs to an Application of the cluster ([`belonging`](crate::belonging)).
    IfItBelongs,
    /// The owner of the created object belongs to an Application of the cluster.
    IfItsOwnerBelongs,
    /// The answer has only Events about Applications of the cluster and about objects that belong to one.
    EventsOfApplications,
}

/// The name is not that of a level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be {LEVELS}")]
pub struct UnknownLevel;

impl UiAccess {
    /// All levels, in ascending order.
    pub const ALL: [Self; 5] = [
        Self::None,
        Self::Applications,
        Self::Read,
        Self::Operate,
        Self::Terminal,
    ];

    /// The name of the level.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Applications => "applications",
            Self::Read => "read",
            Self::Operate => "operate",
            Self::Terminal => "terminal",
        }
    }
}

impl FromStr for UiAccess {
    type Err = UnknownLevel;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        let mut levels = Self::ALL.into_iter();
        let level = levels.find(|level| level.as_str() == word);
        level.ok_or(UnknownLevel)
    }
}

/// Why a request is forbidden.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Forbidden {
    /// The level allows nothing.
    #[error("UI_ACCESS of this cluster is none")]
    Everything,
    /// The level does not allow the verb.
    #[error("UI_ACCESS of this cluster is {level}, which does not allow to {verb} anything")]
    Verb {
        /// The level.
        level: UiAccess,
        /// The verb.
        verb: &'static str,
    },
    /// The level allows the verb for other kinds only.
    #[error("UI_ACCESS of this cluster is {level}, which does not allow to {verb} {resource}")]
    Kind {
        /// The level.
        level: UiAccess,
        /// The verb.
        verb: &'static str,
        /// The plural.
        resource: String,
    },
    /// The level shows single objects only.
    #[error(
        "UI_ACCESS of this cluster is {level}, which does not allow to {verb} {resource}: it shows \
         single objects of Applications, and lists Events with the field selector \
         involvedObject.uid, or involvedObject.name in one namespace. Set UI_ACCESS to read to \
         {verb} {resource}"
    )]
    Several {
        /// The level.
        level: UiAccess,
        /// The verb.
        verb: &'static str,
        /// The plural.
        resource: String,
    },
    /// It could reveal the content of Secrets.
    #[error("UI_ACCESS {level} does not allow access to Secrets")]
    Secrets {
        /// The level.
        level: UiAccess,
    },
    /// The level does not allow the subresource.
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

/// Whether the level allows the request, and on which condition.
pub fn judge(request: &Request, level: UiAccess) -> Result<Allowed, Forbidden> {
    if level == UiAccess::None {
        return Err(Forbidden::Everything);
    }
    let (verb, reads) = (request.verb, request.verb.only_reads());
    let refused = Forbidden::Verb {
        level,
        verb: verb.as_str(),
    };
    let Some(object) = request.object() else {
        // Discovery, without objects.
        return reads.then_some(Allowed::AsItIs).ok_or(refused);
    };
    let is_named = object.name.is_some() && object.namespace.is_some();
    if request.is_exec() && is_named && level >= UiAccess::Terminal {
        // WebSocket clients use GET, SPDY clients POST.
        let opens = matches!(verb, Verb::Get | Verb::Create);
        return opens.then_some(Allowed::IfItBelongs).ok_or(refused);
    }
    if reads {
        reading(request, object, level)
    } else if level >= UiAccess::Operate {
        changing(object, verb, level)
    } else {
        Err(refused)
    }
}

fn reading(request: &Request, object: &Object, level: UiAccess) -> Result<Allowed, Forbidden> {
    let verb = request.verb;
    // In every version, and in groups that might serve them under the same name.
    if object.resource == "secrets" {
        let one = object.is_secret() && verb == Verb::Get && object.subresource.is_none();
        let may = one && level >= UiAccess::Operate;
        let refused = Forbidden::Secrets { level };
        return may.then_some(Allowed::IfItBelongs).ok_or(refused);
    }
    if let Some(part) = object.subresource.as_deref() {
        let shows = match part {
            "status" | "scale" => true,
            "log" => object.is("", "pods"),
            // A subresource that reaches into a Pod, to a Node or through the API server, or an unknown one.
            _ => false,
        };
        if !shows || verb != Verb::Get {
            return Err(closed(object, part, level));
        }
    }
    if level >= UiAccess::Read {
        Ok(Allowed::AsItIs)
    } else if verb == Verb::Get {
        Ok(Allowed::IfItBelongs)
    } else if lists_events_of_an_object(request, object) {
        Ok(Allowed::EventsOfApplications)
    } else {
        Err(Forbidden::Several {
            level,
            verb: verb.as_str(),
            resource: object.resource.clone(),
        })
    }
}

/// Whether it lists the Events about one UID, or about one name in a namespace, which are few enough to judge each. Argo CD
/// lists those of a cluster-scoped object without a namespace.
fn lists_events_of_an_object(request: &Request, object: &Object) -> bool {
    let selector = request.query.get("fieldSelector").unwrap_or_default();
    let selects = |field: &str| {
        let mut values = selector
            .split(',')
            .filter_map(|term| term.strip_prefix(field));
        values.any(|value| !value.trim_start_matches('=').is_empty())
    };
    let are_few = selects("involvedObject.uid=")
        || object.namespace.is_some() && selects("involvedObject.name=");
    request.verb == Verb::List && object.is("", "events") && are_few
}

/// The changes that Argo CD makes for users: it patches (edits and actions), deletes, and creates the objects of actions,
/// such as a Job of a `CronJob`.
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

/// Kinds that an action of Argo CD creates, with the object of the action as their owner.
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
