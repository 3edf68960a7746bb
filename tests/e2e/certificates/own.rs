//! A CA of the user replaces the CA of the add-on, and the other way round.

use anyhow::{Context as _, Result, ensure};
use argocd::keys::addon::AGENT_TRUST;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use lab::{
    product,
    raw_client::{RawClient, agent_name},
    steps::{
        At,
        enrol::{AGENT_NAMESPACE, until_available},
        objects::has_condition,
    },
};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, PKCS_RSA_SHA256,
};
use serde_json::{Value, json};

use super::{ROTATE, ROTATION, SINCE, Traffic, ca, is_signed_by, leaf};
use crate::stage::{Stage, text};

const UNIT: &str = "argocd-agent.open-cluster-management.io/ca-unit";
const MANAGED_BY: &str = "app.kubernetes.io/managed-by";

/// A CA below a root, with the keys that cert-manager makes by default: RSA, written as PKCS#1.
struct Theirs {
    root: String,
    certificate: String,
    key: String,
}

impl Theirs {
    fn new() -> Result<Self> {
        let root = params("root of a user");
        let root_key = KeyPair::generate_for(&PKCS_RSA_SHA256)?;
        let root_pem = root.self_signed(&root_key)?.pem();
        let issuer = Issuer::new(root, root_key);
        let key = KeyPair::generate_for(&PKCS_RSA_SHA256)?;
        let certificate = params("CA of a user").signed_by(&key, &issuer)?.pem();
        Ok(Self {
            root: root_pem,
            certificate,
            key: pkcs1(&key)?,
        })
    }

    /// Whether a Secret has a certificate that this CA signed, with the certificate of the CA behind it.
    fn signed(&self, secret: &Value) -> bool {
        let Ok(chain) = text(secret, "tls.crt") else {
            return false;
        };
        chain.contains(self.certificate.trim())
            && is_signed_by(&chain, &self.certificate).is_ok_and(|it| it)
    }
}

fn params(name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![
        KeyUsagePurpose::DigitalSignature,
        KeyUsagePurpose::KeyEncipherment,
        KeyUsagePurpose::KeyCertSign,
    ];
    params
}

fn pkcs1(key: &KeyPair) -> Result<String> {
    // The key begins behind the version and the algorithm of PKCS#8, which have always this size for RSA.
    let der = key.serialized_der().get(26..).context("a short key")?;
    let body = STANDARD.encode(der);
    let lines = body.as_bytes().chunks(64).map(String::from_utf8_lossy);
    let lines = lines.collect::<Vec<_>>().join("\n");
    Ok(format!(
        "-----BEGIN RSA PRIVATE KEY-----\n{lines}\n-----END RSA PRIVATE KEY-----\n"
    ))
}

/// Waits until both clusters have a trust that fits.
async fn until_trust(stage: &Stage, what: &str, fits: impl Fn(&str) -> bool) -> Result<()> {
    let trust = At::config_map(AGENT_NAMESPACE, AGENT_TRUST);
    let fits = |map: &Value| map["data"]["ca.crt"].as_str().is_some_and(&fits);
    for number in [1, 2] {
        let spoke = stage.spoke(number);
        spoke.until(&trust, what, ROTATION, fits).await?;
    }
    Ok(())
}

/// A user's RSA CA below a root takes over without a lost change, an agent needs the root alone, and a rotation returns to
/// a CA of the add-on.
pub(crate) async fn an_rsa_ca_of_a_user_takes_over_and_is_replaced(stage: &Stage) -> Result<()> {
    stage.enrolled(1).await?;
    stage.enrolled(2).await?;
    let mut traffic = Traffic::begin(stage, "own-ca", 1).await?;
    let (hub, theirs) = (&stage.hub, Theirs::new()?);
    let ours = text(&hub.read(&ca()).await?, "tls.crt")?;
    let (ours, root) = (ours.trim(), theirs.root.trim());

    let introduced = json!({
        "metadata": {"labels": {MANAGED_BY: null}},
        "stringData": {"ca.crt": format!("{ours}\n{root}\n")},
    });
    hub.merge(&ca(), introduced).await?;
    until_trust(stage, "has the root", |trust| trust.contains(root)).await?;
    let switched = json!({
        "metadata": {"annotations": {UNIT: "ca-of-a-user"}},
        "stringData": {"tls.crt": theirs.certificate, "tls.key": theirs.key},
    });
    hub.merge(&ca(), switched).await?;
    let signed = |secret: &Value| theirs.signed(secret);
    let serving = At::secret(product::NAMESPACE, "argocd-agent-principal-tls");
    let what = "is of the user's CA";
    hub.until(&serving, what, ROTATION, signed).await?;
    for number in [1, 2] {
        let spoke = stage.spoke(number);
        spoke.until(&leaf(), what, ROTATION, signed).await?;
    }
    traffic.change().await?;
    let retired = json!({"stringData": {"ca.crt": theirs.root}});
    hub.merge(&ca(), retired).await?;
    until_trust(stage, "has the root alone", |trust| !trust.contains(ours)).await?;
    traffic.change().await?;

    let (door, forger) = stage.door().await?;
    let credentials = forger.issue(&agent_name("spoke1"), &[], time::Duration::days(1))?;
    let authority = theirs.root.clone();
    let door = RawClient { authority, ..door };
    let version = door.version(&credentials).await;
    version.context("an agent that trusts the root connects")?;
    for cluster in ["spoke1", "spoke2"] {
        let addon = until_available(hub, cluster).await?;
        ensure!(!has_condition(&addon, "Degraded", "True", ""), "{addon:#}");
    }

    let returned = json!({"metadata": {
        "labels": {MANAGED_BY: "argocd-agent-addon-manager"},
        "annotations": {ROTATE: "away from the user's CA"},
    }});
    hub.merge(&ca(), returned).await?;
    let is_settled = |secret: &Value| {
        let pem = text(secret, "ca.crt").unwrap_or_default();
        secret["metadata"]["annotations"][SINCE].is_null() && !pem.contains(root)
    };
    let what = "has dropped the user's CA";
    hub.until(&ca(), what, ROTATION, is_settled).await?;
    traffic.end().await
}
