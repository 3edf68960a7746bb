//! The agent, which runs on a cluster or, in hosted mode, on its host.

use std::{env, time::Duration};

use jiff::Timestamp;
use k8s_openapi::api::{coordination::v1::Lease, core::v1::ConfigMap};
use kube::{
    Api, Client, Config,
    api::{Patch, PatchParams},
    config::{KubeConfigOptions, Kubeconfig},
};
use serde_json::json;

use crate::{Error, addon::GUEST, seconds};

/// The mounted Secret of OCM: a kubeconfig of the hub, and the certificate or token that it refers to.
const HUB: &str = "/var/run/hub/kubeconfig";

fn variable(name: &str) -> Result<String, Error> {
    env::var(name).map_err(|error| format!("{name}: {error}").into())
}

/// Greets, and renews the lease after every successful greeting, so that an agent that cannot do its
/// job becomes unavailable.
pub(crate) async fn run_agent() -> Result<(), Error> {
    let own = Client::try_default().await?;
    let every = seconds("RENEW_SECONDS", 60)?;
    loop {
        let begin = tokio::time::Instant::now();
        let greeted = async {
            greet().await?;
            renew(&own, every).await
        };
        if let Err(error) = greeted.await {
            tracing::warn!(error, "greeting failed; the lease is not renewed");
        }
        tokio::time::sleep_until(begin + every).await;
    }
}

/// Reads the name to greet from the hub. OCM replaces the certificate or token from time to time, so
/// each greeting reads it again.
async fn greet() -> Result<(), Error> {
    let kubeconfig = Kubeconfig::read_from(HUB)?;
    let hub = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    let guests: Api<ConfigMap> = Api::namespaced(Client::try_from(hub)?, &variable("CLUSTER")?);
    let guest = guests.get(GUEST).await?;
    let name = guest.data.and_then(|mut data| data.remove("name"));
    let (greeting, name) = (variable("GREETING")?, name.unwrap_or_default());
    tracing::info!("{greeting}, {name}");
    Ok(())
}

/// The lease has the add-on's name and is in the agent's namespace; OCM's registration agent checks
/// only its time. Agents that are hosted in one namespace would share the lease, so each needs its own
/// namespace.
async fn renew(own: &Client, every: Duration) -> Result<(), Error> {
    let leases: Api<Lease> = Api::namespaced(own.clone(), &variable("NAMESPACE")?);
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": { "name": "hello" },
        "spec": {
            "holderIdentity": variable("CLUSTER")?,
            "leaseDurationSeconds": every.as_secs(),
            "renewTime": Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string(),
        },
    });
    let params = PatchParams::apply("hello").force();
    leases
        .patch("hello", &params, &Patch::Apply(&lease))
        .await?;
    Ok(())
}

/// The pre-delete hook: writes a `ConfigMap`. Kubernetes retries its Job when it fails.
pub(crate) async fn run_goodbye() -> Result<(), Error> {
    let words = variable("GOODBYE")?;
    if words == "fail" {
        return Err("GOODBYE is fail".into());
    }
    let own = Client::try_default().await?;
    let maps: Api<ConfigMap> = Api::namespaced(own, &variable("NAMESPACE")?);
    let word = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "hello-goodbye" },
        "data": { "words": words, "cluster": variable("CLUSTER")? },
    });
    let params = PatchParams::apply("hello").force();
    maps.patch("hello-goodbye", &params, &Patch::Apply(&word))
        .await?;
    Ok(())
}
