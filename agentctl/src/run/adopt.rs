//! Reads what `cluster adopt` needs, and opts in what nothing is in the way of.

use argocd::keys::addon::ADDON;
use serde_json::Value;

use super::{Answer, Error, addons, hub_settings, inspect, wait};
use crate::{
    adopt::{
        Facts, Row,
        facts::{ClusterSecret, ManagedCluster, brief},
        plan,
    },
    args::{AdoptArgs, Global},
    change::opt_in,
    hub::{APPLICATIONS, By, CLUSTERS, CONFIG_MAPS, Hub, NAMESPACES, OFFERS, SECRETS},
    names::{Unknown, missing},
    output::Place,
    progress::Progress,
    wait_state::enrolled,
};

/// Makes the plan, and carries it out unless that is not wanted.
pub(super) async fn adopt(
    hub: &Hub,
    global: &Global,
    args: &AdoptArgs,
    place: Place,
    progress: &Progress,
) -> Result<Answer, Error> {
    let facts = facts(hub, global, args).await?;
    let mut plan = plan(&facts);
    let rows = plan.clusters.iter().map(Row::cluster_or_name);
    let all: Vec<_> = rows.cloned().collect();
    let mut unknown = plan.keep(&args.clusters);
    unknown.extend(missing(&args.same_cluster, &all));
    if !unknown.is_empty() {
        let known = all.iter().map(String::as_str);
        return Err(Error::NoSecret(Unknown::new(unknown, known)));
    }
    let mut adopted = Vec::new();
    if !args.dry_run {
        let ready = plan.ready();
        for (number, cluster) in ready.iter().enumerate() {
            progress.step(
                number.saturating_add(1),
                ready.len(),
                &format!("opting in {cluster}"),
            );
            let written = hub.merge(CLUSTERS, None, cluster, &opt_in(args.mode)).await;
            let done = match written {
                Ok(true) => Ok(()),
                Ok(false) => Err(format!("ManagedCluster {cluster} no longer exists")),
                Err(error) => Err(error.to_string()),
            };
            plan.record(cluster, &done);
            if done.is_ok() {
                adopted.push(cluster.clone());
            }
        }
    }
    if args.wait.wait && !adopted.is_empty() {
        let look = async || Ok(enrolled(&adopted, &addons(hub).await?));
        wait::until(look, args.wait.timeout, progress).await?;
        plan.connected(&adopted);
    }
    Answer::of(&plan, place, plan.is_blocked())
}

async fn facts(hub: &Hub, global: &Global, args: &AdoptArgs) -> Result<Facts, Error> {
    let settings = hub_settings(hub, global).await;
    let argocd = settings.routing.argocd_namespace.clone();
    let everywhere = By::default();
    let read_cluster = |it: Value| Some(ManagedCluster::read(&it));
    let system = hub.find(NAMESPACES, None, "kube-system").await;
    Ok(Facts {
        // Not by label: any Secret with the name of ours is an obstacle.
        secrets: hub
            .collect(SECRETS, &By::namespace(&argocd), |it| {
                ClusterSecret::read(&it)
            })
            .await?,
        clusters: hub.collect(CLUSTERS, &everywhere, read_cluster).await?,
        applications: hub
            .collect(APPLICATIONS, &everywhere, |it| Some(brief(&it)))
            .await?,
        addons: addons(hub).await?,
        controllers: inspect::controllers(hub).await,
        parameters: hub
            .find(CONFIG_MAPS, Some(&argocd), inspect::PARAMETERS)
            .await,
        offer: hub.find(OFFERS, None, ADDON).await,
        settings,
        own_namespace: global.own_namespace.clone(),
        mode: args.mode,
        hub_uid: system.map(|it| uid(&it?)),
        same: args.same_cluster.clone(),
    })
}

fn uid(object: &Value) -> Option<String> {
    let uid = object.pointer("/metadata/uid")?.as_str()?;
    Some(uid.to_owned())
}

#[cfg(test)]
mod tests;
