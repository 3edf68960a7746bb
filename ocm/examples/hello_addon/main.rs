//! A complete add-on, as a tutorial: its manager on the hub and its agent on the clusters, in one program.
//!
//! The add-on `hello` runs an agent for every cluster that has it. The agent reads a name to greet from a
//! `ConfigMap` in its cluster's namespace on the hub and renews a lease on its cluster while it is healthy.
//! A hook says goodbye before the removal. The agent may also run on another cluster than the one it greets.
//!
//! | file | content |
//! |---|---|
//! | `addon.rs` | the implementation of the trait `Addon`, in the order of an add-on's life cycle |
//! | `objects.rs` | the objects for a cluster, with the annotations that mark hooks and hosted objects for OCM |
//! | `agent.rs` | the agent: a client of the hub, a lease, a hook |
//! | `hub.yaml` | the objects on the hub: the `ClusterManagementAddOn`, the manager and its permissions |
//!
//! To run it on an OCM hub, with an image of this program:
//!
//! 1. Install it: `kubectl apply -f ocm/examples/hello_addon/hub.yaml`. Or run the manager here, with a
//!    kubeconfig of the hub, after applying only the `ClusterManagementAddOn`:
//!    `HOSTS=big-one cargo run -p ocm --features sdk --example hello_addon`
//! 2. Enable it for a cluster: `clusteradm addon enable --names hello --clusters c1`
//! 3. See the result: `clusteradm get addon hello -o tree`, and `kubectl get role,rolebinding -n c1`.
//! 4. Configure it: an `AddOnDeploymentConfig` with variables, named in `spec.configs` of the
//!    `ManagedClusterAddOn` or as the default of the `ClusterManagementAddOn`.
//! 5. Move the agent to another cluster, if c1's klusterlet runs there too:
//!    `kubectl annotate mca -n c1 hello addon.open-cluster-management.io/hosting-cluster-name=big-one`
//! 6. Disable it and see the hook run: `clusteradm addon disable --names hello --clusters c1`
//!
//! | variable | effect |
//! |---|---|
//! | `GREETING` | the greeting, at most 40 characters |
//! | `IMAGE` | the agent's image |
//! | `RENEW_SECONDS` | how often the agent greets and renews its lease, 60 unless set |
//! | `GOODBYE` | the text of the hook; with `fail` the hook fails |
//! | `BOOKS`, `BOOK_KIB` | number and size of phrase books that the cluster gets too, to try many and large objects |
//! | `QUIET` | with `yes` the cluster gets no objects |

mod addon;
mod agent;
mod objects;

use std::{collections::BTreeSet, env, sync::Arc, time::Duration};

use futures::StreamExt as _;
use ocm::{
    name::{AddonName, ClusterName},
    sdk::{Hosts, Metrics, Setup, View, discover, run},
};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use addon::Hello;

/// An error that ends the program.
type Error = Box<dyn std::error::Error + Send + Sync>;

#[tokio::main]
async fn main() -> Result<(), Error> {
    // The client logs every refused connection as an error; the SDK logs an outage once.
    let filter = "info,kube_client=off";
    tracing_subscriber::fmt().with_env_filter(filter).init();
    // The kernel drops signals to the first process of a container that have no handler.
    let mut terminated = signal(SignalKind::terminate())?;
    let token = CancellationToken::new();
    let part = env::args().nth(1);
    let mut running = std::pin::pin!(async {
        match part.as_deref() {
            None => manage(token.clone()).await,
            Some("agent") => agent::run_agent().await,
            Some("goodbye") => agent::run_goodbye().await,
            Some(other) => Err(format!("there is no {other:?} here: try agent or goodbye").into()),
        }
    });
    tokio::select! {
        ended = &mut running => return ended,
        interrupted = tokio::signal::ctrl_c() => interrupted?,
        _ = terminated.recv() => {}
    }
    token.cancel();
    if part.is_some() {
        return Ok(());
    }
    tokio::time::timeout(Duration::from_secs(10), running).await?
}

/// The manager. In production it acquires a lease first, since only one may run, and serves its metrics.
async fn manage(token: CancellationToken) -> Result<(), Error> {
    let client = kube::Client::try_default().await?;
    let version = discover(&client).await?;
    let addon = Hello {
        name: AddonName::new("hello")?,
        client: client.clone(),
        hosts: hosts()?,
        hook_deadline: seconds("HOOK_DEADLINE_SECONDS", 120)?,
    };
    let setup = Setup {
        client,
        version,
        view: View::new(),
        wake: futures::stream::empty().boxed(),
        token,
        metrics: Metrics::default(),
        concurrency: 8,
    };
    Ok(run(Arc::new(addon), setup).await?)
}

/// The clusters that may host agents of others: the names in the variable `HOSTS`, separated by commas.
fn hosts() -> Result<Hosts, Error> {
    let text = env::var("HOSTS").unwrap_or_default();
    let names = text.split(',').filter(|name| !name.is_empty());
    let hosts = names
        .map(ClusterName::new)
        .collect::<Result<BTreeSet<_>, _>>()?;
    Ok(if hosts.is_empty() {
        Hosts::None
    } else {
        Hosts::Only(hosts)
    })
}

/// A duration from the environment.
fn seconds(variable: &str, otherwise: u64) -> Result<Duration, Error> {
    let text = env::var(variable).ok();
    let number = text.map(|text| text.parse()).transpose();
    let number = number.map_err(|error| format!("{variable}: {error}"))?;
    Ok(Duration::from_secs(number.unwrap_or(otherwise)))
}
