//! Follows the principal's identity on the hub and the hub's objects.

use std::{sync::Arc, time::Duration};

use runtime::{backoff::Backoff, error::Chain};
use tokio::{sync::watch, time::Instant};
use tokio_util::sync::CancellationToken;

use crate::{store::Reporter, sync::hub::Hub};

/// Reads our identity and follows the hub's objects; ready when both are known, and again when a restored hub has been
/// read.
///
/// Ends when a restored hub has another identity for us: the known state belongs to the former one.
pub(super) async fn follow(
    hub: Arc<Hub>,
    uid: watch::Sender<Option<Arc<str>>>,
    ready: watch::Sender<bool>,
    stop: CancellationToken,
) {
    let (is_synced, mut synced) = watch::channel(false);
    let reporter: Reporter = {
        let hub = Arc::clone(&hub);
        Arc::new(move |report| {
            let all = hub.report(report);
            is_synced.send_if_modified(|known| std::mem::replace(known, all) != all);
        })
    };
    let watching = hub.store().watch(reporter, stop.clone());
    let serving = async {
        loop {
            let who: Arc<str> = identity(&hub).await.into();
            // An error means that the watch has ended, which only a stop causes.
            if synced.wait_for(|all| *all).await.is_err() {
                return;
            }
            if !hub.set_principal_uid(&who) {
                return tracing::error!("the identity of this principal changed on the hub");
            }
            uid.send_replace(Some(who));
            ready.send_replace(true);
            tracing::info!("the hub's objects are read; accepting agents");
            if synced.wait_for(|all| !*all).await.is_err() {
                return;
            }
            uid.send_replace(None);
            ready.send_replace(false);
            tracing::info!("reading the hub's objects again; agents wait");
        }
    };
    tokio::select! {
        () = watching => {}
        Some(()) = stop.run_until_cancelled(serving) => {}
    }
}

async fn identity(hub: &Hub) -> String {
    let (shortest, longest) = (Duration::from_millis(200), Duration::from_secs(15));
    let mut backoff = Backoff::new(shortest, longest, longest);
    let mut failing = false;
    loop {
        match hub.store().principal_uid().await {
            Ok(uid) => return uid,
            Err(error) => {
                if !failing {
                    tracing::warn!(error = %Chain(&error), "cannot read the principal's identity; retrying");
                }
                failing = true;
                tokio::time::sleep(backoff.failed(Instant::now())).await;
            }
        }
    }
}
