//! The spoke owns its Applications: they are shown on the hub, and commands come from there.

use anyhow::{Result, ensure};
use lab::{
    peers::{Make, Pair},
    steps::{At, deliver},
};
use serde_json::{Value, json};

use super::{PROJECT, SOON, SOURCE_UID};

const REFRESH: &str = "argocd.argoproj.io/refresh";
/// Of a role of the project on the cluster.
const POLICY: &str = "p, proj:team:dev, applications, sync, team/*, allow";

/// An Application of the spoke and its mirror.
struct Mirrored {
    spoke: At,
    hub: At,
}

impl Mirrored {
    fn new(pair: &Pair, name: &str) -> Self {
        Self {
            spoke: At::application(&pair.names.spoke, name),
            hub: At::application(&pair.names.agent, name),
        }
    }

    /// Makes it on the spoke and waits for the mirror; returns source and mirror.
    async fn show(&self, pair: &Pair) -> Result<(Value, Value)> {
        let body = json!({
            // A Go agent fails to ask for a refresh where there are no annotations at all.
            "metadata": {"labels": {"team": "a"}, "annotations": {"note": "old"}},
            "spec": {
                "project": PROJECT,
                "source": {
                    "repoURL": "https://git.example/r.git", "path": "a&b<c>", "targetRevision": "v1",
                },
                "destination": {"server": "https://kubernetes.default.svc", "namespace": "guestbook"},
                "syncPolicy": {"syncOptions": ["CreateNamespace=true"]},
            },
        });
        let source = pair.spoke.apply(&self.spoke, body).await?;
        let mirror = self.until_revision(pair, "v1").await?;
        Ok((source, mirror))
    }

    async fn set_revision(&self, pair: &Pair, revision: &str) -> Result<()> {
        let patch = json!({"spec": {"source": {"targetRevision": revision}}});
        pair.spoke.merge(&self.spoke, patch).await.map(drop)
    }

    async fn until_revision(&self, pair: &Pair, revision: &str) -> Result<Value> {
        let what = format!("shows {revision}");
        let fits = |app: &Value| app["spec"]["source"]["targetRevision"] == revision;
        pair.hub.until(&self.hub, &what, SOON, fits).await
    }

    async fn set_health(&self, pair: &Pair, health: &str) -> Result<()> {
        let patch = json!({"status": {"sync": {"status": "Synced"}, "health": {"status": health}}});
        pair.spoke.merge(&self.spoke, patch).await.map(drop)
    }

    async fn until_health(&self, pair: &Pair, health: &str) -> Result<Value> {
        let fits = |app: &Value| app["status"]["health"]["status"] == health;
        let what = format!("shows {health}");
        pair.hub.until(&self.hub, &what, SOON, fits).await
    }

    /// Waits until the spoke is asked to sync and begins it, as the application controller does.
    async fn begin(&self, pair: &Pair, revision: &str) -> Result<()> {
        let asked = |app: &Value| app["operation"]["sync"]["revision"] == revision;
        let asked = pair
            .spoke
            .until(&self.spoke, "is asked to sync", SOON, asked)
            .await?;
        let begin = json!({"operation": null, "status": {"operationState": {
            "operation": asked["operation"], "phase": "Running", "message": null, "finishedAt": null,
            "startedAt": "2026-01-01T00:00:00Z"}}});
        pair.spoke.merge(&self.spoke, begin).await?;
        let running = |app: &Value| app["status"]["operationState"]["phase"] == "Running";
        let what = "shows that the sync runs";
        pair.hub
            .until(&self.hub, what, SOON, running)
            .await
            .map(drop)
    }

    /// Ends the sync on the spoke and waits until the hub shows it, and that nothing is asked for any more.
    async fn end(&self, pair: &Pair, phase: &str, message: &str) -> Result<()> {
        let patch = json!({"status": {"operationState": {
            "phase": phase, "finishedAt": "2026-01-01T00:00:09Z", "message": message}}});
        pair.spoke.merge(&self.spoke, patch).await?;
        let ended = |app: &Value| {
            let state = &app["status"]["operationState"];
            state["phase"] == phase && state["message"] == message && app["operation"].is_null()
        };
        let what = format!("shows that the sync has {phase}");
        pair.hub
            .until(&self.hub, &what, SOON, ended)
            .await
            .map(drop)
    }
}

