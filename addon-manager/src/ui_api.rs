//! The API behind the pages in Argo CD's UI: read-only HTTP, for argocd-server alone.
//!
//! ```text
//!   page ─► argocd-server: login, RBAC, project ─► proxy extension ─► server ─► guard ─► answers ─► snapshot
//!                                                  (token, Application)          │
//!                principal's inventory, SDK's view, sessions ────────────────────┘
//! ```
//!
//! Argo CD decides who sees what, and this program checks that a request asks for exactly what Argo CD authorised. The
//! judgements are those of `argocd-agentctl status` and `why` (crate `diagnosis`). `openapi.json` describes the API.
//!
//! | module | is |
//! |---|---|
//! | [`server`] | connections, and bounds on them |
//! | [`guard`] | which request may see which facts |
//! | [`answers`], [`pages`] | computes and remembers the answers |
//! | [`fleet`], [`cluster`], [`path`] | the three answers |
//! | [`facts`], [`hub`], [`managed`] | where their facts come from |
//! | [`standings`], [`history`] | the records of Applications, and the last hour |
//! | [`snapshot`], [`answer`] | JSON with a tag, compressed; responses |
//! | [`secret`], [`token`] | the secret that argocd-server sends |
//! | [`cut`] | bounds on what others wrote |

pub mod answer;
pub mod answers;
pub mod cluster;
pub mod cut;
pub mod facts;
pub mod fleet;
pub mod guard;
pub mod history;
pub mod hub;
pub mod managed;
pub mod pages;
pub mod path;
pub mod secret;
pub mod server;
pub mod snapshot;
pub mod standings;
pub mod token;

use std::{net::SocketAddr, sync::Arc, time::Duration};

use argocd::routing::RoutingSettings;
use kube::Client;
use ocm::name::{AddonName, InvalidName};
use principal::Inventory;
use runtime::{clock::Clock, net, parts::Spawner};
use tokio::{
    sync::watch,
    time::{MissedTickBehavior, interval},
};
use tokio_util::sync::CancellationToken;

use self::{
    answers::{Answers, Sources},
    hub::{Hub, Live},
    managed::ManagedFields,
    secret::Stored,
};
use crate::{channels::Channels, keys, metrics};

/// The description of the API.
pub const OPENAPI: &str = include_str!("ui_api/openapi.json");
/// An entry of the history.
const MINUTE: Duration = Duration::from_mins(1);

/// The dependencies of the API.
#[derive(derive_more::Debug)]
pub struct Parts {
    /// A client of the hub.
    #[debug(skip)]
    pub client: Client,
    /// The address to listen on.
    pub address: SocketAddr,
    /// The rules of routing.
    pub routing: RoutingSettings,
    /// The name of this Pod.
    pub replica: String,
    /// The channels of the hub program.
    pub channels: Channels,
    /// The principal's facts.
    pub inventory: Inventory,
    /// The Secret with the token, as [`secret::follow`] has it.
    pub stored: watch::Receiver<Stored>,
    /// Starts the tasks.
    pub spawner: Spawner,
    /// The time.
    pub clock: Clock,
}

/// The API could not be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The address is not available.
    #[error("listen on {address} for the UI")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The cause.
        source: std::io::Error,
    },
    /// The name of the add-on is no name.
    #[error("use the name of the add-on")]
    Name(#[from] InvalidName),
}

/// Starts the API, and returns the address that it listens on.
///
/// Its tasks give way to those of the principal.
///
/// # Errors
/// The address is not available.
pub async fn start(parts: Parts) -> Result<SocketAddr, StartError> {
    let address = parts.address;
    let refused = |source| StartError::Listen { address, source };
    let listener = net::bind(address).await.map_err(refused)?;
    let bound = listener.local_addr().map_err(refused)?;
    let Parts {
        channels,
        spawner,
        stored,
        ..
    } = parts;
    let answers = Arc::new(Answers::new(Sources {
        hub: Live {
            inventory: parts.inventory,
            view: channels.view.subscribe(),
        },
        serving: channels.serving.subscribe(),
        fleet: channels.fleet.subscribe(),
        sessions: channels.sessions.subscribe(),
        addon: AddonName::new(keys::ADDON)?,
        routing: parts.routing,
        managed: Some(ManagedFields::new(parts.client)),
        replica: parts.replica,
        version: metrics::version(),
        clock: parts.clock,
    }));
    let background = spawner.background();
    let minutes = end_minutes(Arc::clone(&answers), spawner.token().clone());
    background.spawn("ui history", minutes);
    let answering = move |head: http::request::Parts| {
        let (answers, stored) = (Arc::clone(&answers), stored.clone());
        async move { answered(&answers, &stored, &head).await }
    };
    let limits = server::Limits::default();
    let serving = server::run(listener, limits, background, answering);
    spawner.spawn("ui api", serving);
    Ok(bound)
}

/// The answer to a request.
async fn answered<H: Hub>(
    answers: &Answers<H>,
    stored: &watch::Receiver<Stored>,
    head: &http::request::Parts,
) -> answer::Answer {
    let checked = {
        let stored = stored.borrow();
        let request = (&head.method, &head.uri, &head.headers);
        guard::check(request, stored.token(), answers.argocd_namespace())
    };
    match checked {
        Ok(route) => answers.answer(&route, &head.headers).await,
        Err(refusal) => {
            tracing::debug!(?refusal, "refused a request of the UI");
            answer::refusal(refusal)
        }
    }
}

/// Ends each minute for the history, until the token is cancelled.
async fn end_minutes<H: Hub>(answers: Arc<Answers<H>>, token: CancellationToken) {
    let mut minutes = interval(MINUTE);
    minutes.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while token.run_until_cancelled(minutes.tick()).await.is_some() {
        token.run_until_cancelled(answers.end_minute()).await;
    }
}

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
