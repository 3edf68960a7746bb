//! A tenant that is set up with the commands of `docs/tenants.md`.

use anyhow::{Result, ensure};
use lab::{
    steps::{At, Objects},
    wait,
};
use serde_json::json;

use super::{ANN, BOB, body, clear, deploy, greeter, no_user, set};
use crate::{console::line::Console, reader::Reader, stage::Stage};

const PAGE: &str = "docs/tenants.md";
const NAME: &str = "applications-of-tenants";

/// The commands of the page confine a tenant: its account has its own project, and the API of the hub refuses its
/// Applications for another cluster, for the hub, and in another project, also as a change.
pub(crate) async fn tenant_set_up_by_the_page_is_confined(stage: &Stage) -> Result<()> {
    let admin = Console::open(stage).await?;
    let commands = Reader::of(stage)?;
    let test = "tenant_set_up_by_the_page_is_confined";
    commands.follow(PAGE, test, 3).await?;
    let console = admin.for_account(stage, ANN).await?;
    let ann = Objects::new(stage.lab.hub().client_as(ANN, &[]).await?);
    let anns = greeter(stage, ANN, At::application("spoke1", "ann-reads"), 1).await?;
    let refused = At::application("spoke1", "refused");
    let named = |name: &str| json!({"name": name, "namespace": "ann-reads"});
    let server = json!({"server": "https://kubernetes.default.svc", "namespace": "ann-reads"});
    let destination = "the destination must be the cluster of this namespace";
    let cases = [
        (ANN, named("spoke2"), destination),
        (ANN, named("in-cluster"), destination),
        (ANN, server, destination),
        (
            BOB,
            named("spoke1"),
            "not the one of this namespace's tenant",
        ),
    ];
    for (project, destination, words) in &cases {
        let mut app = body(&anns);
        app["spec"]["project"] = (*project).into();
        app["spec"]["destination"] = destination.clone();
        // The API server reads the policy a moment after it is made.
        let look = async || {
            let error = ann.apply(&refused, app.clone()).await.err();
            ann.delete(&refused).await?;
            Ok(error.map(|error| format!("{error:#}")))
        };
        let names_it = |error: &Option<String>| error.as_ref().is_some_and(|it| it.contains(words));
        wait::until(&format!("{destination} is refused"), look, names_it).await?;
    }
    // The status that the hub writes is no change of the spec.
    deploy(stage, &ann, &anns).await?;
    for (project, destination, words) in cases {
        let change = json!({"spec": {"project": project, "destination": destination}});
        let error = ann.merge(&anns.at, change).await.err();
        let error = error.map(|error| format!("{error:#}")).unwrap_or_default();
        ensure!(error.contains(words), "{error:?}");
    }
    let list = console.gets(stage, "/api/v1/applications").await?;
    let listed = list["items"].as_array().into_iter().flatten();
    let listed: Vec<_> = listed.map(|app| &app["metadata"]["name"]).collect();
    ensure!(listed == ["ann-reads"], "{listed:?}");

    undo(stage).await?;
    clear(stage, &[(&anns, 1)]).await?;
    no_user(stage, ANN, &["spoke1"]).await
}

/// Takes away what the page has made, except objects that every test removes.
async fn undo(stage: &Stage) -> Result<()> {
    let policies = "admissionregistration.k8s.io/v1";
    for kind in [
        (
            "ValidatingAdmissionPolicyBinding",
            "validatingadmissionpolicybindings",
        ),
        ("ValidatingAdmissionPolicy", "validatingadmissionpolicies"),
    ] {
        stage
            .hub
            .delete(&At::of(policies, kind, None, NAME))
            .await?;
    }
    let unlabelled = json!({"metadata": {"labels": {"tenant": null}}});
    stage
        .hub
        .merge(&At::namespace("spoke1"), unlabelled)
        .await?;
    let none = json!({"accounts.ann": null, "cluster.inClusterEnabled": null});
    set(stage, "argocd-cm", none).await?;
    let none = json!({"policy.csv": null, "policy.default": null});
    set(stage, "argocd-rbac-cm", none).await
}
