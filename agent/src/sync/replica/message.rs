//! Understands what the hub says about an object: whether it makes sense here, and what the object is
//! called here.

use argocd::entries;
use argocd::projection::{SpokeContext, Unusable, desired_on_spoke, desired_project_on_spoke};
use argocd::repository::{content_id, desired_secret_on_spoke};
use argocd::{Meta, digest, glob, keys};
use protocol::{Event, Kind, ObjectKey, Target, Verb};
use serde_json::Value;

use crate::config::Scope;
use crate::sync::api::shared;
use crate::transport::Welcome;

/// Something that cannot be done with a message, now or later.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unfit {
    #[error("{0} is not supported yet")]
    Unsupported(Target),
    #[error("{verb} is not valid for {target}")]
    NoMeaning { target: Target, verb: Verb },
    #[error("the message names no object")]
    NoObject,
    #[error("the message is not an object")]
    NotAnObject(#[source] serde_json::Error),
    #[error("the message and its body name different objects")]
    OtherObject,
    #[error("{0:?} is not a name")]
    BadName(String),
    #[error(
        "namespace {0:?} is not allowed on this cluster: add it to the variable ALLOWED_NAMESPACES of the cluster's \
         AddOnDeploymentConfig (the agent's --allowed-namespaces)"
    )]
    Namespace(String),
    #[error("the object cannot be used")]
    Unusable(#[source] Unusable),
}

/// What the hub wants done about an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    State,
    Delete,
    Sync,
    Terminate,
}

impl Order {
    fn of(kind: Kind, verb: Verb) -> Option<Self> {
        let of_any = [
            (Verb::Create, Self::State),
            (Verb::SpecUpdate, Self::State),
            (Verb::Delete, Self::Delete),
        ];
        let of_applications = [
            (Verb::SetOperation, Self::Sync),
            (Verb::TerminateOperation, Self::Terminate),
        ];
        let of_applications = of_applications
            .into_iter()
            .filter(|_| kind == Kind::Application);
        of_any
            .into_iter()
            .chain(of_applications)
            .find(|(v, _)| *v == verb)
            .map(|(_, order)| order)
    }
}

/// A message about an object, understood.
pub(super) struct Message {
    pub(super) order: Order,
    /// What it is called on the hub.
    pub(super) hub: ObjectKey,
    /// What it is called here.
    pub(super) key: ObjectKey,
    pub(super) body: Value,
}

impl Message {
    /// Whether the hub waits for the object to go.
    pub(super) fn wants_it_gone(&self) -> bool {
        match self.order {
            Order::Delete => true,
            Order::State => Meta::of(&self.body).is_deleting(),
            Order::Sync | Order::Terminate => false,
        }
    }
}

/// Reads messages of one principal, for one spoke.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reader<'a> {
    pub(super) scope: &'a Scope,
    pub(super) welcome: &'a Welcome,
}

