//! `certs`: what the hub has, and what is asked of the hub program.

use argocd::keys::addon::CA_SECRET;
use jiff::Timestamp;

use super::{Answer, Error, addons, one, wait, write};
use crate::{
    args::{Global, RotateArgs, RotateOf, Wait},
    certs::{self, Certificates, certificates},
    change::{self, Change},
    hub::{Hub, SECRETS},
    output::Place,
    progress::Progress,
    wait_state::{WaitState, rekeyed, replaced},
};

/// Every certificate.
pub(super) async fn list(hub: &Hub, global: &Global, place: Place) -> Result<Answer, Error> {
    let certificates = listed(hub, global, place.now).await?;
    Answer::of(&certificates, place, false)
}

/// The same, as values.
pub(super) async fn listed(
    hub: &Hub,
    global: &Global,
    now: Timestamp,
) -> Result<Certificates, Error> {
    let mut secrets = Vec::new();
    for (name, _) in certs::SECRETS {
        let secret = hub.find(SECRETS, Some(&global.own_namespace), name).await;
        secrets.push((name, secret));
    }
    Ok(certificates(&secrets, &addons(hub).await?, now))
}

/// Lets a revoked agent in again, and waits until it is there where that is wanted.
pub(super) async fn restore(
    hub: &Hub,
    cluster: &str,
    wait: Wait,
    now: Timestamp,
    progress: &Progress,
) -> Result<Answer, Error> {
    let (cluster, before) = one(hub, cluster).await?;
    let change = change::restore(&cluster, &before, now)?;
    // It comes with another key, so with another certificate.
    let look = async || Ok(rekeyed(&before, &one(hub, cluster.as_str()).await?.1));
    write_and_wait(hub, change, wait, look, progress).await
}

/// Asks for another key of one agent or another authority, and waits for it where that is wanted.
pub(super) async fn rotate(
    hub: &Hub,
    global: &Global,
    args: RotateArgs,
    now: Timestamp,
    progress: &Progress,
) -> Result<Answer, Error> {
    let RotateArgs { of, wait } = args;
    let RotateOf { cluster, ca: _ } = of;
    if let Some(cluster) = cluster {
        let (cluster, before) = one(hub, &cluster).await?;
        let change = change::rotate_agent(&cluster, &before, now)?;
        let look = async || Ok(rekeyed(&before, &one(hub, cluster.as_str()).await?.1));
        return write_and_wait(hub, change, wait, look, progress).await;
    }
    let asked = now.to_string();
    let own = Some(global.own_namespace.as_str());
    let look = async || {
        let secret = hub.get(SECRETS, own, CA_SECRET).await?.unwrap_or_default();
        Ok(replaced(&asked, &secret, &addons(hub).await?))
    };
    let change = change::rotate_authority(&global.own_namespace, now);
    write_and_wait(hub, change, wait, look, progress).await
}

async fn write_and_wait(
    hub: &Hub,
    change: Change,
    wait: Wait,
    look: impl AsyncFn() -> Result<WaitState, Error>,
    progress: &Progress,
) -> Result<Answer, Error> {
    let answer = write(hub, change).await?;
    if wait.wait {
        wait::until(look, wait.timeout, progress).await
    } else {
        Ok(answer)
    }
}
