//! Kubernetes clients: as admin from a kubeconfig, as an agent from its own credentials.

use std::path::Path;

use anyhow::{Context, Result};
use base64::Engine as _;
use http::{HeaderName, HeaderValue, header::USER_AGENT};
use kube::{
    Client, Config,
    config::{AuthInfo, KubeConfigOptions, Kubeconfig},
};
use serde_json::{Value, json};

use crate::stand_in::certificate_pem;

/// The connection settings of a kubeconfig's current context.
pub(crate) async fn config(kubeconfig: &Path, user_agent: &'static str) -> Result<Config> {
    let read = Kubeconfig::read_from(kubeconfig)
        .with_context(|| format!("read kubeconfig {}", kubeconfig.display()))?;
    let mut config = Config::from_custom_kubeconfig(read, &KubeConfigOptions::default())
        .await
        .with_context(|| format!("use kubeconfig {}", kubeconfig.display()))?;
    let agent: (HeaderName, HeaderValue) = (USER_AGENT, HeaderValue::from_static(user_agent));
    config.headers.push(agent);
    Ok(config)
}

/// A client with the identity of a kubeconfig.
pub(crate) async fn from_kubeconfig(path: &Path, user_agent: &'static str) -> Result<Client> {
    as_client(config(path, user_agent).await?)
}

/// A client for the same API server with another identity.
pub(crate) fn as_identity(config: &Config, identity: AuthInfo) -> Result<Client> {
    let mut config = config.clone();
    config.auth_info = identity;
    as_client(config)
}

/// The error in one line; of an API server's response only its message.
pub(crate) fn message_of(error: &anyhow::Error) -> String {
    let mut messages = Vec::new();
    for cause in error.chain() {
        if let Some(kube::Error::Api(status)) = cause.downcast_ref() {
            // The rest of the chain repeats the same response.
            messages.push(status.message.clone());
            break;
        }
        messages.push(cause.to_string());
    }
    messages.join(": ")
}

/// A kubeconfig, in JSON, for the API server of `config` and another user.
pub(crate) fn kubeconfig(config: &Config, namespace: &str, user: &Value) -> String {
    let mut cluster = json!({ "server": config.cluster_url.to_string().trim_end_matches('/') });
    let roots: String = config
        .root_cert
        .iter()
        .flatten()
        .map(|der| certificate_pem(der))
        .collect();
    if !roots.is_empty() {
        let bundle = base64::engine::general_purpose::STANDARD.encode(roots);
        cluster["certificate-authority-data"] = json!(bundle);
    }
    let context = json!({ "cluster": "cluster", "user": "default-auth", "namespace": namespace });
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{ "name": "cluster", "cluster": cluster }],
        "contexts": [{ "name": "default-context", "context": context }],
        "current-context": "default-context",
        "users": [{ "name": "default-auth", "user": user }],
    })
    .to_string()
}

fn as_client(config: Config) -> Result<Client> {
    Client::try_from(config).context("make a Kubernetes client")
}
