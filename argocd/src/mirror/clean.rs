//! Removes labels and annotations of a spoke that must not reach the hub.

use serde_json::{Map, Value};

use crate::digest::is_volatile;
use crate::keys;
use crate::object::Meta;

/// A link that Argo CD's UI shows at an Application.
const LINK_PREFIX: &str = "link.argocd.argoproj.io/";

/// Controllers on the hub would act on these annotations with the hub's credentials: notifications are sent to the
/// named receivers, and the image updater writes to the repository. Only the spoke's own controllers may do so.
const FOR_CONTROLLERS: [&str; 3] = [
    "notifications.argoproj.io/",
    "notified.notifications.argoproj.io",
    "argocd-image-updater.argoproj.io/",
];

/// Keys with a meaning for Argo CD or for us.
fn is_reserved(key: &str) -> bool {
    keys::RESERVED_LABEL_PREFIXES
        .iter()
        .any(|prefix| key.starts_with(prefix))
}

pub(super) fn annotations(meta: Meta<'_>) -> Map<String, Value> {
    meta.annotations()
        .into_iter()
        .filter(|(key, _)| !is_volatile(key) && !is_reserved(key))
        .filter(|(key, _)| !FOR_CONTROLLERS.iter().any(|prefix| key.starts_with(prefix)))
        .filter(|(key, value)| !key.starts_with(LINK_PREFIX) || is_harmless(value))
        .map(|(key, value)| (key.to_owned(), value.into()))
        .collect()
}

pub(super) fn labels(meta: Meta<'_>) -> Map<String, Value> {
    meta.labels()
        .into_iter()
        .filter(|(key, _)| !is_reserved(key))
        .map(|(key, value)| (key.to_owned(), value.into()))
        .collect()
}

/// Whether a browser may follow the link, which may have a title before it: `title|https://…`.
fn is_harmless(link: &str) -> bool {
    let ([address] | [_, address]) = link.split('|').collect::<Vec<_>>()[..] else {
        return false;
    };
    ["https://", "http://"]
        .iter()
        .any(|scheme| address.starts_with(scheme))
}
