//! Writes the files of `support-bundle`. What cannot be read is a file that says so.

use std::path::Path;

use argocd::keys::addon::{ADDON, MANAGER};
use serde_json::{Value, json};

use super::{Answer, Error, addons, certificates, hub_settings, inspect};
use crate::{
    agents::agents,
    args::Global,
    bundle::{brief, redacted},
    hub::{ADDONS, APPLICATIONS, By, CONFIGURATIONS, DEPLOYMENTS, Error as HubError, Hub, OFFERS},
    output::Place,
    status::has_trouble,
};

/// How many Applications with a condition of ours the bundle lists.
const LISTED_APPLICATIONS: usize = 200;

/// Gathers everything and writes it into a new folder.
pub(super) async fn gather(
    hub: &Hub,
    global: &Global,
    folder: &Path,
    place: Place,
) -> Result<Answer, Error> {
    // Before reading from the hub. If another process creates it meanwhile, the write below fails.
    if folder.exists() {
        return Err(Error::FolderIsThere(folder.display().to_string()));
    }
    let own = Some(global.own_namespace.as_str());
    let settings = hub_settings(hub, global).await;
    let about = json!({
        "program": env!("CARGO_PKG_VERSION"),
        "time": place.now,
        "argocdNamespace": settings.routing.argocd_namespace,
        "allowedNamespaces": settings.routing.allowed_namespaces,
        "doubt": settings.doubt,
    });
    let manager = hub.get(DEPLOYMENTS, own, MANAGER).await;
    let offer = hub.get(OFFERS, None, ADDON).await;
    let files = [
        ("about", about),
        (
            "status",
            view(super::fleet_of(hub, global, place.now).await),
        ),
        ("agents", view(addons(hub).await.map(|all| agents(&all)))),
        (
            "certificates",
            view(certificates::listed(hub, global, place.now).await),
        ),
        (
            "check",
            view(Ok(inspect::findings(hub, global, place).await)),
        ),
        ("add-ons", objects(hub.list(ADDONS, &By::name(ADDON)).await)),
        (
            "configurations",
            objects(hub.list(CONFIGURATIONS, &By::default()).await),
        ),
        ("offer", objects(offer.map(Vec::from_iter))),
        ("hub-program", objects(manager.map(Vec::from_iter))),
        ("applications", troubled(hub).await),
    ];
    let failed = |source| Error::Page {
        path: folder.display().to_string(),
        source,
    };
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

fn view<V: serde::Serialize>(view: Result<V, Error>) -> Value {
    let value = view.map(|view| serde_json::to_value(view).unwrap_or_default());
    value.unwrap_or_else(|error| unread(&error))
}

fn objects(read: Result<Vec<Value>, HubError>) -> Value {
    match read {
        Ok(all) => all.iter().filter_map(redacted).collect(),
        Err(error) => unread(&error),
    }
}

/// The Applications with a condition of ours.
async fn troubled(hub: &Hub) -> Value {
    let mut hub_settings = Vec::new();
    let everywhere = By::default();
    let read = hub.each(APPLICATIONS, &everywhere, |application| {
        if hub_settings.len() < LISTED_APPLICATIONS && has_trouble(&application) {
            hub_settings.push(brief(&application));
        }
    });
    match read.await {
        Ok(()) => Value::Array(hub_settings),
        Err(error) => unread(&error),
    }
}
