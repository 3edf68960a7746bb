//! An agent without a cluster Secret registers itself, and Argo CD on the hub reaches its cluster with the credentials in
//! the Secret.

use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api, Client, Config,
    api::ListParams,
    config::{KubeConfigOptions, Kubeconfig},
};
use lab::{
    Lab, certs, kubeconfig,
    peers::{Mapping, Pair, prepare},
    steps::{At, Objects},
    wait,
};
use serde_json::{Value, json};

use super::{OURS, counted, disconnected, revoke, works};
use crate::{
    interop::{SOON, finish},
    stage::text,
};

/// The Secret with the certificate of all clusters.
const SHARED: &str = "shared-by-all-clusters";

pub(crate) async fn an_agent_without_a_cluster_secret_registers_itself(
    lab: Arc<Lab>,
) -> Result<()> {
    let mut setting = prepare(&lab, "newcomer", Mapping::Namespace).await?;
    let hub = Objects::new(lab.hub().client());
    hub.delete(&At::secret(&setting.names.hub, "cluster-agent"))
        .await?;
    let made = At::secret(&setting.names.hub, "cluster-newcomer");
    let shared = At::secret(&setting.names.hub, SHARED);
    let (first, next) = ("argo-cd-of-the-hub", "argo-cd-of-the-hub-again");
    let credentials = setting.credentials.of_agent(first)?;
    let authority = setting.credentials.authority().to_owned();
    hub.apply(&shared, body(&credentials, &authority)).await?;
    let credentials = setting.credentials.of_agent(next)?;
    setting.way.principal.extend([
        ("enable-self-cluster-registration", "true".to_owned()),
        ("self-registration-client-cert-secret", SHARED.to_owned()),
        ("resource-proxy-address", "127.0.0.1:9090".to_owned()),
    ]);
    let mut pair = Pair::start_in(&lab, setting, OURS).await?;
    let result = async {
        let secret = pair.hub.read(&made).await?;
        let labels = &secret["metadata"]["labels"];
        ensure!(
            labels["argocd-agent.argoproj-labs.io/self-registered-cluster"] == "true",
            "{labels}"
        );
        works(&mut pair).await?;
        sees(&secret).await?;
        let mut without_token: Value = serde_json::from_str(&text(&secret, "config")?)?;
        without_token["bearerToken"] = Value::Null;
        ensure!(
            visit(&secret, &without_token).await == Err(401),
            "the certificate opens a cluster without the token"
        );
        // Another certificate reaches every cluster Secret, with tokens that belong to it.
        let body = body(&credentials, &authority);
        pair.hub.apply(&shared, body).await?;
        let before = secret["data"]["config"].clone();
        let renewed = |secret: &Value| secret["data"]["config"] != before;
        let secret = pair.hub.until(&made, "is renewed", SOON, renewed).await?;
        sees(&secret).await?;
        is_kept_out_when_it_is_revoked(&pair, &made).await
    };
    let result = result.await;
    finish(pair, result).await
}

/// A revoked agent does not register itself again after its Secret was deleted.
async fn is_kept_out_when_it_is_revoked(pair: &Pair, made: &At) -> Result<()> {
    revoke(pair, Some("cluster.newcomer")).await?;
    pair.hub.delete(made).await?;
    disconnected().await?;
    counted("argocd_principal_refusals_total{reason=\"Revoked\"}").await?;
    ensure!(
        pair.hub.get(made).await?.is_none(),
        "a revoked agent registered itself"
    );
    Ok(())
}

fn body(credentials: &certs::Pair, authority: &str) -> Value {
    json!({"stringData": {
        "tls.crt": credentials.cert, "tls.key": credentials.key, "ca.crt": authority,
    }})
}

/// Waits until Argo CD could reach the cluster with this Secret: a tunnel opens a moment after its session.
async fn sees(secret: &Value) -> Result<()> {
    let config: Value = serde_json::from_str(&text(secret, "config")?)?;
    let look = async || Ok(visit(secret, &config).await);
    wait::until_within(SOON, "the cluster is seen", look, Result::is_ok)
        .await
        .map(drop)
}

/// Lists the cluster's namespaces at the server of this Secret with this configuration; what the API answers if it does not
/// show them, 0 if it cannot be asked.
async fn visit(secret: &Value, config: &Value) -> Result<(), u16> {
    let client = client(secret, config).await.map_err(|_error| 0_u16)?;
    let namespaces: Api<Namespace> = Api::all(client);
    match namespaces.list(&ListParams::default()).await {
        Ok(listed) if !listed.items.is_empty() => Ok(()),
        Err(kube::Error::Api(status)) => Err(status.code),
        Ok(_) | Err(_) => Err(0),
    }
}

/// As Argo CD has it; the query of the server is not sent.
async fn client(secret: &Value, config: &Value) -> Result<Client> {
    let server = text(secret, "server")?;
    let (address, _) = server.split_once('?').context("a query")?;
    let config = kubeconfig::of_cluster_secret(address, None, config);
    let parsed = Kubeconfig::from_yaml(&config.to_string())?;
    let config = Config::from_custom_kubeconfig(parsed, &KubeConfigOptions::default()).await?;
    Ok(Client::try_from(config)?)
}
