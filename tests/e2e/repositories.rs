//! Provisions of Applications: repositories with their passwords, GPG keys, known hosts and certificates.

pub(crate) mod revoked;

use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use lab::{
    git::private::{Private, USER},
    product,
    steps::{
        At,
        deliver::{self, Application, SOURCE_UID},
        enrol::{self, ARGOCD},
    },
};
use serde_json::{Value, json};

use crate::stage::{SOON, Stage, commit};

const CONDITION: &str = "ArgoCDAgentRepositoryNotShared";
/// The label of a repository Secret.
const REPOSITORY: &str = "argocd.argoproj.io/secret-type";
const TLS_CERTS: &str = "argocd-tls-certs-cm";
const KNOWN_HOSTS: &str = "argocd-ssh-known-hosts-cm";
const GPG_KEYS: &str = "argocd-gpg-keys-cm";
/// Words that appear nowhere but in Secrets.
const PASSWORD: &str = "canary-correct-horse-battery";
const ROTATED: &str = "canary-staple-was-rotated";

/// A key that signs nothing, so that Argo CD has something real to import.
const GPG_KEY: (&str, &str) = (
    "B831CA0DBB17AF79",
    "-----BEGIN PGP PUBLIC KEY BLOCK-----

mDMEawIE1hYJKwYBBAHaRw8BAQdA1a9sgeOaZlZQtSrH7Gye0C1Ph2pZ7QRwdpiN
BIb0JAC0GXN0b3J5IDxzdG9yeUBleGFtcGxlLm9yZz6IkAQTFggAOBYhBCO+wxyI
78pv91lHxLgxyg27F695BQJrAgTWAhsDBQsJCAcCBhUKCQgLAgQWAgMBAh4BAheA
AAoJELgxyg27F6959UsA/0E2wRFJTZeZW7Q9HNcDX+BVS+9fDzAgz2CDaEdLTKRt
APwPCKCjLuAoLR2s47o1pO1hND68DPEVOEv8R4PpI1HAAg==
=NI+r
-----END PGP PUBLIC KEY BLOCK-----
",
);

pub(crate) fn secret_of(url: &str, project: &str, password: &str) -> Value {
    let data = json!({
        "type": STANDARD.encode("git"),
        "url": STANDARD.encode(url),
        "project": STANDARD.encode(project),
        "username": STANDARD.encode(USER),
        "password": STANDARD.encode(password),
    });
    json!({"metadata": {"labels": {REPOSITORY: "repository"}}, "data": data})
}

/// A repository behind HTTPS and a password is synced, although both password and certificate are on the hub only; a
/// new password is delivered; a revoked Secret is deleted on the spoke.
pub(crate) async fn private_repository_syncs_with_hub_credentials(stage: &Stage) -> Result<()> {
    stage.enrolled(1).await?;
    let name = "private-repository";
    let server = stage.lab.git().private(PASSWORD).await?;
    let mut app = stage.greeter(name, 1).await?;
    app.repository = server.url(&stage.lab.git().repository(name)?);
    let secret = At::secret(ARGOCD, name);
    let certificates = At::config_map(ARGOCD, TLS_CERTS);
    let certificate = json!({"data": {"git.lab": server.certificate()}});
    stage.hub.apply(&certificates, certificate).await?;
    stage
        .hub
        .apply(&secret, secret_of(&app.repository, name, PASSWORD))
        .await?;
    let spoke = stage.spoke(1);
    let replica = spoke.until_there(&secret, SOON).await?;
    ensure!(!replica["metadata"]["annotations"][SOURCE_UID].is_null());
    let has = |map: &Value| map["data"]["git.lab"] == server.certificate();
    spoke
        .until(&certificates, "has the certificate", SOON, has)
        .await?;
    app.apply(&stage.hub).await?;
    until_fetched(stage, &app, "").await?;
    stage.until_greets(1, name, "hello").await?;
    ensure!(server.opened() > 0, "no client used the password");

    rotate(stage, &server, &mut app, &secret).await?;
    nothing_shows(stage).await?;

    stage
        .hub
        .merge(&secret, json!({"data": {"project": null}}))
        .await?;
    spoke.until_gone(&secret, SOON).await?;
    stage
        .hub
        .until(&app.at, "says which Secret is kept back", SOON, |app| {
            names_secret(app, name)
        })
        .await?;
    stage.hub.delete(&secret).await?;
    stage.clear(&app).await?;
    let is_missing = |map: &Value| map["data"]["git.lab"].is_null();
    spoke
        .until(
            &certificates,
            "has the certificate no more",
            SOON,
            is_missing,
        )
        .await?;
    stage.hub.delete(&certificates).await
}

