//! Applications that a tenant writes through the API of the hub, past Argo CD's server.

use anyhow::{Result, ensure};
use kube::api::ListParams;
use lab::{
    audit::Mark,
    product,
    steps::{
        At, Objects,
        deliver::until_healthy,
        enrol::{self, ARGOCD},
    },
};
use serde_json::{Value, json};

use super::{ANN, BOB, body, clear, deploy, greeter, no_user, project, until_blocked, user};
use crate::{
    repositories::secret_of,
    stage::{SOON, Stage, text},
};

/// A further namespace of the hub whose Applications go where their destination points.
const FURTHER: &str = "ann-further";
const CONFLICT: &str = "ArgoCDAgentConflict";
const NOT_ADMITTED: &str = "ArgoCDAgentNotAdmitted";

/// An Application that is not delivered.
struct Case {
    at: At,
    project: &'static str,
    destination: Value,
    /// The condition, and words of its message.
    blocked: (&'static str, &'static str),
}

/// A tenant that may write Applications in its namespaces, and nothing else, cannot deliver to another tenant's cluster, by
/// name, by server or by project, nor beyond its own project. A condition names the reason. Neither its project nor the
/// other's repository reaches the wrong cluster.
pub(crate) async fn tenants_deliver_to_admitted_clusters_only(stage: &Stage) -> Result<()> {
    stage.enrolled(1).await?;
    stage.enrolled(2).await?;
    let (hub, helm) = (&stage.hub, stage.lab.helm());
    let further = format!("argocd.applicationNamespaces={{{FURTHER}}}");
    product::upgrade(&helm, &["--set", &further, "--wait"]).await?;
    hub.apply(&At::namespace(FURTHER), json!({})).await?;
    project(stage, ANN, &["spoke1", FURTHER], ("spoke1", "ann-writes")).await?;
    project(stage, BOB, &["spoke2"], ("spoke2", "*")).await?;
    let ann = user(stage, ANN, &["spoke1", FURTHER]).await?;
    let anns = greeter(stage, ANN, At::application("spoke1", "ann-writes"), 1).await?;
    let bobs = greeter(stage, BOB, At::application("spoke2", "bob-writes"), 2).await?;
    let secret = At::secret(ARGOCD, "bob-writes");
    let bobs_secret = secret_of("https://git.example/bobs", BOB, "of-bobs-repository");
    hub.apply(&secret, bobs_secret).await?;

    let mark = stage.lab.spoke(2).audit().mark()?;
    let cases = cases(stage).await?;
    for case in &cases {
        let mut app = body(&anns);
        app["metadata"] = json!({});
        app["spec"]["project"] = case.project.into();
        app["spec"]["destination"] = case.destination.clone();
        ann.apply(&case.at, app).await?;
        let (kind, words) = case.blocked;
        until_blocked(stage, &case.at, kind, words).await?;
    }
    other_writes_are_forbidden(&ann, &anns).await?;
    // Later deliveries show that the principal has seen all of these.
    deploy(stage, &ann, &anns).await?;
    deploy(stage, hub, &bobs).await?;
    stage.spoke(2).until_there(&secret, SOON).await?;

    nothing_went_astray(stage, &cases, mark, &secret).await?;
    for case in &cases {
        ann.delete(&case.at).await?;
    }
    hub.delete(&secret).await?;
    until_healthy(hub, &bobs.at, "").await?;
    clear(stage, &[(&anns, 1), (&bobs, 2)]).await?;
    no_user(stage, ANN, &["spoke1", FURTHER]).await?;
    hub.delete(&At::namespace(FURTHER)).await?;
    product::upgrade(&helm, &["--wait"]).await.map(drop)
}