pub(crate) async fn autonomous_application_is_mirrored_and_updated(pair: &mut Pair) -> Result<()> {
    let app = Mirrored::new(pair, "app");
    let (source, mirror) = app.show(pair).await?;
    let agent = pair.names.agent.clone();
    ensure!(
        mirror["metadata"]["annotations"][SOURCE_UID] == source["metadata"]["uid"],
        "{mirror:#}"
    );
    ensure!(
        mirror["spec"]["project"] == format!("{agent}-{PROJECT}"),
        "{mirror:#}"
    );
    ensure!(
        mirror["spec"]["destination"] == json!({"name": agent, "namespace": "guestbook"}),
        "{mirror:#}"
    );
    app.set_health(pair, "Progressing").await?;
    app.until_health(pair, "Progressing").await?;
    let patch = json!({
        "metadata": {"labels": {"team": "b"}, "annotations": {"note": "new"}},
        "spec": {"source": {"targetRevision": "v2"}, "syncPolicy": null},
    });
    pair.spoke.merge(&app.spoke, patch).await?;
    let mirror = app.until_revision(pair, "v2").await?;
    ensure!(mirror["metadata"]["labels"] == json!({"team": "b"}));
    ensure!(mirror["metadata"]["annotations"]["note"] == "new");
    ensure!(mirror["spec"]["syncPolicy"].is_null(), "{mirror:#}");
    ensure!(mirror["status"]["health"]["status"] == "Progressing");

    pair.spoke.delete(&app.spoke).await?;
    pair.hub.until_gone(&app.hub, SOON).await?;
    app.show(pair).await.map(drop)
}

pub(crate) async fn mirror_edits_and_deletions_are_reverted(pair: &mut Pair) -> Result<()> {
    let app = Mirrored::new(pair, "app");
    app.show(pair).await?;
    let edit = json!({"spec": {"source": {"targetRevision": "theirs"}}});
    pair.hub.merge(&app.hub, edit).await?;
    let mirror = app.until_revision(pair, "v1").await?;
    pair.hub.delete(&app.hub).await?;
    let again = |app: &Value| !app.is_null() && app["metadata"]["uid"] != mirror["metadata"]["uid"];
    pair.hub
        .until(&app.hub, "is made again", SOON, again)
        .await?;
    let source = pair.spoke.read(&app.spoke).await?;
    ensure!(source["metadata"]["deletionTimestamp"].is_null());
    ensure!(source["spec"]["source"]["targetRevision"] == "v1");
    // The recreated mirror is updated as before.
    app.set_health(pair, "Healthy").await?;
    app.until_health(pair, "Healthy").await.map(drop)
}

pub(crate) async fn a_sync_asked_for_at_a_mirror_runs_once(pair: &mut Pair) -> Result<()> {
    let app = Mirrored::new(pair, "app");
    app.show(pair).await?;
    for revision in ["one", "two"] {
        deliver::ask_for_sync(&pair.hub, &app.hub, revision).await?;
        app.begin(pair, revision).await?;
        app.end(pair, "Succeeded", revision).await?;
    }
    // No later message may restore an operation.
    app.set_revision(pair, "v2").await?;
    app.until_revision(pair, "v2").await?;
    let source = pair.spoke.read(&app.spoke).await?;
    ensure!(source["operation"].is_null(), "{source:#}");
    Ok(())
}

pub(crate) async fn a_running_sync_is_terminated_at_a_mirror(pair: &mut Pair) -> Result<()> {
    let app = Mirrored::new(pair, "app");
    app.show(pair).await?;
    deliver::ask_for_sync(&pair.hub, &app.hub, "one").await?;
    app.begin(pair, "one").await?;
    let terminate = json!({"status": {"operationState": {"phase": "Terminating"}}});
    pair.hub.merge(&app.hub, terminate).await?;
    let is_terminating = |app: &Value| app["status"]["operationState"]["phase"] == "Terminating";
    pair.spoke
        .until(&app.spoke, "is asked to terminate", SOON, is_terminating)
        .await?;
    app.end(pair, "Failed", "Operation terminated").await
}

pub(crate) async fn a_refresh_asked_for_at_a_mirror_is_done(pair: &mut Pair) -> Result<()> {
    let app = Mirrored::new(pair, "app");
    app.show(pair).await?;
    let ask = json!({"metadata": {"annotations": {REFRESH: "hard"}}});
    pair.hub.merge(&app.hub, ask).await?;
    let asked = |app: &Value| app["metadata"]["annotations"][REFRESH] == "hard";
    pair.spoke
        .until(&app.spoke, "is asked to refresh", SOON, asked)
        .await?;
    let patch = json!({
        "metadata": {"annotations": {REFRESH: null}},
        "status": {"reconciledAt": "2026-01-01T00:00:01Z",
            "sync": {"status": "Synced"}, "health": {"status": "Healthy"}},
    });
    pair.spoke.merge(&app.spoke, patch).await?;
    let done = |app: &Value| {
        app["metadata"]["annotations"][REFRESH].is_null()
            && app["status"]["reconciledAt"] == "2026-01-01T00:00:01Z"
    };
    pair.hub
        .until(&app.hub, "shows that the refresh is done", SOON, done)
        .await
        .map(drop)
}

