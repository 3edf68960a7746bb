//! Certificates rotate under traffic: client certificates, the CA, the serving certificate; and revocation.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use lab::{
    product,
    raw_client::{Credentials, Forger, agent_name},
    steps::{
        ADDON, At, Objects,
        deliver::{self, Application},
        enrol::{AGENT_NAMESPACE, CERTIFICATE, until_available},
        objects::{condition, has_condition},
    },
    wait,
};
use serde_json::{Value, json};

use crate::stage::{SOON, Stage, text};

pub(crate) mod interrupted;
pub(crate) mod own;
pub(crate) mod token_key;

const ROTATE: &str = "argocd-agent.open-cluster-management.io/rotate";
const SINCE: &str = "argocd-agent.open-cluster-management.io/rotating-since";
const REVOKED: &str = "argocd-agent.open-cluster-management.io/revoked";
const REKEY: &str = "argocd-agent.open-cluster-management.io/rekey";

/// The kubelets of two clusters carry a bundle to the pods, the registration agents get new certificates.
const ROTATION: Duration = Duration::from_mins(4);
/// OCM's registration agent looks at its Secrets every five minutes.
const RENEWAL: Duration = Duration::from_mins(7);

fn ca() -> At {
    At::secret(product::NAMESPACE, "argocd-agent-ca")
}

fn leaf() -> At {
    At::secret(AGENT_NAMESPACE, CERTIFICATE)
}

/// An Application that keeps changing on the hub; each change has to reach the spoke.
struct Traffic<'a> {
    stage: &'a Stage,
    app: Application,
    number: usize,
    changes: usize,
}

impl<'a> Traffic<'a> {
    async fn begin(stage: &'a Stage, name: &str, number: usize) -> Result<Self> {
        let app = stage.greeter(name, number).await?;
        app.apply(&stage.hub).await?;
        deliver::until_healthy(&stage.hub, &app.at, "").await?;
        Ok(Self {
            stage,
            app,
            number,
            changes: 0,
        })
    }

    /// One change on the hub arrives.
    async fn change(&mut self) -> Result<()> {
        self.changes += 1;
        let value = self.changes.to_string();
        let label = json!({"metadata": {"labels": {"e2e.example.org/change": value}}});
        self.stage.hub.merge(&self.app.at, label).await?;
        let replica = Stage::replica(&self.app.project);
        let here = |app: &Value| app["metadata"]["labels"]["e2e.example.org/change"] == *value;
        self.stage
            .spoke(self.number)
            .until(&replica, &format!("has change {value}"), SOON, here)
            .await
            .map(drop)
    }

    async fn end(mut self) -> Result<()> {
        self.change().await?;
        self.stage.clear(&self.app).await
    }
}

/// Our processes and how often each was started.
async fn processes(stage: &Stage) -> Result<Vec<(Value, Value)>> {
    let manager = (&stage.hub, product::NAMESPACE, product::MANAGER);
    let agents = [1, 2].map(|number| (stage.spoke(number), AGENT_NAMESPACE, "argocd-agent-agent"));
    let mut all = Vec::new();
    for (objects, namespace, name) in [manager].into_iter().chain(agents) {
        let labels = format!("app.kubernetes.io/name={name}");
        for pod in objects.list(&At::pod(namespace, ""), &labels).await? {
            let restarts = pod["status"]["containerStatuses"][0]["restartCount"].clone();
            all.push((pod["metadata"]["uid"].clone(), restarts));
        }
    }
    ensure!(all.len() == 3, "{all:?}");
    Ok(all)
}

async fn annotate(hub: &Objects, at: &At, key: &str, value: Value) -> Result<()> {
    let patch = json!({"metadata": {"annotations": {key: value}}});
    hub.merge(at, patch).await.map(drop)
}

