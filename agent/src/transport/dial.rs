//! Connects, authenticates, and returns a channel for a session.

use std::sync::Arc;

use protocol::Mode;
use protocol::proof;
use protocol::version::{self, Capabilities};
use protocol::wire::authapi::authentication_client::AuthenticationClient;
use protocol::wire::authapi::{AuthRequest, AuthResponse, Proof};
use protocol::wire::versionapi::version_client::VersionClient;
use protocol::wire::versionapi::{VersionRequest, VersionResponse};
use runtime::credentials::{Identity, Material};
use tokio::sync::watch;
use tonic::Request;

use super::connect::{CALL_MESSAGE, Carrier, Connect, call};
use super::error::Error;
use super::tokens::Tokens;
use crate::config::{Hub, Method};

/// The principal's answer to the authentication.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Welcome {
    /// Argo CD's namespace on the hub; empty if the principal does not send it.
    pub principal_namespace: String,
    /// The principal's identity; a Go principal sends it later, with each object.
    pub principal_uid: Option<String>,
    /// Our name at the principal, which is also our namespace on the hub.
    pub agent_name: Option<String>,
    /// Our name at a Go principal: the subject of the token.
    pub subject: Option<String>,
    /// Capabilities of both ends beyond the Go protocol.
    pub capabilities: Capabilities,
}

/// An authenticated connection.
pub(crate) struct Opened {
    pub(crate) channel: Carrier,
    pub(crate) tokens: Tokens,
    pub(crate) welcome: Welcome,
}

/// Connects to the principal and authenticates; clones share the transport.
#[derive(Clone, Debug)]
pub struct Dialer {
    /// The principal's address and how to connect.
    pub hub: Hub,
    /// Opens connections.
    pub network: Arc<dyn Connect>,
    /// The credentials in effect: a new connection uses these or older ones, never ones still to come.
    pub material: watch::Receiver<Arc<Material>>,
    /// Argo CD's namespace on this cluster, which the agent reports to the principal.
    pub argocd_namespace: String,
    /// The mode of this cluster, which the agent reports to the principal.
    pub mode: Mode,
    /// Capabilities beyond the Go protocol: all of them, except in tests that mix old and new versions.
    pub capabilities: Capabilities,
}

impl Dialer {
    /// Connects and authenticates. The identity in `used` proves the certificate behind a proxy that terminates TLS.
    pub(crate) async fn dial(&self, used: &Material) -> Result<Opened, Error> {
        self.authenticate(self.network.connect().await?, used).await
    }

    /// Opens another connection beside that of the session.
    pub(crate) async fn dial_beside(&self, used: &Material) -> Result<Opened, Error> {
        let channel = self.network.connect_beside().await?;
        self.authenticate(channel, used).await
    }

    async fn authenticate(&self, channel: Carrier, used: &Material) -> Result<Opened, Error> {
        let principal = principal_version(channel.clone()).await?;
        let request = AuthRequest {
            method: method_name(&self.hub.method).to_owned(),
            credentials: credentials(&self.hub.method).await?,
            mode: self.mode.as_str().to_owned(),
            // A Go principal accepts only its own version.
            version: version::bare(&principal.version).to_owned(),
            agent_namespace: self.argocd_namespace.clone(),
            capabilities: self.capabilities.to_words(),
            proof: prove(&self.hub.host, used.identity.as_ref(), &principal)?,
        };
        let answer = call(
            AuthenticationClient::new(channel.clone())
                .max_decoding_message_size(CALL_MESSAGE)
                .authenticate(Request::new(request.clone())),
        )
        .await
        .map_err(|status| Error::Authenticate(Box::new(status)))?;
        let tokens = Tokens::new(request, &answer)?;
        let welcome = read_answer(answer, &self.capabilities);
        tracing::info!(
            principal_version = %principal.version,
            agent_name = welcome.agent_name.as_deref().unwrap_or_default(),
            transport = self.network.transport(),
            "authenticated"
        );
        Ok(Opened {
            channel,
            tokens,
            welcome,
        })
    }
}

async fn principal_version(channel: Carrier) -> Result<VersionResponse, Error> {
    let mut client = VersionClient::new(channel).max_decoding_message_size(CALL_MESSAGE);
    let answer = call(client.version(Request::new(VersionRequest {})))
        .await
        .map_err(|status| Error::Version(Box::new(status)))?;
    let is_valid = version::is_presentable(version::bare(&answer.version));
    let what = "invalid version";
    is_valid.then_some(answer).ok_or(Error::BadAnswer { what })
}

/// The proof that the principal requests with a nonce: a proxy terminates TLS and presents its own certificate.
fn prove(
    host: &str,
    identity: Option<&Identity>,
    principal: &VersionResponse,
) -> Result<Option<Proof>, Error> {
    let (nonce, principal_uid) = (&principal.nonce, &principal.principal_uid);
    if nonce.is_empty() {
        return Ok(None);
    }
    let cannot = |what| Error::Prove { what };
    if nonce.len() > proof::LONGEST || principal_uid.len() > proof::LONGEST {
        return Err(cannot("the data to sign is too long"));
    }
    let identity = identity.ok_or_else(|| cannot("no certificate found"))?;
    let signature = identity
        .sign(&proof::signed(host, principal_uid, nonce))
        .ok_or_else(|| cannot("the key cannot sign"))?;
    let chain = identity.chain().iter();
    Ok(Some(Proof {
        chain: chain
            .map(|der| bytes::Bytes::copy_from_slice(der))
            .collect(),
        scheme: signature.scheme.into(),
        signature: signature.bytes.into(),
        server_name: host.to_owned(),
        nonce: nonce.clone(),
    }))
}

fn read_answer(answer: AuthResponse, ours: &Capabilities) -> Welcome {
    let some = |text: String| (!text.is_empty()).then_some(text);
    Welcome {
        principal_namespace: answer.principal_namespace,
        principal_uid: some(answer.principal_uid),
        agent_name: some(answer.agent_name),
        subject: protocol::token::subject(&answer.access_token),
        capabilities: ours.negotiate(&Capabilities::read(&answer.capabilities)),
    }
}

const fn method_name(method: &Method) -> &'static str {
    match method {
        Method::Mtls => "mtls",
        Method::UserPass(_) => "userpass",
        Method::Header => "header",
    }
}

async fn credentials(method: &Method) -> Result<std::collections::HashMap<String, String>, Error> {
    let Method::UserPass(path) = method else {
        return Ok([].into());
    };
    // Read at each dial, so that a changed password needs no restart.
    let text = tokio::fs::read_to_string(path)
        .await
        .map_err(|source| Error::ReadUser {
            path: path.clone(),
            source,
        })?;
    let line = text.lines().next().unwrap_or_default();
    let (user, password) = line
        .split_once(':')
        .ok_or_else(|| Error::BadUser { path: path.clone() })?;
    Ok([("clientid", user), ("clientsecret", password)]
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer() -> AuthResponse {
        AuthResponse {
            access_token: "a.b.c".to_owned(),
            ..AuthResponse::default()
        }
    }

    #[test]
    fn the_shorter_answer_of_a_go_principal_is_accepted() {
        let welcome = read_answer(answer(), &Capabilities::ours());
        assert_eq!(welcome, Welcome::default());
        assert!(!welcome.capabilities.is_ours());
    }
}
