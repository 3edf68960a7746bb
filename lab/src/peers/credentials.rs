//! Certificates and keys of a pair, and the objects that contain them.

use std::{
    fs,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    path::Path,
};

use anyhow::{Context as _, Result};
use rcgen::{KeyPair, PKCS_RSA_SHA256, RsaKeySize};
use serde_json::{Value, json};

use super::{Mapping, Names};
use crate::{
    certs::{Authority, Pair},
    edge,
    network::DUAL_STACK,
    steps::{At, Objects},
};

/// A name of the principal that no resolver knows: only a forward proxy leads there.
pub const HUB: &str = "hub.lab.test";

/// The credentials of a principal and an agent.
#[derive(Debug)]
pub struct Credentials {
    agent: String,
    authority: Authority,
    serving: Pair,
    client: Pair,
    token_key: String,
}

impl Credentials {
    /// Creates an authority and signs certificates for a principal on the loopback and an agent of this name.
    pub fn new(agent: &str) -> Result<Self> {
        let authority = Authority::new("argocd-agent-ca")?;
        let loopback = [
            IpAddr::V4(Ipv4Addr::LOCALHOST),
            IpAddr::V6(Ipv6Addr::LOCALHOST),
        ];
        let token_key = KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, RsaKeySize::_2048)
            .context("make the key of the tokens")?;
        Ok(Self {
            agent: agent.to_owned(),
            serving: authority.serving("principal", &["localhost", HUB, DUAL_STACK], &loopback)?,
            client: authority.client(agent, None)?,
            token_key: token_key.serialize_pem(),
            authority,
        })
    }

    /// The client certificate of a further agent.
    pub fn of_agent(&self, agent: &str) -> Result<Pair> {
        self.authority.client(agent, None)
    }

    /// The certificate of the authority that signed everything, PEM.
    pub fn authority(&self) -> &str {
        &self.authority.pair().cert
    }

    /// The certificates of a proxy between the two.
    pub fn of_proxy(&self) -> Result<edge::Credentials> {
        let loopback = [IpAddr::V4(Ipv4Addr::LOCALHOST)];
        Ok(edge::Credentials {
            serving: self.authority.serving("edge", &["localhost"], &loopback)?,
            client: self.authority.client(edge::NAME, None)?,
            authority: self.authority.pair().cert.clone(),
        })
    }

    /// Puts everything into the default locations of the Go programs: Secrets of the Argo CD namespaces.
    pub(super) async fn provide(
        &self,
        hub: &Objects,
        spoke: &Objects,
        names: &Names,
        mapping: Mapping,
    ) -> Result<()> {
        let authority = self.authority.pair();
        for (name, body) in [
            ("argocd-agent-ca", pair(authority)),
            ("argocd-agent-principal-tls", pair(&self.serving)),
            ("argocd-agent-resource-proxy-tls", pair(&self.serving)),
            (
                "argocd-agent-jwt",
                json!({"stringData": {"jwt.key": self.token_key}}),
            ),
            ("cluster-agent", Self::cluster_secret(&self.agent, mapping)),
        ] {
            hub.apply(&At::secret(&names.hub, name), body).await?;
        }
        let roots = json!({"stringData": {"ca.crt": authority.cert}});
        let secrets = [
            ("argocd-agent-ca", roots),
            ("argocd-agent-client-tls", pair(&self.client)),
        ];
        for (name, body) in secrets {
            spoke.apply(&At::secret(&names.spoke, name), body).await?;
        }
        Ok(())
    }

    /// The Argo CD cluster Secret that registers an agent of this name.
    pub(super) fn cluster_secret(agent: &str, mapping: Mapping) -> Value {
        let mode = match mapping {
            Mapping::Namespace | Mapping::Destination => "managed",
            Mapping::Autonomous => "autonomous",
        };
        json!({
            "metadata": {
                "labels": {
                    "argocd.argoproj.io/secret-type": "cluster",
                    "argocd-agent.argoproj-labs.io/agent-name": agent,
                },
                "annotations": {
                    "managed-by": "argocd-agent",
                    "argocd-agent.open-cluster-management.io/mode": mode,
                    "argocd.argoproj.io/skip-reconcile": "true",
                },
            },
            "stringData": {
                "name": agent,
                "server": format!("https://localhost:9090?agentName={agent}"),
                "config": r#"{"tlsClientConfig":{"insecure":true}}"#,
            },
        })
    }

    /// Writes everything as files: `ca.crt`, `server.crt`, `server.key`, `client.crt`, `client.key` and `jwt.key`.
    pub fn write(&self, directory: &Path) -> Result<()> {
        fs::create_dir_all(directory).context("make the directory of the credentials")?;
        for (name, text) in [
            ("ca.crt", &self.authority.pair().cert),
            ("server.crt", &self.serving.cert),
            ("server.key", &self.serving.key),
            ("client.crt", &self.client.cert),
            ("client.key", &self.client.key),
            ("jwt.key", &self.token_key),
        ] {
            fs::write(directory.join(name), text).with_context(|| format!("write {name}"))?;
        }
        Ok(())
    }
}

fn pair(pair: &Pair) -> Value {
    json!({"type": "kubernetes.io/tls", "stringData": {"tls.crt": pair.cert, "tls.key": pair.key}})
}