/// The CA rotates twice while Applications change: no change is lost, no process restarts, and the principal rejects
/// certificates of the old CA afterwards.
pub(crate) async fn ca_rotates_twice_without_interruption(stage: &Stage) -> Result<()> {
    stage.enrolled(1).await?;
    stage.enrolled(2).await?;
    let mut one = Traffic::begin(stage, "rotated-one", 1).await?;
    let mut two = Traffic::begin(stage, "rotated-two", 2).await?;
    let before = processes(stage).await?;
    for round in ["first", "second"] {
        let (_, old) = stage.door().await?;
        let credentials = old.issue(&agent_name("spoke1"), &[], time::Duration::days(1))?;
        let was = stage.hub.read(&ca()).await?;
        let leaves = leaves(stage).await?;
        annotate(&stage.hub, &ca(), ROTATE, json!(round)).await?;
        let is_new = |secret: &Value| secret["data"]["tls.crt"] != was["data"]["tls.crt"];
        one.change().await?;
        let what = "signs with the new CA";
        stage.hub.until(&ca(), what, ROTATION, is_new).await?;
        two.change().await?;
        let is_settled = |secret: &Value| secret["metadata"]["annotations"][SINCE].is_null();
        let what = "has dropped the old CA";
        let settled = stage.hub.until(&ca(), what, ROTATION, is_settled).await?;
        one.change().await?;
        two.change().await?;

        ensure!(is_new(&settled) && text(&settled, "ca.crt")? == text(&settled, "tls.crt")?);
        ensure!(
            settled["data"]["next.key"].is_null(),
            "the next CA's key is left"
        );
        let now = self::leaves(stage).await?;
        ensure!(leaves.iter().zip(&now).all(|(was, now)| was != now));
        let (door, _) = stage.door().await?;
        let look = || async {
            let refused = door.version(&credentials).await.err();
            Ok(refused.map_or_else(String::new, |it| format!("{it:#}")))
        };
        let what = format!("{round}: certificates of the old CA are rejected");
        // The alert comes from the principal, so it serves.
        wait::until(&what, look, |error| error.contains("fatal alert")).await?;
    }
    let serving = At::secret(product::NAMESPACE, "argocd-agent-principal-tls");
    let serving = text(&stage.hub.read(&serving).await?, "tls.crt")?;
    let authority = text(&stage.hub.read(&ca()).await?, "tls.crt")?;
    ensure!(
        is_signed_by(&serving, &authority)?,
        "the principal serves with another CA"
    );
    let after = processes(stage).await?;
    ensure!(before == after, "restarted: {before:?} {after:?}");
    for cluster in ["spoke1", "spoke2"] {
        let addon = until_available(&stage.hub, cluster).await?;
        ensure!(!has_condition(&addon, "Degraded", "True", ""), "{addon:#}");
    }
    one.end().await?;
    two.end().await
}

/// The agents' certificates as they lie on the spokes.
async fn leaves(stage: &Stage) -> Result<Vec<String>> {
    let mut all = Vec::new();
    for number in [1, 2] {
        all.push(text(&stage.spoke(number).read(&leaf()).await?, "tls.crt")?);
    }
    Ok(all)
}

fn is_signed_by(leaf: &str, authority: &str) -> Result<bool> {
    let parse =
        |pem: &str| -> Result<_> { Ok(x509_parser::pem::parse_x509_pem(pem.as_bytes())?.1) };
    let (leaf, authority) = (parse(leaf)?, parse(authority)?);
    let (leaf, authority) = (leaf.parse_x509()?, authority.parse_x509()?);
    Ok(leaf.verify_signature(Some(authority.public_key())).is_ok())
}

/// The Secret with the agent's certificate changes twenty times, each certificate valid for seconds only, while
/// Applications change: the agent reloads each one, and no change is lost.
pub(crate) async fn frequent_certificate_renewal_loses_no_change(stage: &Stage) -> Result<()> {
    stage.enrolled(1).await?;
    stage.enrolled(2).await?;
    let spoke = stage.spoke(1);
    let kept = spoke.read(&leaf()).await?["data"].clone();
    let mut traffic = Traffic::begin(stage, "rewritten", 1).await?;
    let before = processes(stage).await?;
    let (_, forger) = stage.door().await?;
    for _ in 0..20 {
        let credentials = short_lived(&forger, "spoke1", time::Duration::seconds(20))?;
        write(spoke, &credentials).await?;
        traffic.change().await?;
    }
    spoke.merge(&leaf(), json!({"data": kept})).await?;
    traffic.change().await?;
    let after = processes(stage).await?;
    ensure!(before == after, "restarted: {before:?} {after:?}");
    until_available(&stage.hub, "spoke1").await?;
    traffic.end().await
}

fn short_lived(forger: &Forger, cluster: &str, life: time::Duration) -> Result<Credentials> {
    let group = format!("system:open-cluster-management:cluster:{cluster}:addon:{ADDON}");
    let all = format!("system:open-cluster-management:addon:{ADDON}");
    forger.issue_from(&agent_name(cluster), &[&group, &all], -life / 20, life)
}

async fn write(spoke: &Objects, credentials: &Credentials) -> Result<()> {
    let data =
        json!({"stringData": {"tls.crt": credentials.certificate, "tls.key": credentials.key}});
    spoke.merge(&leaf(), data).await.map(drop)
}

