//! What a session does after its connect until both ends agree.
//!
//! The agent is asked what it holds. What it holds as it should is confirmed; what it should not hold goes, unless
//! this is its first session after an enrolment; and once it has said its last word, everything else is sent.

use std::time::Duration;

use protocol::{
    Event, Facet, Kind, ObjectKey, Session, Verb, Verdict,
    payload::{self, RequestUpdate},
    resync::{PATIENCE, Unconfirmed},
};
use runtime::error::Chain;

use crate::{
    fleet::ClusterName,
    hub::{Hub, Lookup},
};

/// The resync of one session.
#[derive(Debug)]
pub(super) struct Resync {
    unconfirmed: Unconfirmed,
    cluster: ClusterName,
    agent_namespace: String,
    /// Nothing goes for being unknown here.
    fresh: bool,
    /// When a peer that names no end has had its time.
    patience: Option<Duration>,
}

impl Resync {
    /// Asks the agent what it holds.
    pub(super) fn begin(
        session: &mut Session,
        cluster: &ClusterName,
        agent_namespace: &str,
        fresh: bool,
        delivered: Vec<ObjectKey>,
    ) -> Self {
        session.say(Event::request_resource_resync());
        Self {
            unconfirmed: Unconfirmed::new(delivered),
            cluster: cluster.clone(),
            agent_namespace: agent_namespace.to_owned(),
            fresh,
            patience: Some(PATIENCE),
        }
    }

    /// One message of the agent about what it holds.
    pub(super) fn take(
        &mut self,
        session: &mut Session,
        hub: &Hub,
        event: &Event,
        now: Duration,
    ) -> Verdict {
        if event.verb == Verb::RequestSyncedResourceList {
            self.finish(session);
            return Verdict::Done;
        }
        if event.verb != Verb::RequestUpdate {
            return Verdict::Refused("a managed cluster may not say this".to_owned());
        }
        match payload::decode("request-update", &event.payload) {
            Ok(claim) => {
                self.compare(session, hub, &claim);
                self.patience = self.patience.map(|_renewed| now.saturating_add(PATIENCE));
                Verdict::Done
            }
            Err(error) => Verdict::Refused(Chain(&error).to_string()),
        }
    }

    /// How long a peer that names no end still has; none when the resync is over.
    pub(super) fn patience(&self, now: Duration) -> Option<Duration> {
        self.patience.map(|until| until.saturating_sub(now))
    }

    /// Ends the resync when the peer has had its time.
    pub(super) fn end_when_due(&mut self, session: &mut Session, now: Duration) {
        if self.patience.is_some_and(|until| until <= now) {
            self.finish(session);
        }
    }

    /// The hub has something to say about this object anyway.
    pub(super) fn forget(&mut self, key: &ObjectKey) {
        self.unconfirmed.forget(key);
    }

    fn compare(&mut self, session: &mut Session, hub: &Hub, claim: &RequestUpdate) {
        match hub.lookup(&self.cluster, &self.agent_namespace, claim) {
            Lookup::Wanted { key, digest } => {
                self.unconfirmed.confirm(&key);
                if claim.digest.as_ref() != Some(&digest) {
                    session.mark(key, Facet::State);
                }
            }
            Lookup::LeaveAlone => {}
            Lookup::Unknown if self.fresh => {
                tracing::info!(kind = %claim.kind, name = %claim.name, "left alone in the first session");
            }
            Lookup::Unknown => {
                let Ok(kind) = claim.kind.parse::<Kind>() else {
                    return;
                };
                tracing::info!(kind = %claim.kind, name = %claim.name, "the hub does not have this any more");
                let key = ObjectKey::new(kind, &claim.namespace, &claim.name);
                session.say(hub.delete(&key, &claim.uid));
            }
        }
    }

    fn finish(&mut self, session: &mut Session) {
        self.patience = None;
        for key in self.unconfirmed.finish() {
            session.mark(key, Facet::State);
        }
    }
}
