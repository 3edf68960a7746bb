//! Reads what `cluster adopt` needs, and opts in what nothing is in the way of.

use std::collections::BTreeSet;

use argocd::keys::addon::ADDON;
use diagnosis::object::text;
use serde_json::Value;

use super::{Answer, Context, Error, inspect, wait};
use crate::{
    adopt::{
        Facts, Plan, Row,
        facts::{ClusterSecret, ManagedCluster, brief},
        plan,
    },
    args::AdoptArgs,
    change::opt_in,
    hub::{APPLICATIONS, CLUSTERS, CONFIG_MAPS, NAMESPACES, OFFERS, SECRETS, all},
    names::{missing, none_missing},
    wait_state::enrolled,
};

/// Makes the plan, and carries it out unless that is not wanted.
pub(super) async fn adopt(context: &Context<'_>, args: &AdoptArgs) -> Result<Answer, Error> {
    let mut plan = plan(&facts(context, args).await?);
    let known = plan.clusters.iter().map(Row::cluster_or_name);
    let known: Vec<_> = known.cloned().collect();
    let mut unknown = plan.keep(&args.clusters);
    unknown.extend(missing(&args.same_cluster, &known));
    none_missing(&unknown, &known).map_err(Error::NoSecret)?;
    let ready = if args.dry_run {
        BTreeSet::new()
    } else {
        plan.ready()
    };
    let adopted = opt_all_in(context, args, &mut plan, &ready).await;
    if args.wait.wait && !adopted.is_empty() {
        let look = async || Ok(enrolled(&adopted, &context.addons().await?));
        wait::until(look, args.wait.timeout, context.progress).await?;
        plan.connected(&adopted);
    }
    Answer::of(&plan, context.place, plan.is_blocked())
}

/// Opts clusters in one by one, and records in the plan what came of each. Returns those that are opted in.
async fn opt_all_in(
    context: &Context<'_>,
    args: &AdoptArgs,
    plan: &mut Plan,
    ready: &BTreeSet<String>,
) -> Vec<String> {
    let mut adopted = Vec::new();
    for (number, cluster) in (1_usize..).zip(ready) {
        let text = format!("opting in {cluster}");
        context.progress.step(number, ready.len(), &text);
        let label = opt_in(args.mode);
        let done = match context.hub.merge(CLUSTERS, None, cluster, &label).await {
            Ok(true) => Ok(()),
            Ok(false) => Err(format!("ManagedCluster {cluster} no longer exists")),
            Err(error) => Err(error.to_string()),
        };
        plan.record(cluster, &done);
        adopted.extend(done.is_ok().then(|| cluster.clone()));
    }
    adopted
}

async fn facts(context: &Context<'_>, args: &AdoptArgs) -> Result<Facts, Error> {
    let hub = &context.hub;
    let settings = context.settings().await;
    let argocd = Some(settings.routing.argocd_namespace.as_str());
    // Not by label: any Secret with the name of ours is an obstacle.
    let secret = |it: Value| ClusterSecret::read(&it);
    let cluster = |it: Value| Some(ManagedCluster::read(&it));
    let application = |it: Value| Some(brief(&it));
    let system = hub.find(NAMESPACES, None, "kube-system").await;
    let uid = |it: Value| Some(text(&it, "/metadata/uid").to_owned()).filter(|it| !it.is_empty());
    Ok(Facts {
        secrets: hub.collect(SECRETS, argocd, all(), secret).await?,
        clusters: hub.collect(CLUSTERS, None, all(), cluster).await?,
        applications: hub.collect(APPLICATIONS, None, all(), application).await?,
        addons: context.addons().await?,
        controllers: inspect::controllers(hub).await,
        parameters: hub.find(CONFIG_MAPS, argocd, inspect::PARAMETERS).await,
        offer: hub.find(OFFERS, None, ADDON).await,
        own_namespace: context.own().to_owned(),
        mode: args.mode,
        hub_uid: system.map(|it| it.and_then(uid)),
        same: args.same_cluster.clone(),
        settings,
    })
}

#[cfg(test)]
mod tests;
