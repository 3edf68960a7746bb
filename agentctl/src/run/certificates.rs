//! `certs`: what the hub has, and what is asked of the hub program.

use argocd::keys::addon::CA_SECRET;
use diagnosis::facts::Addon;

use super::{Answer, Context, Error, wait};
use crate::{
    args::{RotateArgs, Wait},
    certs::{self, Certificates, certificates},
    change::{self, Change},
    hub::{Error as HubError, SECRETS},
    wait_state::{WaitState, rekeyed, replaced},
};

/// Every certificate.
pub(super) async fn list(context: &Context<'_>) -> Result<Answer, Error> {
    Answer::of(&listed(context).await?, context.place, false)
}

/// The same, as values.
pub(super) async fn listed(context: &Context<'_>) -> Result<Certificates, HubError> {
    let mut secrets = Vec::new();
    for (name, _) in certs::SECRETS {
        let secret = context.hub.find(SECRETS, Some(context.own()), name).await;
        secrets.push((name, secret));
    }
    let addons = context.addons().await?;
    Ok(certificates(&secrets, &addons, context.place.now))
}

/// Lets a revoked agent in again, and waits until it is there where that is wanted.
pub(super) async fn restore(
    context: &Context<'_>,
    cluster: &str,
    wait: Wait,
) -> Result<Answer, Error> {
    let before = context.addon(cluster).await?;
    let change = change::restore(&before, context.place.now)?;
    write_and_rekey(context, change, &before, wait).await
}

/// Asks for another key of one agent or another authority, and waits for it where that is wanted.
pub(super) async fn rotate(context: &Context<'_>, args: RotateArgs) -> Result<Answer, Error> {
    let now = context.place.now;
    if let Some(cluster) = args.of.cluster {
        let before = context.addon(&cluster).await?;
        let change = change::rotate_agent(&before, now)?;
        return write_and_rekey(context, change, &before, args.wait).await;
    }
    let asked = now.to_string();
    let look = async || {
        let secret = context
            .hub
            .get(SECRETS, Some(context.own()), CA_SECRET)
            .await?;
        let secret = secret.unwrap_or_default();
        Ok(replaced(&asked, &secret, &context.addons().await?))
    };
    let change = change::rotate_authority(context.own(), now);
    write_and_wait(context, change, args.wait, look).await
}

/// Until the agent is connected with another certificate than before.
async fn write_and_rekey(
    context: &Context<'_>,
    change: Change,
    before: &Addon,
    wait: Wait,
) -> Result<Answer, Error> {
    let look = async || Ok(rekeyed(before, &context.addon(&before.cluster).await?));
    write_and_wait(context, change, wait, look).await
}

async fn write_and_wait(
    context: &Context<'_>,
    change: Change,
    wait: Wait,
    look: impl AsyncFn() -> Result<WaitState, Error>,
) -> Result<Answer, Error> {
    let answer = context.write(change).await?;
    if wait.wait {
        return wait::until(look, wait.timeout, context.progress).await;
    }
    Ok(answer)
}