/// Each cluster has its tenant's Application, project and Secret only, and spoke2 was asked about none of the others.
async fn nothing_went_astray(stage: &Stage, cases: &[Case], mark: Mark, secret: &At) -> Result<()> {
    for (number, delivered) in [(1, "ann-writes"), (2, "bob-writes")] {
        let all = stage.spoke(number).everywhere(&At::application("", ""));
        let all = all.list(&ListParams::default()).await?.items;
        let names = all.into_iter().filter_map(|it| it.metadata.name);
        let is_wrong = |name: &String| {
            let is_case = cases.iter().any(|case| case.at.name() == name);
            is_case || (["ann-writes", "bob-writes"].contains(&name.as_str()) && name != delivered)
        };
        let wrong: Vec<_> = names.filter(is_wrong).collect();
        ensure!(wrong.is_empty(), "spoke{number} has {wrong:?}");
    }
    let entries = stage.lab.spoke(2).audit().since(mark)?;
    let about = |name: &str| name == ANN || cases.iter().any(|case| case.at.name() == name);
    let asked = entries
        .iter()
        .find(|it| it.object.as_ref().is_some_and(|it| about(&it.name)));
    ensure!(asked.is_none(), "spoke2 was asked: {asked:?}");
    for (number, at) in [
        (1, At::project(ARGOCD, BOB)),
        (2, At::project(ARGOCD, ANN)),
        (1, secret.clone()),
    ] {
        let there = stage.spoke(number).get(&at).await?;
        ensure!(there.is_none(), "spoke{number} has {at}");
    }
    Ok(())
}

async fn cases(stage: &Stage) -> Result<Vec<Case>> {
    let secret = stage.hub.read(&enrol::cluster_secret("spoke2")).await?;
    let server = text(&secret, "server")?;
    let named = |cluster: &str| json!({"name": cluster, "namespace": "ann-writes"});
    let by_url = json!({"server": server, "namespace": "ann-writes"});
    let both = json!({"name": "spoke1", "server": server, "namespace": "ann-writes"});
    let system = |cluster: &str| json!({"name": cluster, "namespace": "kube-system"});
    let case = |namespace, name, project, destination, blocked| Case {
        at: At::application(namespace, name),
        project,
        destination,
        blocked,
    };
    let here =
        |name, project, destination, blocked| case("spoke1", name, project, destination, blocked);
    let further =
        |name, project, destination, blocked| case(FURTHER, name, project, destination, blocked);
    let beyond = (NOT_ADMITTED, "spec.destinations");
    let anothers = (NOT_ADMITTED, "spec.sourceNamespaces");
    Ok(vec![
        here("by-name", ANN, named("spoke2"), (CONFLICT, "spoke2")),
        here(
            "by-server",
            ANN,
            by_url.clone(),
            (CONFLICT, "belongs to cluster"),
        ),
        here("by-both", ANN, both, (CONFLICT, "not the same cluster")),
        here("of-bobs-project", BOB, named("spoke1"), anothers),
        here(
            "of-no-project",
            "nobodys",
            named("spoke1"),
            (NOT_ADMITTED, "no such project"),
        ),
        here("beyond", ANN, system("spoke1"), beyond),
        here("beyond-in-cluster", ANN, system("in-cluster"), beyond),
        further("further-by-name", ANN, named("spoke2"), beyond),
        further("further-by-server", ANN, by_url, beyond),
        further("further-of-bobs-project", BOB, named("spoke2"), anothers),
    ])
}

/// The API of the hub lets the tenant write nothing but Applications in its namespaces.
async fn other_writes_are_forbidden(
    ann: &Objects,
    anns: &lab::steps::deliver::Application,
) -> Result<()> {
    let everywhere = json!({"spec": {"destinations": [{"name": "*", "namespace": "*"}]}});
    for (at, object) in [
        (At::application("spoke2", "new"), body(anns)),
        (At::application(ARGOCD, "new"), body(anns)),
        (At::project(ARGOCD, ANN), everywhere),
        (enrol::cluster_secret("spoke2"), json!({})),
    ] {
        let error = ann.apply(&at, object).await.err();
        let error = error.map(|error| format!("{error:#}")).unwrap_or_default();
        ensure!(error.contains("forbidden"), "{at}: {error:?}");
    }
    Ok(())
}
