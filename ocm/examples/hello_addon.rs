//! A whole add-on in one file: a Deployment on every cluster that has it, with a certificate of its
//! own signer.
//!
//! It shows what an author writes and what the SDK does with it. Run it against a hub with
//! `cargo run -p ocm --features sdk --example hello_addon`, after making a `ClusterManagementAddOn`
//! named `hello`; switch it on for a cluster with `clusteradm addon enable --names hello`.

use std::{sync::Arc, time::Duration};

use futures::StreamExt as _;
use ocm::{
    condition::{Verdict, addon},
    name::{AddonName, ClusterName},
    sdk::{
        Addon, Health, HealthInput, HookError, Leaving, Metrics, Registration, Removal,
        RenderError, RenderInput, Rendered, Setup, SigningCa, Target, View, discover, run,
    },
};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use serde_json::json;
use tokio_util::sync::CancellationToken;

const SIGNER: &str = "example.com/hello";

struct Hello {
    name: AddonName,
    ca: Arc<SigningCa>,
}

impl Addon for Hello {
    fn name(&self) -> &AddonName {
        &self.name
    }

    fn registrations(&self, target: Target<'_>) -> Vec<Registration> {
        vec![Registration::custom_signer(SIGNER, &self.name, target.name)]
    }

    fn signing_ca(&self, signer: &str) -> Option<Arc<SigningCa>> {
        (signer == SIGNER).then(|| Arc::clone(&self.ca))
    }

    fn render(&self, input: RenderInput<'_>) -> Result<Rendered, RenderError> {
        let image = input
            .config
            .variable("IMAGE")
            .unwrap_or("example.com/hello:v1");
        let secret = format!("{}-{}-client-cert", self.name, SIGNER.replace('/', "-"));
        let labels = json!({ "app": "hello" });
        let deployment = json!({
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": { "namespace": input.install_namespace, "name": "hello" },
            "spec": {
                "replicas": 1,
                "selector": { "matchLabels": labels },
                "template": {
                    "metadata": { "labels": labels },
                    "spec": {
                        "containers": [{ "name": "hello", "image": image }],
                        "volumes": [{ "name": "identity", "secret": { "secretName": secret } }],
                    },
                },
            },
        });
        Ok(vec![deployment].into())
    }

    fn conditions(&self, input: HealthInput<'_>) -> Health {
        let namespace = input
            .target
            .addon
            .status
            .as_ref()
            .map_or("", |status| &status.namespace);
        let available = match input.deployment_ready(namespace, "hello") {
            Some(true) => Verdict::new(addon::AVAILABLE, true, "Ready", "it says hello"),
            Some(false) => Verdict::new(addon::AVAILABLE, false, "NotReady", "no replica is ready"),
            None => return Health::default(),
        };
        let degraded = Verdict::new(addon::DEGRADED, false, "AsExpected", "");
        Health {
            verdicts: vec![available, degraded],
            recheck: None,
        }
    }

    async fn leaving(&self, leaving: &Leaving) -> Result<Removal, HookError> {
        tracing::info!(cluster = %leaving.cluster, phase = ?leaving.phase, "goodbye");
        Ok(Removal::Proceed)
    }

    async fn left(&self, cluster: &ClusterName) -> Result<(), HookError> {
        tracing::info!(%cluster, "gone");
        Ok(())
    }
}

fn new_ca() -> Result<SigningCa, HookError> {
    let key = KeyPair::generate()?;
    let key_pem = key.serialize_pem();
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, "hello");
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    let certificate = CertifiedIssuer::self_signed(params, key)?.pem();
    Ok(SigningCa::from_pem(&certificate, &key_pem)?)
}

#[tokio::main]
async fn main() -> Result<(), HookError> {
    tracing_subscriber::fmt().with_env_filter("info").init();
    let client = kube::Client::try_default().await?;
    let version = discover(&client).await?;
    let token = CancellationToken::new();
    let setup = Setup {
        client,
        version,
        view: View::new(),
        wake: futures::stream::empty().boxed(),
        token: token.clone(),
        metrics: Metrics::default(),
        concurrency: 8,
    };
    let addon = Arc::new(Hello {
        name: AddonName::new("hello")?,
        ca: Arc::new(new_ca()?),
    });
    let mut running = std::pin::pin!(run(addon, setup));
    tokio::select! {
        ended = &mut running => return Ok(ended?),
        interrupted = tokio::signal::ctrl_c() => interrupted?,
    }
    token.cancel();
    tokio::time::timeout(Duration::from_secs(10), running).await??;
    Ok(())
}
