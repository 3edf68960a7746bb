//! Reads what `hub setup` needs, and writes the changes one by one.

use argocd::keys::addon::{MANAGER, UI_SECRET};
use diagnosis::object::full_name;
use serde_json::Value;

use super::{
    Answer, Context, Error,
    inspect::{self, ARGOCD_CM, PARAMETERS, RBAC_CM},
    is_name,
};
use crate::{
    check::{Checked, Finding, SERVER, warning},
    hub::{
        ARGO_CDS, CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, CONFIG_MAPS, DEPLOYMENTS,
        Error as HubError, FENCES, Hub, Patch, SECRETS, SERVICES, all, labelled, named,
    },
    settings::settings,
    setup::{
        Action, Facts, ObjectChange, Plan, ROLE, SetupArgs, State, Write, instance, plan, undo,
    },
    ui,
};

/// Argo CD's notifications controller.
const NOTIFICATIONS: &str =
    "app.kubernetes.io/component=notifications-controller,app.kubernetes.io/part-of=argocd";

/// Makes the plan, and carries it out unless that is not wanted.
pub(super) async fn setup(context: &Context<'_>, args: SetupArgs) -> Result<Answer, Error> {
    let is_undo = args.undo;
    let is_dry = args.dry_run;
    let facts = facts(context, args).await?;
    let mut plan = if is_undo { undo(&facts) } else { plan(&facts) };
    if plan.state == State::Planned && !is_dry {
        write_all(context, &mut plan).await?;
        plan.state = State::Written;
    }
    Answer::of(&plan, context.place, plan.is_bad())
}

async fn facts(context: &Context<'_>, args: SetupArgs) -> Result<Facts, Error> {
    let hub = &context.hub;
    let program = format!("{}/{MANAGER}", context.own());
    let manager = hub.get(DEPLOYMENTS, Some(context.own()), MANAGER).await?;
    let given = &context.global.given;
    // In the default namespace there may be another Argo CD.
    if manager.is_none() && given.argocd_namespace.is_none() {
        return Err(Error::NoHubProgram(program));
    }
    let settings = settings(&Ok(manager.clone()), &program, given);
    let argocd = settings.routing.argocd_namespace;
    is_name(&argocd)?;
    let place = Some(argocd.as_str());
    let server = match server(hub, &argocd).await {
        // Argo CD was removed before the add-on. A namespace that the caller names may be a wrong one.
        Err(Error::NoArgoCd(_)) if args.undo && given.argocd_namespace.is_none() => Value::Null,
        found => found?,
    };
    let operated = match instance(&server) {
        Some(name) => Some(owner(hub, &argocd, name).await?),
        None => None,
    };
    // A role of before the pages may not read these; where they are off, nothing of them is needed.
    let is_needed = ui::is_on(manager.as_ref());
    let read = async |name: &str| match hub.get(CONFIG_MAPS, place, name).await {
        Err(HubError::Forbidden(_)) if !is_needed => Ok(None),
        found => found,
    };
    let mut facts = Facts {
        parameters: hub.get(CONFIG_MAPS, place, PARAMETERS).await?,
        settings: read(ARGOCD_CM).await?,
        policies: read(RBAC_CM).await?,
        token: None,
        role: hub.get(CLUSTER_ROLES, None, ROLE).await?,
        binding: hub.get(CLUSTER_ROLE_BINDINGS, None, ROLE).await?,
        operated,
        server,
        own_namespace: context.own().to_owned(),
        patterns: args.application_namespaces,
        clusters: Vec::new(),
        manager,
        server_rights: Vec::new(),
        controllers: Ok(Vec::new()),
        fences: Vec::new(),
        services: Vec::new(),
        has_password: true,
        has_notifications: false,
        now: context.place.now,
        argocd_namespace: argocd,
    };
    if !args.undo {
        look_around(context, &mut facts).await?;
    }
    Ok(facts)
}

