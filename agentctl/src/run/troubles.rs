//! `status --applications`: reads the Applications of the fleet, and keeps those that need a look.

use super::{Answer, Error, addons, hub_settings, servers};
use crate::{
    args::{Global, StatusArgs},
    fleet,
    hub::{APPLICATIONS, By, Hub},
    names::{Unknown, missing},
    output::Place,
    status::{Troubles, belongs_to, trouble},
};

/// Of the named clusters, or of all; then including those that belong to no cluster.
pub(super) async fn list(
    hub: &Hub,
    global: &Global,
    args: &StatusArgs,
    place: Place,
) -> Result<Answer, Error> {
    let (addons, settings) = (addons(hub).await?, hub_settings(hub, global).await);
    let known: Vec<_> = addons.iter().map(|addon| addon.cluster.as_str()).collect();
    let unknown = missing(&args.clusters, &known);
    if !unknown.is_empty() {
        return Err(Error::NoCluster(Unknown::new(unknown, known)));
    }
    let servers = servers(hub, &settings).await.unwrap_or_default();
    let clusters = fleet::clusters(&addons, &servers);
    let mut found = Vec::new();
    hub.each(APPLICATIONS, &By::default(), |application| {
        let cluster = belongs_to(&application, &clusters, &settings.routing);
        let wanted = args.clusters.is_empty()
            || cluster
                .as_ref()
                .is_some_and(|it| args.clusters.contains(it));
        if wanted {
            found.extend(trouble(&application, cluster, place.now));
        }
    })
    .await?;
    let troubles = Troubles::new(found, settings.silent);
    Answer::of(&troubles, place, args.exit_code && troubles.is_bad())
}
