//! The hub program is killed in the middle of a rotation of its CA.

use super::{
    At, ROTATE, ROTATION, Result, SINCE, Stage, Traffic, Value, annotate, ca, ensure,
    has_condition, is_signed_by, json, product, text, until_available,
};
use crate::programs::Program;

/// The hub program is killed as soon as it has written the next CA, and as soon as it signs with it. The rotation
/// continues each time and ends once, with agents that connect.
pub(crate) async fn a_ca_rotation_continues_after_a_kill_at_each_step(stage: &Stage) -> Result<()> {
    for (number, cluster) in [(1, "spoke1"), (2, "spoke2")] {
        stage.make_room_for_requests(cluster).await?;
        stage.enrolled(number).await?;
    }
    let mut one = Traffic::begin(stage, "interrupted-one", 1).await?;
    let mut two = Traffic::begin(stage, "interrupted-two", 2).await?;
    let was = stage.hub.read(&ca()).await?;
    annotate(&stage.hub, &ca(), ROTATE, json!("interrupted")).await?;
    let has_next = |secret: &Value| !secret["data"]["next.key"].is_null();
    let what = "has the next CA";
    let begun = stage.hub.until(&ca(), what, ROTATION, has_next).await?;
    Program::Manager.kill(stage).await?;

    let is_new = |secret: &Value| secret["data"]["tls.crt"] != was["data"]["tls.crt"];
    let what = "signs with the new CA";
    let switched = stage.hub.until(&ca(), what, ROTATION, is_new).await?;
    Program::Manager.kill(stage).await?;
    ensure!(
        switched["data"]["tls.key"] == begun["data"]["next.key"],
        "the rotation began again with another CA"
    );
    one.change().await?;
    two.change().await?;

    let is_settled = |secret: &Value| secret["metadata"]["annotations"][SINCE].is_null();
    let what = "has dropped the old CA";
    let settled = stage.hub.until(&ca(), what, ROTATION, is_settled).await?;
    ensure!(
        settled["data"]["tls.crt"] == switched["data"]["tls.crt"],
        "the CA changed twice"
    );
    ensure!(text(&settled, "ca.crt")? == text(&settled, "tls.crt")?);
    let serving = At::secret(product::NAMESPACE, "argocd-agent-principal-tls");
    let serving = text(&stage.hub.read(&serving).await?, "tls.crt")?;
    ensure!(is_signed_by(&serving, &text(&settled, "tls.crt")?)?);
    for cluster in ["spoke1", "spoke2"] {
        let addon = until_available(&stage.hub, cluster).await?;
        ensure!(!has_condition(&addon, "Degraded", "True", ""), "{addon:#}");
    }
    one.end().await?;
    two.end().await
}
