//! The resync of both ends after a connect: the owner of the objects decides, and the other end lists its objects.

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
    /// The hub owns the objects: the agent lists its copies.
    Managed(Box<Resync>),
    /// The spoke owns the objects: the hub lists its mirrors.
    Autonomous(Claims),
}

impl Ownership {
    /// Begins the resync. `agent_namespace` is the agent's name of its Argo CD namespace; `every` the interval of the
    /// comparisons, if the agent supports them.
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

    /// Handles a resync message of the agent.
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

    /// Handles a message about an object that the agent owns before it is applied; a verdict if nothing remains to be
    /// applied.
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

    /// The time until the next action without a message.
    pub(super) fn next_timeout(&self, now: Duration) -> Option<Duration> {
        match self {
            Self::Managed(resync) => resync.next_timeout(now),
            Self::Autonomous(claims) => claims.next_timeout(now),
        }
    }

    /// Begins the next comparison when it is due; returns whether it did.
    pub(super) fn begin_when_due(&mut self, machine: &mut Session, now: Duration) -> bool {
        match self {
            Self::Managed(resync) => resync.begin_when_due(machine, now),
            Self::Autonomous(_) => false,
        }
    }

    /// Makes the next comparison due at once: a managed cluster may have copies whose deletion the hub did not see, an
    /// autonomous one may have objects that the hub can mirror now.
    pub(super) fn resync_now(&mut self, machine: &mut Session, hub: &Hub) {
        match self {
            Self::Managed(resync) => resync.resync_now(),
            Self::Autonomous(claims) => claims.resync_now(machine, hub),
        }
    }

    /// When the last comparison ended; none while the first one is under way.
    ///
    /// An autonomous cluster got the whole inventory at the begin, and answers with the differences.
    pub(super) const fn agreed(&self) -> Option<Duration> {
        match self {
            Self::Managed(resync) => resync.agreed(),
            Self::Autonomous(_) => Some(Duration::ZERO),
        }
    }

    /// Ends the comparison when the agent's time is over.
    pub(super) fn end_when_due(&mut self, machine: &mut Session, hub: &Hub, now: Duration) {
        if let Self::Managed(resync) = self {
            resync.end_when_due(machine, hub, now);
        }
    }

    /// Drops the object from the comparison: the hub sends a message about it anyway.
    pub(super) fn forget(&mut self, machine: &mut Session, key: &ObjectKey) {
        if let Self::Managed(resync) = self {
            resync.forget(machine, key);
        }
    }

    /// Sends a command as soon as the agent has the object.
    pub(super) fn command(&mut self, machine: &mut Session, key: &ObjectKey) {
        match self {
            Self::Managed(resync) => resync.command(machine, key),
            Self::Autonomous(_) => machine.mark(key, Facet::Command),
        }
    }

    /// The objects that the agent does not have and whose deletion the hub waits for.
    pub(super) fn take_absent(&mut self) -> Vec<ObjectKey> {
        match self {
            Self::Managed(resync) => resync.take_absent(),
            Self::Autonomous(_) => Vec::new(),
        }
    }

    /// The deletions that wait for a decision.
    pub(super) const fn waiting(&self) -> &Waiting {
        match self {
            Self::Managed(resync) => &resync.waiting,
            Self::Autonomous(claims) => &claims.waiting,
        }
    }

    /// Like [`Self::waiting`], mutable.
    pub(super) const fn waiting_mut(&mut self) -> &mut Waiting {
        match self {
            Self::Managed(resync) => &mut resync.waiting,
            Self::Autonomous(claims) => &mut claims.waiting,
        }
    }

    /// Deletes the unknown objects; returns a deletion that the brake blocks instead.
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

    /// Whether the agent owns its objects.
    pub(super) const fn is_autonomous(&self) -> bool {
        matches!(self, Self::Autonomous(_))
    }
}

fn compares(machine: &Session) -> bool {
    machine.peer().capabilities.has(Capability::RangeSums)
}
