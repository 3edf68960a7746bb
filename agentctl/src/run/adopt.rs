//! Reads what `cluster adopt` needs, and opts in what nothing is in the way of.

use argocd::keys::addon::ADDON;
use serde_json::Value;

use super::{Answer, Error, addons, hub_settings, inspect, wait};
use crate::{
    adopt::{
        Facts,
        facts::{ClusterSecret, ManagedCluster, brief},
        plan,
    },
    args::{AdoptArgs, Global},
    change::opt_in,
    hub::{APPLICATIONS, By, CLUSTERS, CONFIG_MAPS, Hub, NAMESPACES, OFFERS, SECRETS},
    names::Unknown,
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
    let rows = plan.clusters.iter();
    let all = rows.map(|row| row.cluster.as_ref().unwrap_or(&row.name).clone());
    let all: Vec<_> = all.collect();
    let mut unknown = plan.keep(&args.clusters);
    let hub_settings = args.same_cluster.iter();
    unknown.extend(hub_settings.filter(|name| !all.contains(*name)).cloned());
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
    let (mut secrets, mut clusters, mut applications) = (Vec::new(), Vec::new(), Vec::new());
    // Not by label: any Secret with the name of ours is an obstacle.
    hub.each(SECRETS, &By::namespace(&argocd), |secret| {
        secrets.extend(ClusterSecret::read(&secret));
    })
    .await?;
    hub.each(CLUSTERS, &By::default(), |cluster| {
        clusters.push(ManagedCluster::read(&cluster));
    })
    .await?;
    hub.each(APPLICATIONS, &By::default(), |application| {
        applications.push(brief(&application));
    })
    .await?;
    let system = hub.get(NAMESPACES, None, "kube-system");
    let parameters = hub.get(CONFIG_MAPS, Some(&argocd), "argocd-cmd-params-cm");
    Ok(Facts {
        secrets,
        clusters,
        applications,
        addons: addons(hub).await?,
        controllers: inspect::controllers(hub)
            .await
            .map_err(|error| error.to_string()),
        parameters: inspect::text(parameters.await),
        offer: inspect::text(hub.get(OFFERS, None, ADDON).await),
        settings,
        own_namespace: global.own_namespace.clone(),
        mode: args.mode,
        hub_uid: inspect::text(system.await).map(|it| uid(&it?)),
        same: args.same_cluster.clone(),
    })
}

fn uid(object: &Value) -> Option<String> {
    let uid = object.pointer("/metadata/uid")?.as_str()?;
    Some(uid.to_owned())
}

#[cfg(test)]
mod tests;
