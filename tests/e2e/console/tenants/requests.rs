//! Requests of one tenant's account about another's Application, which is on a cluster of its own.

use anyhow::{Context as _, Result, ensure};
use lab::steps::{At, workload};
use serde_json::{Value, json};

use super::{ANN, Accounts, BOB, about, clear, deploy, greeter, nothing_was_asked, patch, project};
use crate::{console::line::Console, live::PEOPLE, stage::Stage};

/// An Application, as requests name it.
struct Asked<'a> {
    name: &'a str,
    cluster: &'a str,
    project: &'a str,
    pod: (String, String),
}

/// The account of a tenant neither reads nor changes Applications of another tenant, and creates none in its project or
/// for its cluster. Argo CD denies it before anything is asked of the other's cluster.
pub(crate) async fn an_account_reaches_its_own_project_only(stage: &Stage) -> Result<()> {
    let accounts = Accounts::open(stage).await?;
    project(stage, ANN, &["spoke1"], ("spoke1", "*")).await?;
    project(stage, BOB, &["spoke2"], ("spoke2", "*")).await?;
    let anns = greeter(stage, ANN, At::application("spoke1", "ann-asks"), 1).await?;
    let bobs = greeter(stage, BOB, At::application("spoke2", "bob-asks"), 2).await?;
    deploy(stage, &stage.hub, &anns).await?;
    deploy(stage, &stage.hub, &bobs).await?;
    let asked = |name, cluster, project, pod| Asked {
        name,
        cluster,
        project,
        pod,
    };
    let own = asked(
        "ann-asks",
        "spoke1",
        ANN,
        super::pod(stage, &anns, 1).await?,
    );
    let other = asked(
        "bob-asks",
        "spoke2",
        BOB,
        super::pod(stage, &bobs, 2).await?,
    );

    let mark = stage.lab.spoke(2).audit().mark()?;
    for (method, target, body) in reads(&other).into_iter().chain(changes(&other)) {
        // Naming a project decides which error it is, but not whether it is one.
        for project in ["", "&project=ann", "&project=bob"] {
            let target = format!("{target}{project}");
            let (status, text) = accounts.ann.asks(stage, method, &target, &body).await?;
            let wrong_project = status == 400 && text.contains("wrong project");
            ensure!(
                [401, 403, 404].contains(&status) || wrong_project,
                "{method} {target}: {status} {text}"
            );
        }
    }
    only_its_own_is_listed(stage, &accounts.ann).await?;
    let asked = stage.lab.spoke(2).audit().by(PEOPLE, mark)?;
    ensure!(asked.is_empty(), "spoke2 was asked: {asked:#?}");
    nothing_is_created_elsewhere(stage, &accounts.ann).await?;
    // Before it looks at the project, Argo CD asks the API of the destination for its version and kinds.
    nothing_was_asked(stage, 2, mark, |_| true)?;
    stage.until_greets(2, "bob-asks", "hello").await?;

    // The same requests of those who may.
    for (console, app) in [(&accounts.ann, &own), (&accounts.bob, &other)] {
        for (method, target, body) in reads(app) {
            let (status, text) = console.asks(stage, method, &target, &body).await?;
            let is_answered = status == 200 || target.starts_with("/terminal");
            ensure!(is_answered, "{method} {target}: {status} {text}");
        }
    }
    accounts.close(stage).await?;
    clear(stage, &[(&anns, 1), (&bobs, 2)]).await
}

