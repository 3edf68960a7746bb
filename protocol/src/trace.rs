//! Traces on the wire: the trace context of an event, and the names and attributes of spans, as in Go.
//!
//! The context does not influence any decision; an acknowledgement echoes it like every extension.

use crate::event::Event;
use crate::object::{Facet, ObjectKey};
use crate::session::Verdict;

/// The extension with the span of an event, as in the CloudEvents extension for distributed tracing.
const PARENT: &str = "traceparent";
/// The extension with the vendors' trace state.
const STATE: &str = "tracestate";

/// The program of a span.
const COMPONENT: &str = "argocd.component.type";
/// The cluster's name on the hub.
pub const AGENT_NAME: &str = "argocd.agent.name";
/// The agent's mode.
pub const AGENT_MODE: &str = "argocd.agent.mode";
const EVENT_ID: &str = "argocd.event.id";
const EVENT_TARGET: &str = "argocd.event.target";
const EVENT_TYPE: &str = "argocd.event.type";
const OPERATION: &str = "argocd.operation.type";
const KIND: &str = "k8s.resource.kind";
const NAME: &str = "k8s.resource.name";
const NAMESPACE: &str = "k8s.resource.namespace";
/// The object's UID.
pub const UID: &str = "k8s.resource.uid";

/// An attribute of a span.
pub type Attribute = (&'static str, String);

/// A mark of the outbox, as the key of its trace context.
pub type Mark = (ObjectKey, Facet);

/// The name of the span of an operation on an object: `Application.update`.
pub fn span_name(operation: &str, key: &ObjectKey) -> String {
    format!("{}.{operation}", key.kind)
}

/// The attributes of the span of an operation on an object; `component` is the program, `principal` or `agent`.
pub fn object_attributes(component: &str, operation: &str, key: &ObjectKey) -> [Attribute; 5] {
    [
        (COMPONENT, component.to_owned()),
        (OPERATION, operation.to_owned()),
        (KIND, key.kind.to_string()),
        (NAME, key.name.clone()),
        (NAMESPACE, key.namespace.clone()),
    ]
}

/// The outcome of an event for its span: success, or the error.
pub fn outcome(verdict: &Verdict) -> Result<(), &str> {
    match verdict {
        Verdict::Done => Ok(()),
        Verdict::Refused(why) => Err(why),
        Verdict::Retry { .. } => Err("not yet; it is tried again"),
    }
}

impl Event {
    /// The name of the span of receiving it, as in Go: `<target>.<type>`.
    pub fn span_name(&self) -> String {
        format!("{}.{}", self.target, self.verb.to_type())
    }

    /// The attributes of its span; never its body.
    pub fn span_attributes(&self, component: &str) -> Vec<Attribute> {
        let mut known = vec![
            (COMPONENT, component.to_owned()),
            (EVENT_TYPE, self.verb.to_type()),
            (EVENT_TARGET, self.target.to_string()),
            (EVENT_ID, self.event_id.clone()),
            // As in Go: name and UID.
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

    /// Its trace context, if any, and the vendors' trace state. A claim: the caller has to check it.
    pub fn trace(&self) -> Option<(&str, Option<&str>)> {
        let parent = self.extensions.get(PARENT)?;
        Some((parent, self.extensions.get(STATE).map(String::as_str)))
    }

    /// Sets its trace context and the vendors' trace state.
    pub fn set_trace(&mut self, (parent, state): (String, Option<String>)) {
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
        event.set_trace(("00-parent".to_owned(), Some("vendor=1".to_owned())));
        let raw = event.into_cloud_event("");
        assert!(raw.attributes.contains_key("traceparent"), "{raw:?}");
        let arrived = Event::try_from(raw).unwrap();
        assert_eq!(arrived.trace(), Some(("00-parent", Some("vendor=1"))));
        assert_eq!(arrived.ack().trace(), arrived.trace());
    }

    #[test]
    fn spans_have_the_names_of_go() {
        let key = ObjectKey::new(Kind::Application, "agent-a", "app");
        let event = Event::about(&key, Verb::SpecUpdate, "uid", "7", Bytes::new());
        assert_eq!(
            event.span_name(),
            "application.io.argoproj.argocd-agent.event.spec-update"
        );
        assert_eq!(span_name("update", &key), "Application.update");
        let known = event.span_attributes("agent");
        assert!(known.contains(&("argocd.event.id", "app_uid_7".to_owned())));
        assert!(known.contains(&("k8s.resource.name", "app".to_owned())));
    }
}