impl Reader<'_> {
    /// Checks a message and finds out what its object is called here.
    pub(super) fn understand(&self, event: &Event) -> Result<Message, Unfit> {
        let Target::Object(kind) = event.target else {
            return Err(Unfit::Unsupported(event.target));
        };
        let order = Order::of(kind, event.verb).ok_or(Unfit::NoMeaning {
            target: event.target,
            verb: event.verb,
        })?;
        let hub = event.object().ok_or(Unfit::NoObject)?;
        let body: Value = serde_json::from_slice(&event.payload).map_err(Unfit::NotAnObject)?;
        let meta = Meta::of(&body);
        if meta.name() != hub.name || meta.namespace() != hub.namespace {
            return Err(Unfit::OtherObject);
        }
        // A name goes into the path of a request.
        for name in [&hub.name, &hub.namespace] {
            if !is_name(name) {
                return Err(Unfit::BadName(name.chars().take(64).collect()));
            }
        }
        // Nothing else is written by that way.
        if shared(kind).is_some_and(|shared| shared.name() != hub.name) {
            return Err(Unfit::BadName(hub.name));
        }
        let namespace = self.namespace_here(&hub);
        if !self.is_admitted(&namespace) {
            return Err(Unfit::Namespace(namespace));
        }
        let key = ObjectKey::new(kind, namespace, hub.name.clone());
        Ok(Message {
            order,
            hub,
            key,
            body,
        })
    }

    fn namespace_here(&self, hub: &ObjectKey) -> String {
        let context = self.context(&hub.namespace, None);
        match hub.kind {
            Kind::Application => context.spoke_namespace(&hub.namespace).to_owned(),
            Kind::AppProject
            | Kind::Repository
            | Kind::GpgKey
            | Kind::TlsCerts
            | Kind::SshKnownHosts => self.scope.argocd_namespace.clone(),
        }
    }

    fn is_admitted(&self, namespace: &str) -> bool {
        namespace == self.scope.argocd_namespace
            || self
                .scope
                .further_namespaces
                .iter()
                .any(|entry| glob::matches_entry(entry, namespace))
    }

    /// The object as it should be here.
    pub(super) fn desired(&self, event: &Event, message: &Message) -> Result<Value, Unfit> {
        let Message { key, body, .. } = message;
        let context = self.context(Meta::of(body).namespace(), self.principal_uid(event));
        match key.kind {
            Kind::AppProject => desired_project_on_spoke(body, &context),
            Kind::Application => desired_on_spoke(body, &context),
            Kind::Repository => desired_secret_on_spoke(body, &context),
            Kind::GpgKey | Kind::TlsCerts | Kind::SshKnownHosts => {
                entries::desired_on_spoke(body, &context)
            }
        }
        .map_err(Unfit::Unusable)
    }

    /// Ours says it once, a Go principal with each object.
    pub(super) fn principal_uid<'b>(&'b self, event: &'b Event) -> Option<&'b str> {
        event
            .principal_uid
            .as_deref()
            .or(self.welcome.principal_uid.as_deref())
    }

    /// What the hub calls a replica's namespace.
    pub(super) fn hub_namespace(&self, key: &ObjectKey, live: &Value) -> String {
        let remapped = Meta::of(live).annotation(keys::NAMESPACE_REMAPPED) == Some("true");
        if !self.welcome.capabilities.is_ours() {
            // A Go principal that keeps namespaces looks there; one that does not looks nowhere else.
            let moved = remapped && self.scope.keep_namespaces;
            let namespace = if moved {
                &self.welcome.principal_namespace
            } else {
                &key.namespace
            };
            return namespace.clone();
        }
        match key.kind {
            Kind::Application => self.context("", None).hub_namespace(live).to_owned(),
            Kind::AppProject
            | Kind::Repository
            | Kind::GpgKey
            | Kind::TlsCerts
            | Kind::SshKnownHosts => self.welcome.principal_namespace.clone(),
        }
    }

    /// Whether a replica came from an object that has, or had, the name that this message is about.
    ///
    /// Ours speaks in order about a name on the hub: its last word is meant for what came from that
    /// name, even if the object with the UID in the message never came through. A Go principal keeps
    /// order only by UID, so with it the UID decides.
    pub(super) fn is_same_name(&self, message: &Message, live: &Value) -> bool {
        self.welcome.capabilities.is_ours()
            && self.hub_namespace(&message.key, live) == message.hub.namespace
    }

    /// Where we are, as seen from an object in `hub_namespace`.
    fn context<'b>(
        &'b self,
        hub_namespace: &'b str,
        principal_uid: Option<&'b str>,
    ) -> SpokeContext<'b> {
        let welcome = self.welcome;
        // A Go principal that maps by namespace says neither our name nor that it does: then every
        // namespace is ours.
        let every = !welcome.capabilities.is_ours() && !self.scope.keep_namespaces;
        let cluster = if every {
            hub_namespace
        } else {
            welcome.agent_name.as_deref().unwrap_or_default()
        };
        SpokeContext {
            argocd_namespace: &self.scope.argocd_namespace,
            principal_namespace: &welcome.principal_namespace,
            principal_uid,
            cluster,
        }
    }
}

/// What names the content of a message, so that the hub need not say it again.
pub(super) fn digest(kind: Kind, body: &Value) -> String {
    match kind {
        Kind::Application | Kind::AppProject => digest::agreed(body),
        Kind::Repository => content_id(body),
        Kind::GpgKey | Kind::TlsCerts | Kind::SshKnownHosts => digest::agreed_entries(body),
    }
}

/// A DNS subdomain, as names of objects and namespaces are.
pub(super) fn is_name(text: &str) -> bool {
    let good = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'.';
    let edge = |b: Option<&u8>| b.is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    text.len() <= 253
        && text.bytes().all(good)
        && !text.contains("..")
        && edge(text.as_bytes().first())
        && edge(text.as_bytes().last())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_name_never_gets_into_a_path() {
        for good in ["a", "guestbook-1", "my.app"] {
            assert!(is_name(good), "{good}");
        }
        let long = "a".repeat(254);
        for bad in [
            "",
            "..",
            "a/b",
            "a..b",
            "../secrets/x",
            "A",
            "-a",
            "a.",
            "a%2fb",
            "ä",
            &long,
        ] {
            assert!(!is_name(bad), "{bad}");
        }
    }
}
