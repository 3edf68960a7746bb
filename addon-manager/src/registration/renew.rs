//! Keeps the cluster Secrets of agents that registered themselves in order: with the certificate as it is now, and a
//! token that is good for a while, whether the agent is connected or not.

use std::{sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::Secret;
use kube::api::{ListParams, Patch, PatchParams};
use principal::ClusterName;
use runtime::{credentials::Material, error::Chain};
use serde_json::json;
use tokio::{sync::watch, time::sleep};
use tokio_util::sync::CancellationToken;

use super::{Error, SelfRegistration, credential::Certificate};
use crate::{delete_with_preconditions, keys};

/// How often all are looked at, should nothing have changed: often in half the life of a token.
const EVERY: Duration = Duration::from_hours(1);
/// The pause before what failed is tried again.
const RETRY: Duration = Duration::from_mins(1);
/// Secrets read at once.
const PAGE: u32 = 100;

/// Runs until the token is cancelled. `changes` says when the certificate may have changed.
pub async fn keep(
    registration: SelfRegistration,
    mut changes: watch::Receiver<Arc<Material>>,
    token: CancellationToken,
) {
    let mut jwt_key = registration.jwt_key.clone();
    loop {
        changes.mark_unchanged();
        jwt_key.mark_unchanged();
        let Some(round) = token.run_until_cancelled(registration.renew()).await else {
            return;
        };
        let pause = match round {
            Ok(()) => EVERY,
            Err(error) => {
                let error = Chain(&error).to_string();
                tracing::warn!(
                    error,
                    "cannot renew credentials in self-registered cluster Secrets; retrying"
                );
                RETRY
            }
        };
        tokio::select! {
            () = token.cancelled() => return,
            () = sleep(pause) => {}
            Ok(()) = changes.changed() => {}
            Ok(()) = jwt_key.changed() => {}
        }
    }
}

impl SelfRegistration {
    /// Looks at all of them once; the first error is told after the others were looked at.
    async fn renew(&self) -> Result<(), Error> {
        let Some(certificate) = self.certificate().await? else {
            return Ok(());
        };
        let clusters = argocd::keys::CLUSTER_SELECTOR;
        let labels = format!("{clusters},{}=true", keys::SELF_REGISTERED);
        let mut page = ListParams::default().labels(&labels).limit(PAGE);
        let mut failed = Ok(());
        loop {
            let list = self.secrets.list(&page).await.map_err(Error::List)?;
            for secret in &list.items {
                let renewed = self.renew_one(secret, &certificate).await;
                failed = failed.and(renewed);
            }
            match list.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => page = page.continue_token(&token),
                None => return failed,
            }
        }
    }

    async fn renew_one(&self, secret: &Secret, certificate: &Certificate) -> Result<(), Error> {
        let agent = secret
            .metadata
            .labels
            .as_ref()
            .and_then(|labels| labels.get(argocd::keys::AGENT_NAME));
        // Who is not enrolled by it gets no token either.
        let Some(cluster) = agent.and_then(|it| ClusterName::try_from(it.as_str()).ok()) else {
            return Ok(());
        };
        let name = secret.metadata.name.clone().unwrap_or_default();
        let data = secret.data.as_ref();
        let config = data.and_then(|data| data.get("config"));
        let config = config.map_or(&b""[..], |config| &config.0);
        let (key, now) = (Arc::clone(&self.jwt_key.borrow()), self.clock.now());
        let access = argocd::cluster_secret::access(config);
        if certificate.is_in(&access, &cluster, &key, now) {
            return Ok(());
        }
        let access = certificate.access(&cluster, &key, now)?;
        let config = argocd::cluster_secret::with_access(config, &access);
        // What was looked at is what is written to: somebody may be at work there, too.
        let patch = json!({
            "metadata": {"resourceVersion": secret.metadata.resource_version},
            "data": {"config": config},
        });
        let params = PatchParams::default();
        match self
            .secrets
            .patch(&name, &params, &Patch::Merge(&patch))
            .await
        {
            Ok(_) => {
                tracing::info!(
                    secret = name,
                    "renewed the credentials of a self-registered cluster"
                );
                Ok(())
            }
            Err(source) if delete_with_preconditions::is_other_or_gone(&source) => {
                Err(Error::Busy(name))
            }
            Err(source) => Err(Error::Patch { name, source }),
        }
    }
}
