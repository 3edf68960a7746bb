//! Checks the hub's messages about objects, and maps the hub's names of objects to those on the spoke.

use argocd::entries;
use argocd::name::is_name;
use argocd::projection::{SpokeContext, Unusable, desired_on_spoke, desired_project_on_spoke};
use argocd::repository::{content_id, desired_secret_on_spoke};
use argocd::{Meta, digest, keys};
use protocol::{Event, Kind, Mode, ObjectKey, Target, Verb};
use serde_json::Value;

use crate::config::Scope;
use crate::sync::api::shared;
use crate::transport::Welcome;

/// Why the agent can never apply a message.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unfit {
    #[error("{0} is not supported yet")]
    Unsupported(Target),
    #[error("{verb} is not valid for {target}")]
    NoMeaning { target: Target, verb: Verb },
    #[error("the message names no object")]
    NoObject,
    #[error("an autonomous cluster takes commands on Applications only")]
    NoApplication,
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

/// The change that the hub wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    State,
    Delete,
    Sync,
    Terminate,
    /// A command that a user gave on the mirror of an object that the spoke owns.
    OfMirror(Verb),
}

impl Order {
    fn of(kind: Kind, verb: Verb) -> Option<Self> {
        [
            (Verb::Create, Self::State),
            (Verb::SpecUpdate, Self::State),
            (Verb::Delete, Self::Delete),
            (Verb::SetOperation, Self::Sync),
            (Verb::TerminateOperation, Self::Terminate),
        ]
        .into_iter()
        .find_map(|(of, order)| (of == verb).then_some(order))
        .filter(|it| kind == Kind::Application || matches!(it, Self::State | Self::Delete))
    }
}

/// A checked message about an object.
pub(super) struct Message {
    pub(super) order: Order,
    /// The object's key on the hub.
    pub(super) hub: ObjectKey,
    /// The object's key on this cluster.
    pub(super) key: ObjectKey,
    pub(super) body: Value,
}

impl Message {
    /// Whether the hub waits for the object to go.
    pub(super) fn is_deletion(&self) -> bool {
        match self.order {
            Order::Delete => true,
            Order::State => Meta::of(&self.body).is_deleting(),
            Order::Sync | Order::Terminate | Order::OfMirror(_) => false,
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
    /// Checks a message and maps its object to the key on this cluster.
    pub(super) fn understand(&self, event: &Event) -> Result<Message, Unfit> {
        if self.scope.mode == Mode::Autonomous {
            return self.understand_command(event);
        }
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
        // The agent puts a name into the path of a request.
        for name in [&hub.name, &hub.namespace] {
            if !is_name(name) {
                return Err(bad_name(name));
            }
        }
        // Messages of this kind write one object only.
        if shared(kind).is_some_and(|shared| shared.name() != hub.name) {
            return Err(Unfit::BadName(hub.name));
        }
        let namespace = self.namespace_here(&hub);
        if !self.scope.admits(&namespace) {
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

    /// In autonomous mode, the mirrored object is in Argo CD's namespace.
    fn understand_command(&self, event: &Event) -> Result<Message, Unfit> {
        let hub = event.object().filter(|it| it.kind == Kind::Application);
        let hub = hub.ok_or(Unfit::NoApplication)?;
        if !is_name(&hub.name) {
            return Err(bad_name(&hub.name));
        }
        Ok(Message {
            order: Order::OfMirror(event.verb),
            key: ObjectKey::new(hub.kind, &self.scope.argocd_namespace, &hub.name),
            hub,
            body: serde_json::from_slice(&event.payload).map_err(Unfit::NotAnObject)?,
        })
    }

    fn namespace_here(&self, hub: &ObjectKey) -> String {
        if hub.kind != Kind::Application {
            return self.scope.argocd_namespace.clone();
        }
        let context = self.context(&hub.namespace, None);
        context.spoke_namespace(&hub.namespace).to_owned()
    }

    /// The desired object on this cluster.
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

    /// The principal's UID: our principal sends it once, a Go principal with each object.
    pub(super) fn principal_uid<'b>(&'b self, event: &'b Event) -> Option<&'b str> {
        let uid = event.principal_uid.as_deref();
        uid.or(self.welcome.principal_uid.as_deref())
    }

    /// The namespace of a replica's object on the hub.
    pub(super) fn hub_namespace(&self, key: &ObjectKey, live: &Value) -> String {
        let remapped = Meta::of(live).annotation(keys::NAMESPACE_REMAPPED) == Some("true");
        if !self.welcome.capabilities.is_ours() {
            // A Go principal that keeps namespaces expects its own; one that does not expects the replica's.
            let moved = remapped && self.scope.keep_namespaces;
            let namespace = if moved {
                &self.welcome.principal_namespace
            } else {
                &key.namespace
            };
            return namespace.clone();
        }
        if key.kind != Kind::Application {
            return self.welcome.principal_namespace.clone();
        }
        self.context("", None).hub_namespace(live).to_owned()
    }

    /// Whether a replica came from an object of the hub with the name in this message.
    ///
    /// Our principal sends messages in order per name: the last one applies to the replica from that
    /// name, even if the agent never received the object with the message's UID. A Go principal keeps
    /// order only per UID, so with it the UID decides.
    pub(super) fn is_same_name(&self, message: &Message, live: &Value) -> bool {
        self.welcome.capabilities.is_ours()
            && self.hub_namespace(&message.key, live) == message.hub.namespace
    }

    /// The context of this spoke for an object in `hub_namespace`.
    fn context<'b>(
        &'b self,
        hub_namespace: &'b str,
        principal_uid: Option<&'b str>,
    ) -> SpokeContext<'b> {
        let welcome = self.welcome;
        // A Go principal that maps by namespace sends neither our name nor its mode: then every
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

fn bad_name(name: &str) -> Unfit {
    Unfit::BadName(name.chars().take(64).collect())
}

/// The digest of a message's content, so that the hub need not resend it.
pub(super) fn digest(kind: Kind, body: &Value) -> String {
    match kind {
        Kind::Application | Kind::AppProject => digest::agreed(body),
        Kind::Repository => content_id(body),
        Kind::GpgKey | Kind::TlsCerts | Kind::SshKnownHosts => digest::agreed_entries(body),
    }
}
