//! Credentials are revoked while their cluster is disconnected and both programs restart.

use super::*;
use crate::programs::Program;

/// During a partition one Secret is deleted on the hub, one leaves its project, and one gets another password; then both
/// programs are killed. After the reconnect the cluster has the third only, with its new password.
pub(crate) async fn credentials_revoked_during_a_partition_are_deleted_after_it(
    stage: &Stage,
) -> Result<()> {
    stage.enrolled(1).await?;
    let name = "revoked-meanwhile";
    let app = stage.greeter(name, 1).await?;
    let (hub, spoke) = (&stage.hub, stage.spoke(1));
    let [deleted, unscoped, rotated] =
        ["deleted", "unscoped", "rotated"].map(|it| At::secret(ARGOCD, &format!("{name}-{it}")));
    for at in [&deleted, &unscoped, &rotated] {
        let url = format!("https://git.example/{}.git", at.name());
        hub.apply(at, secret_of(&url, name, PASSWORD)).await?;
        spoke.until_there(at, SOON).await?;
    }

    stage.lab.faults().cut("spoke1");
    hub.delete(&deleted).await?;
    let without = json!({"data": {"project": null}});
    hub.merge(&unscoped, without).await?;
    let password = json!({"data": {"password": STANDARD.encode(ROTATED)}});
    hub.merge(&rotated, password).await?;
    let programs = [Program::Manager, Program::Agent(1)];
    for program in programs {
        program.kill(stage).await?;
    }
    // Both have read their objects before they connect.
    for program in programs {
        program.running(stage).await?;
    }
    for at in [&deleted, &unscoped, &rotated] {
        let kept = spoke.read(at).await?;
        ensure!(
            kept["data"]["password"] == STANDARD.encode(PASSWORD),
            "{at} changed without a connection"
        );
    }
    stage.lab.faults().heal("spoke1");

    for at in [&deleted, &unscoped] {
        spoke.until_gone(at, lab::wait::BOUND).await?;
    }
    let has = |secret: &Value| secret["data"]["password"] == STANDARD.encode(ROTATED);
    let what = "has the new password";
    spoke.until(&rotated, what, SOON, has).await?;
    enrol::until_available(hub, "spoke1").await?;
    hub.delete(&unscoped).await?;
    hub.delete(&rotated).await?;
    spoke.until_gone(&rotated, SOON).await?;
    stage.clear(&app).await
}
