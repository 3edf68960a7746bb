//! `certs`: what the hub has, and what is asked of the hub program.

use argocd::keys::addon::CA_SECRET;
use jiff::Timestamp;

use super::{Answer, Error, addons, one, wait, write};
use crate::{
    args::{Global, RotateArgs, RotateOf, Wait},
    certs::{self, Certificates, certificates},
    change,
    hub::{Hub, SECRETS},
    output::Place,
    progress::Progress,
    wait_state::{rekeyed, replaced},
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
    let answer = write(hub, change::restore(&cluster, &before, now)?).await?;
    if !wait.wait {
        return Ok(answer);
    }
    // It comes with another key, so with another certificate.
    let look = async || Ok(rekeyed(&before, &one(hub, cluster.as_str()).await?.1));
    wait::until(look, wait.timeout, progress).await
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
        let answer = write(hub, change::rotate_agent(&cluster, &before, now)?).await?;
        if !wait.wait {
            return Ok(answer);
        }
        let look = async || Ok(rekeyed(&before, &one(hub, cluster.as_str()).await?.1));
        return wait::until(look, wait.timeout, progress).await;
    }
    let change = change::rotate_authority(&global.own_namespace, now);
    let answer = write(hub, change).await?;
    if !wait.wait {
        return Ok(answer);
    }
    let asked = now.to_string();
    let look = async || {
        let secret = hub
            .get(SECRETS, Some(&global.own_namespace), CA_SECRET)
            .await?;
        let secret = secret.unwrap_or_default();
        Ok(replaced(&asked, &secret, &addons(hub).await?))
    };
    wait::until(look, wait.timeout, progress).await
}
