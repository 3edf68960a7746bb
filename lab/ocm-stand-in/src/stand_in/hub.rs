//! The stand-in for OCM on the hub: one loop per concern over one shared set of copies.

mod add_ons;
mod availability;
mod clusters;
mod configuration;
mod health;
mod placements;
mod progress;
mod removal;
mod requests;
mod tokens;

use std::{future::Future, sync::Arc};

use anyhow::{Context as _, Result};
use kube::Client;

use super::{pki, webhook};
use crate::{
    cache::{Cache, Watched},
    control::{self, Again},
    crds,
    hub::HubConfig,
    kinds::{
        CERTIFICATE_SIGNING_REQUEST, CLUSTER_MANAGEMENT_ADD_ON, CLUSTER_SET, CLUSTER_SET_BINDING,
        LEASE, MANAGED_CLUSTER, MANAGED_CLUSTER_ADD_ON, MANIFEST_WORK, PLACEMENT,
        PLACEMENT_DECISION, SERVICE_ACCOUNT,
        words::{CLUSTER_LEASE, CLUSTER_NAME},
    },
    tasks::Tasks,
};

/// Serves the conversion webhook and configures the hub to call it.
pub(crate) async fn serve_conversion(client: &Client, tasks: &mut Tasks) -> Result<()> {
    let certificate = pki::serving().context("make the webhook's certificate")?;
    let address = webhook::serve(&certificate, tasks).await?;
    let url = format!("https://{address}/convert");
    crds::convert_through(client, &url, &certificate.ca).await
}

/// The context of every controller of the hub.
#[derive(Clone)]
struct Hub {
    client: Client,
    cache: Arc<Cache>,
}

/// The running controllers. Dropped, they end at once.
#[derive(Debug)]
pub(crate) struct Controllers {
    tasks: Tasks,
}

impl Controllers {
    /// Serves the conversion webhook first, without which no object of the add-on API can be read.
    pub(crate) async fn start(config: &HubConfig) -> Result<Self> {
        let client = crate::client::from_kubeconfig(&config.kubeconfig, "lab-ocm-stand-in").await?;
        let mut tasks = Tasks::default();
        serve_conversion(&client, &mut tasks).await?;

        let cache = Cache::fill(&client, watched(), &mut tasks).await?;
        let hub = Hub { client, cache };
        let accepted = Arc::new(clusters::Accepted::default());
        hub.keep(&mut tasks, "clusters", move |hub| {
            clusters::pass(hub, Arc::clone(&accepted))
        });
        hub.keep(&mut tasks, "requests", requests::pass);
        let renewals = Arc::new(availability::Renewals::default());
        hub.keep(&mut tasks, "availability", move |hub| {
            availability::pass(hub, Arc::clone(&renewals))
        });
        hub.keep(&mut tasks, "health", health::pass);
        hub.keep(&mut tasks, "placements", placements::pass);
        let families = Arc::new(add_ons::Families::default());
        hub.keep(&mut tasks, "add-ons", move |hub| {
            add_ons::pass(hub, Arc::clone(&families))
        });
        hub.keep(&mut tasks, "configuration", configuration::pass);
        hub.keep(&mut tasks, "progress", progress::pass);
        hub.keep(&mut tasks, "tokens", tokens::pass);
        Ok(Self { tasks })
    }

    /// Ends the controllers and waits until they are gone.
    pub(crate) async fn stop(self) {
        self.tasks.stop().await;
    }
}

impl Hub {
    fn keep<F>(
        &self,
        tasks: &mut Tasks,
        name: &'static str,
        pass: impl Fn(Self) -> F + Send + 'static,
    ) where
        F: Future<Output = Result<Again>> + Send + 'static,
    {
        let hub = self.clone();
        tasks.spawn(control::keep(name, Arc::clone(&self.cache), move || {
            pass(hub.clone())
        }));
    }
}

fn watched() -> Vec<Watched> {
    vec![
        Watched::all(MANAGED_CLUSTER),
        Watched::all(CLUSTER_SET),
        Watched::all(CLUSTER_SET_BINDING),
        Watched::all(PLACEMENT),
        Watched::all(PLACEMENT_DECISION),
        Watched::all(CLUSTER_MANAGEMENT_ADD_ON),
        Watched::all(MANAGED_CLUSTER_ADD_ON),
        Watched::all(MANIFEST_WORK),
        Watched::all(LEASE).named(CLUSTER_LEASE),
        Watched::all(CERTIFICATE_SIGNING_REQUEST).labelled(CLUSTER_NAME),
        Watched::all(SERVICE_ACCOUNT).labelled(tokens::OURS),
    ]
}

/// Runs a step for each object, continues after errors, and returns the first.
async fn for_each<T, F>(objects: Vec<T>, mut step: impl FnMut(T) -> F) -> Result<Again>
where
    F: Future<Output = Result<Again>>,
{
    let mut again = None;
    let mut failure = None;
    for object in objects {
        match step(object).await {
            Ok(wish) => again = control::sooner(again, wish),
            Err(error) => failure = failure.or(Some(error)),
        }
    }
    failure.map_or(Ok(again), Err)
}
