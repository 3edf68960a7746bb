//! Records decisions as annotations of the `ManagedClusterAddOn`.

use std::{collections::BTreeMap, time::Duration};

use kube::Client;
use ocm::{api::addon::Version, name::ClusterName};
use runtime::error::Chain;
use serde_json::json;
use tokio::{sync::watch, time::sleep};
use tokio_util::sync::CancellationToken;

use super::Decision;
use crate::{api, keys};

/// The pause before a failed write is retried.
const RETRY: Duration = Duration::from_secs(5);

/// A decision to record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// UID of the `ManagedClusterAddOn`.
    pub uid: String,
    /// The decision.
    pub decision: Decision,
    /// The namespace that we install Argo CD into.
    pub place: Option<String>,
}

/// At most one decision for each cluster.
pub type Records = BTreeMap<ClusterName, Record>;

/// Runs until the token is cancelled, which also cuts off a write: the next leader decides and writes again.
pub async fn run(
    client: Client,
    version: Version,
    records: watch::Receiver<Records>,
    token: CancellationToken,
) {
    token
        .run_until_cancelled(follow(client, version, records))
        .await;
}

/// Writes while the sender of `records` exists, then waits forever. The sender removes a record once it observes the
/// written annotation.
async fn follow(client: Client, version: Version, mut records: watch::Receiver<Records>) {
    let mut written = Records::new();
    loop {
        let wanted = records.borrow_and_update().clone();
        written.retain(|cluster, record| wanted.get(cluster) == Some(record));
        let mut failed = false;
        for (cluster, record) in &wanted {
            if written.contains_key(cluster) {
                continue;
            }
            // Without a place, null removes an older one.
            let annotations =
                json!({ keys::ARGOCD: record.decision.as_str(), keys::ARGOCD_PLACE: record.place });
            let (name, uid) = (cluster.as_str(), &record.uid);
            match api::annotate(&client, version, name, uid, &annotations).await {
                // If the object is gone or replaced, the record is obsolete.
                Ok(_) => {
                    tracing::info!(%cluster, decision = record.decision.as_str(), "recorded the Argo CD decision for a cluster");
                    written.insert(cluster.clone(), record.clone());
                }
                Err(error) => {
                    failed = true;
                    tracing::warn!(%cluster, error = %Chain(&error), "cannot record the Argo CD decision yet; retrying");
                }
            }
        }
        let next = async {
            tokio::select! {
                changed = records.changed() => changed.is_ok(),
                () = sleep(RETRY), if failed => true,
            }
        };
        if !next.await {
            return std::future::pending().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use http::{Request, Response};
    use kube::client::Body;
    use tokio::time::timeout;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_write_that_hangs_does_not_outlast_leadership() {
        let (requested, mut requests) = watch::channel(());
        let hub = tower::service_fn(move |_: Request<Body>| {
            requested.send_replace(());
            std::future::pending::<Result<Response<Body>, Infallible>>()
        });
        let record = Record {
            uid: "uid".to_owned(),
            decision: Decision::Found,
            place: None,
        };
        let wanted = Records::from([(ClusterName::new("c").unwrap(), record)]);
        let (_records, wanted) = watch::channel(wanted);
        let token = CancellationToken::new();
        let client = Client::new(hub, "default");
        let writing = run(client, Version::V1Beta1, wanted, token.clone());
        let losing = async {
            requests.changed().await.unwrap();
            token.cancel();
        };
        let both = async { tokio::join!(writing, losing) };
        assert!(timeout(RETRY, both).await.is_ok());
    }
}
