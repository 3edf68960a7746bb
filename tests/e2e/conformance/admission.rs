//! The admission webhooks of real OCM, from 1.3 on, with the configurations of its operator.

use anyhow::{Context as _, Result, ensure};
use kube::api::{DynamicObject, PostParams};
use lab::{
    steps::{ADDON, At, Objects, enrol},
    wait,
};
use lab_ocm_stand_in::has_admission_webhooks;
use serde_json::{Value, json};

use super::guest::Guest;
use crate::stage::Stage;

/// The most that a work of ours has: the SDK leaves a fifth of OCM's limit free.
const OURS: usize = 400 * 1024;
const KIB: usize = 1024;
/// The reason why the tests fail with an older OCM.
const NONE: &str = "this OCM's admission webhooks do not run in the lab: those of 1.3 or newer do";

/// Creates an object as far as admission; nothing is stored. Returns the reason of a refusal.
async fn refusal(hub: &Objects, at: &At, mut object: Value) -> Result<Option<String>> {
    let (version, kind) = at.kind();
    object["apiVersion"] = version.into();
    object["kind"] = kind.into();
    object["metadata"]["name"] = at.name().into();
    let object: DynamicObject = serde_json::from_value(object)?;
    let params = PostParams {
        dry_run: true,
        ..Default::default()
    };
    match hub.api(at).create(&params, &object).await {
        Ok(_) => Ok(None),
        Err(kube::Error::Api(status)) => Ok(Some(status.message.clone())),
        Err(error) => Err(error).with_context(|| format!("create {at}")),
    }
}

fn work(manifests: &[Value]) -> Value {
    json!({"spec": {"workload": {"manifests": manifests}}})
}

fn manifests(work: &Value) -> Vec<Value> {
    let all = work["spec"]["workload"]["manifests"].as_array();
    all.cloned().unwrap_or_default()
}

/// The bytes of a work's manifests, as the webhook counts them.
fn size(work: &Value) -> usize {
    let manifests = manifests(work);
    manifests.iter().map(|it| it.to_string().len()).sum()
}

fn map(bytes: usize) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "large", "namespace": "default"},
        "data": {"text": "x".repeat(bytes)},
    })
}

/// A copy of each work of the add-on is admitted, with its first object twice it is refused. A cluster with a wrong address
/// is refused, so the webhook for clusters is asked, too.
pub(crate) async fn our_works_pass_ocms_webhook(stage: &Stage) -> Result<()> {
    ensure!(has_admission_webhooks(), NONE);
    stage.enrolled(1).await?;
    let hub = &stage.hub;
    let copy = At::work("spoke1", "copy");
    let works = hub.list(&copy, &enrol::of_addon()).await?;
    ensure!(!works.is_empty(), "no works of {ADDON}");
    for ours in works {
        let name = &ours["metadata"]["name"];
        let refused = refusal(hub, &copy, json!({"spec": ours["spec"]})).await?;
        ensure!(refused.is_none(), "{name}: {refused:?}");
        let mut twice = ours["spec"].clone();
        let all = twice["workload"]["manifests"].as_array_mut();
        let all = all.context("manifests")?;
        all.extend(all.first().cloned());
        let refused = refusal(hub, &copy, json!({"spec": twice})).await?;
        let refused = refused.with_context(|| format!("{name}: an object twice is admitted"))?;
        ensure!(refused.contains("duplicate manifest"), "{name}: {refused}");
    }

    let clients = json!([{"url": "ftp://wrong"}]);
    let cluster = json!({"spec": {"managedClusterClientConfigs": clients}});
    let refused = refusal(hub, &At::cluster("with-a-wrong-address"), cluster).await?;
    let refused = refused.context("a cluster with a wrong address is admitted")?;
    ensure!(refused.contains("ftp://wrong"), "{refused}");
    Ok(())
}

/// OCM refuses a work above its limit, which is where the SDK assumes it, and admits one of the SDK that is as large as it
/// makes them.
pub(crate) async fn the_largest_work_passes_ocms_webhook(stage: &Stage) -> Result<()> {
    ensure!(has_admission_webhooks(), NONE);
    let guest = Guest::of(stage).await?;
    let book = [("BOOKS", "1"), ("BOOK_KIB", "398"), ("RENEW_SECONDS", "2")];
    guest.enable(1, &book).await?;
    guest.until_well(1).await?;
    let is_large = |work: &Value| (OURS - 2 * KIB..=OURS).contains(&size(work));
    guest
        .until_works(1, "one is as large as it can be", |works| {
            works.iter().any(is_large)
        })
        .await?;
    let delivered = At::config_map("default", "hello-book-1");
    stage.spoke(1).until_there(&delivered, wait::BOUND).await?;

    let at = At::work("spoke1", "of-a-user");
    let below = refusal(&stage.hub, &at, work(&[map(499 * KIB)])).await?;
    ensure!(below.is_none(), "499 KiB: {below:?}");
    let above = refusal(&stage.hub, &at, work(&[map(500 * KIB)])).await?;
    let above = above.context("more than 500 KiB are admitted")?;
    ensure!(above.contains("exceeds the 512000 limit"), "{above}");
    guest.disable(1).await
}