async fn rotate(stage: &Stage, server: &Private, app: &mut Application, secret: &At) -> Result<()> {
    server.change_password(ROTATED);
    let rotated = json!({"data": {"password": STANDARD.encode(ROTATED)}});
    stage.hub.merge(secret, rotated).await?;
    let has = |secret: &Value| secret["data"]["password"] == STANDARD.encode(ROTATED);
    stage
        .spoke(1)
        .until(secret, "has the new password", SOON, has)
        .await?;
    let repository = stage.lab.git().repository(&app.project)?;
    let next = commit(&repository, "good-day", "v2")?;
    "v2".clone_into(&mut app.revision);
    app.apply(&stage.hub).await?;
    until_fetched(stage, app, &next).await
}

/// Waits until it reads Synced and Healthy, and asks for a refresh like a person who sees that it was too early: Argo
/// CD looks at its own volumes and caches when it likes.
async fn until_fetched(stage: &Stage, app: &Application, revision: &str) -> Result<()> {
    let look = || async {
        let seen = stage.hub.read(&app.at).await?;
        let failed = condition(&seen, "ComparisonError").is_some();
        let asked = !seen["metadata"]["annotations"]["argocd.argoproj.io/refresh"].is_null();
        if failed && !asked {
            let refresh = json!({"argocd.argoproj.io/refresh": "hard"});
            let refresh = json!({"metadata": {"annotations": refresh}});
            stage.hub.merge(&app.at, refresh).await?;
        }
        Ok(seen["status"].clone())
    };
    let fits = |status: &Value| {
        status["sync"]["status"] == "Synced"
            && status["health"]["status"] == "Healthy"
            && (revision.is_empty() || status["sync"]["revision"] == revision)
    };
    lab::wait::until_within(2 * SOON, "is Synced and Healthy", look, fits)
        .await
        .map(drop)
}

fn condition<'a>(app: &'a Value, kind: &str) -> Option<&'a Value> {
    app["status"]["conditions"]
        .as_array()?
        .iter()
        .find(|condition| condition["type"] == kind)
}

/// Whether its condition names this Secret.
fn names_secret(app: &Value, secret: &str) -> bool {
    let message = condition(app, CONDITION).and_then(|it| it["message"].as_str());
    message.is_some_and(|message| message.contains(&format!("{ARGOCD}/{secret}")))
}

/// The passwords appear in none of our logs and in no object other than Secrets.
async fn nothing_shows(stage: &Stage) -> Result<()> {
    let encoded = [PASSWORD, ROTATED].map(|word| STANDARD.encode(word));
    let words: Vec<&str> = [PASSWORD, ROTATED]
        .into_iter()
        .chain(encoded.iter().map(String::as_str))
        .collect();
    let mut logs = 0;
    for (cluster, namespace) in [
        (stage.lab.hub(), product::NAMESPACE),
        (&stage.lab.spokes()[0], enrol::AGENT_NAMESPACE),
    ] {
        let dir = cluster.dir().join("pods").join(namespace);
        logs += search(&dir, &words)?;
    }
    ensure!(logs > 1, "only {logs} logs were found");
    for (side, at) in [
        (&stage.hub, At::application("spoke1", "")),
        (stage.spoke(1), At::application(ARGOCD, "")),
        (&stage.hub, At::event("default")),
        (&stage.hub, At::event("spoke1")),
    ] {
        let all = serde_json::to_string(&side.list(&at, "").await?)?;
        ensure!(!words.iter().any(|word| all.contains(word)), "in {at}");
    }
    Ok(())
}

