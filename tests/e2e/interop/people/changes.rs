//! Changes from the hub on a cluster where one end is Go's.

use std::sync::Arc;

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, Patch, PatchParams};
use lab::{
    Lab,
    peers::{Make, Mapping, Pair, Pairing, Way},
    steps::At,
};
use serde_json::json;

use super::{Look, POD, SOON, STRANGER, begin, end};

/// A patch as Argo CD's actions send it and a deletion reach resources of an Application, and no other object.
pub(crate) async fn actions_and_deletions_reach_the_cluster(
    lab: Arc<Lab>,
    pairing: Pairing,
    way: Way,
) -> Result<()> {
    let (pair, look) = begin(&lab, pairing, (way, "change", Mapping::Namespace)).await?;
    let result = changes(&pair, &look).await;
    end(pair, result).await
}

/// Whether a proxy refused the request, which a proxy that is disconnected does not do.
fn is_answer<T>(result: &kube::Result<T>) -> bool {
    matches!(result, Err(kube::Error::Api(status)) if (400..500).contains(&status.code))
}

pub(super) async fn changes(pair: &Pair, look: &Look) -> Result<()> {
    let pods = look.pods(pair).await?;
    let asked = Patch::Merge(json!({"metadata": {"annotations": {"asked": "at the hub"}}}));
    let params = PatchParams::default();
    let patched: Pod = pods.patch(POD, &params, &asked).await?;
    ensure!(patched.metadata.name.as_deref() == Some(POD), "{patched:?}");
    let at = At::pod(&pair.names.spoke, POD);
    pair.spoke
        .until(&at, "is patched", SOON, |pod| {
            pod["metadata"]["annotations"]["asked"] == "at the hub"
        })
        .await?;
    let refused = pods.patch(STRANGER, &params, &asked).await;
    ensure!(is_answer(&refused), "a stranger is patched: {refused:?}");
    let refused = pods.delete(STRANGER, &DeleteParams::default()).await;
    ensure!(is_answer(&refused), "a stranger is deleted: {refused:?}");

    let deleted = pods.delete(POD, &DeleteParams::default()).await;
    // Go's principal responds without the object that the client expects.
    if pair.pairing.principal == Make::Ours {
        deleted?;
    }
    pair.spoke.until_gone(&at, SOON).await?;
    let stranger = At::pod(&pair.names.spoke, STRANGER);
    let stranger = pair.spoke.read(&stranger).await?;
    let meta = &stranger["metadata"];
    ensure!(meta["deletionTimestamp"].is_null(), "{meta:#}");
    ensure!(meta["annotations"]["asked"].is_null(), "{meta:#}");
    Ok(())
}
