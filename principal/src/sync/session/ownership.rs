//! How the two ends come to agree after a connect: whoever owns the objects decides, the other one is asked what it has.

use std::time::Duration;

use protocol::{Event, Facet, Mode, ObjectKey, Session, Verdict, version::Capability};

use super::{brake::Waiting, resync::Resync, spoke_owned::Claims};
use crate::{
    fleet::Enrolment,
    report::BlockedDeletion,
    sync::hub::{Hub, Subscription},
};

/// The resync of one session.
#[derive(Debug)]
pub(super) enum Ownership {
    /// The hub owns them: the agent says what it holds.
    Managed(Box<Resync>),
    /// The spoke owns them: it is told what the hub shows.
    Autonomous(Claims),
}

impl Ownership {
    /// Begins it. `agent_namespace`: what the agent calls its Argo CD namespace. `every`: between two comparisons, if
    /// the agent compares.
    pub(super) fn begin(
        machine: &mut Session,
        hub: &Hub,
        subscription: &mut Subscription,
        agent_namespace: &str,
        fresh: bool,
        every: Duration,
    ) -> Self {
        let cluster = &subscription.cluster;
        match machine.peer().mode {
            Mode::Managed => {
                let delivered = std::mem::take(&mut subscription.delivered);
                let every = Some(every).filter(|_| compares(machine));
                let resync =
                    Resync::begin(machine, cluster, agent_namespace, fresh, delivered, every);
                Self::Managed(Box::new(resync))
            }
            Mode::Autonomous => Self::Autonomous(Claims::begin(machine, hub, cluster, fresh)),
        }
    }

    /// One message of the agent for the resync.
    pub(super) fn take(
        &mut self,
        machine: &mut Session,
        hub: &Hub,
        event: &Event,
        now: Duration,
    ) -> Verdict {
        match self {
            Self::Managed(resync) => resync.take(machine, hub, event, now),
            Self::Autonomous(claims) => claims.take(machine, hub, event),
        }
    }

    /// What an agent says of an object that it owns, before that is applied; a verdict if that is all to be done.
    pub(super) fn take_message(
        &mut self,
        hub: &Hub,
        event: &Event,
        now: Duration,
    ) -> Option<Verdict> {
        match self {
            Self::Managed(_) => None,
            Self::Autonomous(claims) => claims.take_message(hub, event, now),
        }
    }

    /// When something is to be done without any message.
    pub(super) fn next_timeout(&self, now: Duration) -> Option<Duration> {
        match self {
            Self::Managed(resync) => resync.next_timeout(now),
            Self::Autonomous(claims) => claims.next_timeout(now),
        }
    }

    /// Begins the next comparison when it is time, and says whether it did.
    pub(super) fn begin_when_due(&mut self, machine: &mut Session, now: Duration) -> bool {
        match self {
            Self::Managed(resync) => resync.begin_when_due(machine, now),
            Self::Autonomous(_) => false,
        }
    }

    /// Something may have to go that nobody saw going, so the next comparison is due at once. Nothing goes from an
    /// autonomous cluster.
    pub(super) const fn resync_now(&mut self) {
        if let Self::Managed(resync) = self {
            resync.resync_now();
        }
    }

    /// When the last comparison ended; none while the first one is under way.
    ///
    /// To an autonomous cluster all was told at the begin, and it answers with what is different.
    pub(super) const fn agreed(&self) -> Option<Duration> {
        match self {
            Self::Managed(resync) => resync.agreed(),
            Self::Autonomous(_) => Some(Duration::ZERO),
        }
    }

    /// Ends it when the peer has had its time.
    pub(super) fn end_when_due(&mut self, machine: &mut Session, hub: &Hub, now: Duration) {
        if let Self::Managed(resync) = self {
            resync.end_when_due(machine, hub, now);
        }
    }

    /// The hub has something to say about this object anyway.
    pub(super) fn forget(&mut self, machine: &mut Session, key: &ObjectKey) {
        if let Self::Managed(resync) = self {
            resync.forget(machine, key);
        }
    }

    /// Something has to be done once, as soon as the agent has the object.
    pub(super) fn command(&mut self, machine: &mut Session, key: &ObjectKey) {
        match self {
            Self::Managed(resync) => resync.command(machine, key),
            Self::Autonomous(_) => machine.mark(key, Facet::Command),
        }
    }

    /// What the agent has nothing of, while the hub waits for it to go.
    pub(super) fn take_absent(&mut self) -> Vec<ObjectKey> {
        match self {
            Self::Managed(resync) => resync.take_absent(),
            Self::Autonomous(_) => Vec::new(),
        }
    }

    /// What waits to be decided about.
    pub(super) const fn waiting(&self) -> &Waiting {
        match self {
            Self::Managed(resync) => &resync.waiting,
            Self::Autonomous(claims) => &claims.waiting,
        }
    }

    /// The same, to be changed.
    pub(super) const fn waiting_mut(&mut self) -> &mut Waiting {
        match self {
            Self::Managed(resync) => &mut resync.waiting,
            Self::Autonomous(claims) => &mut claims.waiting,
        }
    }

    /// Takes away what is to go; says what is held instead.
    pub(super) fn decide(
        &mut self,
        machine: &mut Session,
        hub: &Hub,
        enrolment: Option<Enrolment>,
        now: Duration,
    ) -> Option<BlockedDeletion> {
        match self {
            Self::Managed(resync) => resync.decide(machine, hub, enrolment, now),
            Self::Autonomous(claims) => claims.decide(hub, enrolment, now),
        }
    }

    /// Whether the agent owns what it speaks of.
    pub(super) const fn is_autonomous(&self) -> bool {
        matches!(self, Self::Autonomous(_))
    }
}

fn compares(machine: &Session) -> bool {
    machine.peer().capabilities.has(Capability::RangeSums)
}
