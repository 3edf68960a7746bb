//! `status --applications`: reads the Applications of the fleet, and keeps those that need a look.

use diagnosis::{
    fleet,
    status::{Troubles, belongs_to, trouble},
};

use super::{Answer, Context, Error};
use crate::{
    args::StatusArgs,
    hub::{APPLICATIONS, all},
    names::{missing, none_missing},
};

/// Of the named clusters, or of all; then including those that belong to no cluster.
pub(super) async fn list(context: &Context<'_>, args: &StatusArgs) -> Result<Answer, Error> {
    let (addons, settings) = (context.addons().await?, context.settings().await);
    let known: Vec<_> = addons.iter().map(|addon| addon.cluster.clone()).collect();
    none_missing(&missing(&args.clusters, &known), &known).map_err(Error::NoCluster)?;
    let servers = context.servers(&settings).await.unwrap_or_default();
    let clusters = fleet::clusters(&addons, &servers);
    let is_named = |cluster: &String| args.clusters.contains(cluster);
    let mut found = Vec::new();
    let judge = |application| {
        let cluster = belongs_to(&application, &clusters, &settings.routing);
        if args.clusters.is_empty() || cluster.as_ref().is_some_and(is_named) {
            found.extend(trouble(&application, cluster, context.place.now));
        }
    };
    context.hub.each(APPLICATIONS, None, all(), judge).await?;
    let troubles = Troubles::new(found, settings.silent);
    Answer::of(
        &troubles,
        context.place,
        args.exit_code && troubles.is_bad(),
    )
}
