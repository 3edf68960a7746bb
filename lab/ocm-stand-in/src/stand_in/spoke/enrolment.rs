//! Gets the agents' own certificate on the hub: requests it, waits for the hub's approval, renews it in time.

use std::{path::Path, time::Duration};

use anyhow::{Context, Result, bail};
use base64::Engine as _;
use jiff::Timestamp;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use kube::{
    Api, Client,
    api::{DynamicObject, PostParams},
    config::AuthInfo,
};
use rand::Rng as _;
use serde_json::json;

use super::Ground;
use crate::{
    client, condition,
    kinds::{
        MANAGED_CLUSTER,
        words::{CLUSTER_NAME, KUBE_SIGNER},
    },
    stand_in::pki::{self, Certificate, Subject},
};

const LOOK_EVERY: Duration = Duration::from_millis(200);

/// The identity of the agents on the hub.
#[derive(Clone)]
pub(super) struct Identity {
    pub(super) agent: String,
    key_pem: String,
    certificate_pem: String,
    certificate: Certificate,
}

impl std::fmt::Debug for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Identity")
            .field("agent", &self.agent)
            .finish_non_exhaustive()
    }
}

impl Identity {
    pub(super) fn auth_info(&self) -> AuthInfo {
        let encode = |pem: &str| base64::engine::general_purpose::STANDARD.encode(pem);
        AuthInfo {
            client_certificate_data: Some(encode(&self.certificate_pem)),
            client_key_data: Some(encode(&self.key_pem).into()),
            ..AuthInfo::default()
        }
    }

    /// How long this certificate should be used.
    pub(super) fn renew_in(&self) -> Duration {
        until_renewal(&self.certificate, Timestamp::now())
    }
}

/// The time until a fifth to a quarter of a certificate's life is left, chosen at random.
pub(super) fn until_renewal(certificate: &Certificate, now: Timestamp) -> Duration {
    let life = certificate.not_after.duration_since(certificate.not_before);
    let percent = rand::rng().random_range(20..=25);
    let renew_at = certificate.not_after - life * percent / 100;
    Duration::try_from(renew_at.duration_since(now)).unwrap_or_default()
}

/// The identity that an earlier run kept, or a new one.
pub(super) async fn identity(ground: &Ground) -> Result<Identity> {
    if let Some(kept) = read(&ground.dir)
        && !kept.renew_in().is_zero()
    {
        return Ok(kept);
    }
    let bootstrap = client::as_identity(&ground.hub, ground.bootstrap.clone())?;
    announce(&bootstrap, &ground.cluster).await?;
    let agent = kept_agent(&ground.dir).unwrap_or_else(|| uuid::Uuid::new_v4().to_string());
    request(&bootstrap, ground, &agent).await
}

/// Requests the next certificate with the present one.
pub(super) async fn renew(ground: &Ground, identity: &Identity) -> Result<()> {
    let hub = client::as_identity(&ground.hub, identity.auth_info())?;
    request(&hub, ground, &identity.agent).await.map(drop)
}

/// Creates the ManagedCluster, not accepted yet, if it is missing.
async fn announce(hub: &Client, cluster: &str) -> Result<()> {
    let object: DynamicObject = serde_json::from_value(json!({
        "apiVersion": MANAGED_CLUSTER.api_version(),
        "kind": MANAGED_CLUSTER.name,
        "metadata": { "name": cluster },
        "spec": { "hubAcceptsClient": false, "leaseDurationSeconds": 60 },
    }))?;
    let api = MANAGED_CLUSTER.all(hub);
    if api
        .get_opt(cluster)
        .await
        .context("look for our ManagedCluster")?
        .is_none()
    {
        condition::tolerate_staleness(api.create(&PostParams::default(), &object).await)?;
    }
    Ok(())
}

fn subject(cluster: &str, agent: &str) -> Subject {
    Subject {
        common_name: format!("system:open-cluster-management:{cluster}:{agent}"),
        organizations: [
            format!("system:open-cluster-management:{cluster}"),
            "system:open-cluster-management:managed-clusters".to_owned(),
        ]
        .into(),
        ..Subject::default()
    }
}

/// Requests a certificate, waits for it without a limit, and keeps it. The key is new each time.
async fn request(hub: &Client, ground: &Ground, agent: &str) -> Result<Identity> {
    let cluster = &ground.cluster;
    let made = pki::request(&subject(cluster, agent), &[])?;
    let api: Api<CertificateSigningRequest> = Api::all(hub.clone());
    let csr = serde_json::from_value(json!({
        "metadata": { "generateName": format!("{cluster}-"), "labels": { CLUSTER_NAME: cluster } },
        "spec": {
            "request": base64::engine::general_purpose::STANDARD.encode(&made.csr_pem),
            "signerName": KUBE_SIGNER,
            "usages": ["digital signature", "key encipherment", "client auth"],
        },
    }))?;
    let created = api
        .create(&PostParams::default(), &csr)
        .await
        .context("ask for our certificate")?;
    let name = created.metadata.name.unwrap_or_default();
    loop {
        let csr = api
            .get(&name)
            .await
            .context("look at our certificate request")?;
        let status = csr.status.unwrap_or_default();
        let conditions = status.conditions.unwrap_or_default();
        if let Some(no) = conditions
            .iter()
            .find(|c| c.type_ == "Denied" || c.type_ == "Failed")
        {
            bail!(
                "the hub refused our certificate: {}",
                no.message.as_deref().unwrap_or("no reason")
            );
        }
        if let Some(certificate) = status.certificate {
            let pem = String::from_utf8(certificate.0).context("a certificate that is not PEM")?;
            return keep(&ground.dir, agent, made.key_pem, pem);
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

fn keep(dir: &Path, agent: &str, key_pem: String, certificate_pem: String) -> Result<Identity> {
    let certificate = Certificate::read(certificate_pem.as_bytes())?;
    std::fs::create_dir_all(dir)?;
    std::fs::write(dir.join("agent-name"), agent)?;
    // One file, so that key and certificate always match.
    let both = dir.join("hub-client.pem");
    let fresh = dir.join("hub-client.pem.new");
    std::fs::write(&fresh, format!("{certificate_pem}\n{key_pem}"))?;
    std::fs::rename(fresh, both)?;
    Ok(Identity {
        agent: agent.to_owned(),
        key_pem,
        certificate_pem,
        certificate,
    })
}

fn kept_agent(dir: &Path) -> Option<String> {
    std::fs::read_to_string(dir.join("agent-name"))
        .ok()
        .filter(|name| !name.is_empty())
}

fn read(dir: &Path) -> Option<Identity> {
    let both = std::fs::read_to_string(dir.join("hub-client.pem")).ok()?;
    let (certificate_pem, key_pem) =
        both.split_at_checked(both.find("-----BEGIN EC PRIVATE KEY")?)?;
    Some(Identity {
        agent: kept_agent(dir)?,
        certificate: Certificate::read(certificate_pem.as_bytes()).ok()?,
        key_pem: key_pem.to_owned(),
        certificate_pem: certificate_pem.to_owned(),
    })
}

/// Waits, without a limit, until the hub accepts the cluster.
pub(super) async fn wait_accepted(hub: &Client, cluster: &str) {
    let api = MANAGED_CLUSTER.all(hub);
    loop {
        if let Ok(Some(known)) = api.get_opt(cluster).await
            && condition::is_true(&known.data, "HubAcceptedManagedCluster")
        {
            return;
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}
