//! A spoke with its agent.

use std::time::Duration;

use agent::sync::api;
use protocol::{Mode, ObjectKey, version::Capabilities};
use rustls_pki_types::CertificateDer;
use serde_json::Value;
use tokio::time::Instant;

use super::past::SpokePast;
use crate::controller::Deeds;
use crate::dice::Trace;
use crate::network::Network;
use crate::process::Agent;
use crate::slow::Slow;

/// After so long an agent has listed its spoke, however slow the API server is.
const FIRST_LOOK: Duration = Duration::from_secs(5);

pub(super) struct Site {
    pub(super) name: String,
    pub(super) certificate: CertificateDer<'static>,
    pub(super) store: Slow<api::Memory>,
    pub(super) deeds: Deeds,
    pub(super) agent: Option<Agent>,
    /// A second agent of this cluster.
    pub(super) other: Option<Agent>,
    /// There were two agents, which may have done the same.
    pub(super) was_doubled: bool,
    pub(super) started: Instant,
    pub(super) past: Option<SpokePast>,
    /// The capabilities of its agent.
    pub(super) level: Capabilities,
}

impl Site {
    pub(super) fn start(&mut self, level: Capabilities, network: &Network, trace: &Trace) {
        if self.agent.is_none() {
            trace.emit(format_args!("{}: agent starts: {level:?}", self.name));
            self.started = Instant::now();
            self.level = level.clone();
            self.agent = Some(self.made(level, network));
        }
    }

    /// An agent of this cluster that runs.
    pub(super) fn made(&self, level: Capabilities, network: &Network) -> Agent {
        Agent::start(
            level,
            &self.name,
            Mode::Managed,
            &self.certificate,
            &self.store,
            network,
        )
    }

    /// Forgets the sync records of Applications that were deleted while no agent was watching.
    pub(super) fn forget_unseen_deletions(&self, before: Vec<(ObjectKey, Value)>) {
        if self.agent.is_some() && self.started.elapsed() > FIRST_LOOK {
            return;
        }
        for (key, app) in before {
            if self.store.inner.get(&key).is_none() {
                self.deeds.forget(&app);
            }
        }
    }
}
