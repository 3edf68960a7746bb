//! Tenants of the hub: each has a project, Applications in a namespace of its own, and an account of Argo CD.

pub(crate) mod hub;
pub(crate) mod page;
pub(crate) mod requests;
pub(crate) mod shared;
pub(crate) mod writes;

use anyhow::{Context as _, Result, ensure};
use lab::{
    argocd,
    audit::{Mark, Object},
    steps::{
        At, Objects,
        deliver::{self, Application},
        enrol::ARGOCD,
        workload,
    },
};
use serde_json::{Value, json};

use super::line::Console;
use crate::{
    live::PEOPLE,
    stage::{Stage, commit},
};

/// The tenants. Each is the name of an account, of a user of the hub's API and of a project.
const ANN: &str = "ann";
const BOB: &str = "bob";

/// The command lines of the tenants at the hub's Argo CD.
struct Accounts {
    ann: Console,
    bob: Console,
}

impl Accounts {
    /// Makes a local account for each tenant, with all rights on the Applications of its project and no others.
    async fn open(stage: &Stage) -> Result<Self> {
        let admin = Console::open(stage).await?;
        let accounts = json!({"accounts.ann": "login", "accounts.bob": "login"});
        set(stage, "argocd-cm", accounts).await?;
        let rights = [ANN, BOB].map(|who| {
            format!(
                "p, {who}, applications, *, {who}/*, allow\np, {who}, logs, get, {who}/*, allow\n\
                 p, {who}, exec, create, {who}/*, allow\n"
            )
        });
        let policy = json!({"policy.csv": rights.concat(), "policy.default": ""});
        set(stage, "argocd-rbac-cm", policy).await?;
        Ok(Self {
            ann: admin.for_account(stage, ANN).await?,
            bob: admin.for_account(stage, BOB).await?,
        })
    }

    async fn close(self, stage: &Stage) -> Result<()> {
        let none = json!({"accounts.ann": null, "accounts.bob": null});
        set(stage, "argocd-cm", none).await?;
        let none = json!({"policy.csv": null, "policy.default": null});
        set(stage, "argocd-rbac-cm", none).await
    }
}

/// Changes settings of the hub's Argo CD.
async fn set(stage: &Stage, name: &str, data: Value) -> Result<()> {
    let at = At::config_map(argocd::NAMESPACE, name);
    stage.hub.merge(&at, json!({"data": data})).await.map(drop)
}

/// Makes the project of a tenant: Applications of these namespaces of the hub may go into one namespace of one cluster,
/// and they deploy nothing cluster-wide.
async fn project(
    stage: &Stage,
    tenant: &str,
    sources: &[&str],
    (cluster, namespace): (&str, &str),
) -> Result<()> {
    let spec = json!({"spec": {
        "sourceRepos": ["*"],
        "sourceNamespaces": sources,
        "destinations": [{"name": cluster, "namespace": namespace}],
    }});
    let at = At::project(ARGOCD, tenant);
    stage.hub.apply(&at, spec).await.map(drop)
}

/// An Application of the greeter in a tenant's project; it goes into the namespace of its name, which is made on the
/// cluster. The Application is not made.
async fn greeter(stage: &Stage, tenant: &str, at: At, number: usize) -> Result<Application> {
    let name = at.name().to_owned();
    let repository = stage.lab.git().repository(&name)?;
    commit(&repository, "hello", "v1")?;
    let namespace = At::namespace(&name);
    stage.spoke(number).apply(&namespace, json!({})).await?;
    Ok(Application {
        at,
        project: tenant.to_owned(),
        cluster: format!("spoke{number}"),
        namespace: name,
        repository: repository.url(),
        path: workload::PATH.to_owned(),
        revision: "v1".to_owned(),
        automated: true,
    })
}

/// Its body, for a project that admits no Namespaces.
fn body(app: &Application) -> Value {
    let mut body = app.body();
    let policy = body.pointer_mut("/spec/syncPolicy");
    if let Some(policy) = policy.and_then(Value::as_object_mut) {
        policy.remove("syncOptions");
    }
    body
}

/// Makes an Application as this user, and waits until it is deployed.
async fn deploy(stage: &Stage, user: &Objects, app: &Application) -> Result<()> {
    user.apply(&app.at, body(app)).await?;
    deliver::until_healthy(&stage.hub, &app.at, "")
        .await
        .map(drop)
}

