//! The phases of a session, and of the check of the agent's identity.

use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use tokio::time::{Instant, sleep_until};

use super::super::recover::End;
use crate::sync::replica::Replica;

/// How long open work may take when a session ends on purpose.
const DRAIN: Duration = Duration::from_secs(3);
/// How long the agent waits for the status of a principal that closed its receiving half.
const HANG_UP_GRACE: Duration = Duration::from_secs(2);
/// How often the agent checks that the cluster's API accepts its identity. Without this check, an agent with
/// unauthorized watches would keep its session and report nothing.
const IDENTITY_CHECK: Duration = Duration::from_mins(1);

/// The phase of a session.
#[derive(Debug)]
pub(super) enum Phase {
    /// No frame of the principal has arrived.
    Opening,
    /// The principal answered.
    Open,
    /// The principal closed its receiving half. It may still send a status, until this time.
    HungUp { until: Instant },
    /// The session ends on purpose, at the latest at this time.
    Draining { until: Instant, end: End },
}

impl Phase {
    /// Notes a frame; true for the first one.
    pub(super) fn arrived(&mut self) -> bool {
        match self {
            Self::Opening => {
                *self = Self::Open;
                true
            }
            Self::Open | Self::HungUp { .. } | Self::Draining { .. } => false,
        }
    }

    /// Notes that the principal closed its receiving half: there will never be room to send again.
    pub(super) fn hang_up(&mut self) {
        match self {
            Self::Opening | Self::Open => {
                let until = Instant::now() + HANG_UP_GRACE;
                *self = Self::HungUp { until };
            }
            Self::HungUp { .. } | Self::Draining { .. } => {}
        }
    }

    /// Begins the end on purpose.
    pub(super) fn drain(&mut self, end: End) {
        let latest = Instant::now() + DRAIN;
        let until = self.ends().map_or(latest, |ends| ends.min(latest));
        *self = Self::Draining { until, end };
    }

    /// The end for which the session drains, or else this one.
    pub(super) fn ended(&mut self, other: End) -> End {
        match std::mem::replace(self, Self::Open) {
            Self::Draining { end, .. } => end,
            Self::Opening | Self::Open | Self::HungUp { .. } => other,
        }
    }

    /// When the session ends at the latest.
    pub(super) const fn ends(&self) -> Option<Instant> {
        match self {
            Self::Opening | Self::Open => None,
            Self::HungUp { until } | Self::Draining { until, .. } => Some(*until),
        }
    }

    /// Whether the principal may read what the agent sends.
    pub(super) const fn is_up(&self) -> bool {
        match self {
            Self::Opening | Self::Open => true,
            Self::HungUp { .. } | Self::Draining { .. } => false,
        }
    }

    /// Whether the session ends on purpose.
    pub(super) const fn is_draining(&self) -> bool {
        match self {
            Self::Draining { .. } => true,
            Self::Opening | Self::Open | Self::HungUp { .. } => false,
        }
    }
}

/// The check whether the cluster's API accepts this agent's identity.
pub(super) enum IdentityCheck<'a> {
    /// It begins at this time.
    At(Instant),
    Running(BoxFuture<'a, bool>),
}

impl<'a> IdentityCheck<'a> {
    /// The next regular check.
    pub(super) fn later() -> Self {
        Self::At(Instant::now() + IDENTITY_CHECK)
    }

    /// Begins the check now: some work failed, perhaps because the API rejects the identity.
    pub(super) fn doubt(&mut self) {
        if let Self::At(time) = self {
            *time = Instant::now();
        }
    }

    /// The result of the check. Cancel-safe.
    pub(super) async fn answered(&mut self, replica: &'a Replica) -> bool {
        if let Self::At(time) = self {
            sleep_until(*time).await;
            *self = Self::Running(replica.is_known().boxed());
        }
        match self {
            Self::Running(check) => check.await,
            Self::At(_) => true,
        }
    }
}