/// Looks for words in all files below a directory; returns how many files there are.
fn search(dir: &Path, words: &[&str]) -> Result<usize> {
    let mut files = 0;
    let entries = std::fs::read_dir(dir).with_context(|| format!("read {}", dir.display()))?;
    for entry in entries.flatten() {
        let path = entry.path();
        if path.is_dir() {
            files += search(&path, words)?;
        } else {
            let text = String::from_utf8_lossy(&std::fs::read(&path)?).into_owned();
            let found = words.iter().find(|word| text.contains(**word));
            ensure!(found.is_none(), "{found:?} is in {}", path.display());
            files += 1;
        }
    }
    Ok(files)
}

/// A Secret without a project stays on the hub, and the Application that needs it says which it is; with a project, or
/// with the setting for the cluster, it goes.
pub(crate) async fn a_secret_without_a_project_is_kept_back_and_named(stage: &Stage) -> Result<()> {
    stage.enrolled(1).await?;
    let name = "kept-back";
    let app = stage.greeter(name, 1).await?;
    let secret = At::secret(ARGOCD, name);
    stage
        .hub
        .apply(&secret, secret_of(&app.repository, "", PASSWORD))
        .await?;
    app.apply(&stage.hub).await?;
    let is_reported = |app: &Value| names_secret(app, name);
    let unreported = |app: &Value| condition(app, CONDITION).is_none();
    stage
        .hub
        .until(&app.at, "says which Secret is kept back", SOON, is_reported)
        .await?;
    ensure!(stage.spoke(1).get(&secret).await?.is_none(), "it went");

    let shares = enrol::with_variable(&stage.hub, "spoke1", "SHARE_UNSCOPED_REPOSITORIES", "true");
    shares.await?;
    stage.spoke(1).until_there(&secret, SOON).await?;
    stage
        .hub
        .until(&app.at, "has no such condition", SOON, unreported)
        .await?;
    enrol::without_variables(&stage.hub, "spoke1").await?;
    stage.spoke(1).until_gone(&secret, SOON).await?;

    let scoped = json!({"data": {"project": STANDARD.encode(name)}});
    stage.hub.merge(&secret, scoped).await?;
    stage.spoke(1).until_there(&secret, SOON).await?;
    stage
        .hub
        .until(&app.at, "has no such condition", SOON, unreported)
        .await?;
    stage.hub.delete(&secret).await?;
    stage.spoke(1).until_gone(&secret, SOON).await?;
    stage.clear(&app).await
}

/// A project that loses a cluster takes its Secrets along, a Secret of the spoke's own is neither overwritten nor
/// deleted, and an edit of the hub's is undone.
pub(crate) async fn a_secret_follows_its_project_and_spares_the_spokes_own(
    stage: &Stage,
) -> Result<()> {
    stage.enrolled(1).await?;
    let name = "follows-project";
    let app = stage.greeter(name, 1).await?;
    app.apply(&stage.hub).await?;
    let (secret, own) = (At::secret(ARGOCD, name), At::secret(ARGOCD, "follows-own"));
    let spoke = stage.spoke(1);
    spoke
        .apply(&own, json!({"stringData": {"password": "the-spokes-own"}}))
        .await?;
    let before = spoke.read(&own).await?["data"].clone();
    let wanted = secret_of(&app.repository, name, PASSWORD);
    stage.hub.apply(&own, wanted.clone()).await?;
    let refused = |app: &Value| names_secret(app, "follows-own");
    stage
        .hub
        .until(&app.at, "says which Secret was refused", SOON, refused)
        .await?;
    stage.hub.apply(&secret, wanted).await?;
    spoke.until_there(&secret, SOON).await?;
    let unreported = |app: &Value| condition(app, CONDITION).is_none();
    stage
        .hub
        .until(&app.at, "has no such condition", SOON, unreported)
        .await?;
    let edit = json!({"data": {"password": STANDARD.encode("edited")}});
    spoke.merge(&secret, edit).await?;
    let has = |secret: &Value| secret["data"]["password"] == STANDARD.encode(PASSWORD);
    spoke
        .until(&secret, "has the hub's password again", SOON, has)
        .await?;

    let project = At::project(ARGOCD, name);
    let away = json!({"spec": {"destinations": [{"name": "spoke2", "namespace": "*"}]}});
    stage.hub.merge(&project, away).await?;
    spoke.until_gone(&secret, SOON).await?;
    ensure!(spoke.read(&own).await?["data"] == before, "it was touched");
    deliver::allow(&stage.hub, name, "spoke1").await?;
    spoke.until_there(&secret, SOON).await?;
    for at in [&secret, &own] {
        stage.hub.delete(at).await?;
    }
    spoke.until_gone(&secret, SOON).await?;
    ensure!(spoke.read(&own).await?["data"] == before, "it was touched");
    spoke.delete(&own).await?;
    stage.clear(&app).await
}

