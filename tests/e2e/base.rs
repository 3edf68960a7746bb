//! The lab itself, on which every other test builds.

use std::{collections::BTreeMap, process::Command, sync::Arc};

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, api::PostParams};
use lab::{Lab, wait};

pub(crate) async fn control_planes_serve_and_controllers_work(lab: Arc<Lab>) -> Result<()> {
    for cluster in lab.clusters() {
        cluster
            .apply("{apiVersion: v1, kind: Namespace, metadata: {name: base}}")
            .await?;
        // The controller manager makes it in every namespace.
        let maps: Api<ConfigMap> = Api::namespaced(cluster.client(), "base");
        let map = wait::object(&maps, "kube-root-ca.crt", "is published", |_| true).await?;
        let published = map.data.context("a root certificate")?;
        ensure!(published.get("ca.crt").map(String::as_str) == Some(cluster.ca_pem()));
    }
    Ok(())
}

pub(crate) async fn an_api_restart_keeps_stored_data(lab: Arc<Lab>) -> Result<()> {
    let hub = lab.hub();
    let maps: Api<ConfigMap> = Api::namespaced(hub.client(), "default");
    maps.create(&PostParams::default(), &config_map("kept", "before"))
        .await?;
    hub.kill_api().await;
    ensure!(
        maps.get("kept").await.is_err(),
        "a request succeeded while the API was down"
    );
    hub.start_api().await?;
    let kept = maps.get("kept").await?;
    ensure!(kept.data == config_map("kept", "before").data);
    Ok(())
}

pub(crate) async fn the_audit_log_attributes_writes_to_users(lab: Arc<Lab>) -> Result<()> {
    let hub = lab.hub();
    let mark = hub.audit().mark()?;
    let maps: Api<ConfigMap> = Api::namespaced(hub.client(), "default");
    maps.create(&PostParams::default(), &config_map("audited", "x"))
        .await?;
    maps.get("audited").await?;
    ensure!(hub.audit().writes_by("lab:admin", mark)? == 1);
    let writes = hub.audit().writes(mark)?;
    let mine = writes.get("lab:admin").context("writes of the admin")?;
    ensure!(
        mine == &BTreeMap::from([("create configmaps".to_owned(), 1)]),
        "{mine:?}"
    );
    Ok(())
}

pub(crate) async fn a_user_has_only_the_rights_it_was_given(lab: Arc<Lab>) -> Result<()> {
    let hub = lab.hub();
    let client = hub.client_as("ann", &[]).await?;
    let maps: Api<ConfigMap> = Api::namespaced(client, "default");
    let refused = maps.list(&kube::api::ListParams::default()).await;
    ensure!(matches!(refused, Err(kube::Error::Api(status)) if status.code == 403));
    let forbidden = hub.audit().forbidden("ann")?;
    ensure!(
        forbidden.iter().any(|entry| entry.verb == "list"),
        "{forbidden:?}"
    );
    Ok(())
}

pub(crate) async fn a_commit_can_be_fetched_from_the_git_server(lab: Arc<Lab>) -> Result<()> {
    let repository = lab.git().repository("base")?;
    let first = repository.commit("one", &[("dir/file.yaml", "a: 1\n")])?;
    let second = repository.commit("two", &[("dir/file.yaml", "a: 2\n")])?;
    ensure!(first != second);
    let listed = Command::new(&lab.tools().git)
        .args(["ls-remote", &repository.local_url()])
        .output()?;
    let listed = String::from_utf8(listed.stdout)?;
    ensure!(listed.contains(&second), "{listed}");
    Ok(())
}

fn config_map(name: &str, value: &str) -> ConfigMap {
    let mut map = ConfigMap::default();
    map.metadata.name = Some(name.to_owned());
    map.data = Some(BTreeMap::from([("value".to_owned(), value.to_owned())]));
    map
}
