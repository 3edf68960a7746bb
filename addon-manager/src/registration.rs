//! Self-registration without OCM: an agent that proves its identity gets a cluster Secret, which enrols it.
//!
//! As in Go, we never change a Secret of another owner, and record the mode that the agent reports first. To remove an
//! agent for good, revoke it before its Secret is deleted.
//!
//! `credential` gives Argo CD access to a cluster, `keep` renews it in all Secrets that we created here.

use std::{collections::BTreeMap, sync::Arc};

use argocd::cluster_secret::{self, Access, Inputs};
use futures::{FutureExt as _, future::BoxFuture};
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, api::PostParams};
use principal::{ClusterName, JwtKey, Mode, Registrar, admission::tokens::SignToken};
use runtime::{clock::Clock, error::Chain};
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::{
    api::{ApiError, failed},
    hub::is_of_kubernetes,
    keys,
};

mod credential;

use credential::Certificate;
pub use renew::keep;

/// Creates cluster Secrets.
#[derive(Clone, derive_more::Debug)]
#[debug("SelfRegistration")]
pub struct SelfRegistration {
    /// The Secrets in the namespace of Argo CD.
    pub secrets: Api<Secret>,
    /// That namespace.
    pub argocd_namespace: String,
    /// host:port by which Argo CD reaches the resource proxy.
    pub resource_proxy: String,
    /// Secret with the certificate that Argo CD presents to the resource proxy.
    pub certificate: Option<String>,
    /// Signs the tokens, which are valid for one cluster each.
    pub jwt_key: watch::Receiver<Arc<JwtKey>>,
    /// The clock.
    pub clock: Clock,
}

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("the name {0} is reserved")]
    Reserved(ClusterName),
    #[error("the Secret {0} exists already and belongs to another agent or none")]
    Taken(String),
    #[error("the Secret {name} needs a valid tls.crt with its tls.key and ca.crt")]
    Incomplete { name: String },
    #[error(transparent)]
    Token(#[from] SignToken),
    #[error("conflict: another writer changed the cluster Secret {0}")]
    Busy(String),
    #[error(transparent)]
    Api(#[from] ApiError),
}

impl SelfRegistration {
    async fn make(&self, cluster: &ClusterName, mode: Mode) -> Result<(), Error> {
        if cluster.as_str() == self.argocd_namespace || is_of_kubernetes(cluster.as_str()) {
            return Err(Error::Reserved(cluster.clone()));
        }
        let access = match self.certificate().await? {
            Some(certificate) => {
                let key = Arc::clone(&self.jwt_key.borrow());
                certificate.access(cluster, &key, self.clock.now())?
            }
            None => Access::default(),
        };
        let name = cluster_secret::name(cluster.as_str());
        let body = self.body(cluster, mode, &access);
        let written = failed("write the cluster Secret", &name);
        let secret: Secret = serde_json::from_value(body)
            .map_err(|source| written(kube::Error::SerdeError(source)))?;
        match self.secrets.create(&PostParams::default(), &secret).await {
            Ok(_made) => {
                tracing::info!(%cluster, %mode, "an agent registered itself");
                Ok(())
            }
            // An agent that this Secret enrols does not register.
            Err(kube::Error::Api(status)) if status.code == 409 => Err(Error::Taken(name)),
            Err(error) => Err(failed("create the cluster Secret", &name)(error).into()),
        }
    }

    /// The certificate for Argo CD; without one Argo CD cannot access clusters.
    async fn certificate(&self) -> Result<Option<Certificate>, Error> {
        let Some(name) = &self.certificate else {
            return Ok(None);
        };
        let read = self.secrets.get(name).await;
        let secret = read.map_err(failed("read the Secret", name))?;
        let certificate = Certificate::of(secret);
        let incomplete = || Error::Incomplete { name: name.clone() };
        certificate.ok_or_else(incomplete).map(Some)
    }

    fn body(&self, cluster: &ClusterName, mode: Mode, access: &Access) -> Value {
        let server = cluster_secret::server_url(&self.resource_proxy, cluster.as_str());
        let none = BTreeMap::new();
        let mut body = cluster_secret::build(Inputs {
            cluster: cluster.as_str(),
            argocd_namespace: &self.argocd_namespace,
            server: &server,
            access,
            labels: &none,
            claims: &none,
        });
        let marks = json!({"metadata": {
            "labels": {keys::SELF_REGISTERED: "true"},
            "annotations": {keys::MODE: mode.as_str()},
        }});
        argocd::patch::merge(&mut body, &marks);
        body
    }
}

impl Registrar for SelfRegistration {
    fn register(&self, cluster: ClusterName, mode: Mode) -> BoxFuture<'_, bool> {
        async move {
            let registered = self.make(&cluster, mode).await;
            if let Err(error) = &registered {
                tracing::warn!(%cluster, error = %Chain(error), "an agent cannot register itself");
            }
            registered.is_ok()
        }
        .boxed()
    }
}

mod renew;
#[cfg(test)]
mod tests;