/// GPG keys, and known hosts of hosts that are used, are put beside those of the spoke and go again alone.
pub(crate) async fn keys_are_put_beside_the_spokes_own_and_go_again(stage: &Stage) -> Result<()> {
    stage.enrolled(1).await?;
    let app = stage.greeter("keys", 1).await?;
    app.apply(&stage.hub).await?;
    let (gpg, ssh) = (
        At::config_map(ARGOCD, GPG_KEYS),
        At::config_map(ARGOCD, KNOWN_HOSTS),
    );
    let spoke = stage.spoke(1);
    let known = |map: &Value| map["data"]["ssh_known_hosts"].as_str().map(str::to_owned);
    let before = known(&spoke.read(&ssh).await?).context("Argo CD brings known hosts")?;
    let local = json!({"data": {"LOCAL": "of the spoke"}});
    spoke.merge(&gpg, local).await?;

    let (id, key) = GPG_KEY;
    stage.hub.apply(&gpg, json!({"data": {id: key}})).await?;
    let used =
        "git.lab ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGhvc3Qta2V5LW9mLXRoZS1zdG9yeS1pbi10aGUtbGFi";
    let lines = format!("{used}\nunused.example ssh-ed25519 AAAA\n");
    stage
        .hub
        .apply(&ssh, json!({"data": {"ssh_known_hosts": lines}}))
        .await?;
    let both = |map: &Value| map["data"][id] == key && map["data"]["LOCAL"] == "of the spoke";
    spoke.until(&gpg, "has both keys", SOON, both).await?;
    let has = |map: &Value| known(map).is_some_and(|text| text.contains(used));
    let now = spoke.until(&ssh, "has the host's key", SOON, has).await?;
    let now = known(&now).unwrap_or_default();
    ensure!(
        now.starts_with(&before) && !now.contains("unused.example"),
        "{now}"
    );

    // A ConfigMap that was deleted on the spoke is recreated with the hub's keys.
    spoke.delete(&gpg).await?;
    let again = |map: &Value| map["data"][id] == key;
    spoke
        .until(&gpg, "has the hub's key again", SOON, again)
        .await?;
    spoke
        .merge(&gpg, json!({"data": {"LOCAL": "of the spoke"}}))
        .await?;

    stage.hub.delete(&gpg).await?;
    stage.hub.delete(&ssh).await?;
    let alone = |map: &Value| map["data"] == json!({"LOCAL": "of the spoke"});
    spoke
        .until(&gpg, "has its own key only", SOON, alone)
        .await?;
    let as_before = |map: &Value| known(map).as_deref().map(str::trim) == Some(before.trim());
    spoke
        .until(&ssh, "has its own hosts only", SOON, as_before)
        .await?;
    spoke.merge(&gpg, json!({"data": null})).await?;
    stage.clear(&app).await
}
