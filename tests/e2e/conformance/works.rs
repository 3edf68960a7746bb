//! `ManifestWorks`: how manifests are split, and how removed ones are deleted. With the example add-on.

use anyhow::{Context as _, Result, ensure};
use lab::{
    hello,
    steps::{At, enrol::AGENT_NAMESPACE, objects::condition},
    wait,
};
use serde_json::{Value, json};
use std::collections::BTreeMap;

use super::guest::{Guest, listed};
use crate::stage::Stage;

/// Which works hold which phrase books.
fn books(works: &[Value]) -> BTreeMap<String, Vec<String>> {
    let mut found = BTreeMap::new();
    for work in works {
        let name = work["metadata"]["name"].as_str().unwrap_or_default();
        let manifests = work["spec"]["workload"]["manifests"].as_array();
        let names = manifests.into_iter().flatten().filter_map(|it| {
            let name = it["metadata"]["name"].as_str()?;
            name.starts_with("hello-book-").then(|| name.to_owned())
        });
        found.insert(name.to_owned(), names.collect());
    }
    found
}

fn count(works: &[Value]) -> usize {
    books(works).values().map(Vec::len).sum()
}

fn book(number: usize) -> At {
    At::config_map("default", &format!("hello-book-{number}"))
}

/// Starts the manager again, and looks whether the works of spoke1 were left alone. The add-on is then on spoke2 too.
async fn a_restart_changes_nothing(guest: &Guest<'_>) -> Result<()> {
    let stage = guest.stage;
    let versions = |works: &[Value]| -> Vec<Value> {
        works
            .iter()
            .map(|work| work["metadata"]["generation"].clone())
            .collect()
    };
    let works = guest
        .until_works(1, "are there", |works| !works.is_empty())
        .await?;
    let mark = stage.lab.hub().audit().mark()?;
    guest
        .set_manager_variable("HOOK_DEADLINE_SECONDS", "121")
        .await?;
    // Another cluster is served after the restart, so this one was looked at too.
    guest.enable(2, &[]).await?;
    guest.until_well(2).await?;
    let written = stage.lab.hub().audit().by(hello::USER, mark)?;
    let written: Vec<_> = written
        .iter()
        .filter(|it| {
            it.is_write()
                && it
                    .object
                    .as_ref()
                    .is_some_and(|it| it.namespace == "spoke1")
        })
        .collect();
    ensure!(written.is_empty(), "a restarted manager wrote {written:#?}");
    let after = guest
        .until_works(1, "are there", |works| !works.is_empty())
        .await?;
    ensure!(versions(&works) == versions(&after) && books(&works) == books(&after));
    Ok(())
}

/// Manifests that exceed one work are split; each object stays in its work across restarts and removals.
pub(crate) async fn large_manifests_are_split_and_stay_in_their_work(stage: &Stage) -> Result<()> {
    let guest = Guest::of(stage).await?;
    let of = |count: &'static str| {
        [
            ("BOOKS", count),
            ("BOOK_KIB", "150"),
            ("RENEW_SECONDS", "2"),
        ]
    };
    guest.enable(1, &of("5")).await?;
    guest.until_well(1).await?;
    let works = guest
        .until_works(1, "have all books", |works| count(works) == 5)
        .await?;
    let before = books(&works);
    ensure!(
        before.len() == 3,
        "two books of 150 KiB in a work: {before:?}"
    );
    stage.spoke(1).until_there(&book(5), wait::BOUND).await?;

    guest.configure(1, &of("4")).await?;
    let works = guest
        .until_works(1, "have one book less", |works| count(works) == 4)
        .await?;
    for (work, found) in books(&works) {
        let was = before.get(&work).context("no new work")?;
        ensure!(
            found.iter().all(|book| was.contains(book)),
            "{work}: {was:?}, then {found:?}"
        );
    }
    stage.spoke(1).until_gone(&book(5), wait::BOUND).await?;
    guest.until_well(1).await?;

    a_restart_changes_nothing(&guest).await?;
    guest.disable(2).await?;
    guest.disable(1).await
}

/// A condition names an object that exceeds a work; the cluster keeps its objects, and the manager does not retry in a loop.
pub(crate) async fn an_object_that_fits_into_no_work_is_named(stage: &Stage) -> Result<()> {
    let guest = Guest::of(stage).await?;
    let of = |kib: &'static str| [("BOOKS", "1"), ("BOOK_KIB", kib), ("RENEW_SECONDS", "2")];
    guest.enable(1, &of("1")).await?;
    guest.until_well(1).await?;
    let mark = stage.lab.hub().audit().mark()?;
    guest.configure(1, &of("500")).await?;
    let failed = guest
        .until(1, ["ManifestApplied", "False", "ManifestWorkApplyFailed"])
        .await?;
    let message = condition(&failed, "ManifestApplied").map(|it| it["message"].to_string());
    let message = message.unwrap_or_default();
    ensure!(
        message.contains("default/hello-book-1"),
        "names the object: {message}"
    );
    guest
        .until(1, ["Degraded", "True", "WrongConfiguration"])
        .await?;
    let works = guest
        .until_works(1, "are there", |works| !works.is_empty())
        .await?;
    ensure!(
        count(&works) == 1,
        "what was there stays: {:?}",
        books(&works)
    );

    guest.configure(1, &of("2")).await?;
    guest.until(1, ["Degraded", "False", ""]).await?;
    guest.until_well(1).await?;
    let written = stage.lab.hub().audit().writes_by(hello::USER, mark)?;
    ensure!(written < 20, "{written} writes for two changes");
    guest.disable(1).await
}

/// Objects that are no longer rendered are deleted on the cluster; with the last one the works are deleted too. A
/// pre-existing namespace and other objects in it stay.
pub(crate) async fn unrendered_objects_are_deleted(stage: &Stage) -> Result<()> {
    let guest = Guest::of(stage).await?;
    let spoke = stage.spoke(1);
    let (namespace, theirs) = (
        At::namespace("hello-there"),
        At::config_map("hello-there", "theirs"),
    );
    spoke.apply(&namespace, json!({})).await?;
    spoke
        .apply(&theirs, json!({ "data": { "made": "before" } }))
        .await?;
    let with = |variables: &[(&str, &str)]| json!({ "agentInstallNamespace": "hello-there", "customizedVariables": listed(variables) });
    guest.enable(1, &[]).await?;
    guest
        .configure_with(1, with(&[("BOOKS", "1"), ("RENEW_SECONDS", "2")]))
        .await?;
    guest.until_well(1).await?;
    let agent = At::deployment("hello-there", hello::ADDON);
    spoke.until_there(&agent, wait::BOUND).await?;
    spoke.until_there(&book(1), wait::BOUND).await?;

    guest.configure_with(1, with(&[("BOOKS", "0")])).await?;
    spoke.until_gone(&book(1), wait::BOUND).await?;
    ensure!(spoke.get(&agent).await?.is_some(), "the rest stays");

    guest.configure_with(1, with(&[("QUIET", "yes")])).await?;
    guest.until_works(1, "none is left", Vec::is_empty).await?;
    spoke.until_gone(&agent, wait::BOUND).await?;
    guest.disable(1).await?;
    let left = spoke.read(&namespace).await?;
    ensure!(
        left["metadata"]["deletionTimestamp"].is_null(),
        "the namespace stays: {left}"
    );
    spoke.read(&theirs).await?;
    let elsewhere = At::deployment(AGENT_NAMESPACE, hello::ADDON);
    spoke.until_gone(&elsewhere, wait::BOUND).await
}
