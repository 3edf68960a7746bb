//! Writes the files of `support-bundle`. What cannot be read is a file that says so.

use std::path::Path;

use argocd::keys::addon::{ADDON, MANAGER};
use diagnosis::status::has_trouble;
use serde_json::{Value, json};

use super::{Answer, Context, Error, certificates, inspect};
use crate::{
    agents::agents,
    bundle::{brief, redacted},
    hub::{
        ADDONS, APPLICATIONS, CONFIGURATIONS, DEPLOYMENTS, Error as HubError, OFFERS, all, named,
    },
};

/// How many Applications with a condition of ours the bundle lists.
const LISTED_APPLICATIONS: usize = 200;

/// Gathers everything and writes it into a new folder.
pub(super) async fn gather(context: &Context<'_>, folder: &Path) -> Result<Answer, Error> {
    let Context { hub, place, .. } = context;
    // Before reading from the hub. If another process creates it meanwhile, the write below fails.
    if folder.exists() {
        return Err(Error::FolderIsThere(folder.display().to_string()));
    }
    let settings = context.settings().await;
    let about = json!({
        "program": env!("CARGO_PKG_VERSION"),
        "time": place.now,
        "argocdNamespace": settings.routing.argocd_namespace,
        "allowedNamespaces": settings.routing.allowed_namespaces,
        "doubt": settings.doubt,
    });
    let manager = hub.find(DEPLOYMENTS, Some(context.own()), MANAGER).await;
    let offer = hub.find(OFFERS, None, ADDON).await;
    let addons = hub.find_all(ADDONS, None, named(ADDON)).await;
    let configurations = hub.find_all(CONFIGURATIONS, None, all()).await;
    let agents = context.addons().await.map(|all| agents(&all));
    let files = [
        ("about", about),
        ("status", view(context.fleet().await)),
        ("agents", view(agents)),
        ("certificates", view(certificates::listed(context).await)),
        ("check", view(Ok(inspect::findings(context).await))),
        ("add-ons", objects(addons)),
        ("configurations", objects(configurations)),
        ("offer", objects(offer.map(Vec::from_iter))),
        ("hub-program", objects(manager.map(Vec::from_iter))),
        ("applications", troubled(context).await),
    ];
    let failed = |cause| Error::Page(folder.display().to_string(), cause);
    // A folder that is there already may have files of another hub.
    std::fs::create_dir(folder).map_err(failed)?;
    for (name, content) in &files {
        let text = serde_json::to_string_pretty(content).map_err(crate::output::Error::Json)?;
        std::fs::write(folder.join(format!("{name}.json")), text + "\n").map_err(failed)?;
    }
    let text = format!(
        "wrote {} files into {}. They contain no Secrets and keys, but names of clusters, hosts and Applications: \
        review them before you share them\n",
        files.len(),
        folder.display()
    );
    Ok(Answer::text(text))
}

fn unread(error: &impl ToString) -> Value {
    json!({ "notRead": error.to_string() })
}

fn view<V: serde::Serialize>(view: Result<V, HubError>) -> Value {
    let value = view.map(|view| serde_json::to_value(view).unwrap_or_default());
    value.unwrap_or_else(|error| unread(&error))
}

fn objects(read: Result<Vec<Value>, String>) -> Value {
    let value = read.map(|all| all.iter().filter_map(redacted).collect());
    value.unwrap_or_else(|reason| unread(&reason))
}

/// The Applications with a condition of ours.
async fn troubled(context: &Context<'_>) -> Value {
    let mut listed = Vec::new();
    let keep = |application| {
        if listed.len() < LISTED_APPLICATIONS && has_trouble(&application) {
            listed.push(brief(&application));
        }
    };
    match context.hub.each(APPLICATIONS, None, all(), keep).await {
        Ok(()) => Value::Array(listed),
        Err(error) => unread(&error),
    }
}