/// Adds what only the way forward depends on.
async fn look_around(context: &Context<'_>, facts: &mut Facts) -> Result<(), Error> {
    let hub = &context.hub;
    let argocd = facts.argocd_namespace.clone();
    let place = Some(argocd.as_str());
    let addons = context.addons().await?.into_iter();
    facts.clusters = addons.map(|it| it.cluster).collect();
    facts.fences = hub.collect(FENCES, place, all(), Some).await?;
    facts.controllers = inspect::controllers(hub).await;
    // Not their content.
    let seen = |_: Value| Some(());
    let notifications = hub.collect(DEPLOYMENTS, place, labelled(NOTIFICATIONS), seen);
    facts.has_notifications = !notifications.await?.is_empty();
    facts.services = hub.collect(SERVICES, place, all(), Some).await?;
    if let Some(secret) = facts.password_secret() {
        let secrets = hub.collect(SECRETS, place, named(&secret), seen).await?;
        facts.has_password = !secrets.is_empty();
    }
    if ui::is_on(facts.manager.as_ref()) {
        let tokens = hub.collect(SECRETS, place, named(UI_SECRET), |it| ui::written(&it));
        facts.token = tokens.await?.into_iter().max();
    }
    let server = (argocd.as_str(), Some(&facts.server));
    facts.server_rights = inspect::server_rights(hub, server, &facts.clusters).await;
    Ok(())
}

/// The one Deployment of argocd-server.
async fn server(hub: &Hub, argocd: &str) -> Result<Value, Error> {
    let servers = labelled(SERVER);
    let servers = hub.collect(DEPLOYMENTS, Some(argocd), servers, Some).await;
    let mut servers = servers?;
    match (servers.pop(), servers.as_slice()) {
        (Some(server), []) => Ok(server),
        (None, _) => Err(Error::NoArgoCd(argocd.to_owned())),
        (Some(server), others) => {
            let names = others.iter().chain([&server]).map(full_name);
            Err(Error::SeveralServers(names.collect::<Vec<_>>().join(", ")))
        }
    }
}

/// The resource from which the operator deploys argocd-server.
async fn owner(hub: &Hub, argocd: &str, name: &str) -> Result<Value, Error> {
    let found = hub.get(ARGO_CDS, Some(argocd), name).await?;
    let cause = || format!("ArgoCD {argocd}/{name} not found, although it owns argocd-server");
    found.ok_or_else(|| Error::Hub(HubError::Other(cause())))
}

async fn write_all(context: &Context<'_>, plan: &mut Plan) -> Result<(), Error> {
    let mut left = Vec::new();
    for (number, change) in (1_usize..).zip(&plan.changes) {
        let title = change.title();
        let text = format!("writing {title}");
        context.progress.step(number, plan.changes.len(), &text);
        match write(&context.hub, change).await {
            Ok(()) => {}
            // The chart's Job has a permission for the argocd-server at the last upgrade only, and another name since then
            // must not stop the uninstallation.
            Err(HubError::Forbidden(right)) if plan.undo && change.kind == "Deployment" => {
                left.push(Finding::of(("restart", not_restarted(change, &right))));
            }
            Err(cause) => {
                let done = number.saturating_sub(1);
                return Err(Error::Unfinished(title, done, cause));
            }
        }
    }
    plan.notes.extend(left);
    Ok(())
}

fn not_restarted(change: &ObjectChange, right: &str) -> Checked {
    let (name, title) = (&change.name, change.title());
    if change.action != Action::Restart {
        let cause = format!("{title} was not changed, since you may not {right}");
        let next = "the mount in it is optional and does no harm; to remove it: argocd-agentctl hub setup --undo";
        return warning(cause, next);
    }
    let namespace = change.namespace.as_deref().unwrap_or_default();
    warning(
        format!("{title} was not restarted, since you may not {right}"),
        format!("kubectl -n {namespace} rollout restart deployment/{name}"),
    )
}

async fn write(hub: &Hub, change: &ObjectChange) -> Result<(), HubError> {
    let (namespace, name) = (change.namespace.as_deref(), change.name.as_str());
    match &change.write {
        Write::Create(kind, object) => hub.create(*kind, namespace, object).await,
        // It is gone already, as it should be.
        Write::Delete(kind, version) => {
            let deleted = hub.delete(*kind, namespace, name, version).await;
            deleted.map(drop)
        }
        Write::Merge(kind, body) => there(hub.merge(*kind, namespace, name, body).await?),
        Write::Strategic(kind, body) => {
            let patch = Patch::Strategic(body);
            there(hub.patch(*kind, namespace, name, &patch).await?)
        }
    }
}

fn there(is_there: bool) -> Result<(), HubError> {
    let cause = || HubError::Other("it does not exist any more".to_owned());
    is_there.then_some(()).ok_or_else(cause)
}

#[cfg(test)]
mod tests;