/// Removes Applications with their projects, and the namespaces into which they went.
async fn clear(stage: &Stage, apps: &[(&Application, usize)]) -> Result<()> {
    for (app, number) in apps {
        stage.clear(app).await?;
        let namespace = At::namespace(&app.namespace);
        stage.spoke(*number).delete(&namespace).await?;
    }
    Ok(())
}

/// A tenant at the API of the hub: it may write Applications in these namespaces.
async fn user(stage: &Stage, tenant: &str, namespaces: &[&str]) -> Result<Objects> {
    let rules = json!({"rules": [{
        "apiGroups": ["argoproj.io"], "resources": ["applications"], "verbs": ["*"],
    }]});
    let rbac = "rbac.authorization.k8s.io";
    let binding = json!({
        "roleRef": {"apiGroup": rbac, "kind": "Role", "name": tenant},
        "subjects": [{"apiGroup": rbac, "kind": "User", "name": tenant}],
    });
    for namespace in namespaces {
        let role = At::role(namespace, tenant);
        stage.hub.apply(&role, rules.clone()).await?;
        let bound = bound(namespace, tenant);
        stage.hub.apply(&bound, binding.clone()).await?;
    }
    Ok(Objects::new(stage.lab.hub().client_as(tenant, &[]).await?))
}

/// Takes the rights of [`user`] away.
async fn no_user(stage: &Stage, tenant: &str, namespaces: &[&str]) -> Result<()> {
    for namespace in namespaces {
        stage.hub.delete(&bound(namespace, tenant)).await?;
        stage.hub.delete(&At::role(namespace, tenant)).await?;
    }
    Ok(())
}

fn bound(namespace: &str, name: &str) -> At {
    let kind = ("RoleBinding", "rolebindings");
    At::of("rbac.authorization.k8s.io/v1", kind, Some(namespace), name)
}

/// Waits until an Application has this condition of ours, with these words.
async fn until_blocked(stage: &Stage, at: &At, kind: &str, words: &str) -> Result<()> {
    let is_blocked = |app: &Value| {
        let conditions = app["status"]["conditions"].as_array();
        let mut conditions = conditions.into_iter().flatten();
        conditions.any(|it| {
            it["type"] == kind && it["message"].as_str().is_some_and(|it| it.contains(words))
        })
    };
    let what = format!("says {kind}, {words:?}");
    let within = crate::stage::SOON;
    stage.hub.until(at, &what, within, is_blocked).await?;
    Ok(())
}

/// The one Pod of an Application of the greeter: its name and UID.
async fn pod(stage: &Stage, app: &Application, number: usize) -> Result<(String, String)> {
    let pods = At::pod(&app.namespace, "");
    let pods = stage.spoke(number).list(&pods, "app=greeter").await?;
    let field = |name: &str| pods.first().and_then(|pod| pod["metadata"][name].as_str());
    let (name, uid) = field("name").zip(field("uid")).context("a Pod")?;
    Ok((name.to_owned(), uid.to_owned()))
}

/// Fails if a live request about such an object reached a cluster since the mark.
fn nothing_was_asked(
    stage: &Stage,
    number: usize,
    mark: Mark,
    is_it: impl Fn(&Object) -> bool,
) -> Result<()> {
    let mut asked = stage.lab.spoke(number).audit().by(PEOPLE, mark)?;
    asked.retain(|entry| entry.object.as_ref().is_some_and(&is_it));
    ensure!(asked.is_empty(), "spoke{number} was asked: {asked:#?}");
    Ok(())
}

/// The query of a request of Argo CD's UI about the greeter's `ConfigMap` or Deployment in a namespace.
fn about(app_namespace: &str, namespace: &str, kind: &str) -> String {
    let group = if kind == "ConfigMap" { "" } else { "apps" };
    let name = workload::NAME;
    format!(
        "appNamespace={app_namespace}&namespace={namespace}&resourceName={name}&version=v1&group={group}&kind={kind}"
    )
}

/// A patch of the greeter's `ConfigMap`, as Argo CD's UI sends it.
fn patch() -> String {
    json!(r#"{"data":{"greeting":"patched"}}"#).to_string()
}