pub(crate) async fn a_project_of_the_spoke_is_shown_and_goes(pair: &mut Pair) -> Result<()> {
    let agent = pair.names.agent.clone();
    let there = At::project(&pair.names.spoke, "team");
    let here = At::project(&pair.names.hub, &format!("{agent}-team"));
    let body = json!({"spec": {
        "description": "first",
        "sourceRepos": ["*"],
        "destinations": [{"name": "in-cluster", "server": "*", "namespace": "guestbook"}],
        "roles": [{
            "name": "dev",
            "policies": [POLICY],
        }],
    }});
    pair.spoke.apply(&there, body).await?;
    let shown = pair.hub.until_there(&here, SOON).await?;
    ensure!(
        shown["spec"]["sourceNamespaces"] == json!([agent]),
        "{shown:#}"
    );
    ensure!(
        shown["spec"]["destinations"][0]["name"] == agent,
        "{shown:#}"
    );
    let policy = shown["spec"]["roles"][0]["policies"][0].to_string();
    let is_translated = policy.contains(&format!("proj:{agent}-team:dev"))
        && policy.contains(&format!("{agent}-team/{agent}/*"));
    // A Go principal up to 0.9 leaves the roles as they are on the cluster; its later versions and ours translate them.
    let is_left = pair.pairing.principal == Make::Go && policy == format!("{POLICY:?}");
    ensure!(is_translated || is_left, "{policy}");
    pair.spoke
        .merge(&there, json!({"spec": {"description": "second"}}))
        .await?;
    let second = |project: &Value| project["spec"]["description"] == "second";
    pair.hub.until(&here, "follows", SOON, second).await?;
    pair.hub
        .merge(&here, json!({"spec": {"description": "theirs"}}))
        .await?;
    pair.hub.until(&here, "is reverted", SOON, second).await?;
    pair.spoke.delete(&there).await?;
    pair.hub.until_gone(&here, SOON).await
}

/// Four Applications: one is going to change, one to go, one to come, and of one only the health changes.
struct Four {
    changing: Mirrored,
    going: Mirrored,
    coming: Mirrored,
    staying: Mirrored,
}

impl Four {
    async fn show(pair: &Pair) -> Result<Self> {
        let four = Self {
            changing: Mirrored::new(pair, "changing"),
            going: Mirrored::new(pair, "going"),
            coming: Mirrored::new(pair, "coming"),
            staying: Mirrored::new(pair, "staying"),
        };
        for app in [&four.changing, &four.going, &four.staying] {
            app.show(pair).await?;
        }
        Ok(four)
    }

    /// Changes on the spoke while both ends are disconnected.
    async fn meanwhile(&self, pair: &Pair) -> Result<()> {
        self.changing.set_revision(pair, "v2").await?;
        pair.spoke.delete(&self.going.spoke).await?;
        let like = pair.spoke.read(&self.staying.spoke).await?;
        let body = json!({"spec": like["spec"]});
        pair.spoke.apply(&self.coming.spoke, body).await?;
        self.staying.set_health(pair, "Degraded").await
    }

    /// Both sides agree, and later changes are mirrored.
    async fn agreed(&self, pair: &Pair) -> Result<()> {
        self.changing.until_revision(pair, "v2").await?;
        self.coming.until_revision(pair, "v1").await?;
        pair.hub.until_gone(&self.going.hub, SOON).await?;
        self.staying.until_health(pair, "Degraded").await?;
        for app in [&self.changing, &self.coming, &self.staying] {
            app.set_revision(pair, "v3").await?;
            app.until_revision(pair, "v3").await?;
        }
        Ok(())
    }
}

pub(crate) async fn restarted_principal_restores_the_mirrors(pair: &mut Pair) -> Result<()> {
    let four = Four::show(pair).await?;
    pair.principal.kill().await;
    four.meanwhile(pair).await?;
    let edit = json!({"spec": {"source": {"path": "theirs"}}});
    pair.hub.merge(&four.staying.hub, edit).await?;
    pair.start_principal().await?;
    four.agreed(pair).await?;
    let mirror = pair.hub.read(&four.staying.hub).await?;
    ensure!(mirror["spec"]["source"]["path"] == "a&b<c>", "{mirror:#}");
    Ok(())
}

pub(crate) async fn restarted_agent_reports_its_objects(pair: &mut Pair) -> Result<()> {
    let four = Four::show(pair).await?;
    pair.agent.kill().await;
    four.meanwhile(pair).await?;
    pair.start_agent().await?;
    four.agreed(pair).await
}
