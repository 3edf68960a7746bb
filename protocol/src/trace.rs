//! Traces on the wire: where an event carries the context of its span, and what the spans of Go are called and tell.
//!
//! The context is data beside an event. Nothing here or in the session decides by it; an acknowledgement echoes it as it
//! does every extension.

use crate::event::Event;
use crate::object::{Facet, ObjectKey};
use crate::session::Verdict;

/// The extension with the span that an event belongs to, as the CloudEvents extension for distributed tracing has it.
const PARENT: &str = "traceparent";
/// The one with what vendors say of it.
const STATE: &str = "tracestate";

/// Which program a span is of: `principal` or `agent`.
pub const COMPONENT: &str = "argocd.component.type";
/// The cluster, as the hub calls it.
pub const AGENT_NAME: &str = "argocd.agent.name";
/// Who owns the specs there.
pub const AGENT_MODE: &str = "argocd.agent.mode";
const EVENT_ID: &str = "argocd.event.id";
const EVENT_TARGET: &str = "argocd.event.target";
const EVENT_TYPE: &str = "argocd.event.type";
const OPERATION: &str = "argocd.operation.type";
const KIND: &str = "k8s.resource.kind";
const NAME: &str = "k8s.resource.name";
const NAMESPACE: &str = "k8s.resource.namespace";
/// The object's own identity.
pub const UID: &str = "k8s.resource.uid";

/// Something that is known of a span.
pub type Attribute = (&'static str, String);

/// Under what the context of a mark is noted: what is said, and which part of it.
pub type Matter = (ObjectKey, Facet);

/// The span of something that is done to an object: `Application.update`.
pub fn doing(operation: &str, key: &ObjectKey) -> String {
    format!("{}.{operation}", key.kind)
}

/// What is known of something that is done to an object.
pub fn of_object(operation: &str, key: &ObjectKey) -> [Attribute; 4] {
    [
        (OPERATION, operation.to_owned()),
        (KIND, key.kind.to_string()),
        (NAME, key.name.clone()),
        (NAMESPACE, key.namespace.clone()),
    ]
}

/// How a span tells what came of an event: nothing where it went well, else why not.
pub fn outcome(verdict: &Verdict) -> Result<(), &str> {
    match verdict {
        Verdict::Done => Ok(()),
        Verdict::Refused(why) => Err(why),
        Verdict::Retry { .. } => Err("not yet; it is tried again"),
    }
}

impl Event {
    /// The span of taking it in, as Go calls it: `<target>.<type>`.
    pub fn span(&self) -> String {
        format!("{}.{}", self.target, self.verb.to_type())
    }

    /// What is known of it. No bodies.
    pub fn of_event(&self) -> Vec<Attribute> {
        let mut known = vec![
            (EVENT_TYPE, self.verb.to_type()),
            (EVENT_TARGET, self.target.to_string()),
            (EVENT_ID, self.event_id.clone()),
            // As Go has it: name and UID.
            (UID, self.resource_id.clone()),
        ];
        if let Some(key) = self.object() {
            known.extend([
                (KIND, key.kind.to_string()),
                (NAME, key.name),
                (NAMESPACE, key.namespace),
            ]);
        }
        known
    }

    /// The context that it carries, if any, and what vendors say of it. A claim: nobody has looked at it yet.
    pub fn trace(&self) -> Option<(&str, Option<&str>)> {
        let parent = self.extensions.get(PARENT)?;
        Some((parent, self.extensions.get(STATE).map(String::as_str)))
    }

    /// Lets it carry a context, and what vendors say of it.
    pub fn carry(&mut self, (parent, state): (String, Option<String>)) {
        self.extensions.insert(PARENT.to_owned(), parent);
        if let Some(state) = state {
            self.extensions.insert(STATE.to_owned(), state);
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::event::Verb;
    use crate::object::Kind;

    #[test]
    fn trace_context_round_trips_in_event_extensions() {
        let key = ObjectKey::new(Kind::Application, "agent-a", "app");
        let mut event = Event::about(&key, Verb::SpecUpdate, "uid", "7", Bytes::new());
        assert_eq!(event.trace(), None);
        event.carry(("00-parent".to_owned(), Some("vendor=1".to_owned())));
        let raw = event.into_cloud_event("");
        assert!(raw.attributes.contains_key("traceparent"), "{raw:?}");
        let arrived = Event::try_from(raw).unwrap();
        assert_eq!(arrived.trace(), Some(("00-parent", Some("vendor=1"))));
        assert_eq!(arrived.ack().trace(), arrived.trace());
    }

    #[test]
    fn spans_are_called_as_go_calls_them() {
        let key = ObjectKey::new(Kind::Application, "agent-a", "app");
        let event = Event::about(&key, Verb::SpecUpdate, "uid", "7", Bytes::new());
        assert_eq!(
            event.span(),
            "application.io.argoproj.argocd-agent.event.spec-update"
        );
        assert_eq!(doing("update", &key), "Application.update");
        let known = event.of_event();
        assert!(known.contains(&("argocd.event.id", "app_uid_7".to_owned())));
        assert!(known.contains(&("k8s.resource.name", "app".to_owned())));
    }
}
