//! Kubeconfigs: the address of a cluster and the credentials of a user.

use std::{fs, os::unix::fs::OpenOptionsExt, path::Path};

use anyhow::{Context, Result};
use base64::{Engine, prelude::BASE64_STANDARD};
use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};

use serde_json::{Value, json};

use crate::certs::Pair;

/// A kubeconfig from the `config` of an Argo CD cluster Secret, as JSON. `name` is the host name in the server's
/// certificate, if it differs from the address.
pub fn of_cluster_secret(server: &str, name: Option<&str>, config: &Value) -> Value {
    let access = &config["tlsClientConfig"];
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {
            "server": server,
            "tls-server-name": name,
            "certificate-authority-data": access["caData"],
        }}],
        "users": [{"name": "u", "user": {
            "client-certificate-data": access["certData"],
            "client-key-data": access["keyData"],
            "token": config["bearerToken"],
        }}],
    })
}

/// The credentials of a user.
#[derive(Clone, Debug)]
pub enum Credential {
    /// A client certificate.
    Certificate(Pair),
    /// A bearer token.
    Token(String),
}

/// One cluster and one user, the content of a kubeconfig of the lab.
#[derive(Clone, Debug)]
pub struct Access {
    /// The cluster's name; the context is called so too.
    pub cluster: String,
    /// The address of the API, with its scheme.
    pub server: String,
    /// The authority of the API's certificate, as PEM.
    pub authority: String,
    /// The user's name in the file.
    pub user: String,
    /// The user's credentials.
    pub credential: Credential,
}

impl Access {
    /// The kubeconfig as a text.
    pub fn to_yaml(&self) -> String {
        let Self {
            cluster,
            server,
            authority,
            user,
            credential,
        } = self;
        let authority = BASE64_STANDARD.encode(authority);
        let proof = match credential {
            Credential::Certificate(pair) => format!(
                "client-certificate-data: {}\n    client-key-data: {}",
                BASE64_STANDARD.encode(&pair.cert),
                BASE64_STANDARD.encode(&pair.key)
            ),
            Credential::Token(token) => format!("token: {token:?}"),
        };
        format!(
            r"apiVersion: v1
kind: Config
current-context: {cluster}
clusters:
- name: {cluster}
  cluster:
    server: {server}
    certificate-authority-data: {authority}
users:
- name: {user:?}
  user:
    {proof}
contexts:
- name: {cluster}
  context:
    cluster: {cluster}
    user: {user:?}
"
        )
    }

    /// Equal access through another address.
    #[must_use]
    pub fn through(&self, server: impl Into<String>) -> Self {
        Self {
            server: server.into(),
            ..self.clone()
        }
    }

    /// Writes the file atomically, readable by its owner only.
    pub fn write(&self, path: &Path) -> Result<()> {
        let temporary = path.with_extension("new");
        let write = || {
            if let Some(dir) = path.parent() {
                fs::create_dir_all(dir)?;
            }
            let mut file = fs::OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(true)
                .mode(0o600)
                .open(&temporary)?;
            std::io::Write::write_all(&mut file, self.to_yaml().as_bytes())?;
            fs::rename(&temporary, path)
        };
        write().with_context(|| format!("write kubeconfig {}", path.display()))
    }

    /// A client with this access.
    pub async fn client(&self) -> Result<Client> {
        self.client_as(None, &[]).await
    }

    /// A client that impersonates another user, which the user must be allowed to do.
    pub(crate) async fn client_as(&self, user: Option<&str>, groups: &[&str]) -> Result<Client> {
        let mut parsed =
            Kubeconfig::from_yaml(&self.to_yaml()).context("read our own kubeconfig")?;
        for named in &mut parsed.auth_infos {
            if let (Some(info), Some(user)) = (&mut named.auth_info, user) {
                info.impersonate = Some(user.to_owned());
                info.impersonate_groups =
                    Some(groups.iter().map(|&group| group.to_owned()).collect());
            }
        }
        let config = Config::from_custom_kubeconfig(parsed, &KubeConfigOptions::default()).await?;
        let client = Client::try_from(config);
        let client = client.with_context(|| format!("a client for {}", self.server))?;
        // The kubelets continue when a test restores an earlier state of a cluster.
        Ok(runtime::kube::with_history(client))
    }
}
