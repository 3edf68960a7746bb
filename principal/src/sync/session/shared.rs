//! The state that all sessions share.

use std::sync::Arc;

use runtime::{clock::Clock, parts::Spawner};

use crate::{
    admission::admit::Admission,
    live::{go_compat::GoRequests, tunnel::Tunnels},
    metrics::Metrics,
    settings::Limits,
    sync::{hub::Hub, session::intake::Intake},
};

/// The state that all sessions share.
#[derive(derive_more::Debug)]
#[debug("Sessions")]
pub(crate) struct Sessions {
    pub(crate) gate: Arc<Admission>,
    pub(crate) hub: Arc<Hub>,
    /// What each cluster may still send at once.
    pub(crate) intake: Intake,
    pub(crate) tunnels: Tunnels,
    pub(crate) go_requests: GoRequests,
    pub(crate) limits: Limits,
    pub(crate) metrics: Metrics,
    pub(crate) clock: Clock,
    pub(crate) spawner: Spawner,
}
