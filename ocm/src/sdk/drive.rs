//! Starts the watches and works off the queue.

use std::sync::Arc;

use futures::stream::BoxStream;
use kube::Client;
use tokio_util::sync::CancellationToken;

use super::{Addon, Error, Metrics, View};
use crate::{api::addon::Version, name::ClusterName};

/// What [`run`] needs beside the add-on.
pub struct Setup {
    /// A client of the hub.
    pub client: Client,
    /// The version of the add-on API, from [`discover`].
    pub version: Version,
    /// Filled while running.
    pub view: View,
    /// Clusters whose reconcile shall run now, because something outside the SDK's sight changed.
    /// Its end is not an error.
    pub wake: BoxStream<'static, ClusterName>,
    /// Ends [`run`].
    pub token: CancellationToken,
    /// Counters; `Metrics::default()` for none that anybody reads.
    pub metrics: Metrics,
    /// Reconciles at a time.
    pub concurrency: usize,
}

/// Runs the add-on until the token is cancelled. Only one process may do so at a time (hold a lease).
pub async fn run<A: Addon>(addon: Arc<A>, setup: Setup) -> Result<(), Error> {
    todo!()
}

/// Finds out which version of the add-on API the hub serves.
pub async fn discover(client: &Client) -> Result<Version, Error> {
    todo!()
}
