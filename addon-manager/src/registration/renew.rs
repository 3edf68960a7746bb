//! Renews the credentials in the cluster Secrets of self-registered agents, connected or not: the current certificate, and
//! a token that stays valid.

use std::{pin::pin, sync::Arc, time::Duration};

use futures::TryStreamExt as _;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{ListParams, Patch, PatchParams};
use principal::ClusterName;
use runtime::{credentials::Material, error::Chain};
use serde_json::json;
use tokio::{sync::watch, time::sleep};
use tokio_util::sync::CancellationToken;

use super::{Error, SelfRegistration, credential::Certificate};
use crate::{
    api::{self, failed},
    keys,
};

/// How often all are checked without a change: several times in half the life of a token.
const EVERY: Duration = Duration::from_hours(1);
/// The pause before a retry.
const RETRY: Duration = Duration::from_mins(1);
/// The page size of lists.
const PAGE: u32 = 100;

/// Runs until the token is cancelled. `changes` reports when the certificate may have changed.
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
    /// Checks all Secrets once, and then returns the first error.
    async fn renew(&self) -> Result<(), Error> {
        let Some(certificate) = self.certificate().await? else {
            return Ok(());
        };
        let clusters = argocd::keys::CLUSTER_SELECTOR;
        let labels = format!("{clusters},{}=true", keys::SELF_REGISTERED);
        let selected = ListParams::default().labels(&labels).limit(PAGE);
        let mut pages = pin!(api::pages(self.secrets.clone(), selected));
        let mut done = Ok(());
        let list = failed("list", "the cluster Secrets");
        while let Some(page) = pages.try_next().await.map_err(&list)? {
            for secret in &page {
                let renewed = self.renew_one(secret, &certificate).await;
                done = done.and(renewed);
            }
        }
        done
    }

    async fn renew_one(&self, secret: &Secret, certificate: &Certificate) -> Result<(), Error> {
        let labels = secret.metadata.labels.as_ref();
        let agent = labels.and_then(|labels| labels.get(argocd::keys::AGENT_NAME));
        // A Secret that enrols no agent gets no token.
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
        // The resource version is a precondition: another client may change the Secret, too.
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
            Err(error) if api::is_other_or_gone(&error) => Err(Error::Busy(name)),
            Err(error) => Err(failed("write to the cluster Secret", &name)(error).into()),
        }
    }
}
