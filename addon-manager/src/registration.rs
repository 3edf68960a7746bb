//! Self-registration without OCM: whoever shows who it is gets a cluster Secret, and with it is enrolled.
//!
//! As in Go, a Secret that somebody else made is never touched, and the mode is the one that the agent says first; from
//! then on it is recorded. To get rid of an agent for good, put it on the revocation list before its Secret goes.

use std::collections::BTreeMap;

use argocd::cluster_secret::{self, Access, Inputs};
use futures::{FutureExt as _, future::BoxFuture};
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client, api::PostParams};
use principal::{ClusterName, Mode, Registrar};
use runtime::error::Chain;
use serde_json::{Value, json};

use crate::{hub::is_of_kubernetes, keys};

/// Makes cluster Secrets.
#[derive(Clone)]
pub struct SelfRegistration {
    secrets: Api<Secret>,
    argocd_namespace: String,
    resource_proxy: String,
    /// Secret with the certificate that Argo CD shows to the resource proxy.
    certificate: Option<String>,
}

impl std::fmt::Debug for SelfRegistration {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SelfRegistration").finish_non_exhaustive()
    }
}

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("the name {0} has another use")]
    Reserved(ClusterName),
    #[error("the Secret {0} is there already and lets nobody in, or somebody else")]
    Taken(String),
    #[error("read the Secret {name}")]
    Certificate { name: String, source: kube::Error },
    #[error("the Secret {name} lacks tls.crt, tls.key or ca.crt")]
    Incomplete { name: String },
    #[error("make the cluster Secret {name}")]
    Create { name: String, source: kube::Error },
    #[error("write the cluster Secret {name}")]
    Write {
        name: String,
        source: serde_json::Error,
    },
}

impl SelfRegistration {
    /// For the principal in this namespace.
    pub fn new(
        client: Client,
        argocd_namespace: &str,
        resource_proxy: &str,
        certificate: Option<String>,
    ) -> Self {
        Self {
            secrets: Api::namespaced(client, argocd_namespace),
            argocd_namespace: argocd_namespace.to_owned(),
            resource_proxy: resource_proxy.to_owned(),
            certificate,
        }
    }

    async fn make(&self, cluster: &ClusterName, mode: Mode) -> Result<(), Error> {
        if cluster.as_str() == self.argocd_namespace || is_of_kubernetes(cluster.as_str()) {
            return Err(Error::Reserved(cluster.clone()));
        }
        let access = self.access().await?;
        let name = cluster_secret::name(cluster.as_str());
        let body = self.body(cluster, mode, &access);
        let secret: Secret = serde_json::from_value(body).map_err(|source| Error::Write {
            name: name.clone(),
            source,
        })?;
        match self.secrets.create(&PostParams::default(), &secret).await {
            Ok(_made) => {
                tracing::info!(%cluster, %mode, "an agent registered itself");
                Ok(())
            }
            // Whoever is enrolled by it does not get here.
            Err(kube::Error::Api(status)) if status.code == 409 => Err(Error::Taken(name)),
            Err(source) => Err(Error::Create { name, source }),
        }
    }

    async fn access(&self) -> Result<Access, Error> {
        let Some(name) = &self.certificate else {
            return Ok(Access::default());
        };
        let read = self
            .secrets
            .get(name)
            .await
            .map_err(|source| Error::Certificate {
                name: name.clone(),
                source,
            })?;
        let data = read.data.unwrap_or_default();
        let text = |key: &str| String::from_utf8(data.get(key)?.0.clone()).ok();
        let access = Access {
            bearer_token: None,
            ca: text("ca.crt"),
            certificate: text("tls.crt"),
            key: text("tls.key"),
        };
        if access.ca.is_none() || access.certificate.is_none() || access.key.is_none() {
            return Err(Error::Incomplete { name: name.clone() });
        }
        Ok(access)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_secret_says_that_it_was_self_registered_and_in_which_mode() {
        let service = tower::service_fn(|_: http::Request<kube::client::Body>| async {
            Ok::<_, std::io::Error>(http::Response::new(kube::client::Body::empty()))
        });
        let client = Client::new(service, "default");
        let registration = SelfRegistration::new(client, "argocd", "proxy:9090", None);
        let cluster = ClusterName::try_from("spoke1").unwrap();
        let body = registration.body(&cluster, Mode::Managed, &Access::default());
        assert_eq!(body["metadata"]["name"], "cluster-spoke1");
        let labels = &body["metadata"]["labels"];
        assert_eq!(
            labels["argocd-agent.argoproj-labs.io/self-registered-cluster"],
            "true"
        );
        assert_eq!(labels["argocd-agent.argoproj-labs.io/agent-name"], "spoke1");
        assert_eq!(body["metadata"]["annotations"][keys::MODE], "managed");
        for reserved in ["argocd", "kube-system"] {
            let cluster = ClusterName::try_from(reserved).unwrap();
            let refused = registration.make(&cluster, Mode::Managed).await;
            assert!(matches!(refused, Err(Error::Reserved(_))), "{reserved}");
        }
    }
}