/// OCM renews a certificate that is about to expire: it sends a CSR, our signer issues, the Secret changes, and the agent
/// reloads it.
pub(crate) async fn a_certificate_is_renewed_through_ocm(stage: &Stage) -> Result<()> {
    stage.enrolled(1).await?;
    let spoke = stage.spoke(1);
    let mut traffic = Traffic::begin(stage, "renewed", 1).await?;
    let (_, forger) = stage.door().await?;
    let group = format!("system:open-cluster-management:cluster:spoke1:addon:{ADDON}");
    let all = format!("system:open-cluster-management:addon:{ADDON}");
    let (since, left) = (time::Duration::days(-20), time::Duration::days(2));
    let old = forger.issue_from(&agent_name("spoke1"), &[&group, &all], since, left)?;
    write(spoke, &old).await?;
    let renewed = |secret: &Value| {
        text(secret, "tls.crt").is_ok_and(|now| !now.is_empty() && now != old.certificate)
    };
    let secret = spoke.until(&leaf(), "is renewed", RENEWAL, renewed).await?;
    let authority = text(&stage.hub.read(&ca()).await?, "tls.crt")?;
    ensure!(is_signed_by(&text(&secret, "tls.crt")?, &authority)?);
    traffic.change().await?;
    until_available(&stage.hub, "spoke1").await?;
    traffic.end().await
}

/// A revoked agent disconnects at once and is rejected with any certificate, while other agents stay connected. With a new
/// key it reconnects, and its old certificate stays rejected.
pub(crate) async fn a_revoked_agent_is_rejected_and_others_stay_connected(
    stage: &Stage,
) -> Result<()> {
    stage.enrolled(1).await?;
    stage.enrolled(2).await?;
    let mut other = Traffic::begin(stage, "undisturbed-by-revocation", 1).await?;
    let mut revoked = Traffic::begin(stage, "revoked", 2).await?;
    let availability = |addon: &Value| condition(addon, "Available").cloned();
    let before = availability(&stage.hub.read(&At::addon("spoke1")).await?);
    let (door, forger) = stage.door().await?;
    let credentials = forger.issue(&agent_name("spoke2"), &[], time::Duration::days(1))?;
    let version = door.version(&credentials).await?;

    let addon = At::addon("spoke2");
    annotate(&stage.hub, &addon, REVOKED, json!("stolen")).await?;
    let look = || async {
        let answer = door
            .authenticate(Some(&credentials), "managed", &version)
            .await?;
        Ok(answer.err().map(|status| status.code()))
    };
    let refused = |code: &Option<tonic::Code>| *code == Some(tonic::Code::Unauthenticated);
    wait::until(
        "a good certificate of a revoked agent is refused",
        look,
        refused,
    )
    .await?;
    let has = |kind: &'static str, status: &'static str, reason: &'static str| {
        move |addon: &Value| has_condition(addon, kind, status, reason)
    };
    let revoked_condition = has("Degraded", "True", "Revoked");
    stage
        .hub
        .until(&addon, "is Degraded", SOON, revoked_condition)
        .await?;
    stage.spoke(2).until_gone(&leaf(), SOON).await?;
    let away = has("Available", "False", "AgentDisconnected");
    stage
        .hub
        .until(&addon, "says that it is away", SOON * 2, away)
        .await?;
    other.change().await?;
    let after = availability(&stage.hub.read(&At::addon("spoke1")).await?);
    ensure!(before == after, "{before:?} {after:?}");

    annotate(&stage.hub, &addon, REKEY, json!("after the theft")).await?;
    annotate(&stage.hub, &addon, REVOKED, Value::Null).await?;
    until_available(&stage.hub, "spoke2").await?;
    revoked.change().await?;
    let answer = door
        .authenticate(Some(&credentials), "managed", &version)
        .await?;
    ensure!(answer.is_err(), "the stolen certificate is good again");
    other.end().await?;
    revoked.end().await
}

/// An expired serving certificate is replaced at once, and open sessions stay connected.
pub(crate) async fn an_expired_serving_certificate_is_replaced(stage: &Stage) -> Result<()> {
    stage.enrolled(1).await?;
    let mut traffic = Traffic::begin(stage, "expired-serving", 1).await?;
    let before = stage.hub.read(&At::addon("spoke1")).await?;
    let (_, forger) = stage.door().await?;
    let old = forger.issue_from(
        "argocd-agent",
        &[],
        time::Duration::days(-90),
        time::Duration::days(-1),
    )?;
    let serving = At::secret(product::NAMESPACE, "argocd-agent-principal-tls");
    let data = json!({"stringData": {"tls.crt": old.certificate, "tls.key": old.key}});
    stage.hub.merge(&serving, data).await?;
    let is_new = |secret: &Value| text(secret, "tls.crt").is_ok_and(|now| now != old.certificate);
    stage
        .hub
        .until(&serving, "is issued again", SOON, is_new)
        .await?;
    traffic.change().await?;
    let (door, forger) = stage.door().await?;
    let credentials = forger.issue(&agent_name("spoke1"), &[], time::Duration::days(1))?;
    door.version(&credentials)
        .await
        .context("the principal serves with a good certificate")?;
    let after = stage.hub.read(&At::addon("spoke1")).await?;
    let available = |addon: &Value| condition(addon, "Available").cloned();
    ensure!(available(&before) == available(&after));
    traffic.end().await
}