type Request = (&'static str, String, String);

/// Requests of Argo CD's UI that only read, and one for a terminal.
fn reads(app: &Asked<'_>) -> Vec<Request> {
    let Asked {
        name,
        cluster,
        project,
        pod: (pod, uid),
    } = app;
    let here = format!("/api/v1/applications/{name}");
    let all = format!("appNamespace={cluster}");
    let map = about(cluster, name, "ConfigMap");
    let deployment = about(cluster, name, "Deployment");
    let of_pod = format!("{all}&resourceNamespace={name}&resourceName={pod}&resourceUID={uid}");
    let log = format!(
        "{all}&namespace={name}&podName={pod}&container={}&tailLines=1",
        workload::NAME
    );
    let shell = format!(
        "pod={pod}&container={}&appName={name}&appNamespace={cluster}&projectName={project}&namespace={name}",
        workload::NAME
    );
    [
        format!("{here}?{all}"),
        format!("{here}/resource-tree?{all}"),
        format!("{here}/managed-resources?{all}"),
        format!("{here}/manifests?{all}"),
        format!("{here}/events?{all}"),
        format!("{here}/events?{of_pod}"),
        format!("{here}/resource?{map}"),
        format!("{here}/resource/actions?{deployment}"),
        format!("{here}/logs?{log}"),
        format!("/terminal?{shell}"),
    ]
    .map(|target| ("GET", target, String::new()))
    .into()
}

/// Requests that change something.
fn changes(app: &Asked<'_>) -> Vec<Request> {
    let Asked { name, cluster, .. } = app;
    let here = format!("/api/v1/applications/{name}");
    let all = format!("appNamespace={cluster}");
    let map = about(cluster, name, "ConfigMap");
    let deployment = about(cluster, name, "Deployment");
    let merge = "patchType=application/merge-patch%2Bjson";
    let spec = json!({"project": ANN, "destination": {"name": "spoke1", "namespace": name}});
    let sync = json!({"appNamespace": cluster}).to_string();
    vec![
        ("POST", format!("{here}/resource?{map}&{merge}"), patch()),
        (
            "POST",
            format!("{here}/resource/actions?{deployment}"),
            json!("restart").to_string(),
        ),
        ("DELETE", format!("{here}/resource?{map}"), String::new()),
        ("POST", format!("{here}/sync?{all}"), sync),
        (
            "POST",
            format!("{here}/rollback?{all}"),
            json!({"id": 0}).to_string(),
        ),
        ("DELETE", format!("{here}/operation?{all}"), String::new()),
        ("PUT", format!("{here}/spec?{all}"), spec.to_string()),
        ("DELETE", format!("{here}?{all}"), String::new()),
    ]
}

/// Lists show nothing of another tenant, and no cluster.
async fn only_its_own_is_listed(stage: &Stage, console: &Console) -> Result<()> {
    let names = async |list: &str| -> Result<Vec<String>> {
        let list = console.gets(stage, list).await?;
        let all = list["items"].as_array().into_iter().flatten();
        let name = |it: &Value| {
            it["metadata"]["name"]
                .as_str()
                .or_else(|| it["name"].as_str())
                .map(str::to_owned)
        };
        Ok(all.filter_map(name).collect())
    };
    let applications = names("/api/v1/applications").await?;
    ensure!(applications == ["ann-asks"], "{applications:?}");
    for nothing in ["clusters", "projects", "repositories"] {
        let seen = names(&format!("/api/v1/{nothing}")).await?;
        ensure!(seen.is_empty(), "{nothing}: {seen:?}");
    }
    Ok(())
}

/// Argo CD's server accepts no Application in another project, and none for a cluster that the own one does not admit.
async fn nothing_is_created_elsewhere(stage: &Stage, console: &Console) -> Result<()> {
    let secret = stage
        .hub
        .read(&lab::steps::enrol::cluster_secret("spoke2"))
        .await?;
    let server = crate::stage::text(&secret, "server")?;
    let repository = stage.lab.git().repository("ann-asks")?.url();
    let at_spoke1 = json!({"name": "spoke1", "namespace": "ann-asks"});
    let by_name = json!({"name": "spoke2", "namespace": "bob-asks"});
    let by_server = json!({"server": server, "namespace": "bob-asks"});
    for (project, destination, status, words) in [
        (BOB, &at_spoke1, 403, "permission denied"),
        (
            ANN,
            &by_name,
            400,
            "do not match any of the allowed destinations",
        ),
        (
            ANN,
            &by_server,
            400,
            "do not match any of the allowed destinations",
        ),
    ] {
        let spec = json!({
            "project": project,
            "source": {"repoURL": repository, "path": workload::PATH, "targetRevision": "v1"},
            "destination": destination,
        });
        let new = json!({"metadata": {"name": "new", "namespace": "spoke1"}, "spec": spec});
        let create = ("POST", "/api/v1/applications".to_owned(), new);
        let change = "/api/v1/applications/ann-asks/spec?appNamespace=spoke1".to_owned();
        for (method, target, body) in [create, ("PUT", change, spec)] {
            let (seen, text) = console
                .asks(stage, method, &target, &body.to_string())
                .await?;
            ensure!(
                seen == status && text.contains(words),
                "{method} {project} {destination}: {seen} {text}"
            );
        }
    }
    let new = stage.hub.get(&At::application("spoke1", "new")).await?;
    new.is_none().then_some(()).context("it was created")
}
