//! Removes labels and annotations of a spoke that must not reach the hub.

use serde_json::{Map, Value};

use crate::digest::is_volatile;
use crate::keys::is_reserved;
use crate::object::{Meta, to_map};
use crate::projection::is_web_link;

/// A link that Argo CD's UI shows at an Application.
const LINK_PREFIX: &str = "link.argocd.argoproj.io/";

/// Controllers on the hub would act on these annotations with the hub's credentials: notifications are sent to the
/// named receivers, and the image updater writes to the repository. Only the spoke's own controllers may do so.
const FOR_CONTROLLERS: [&str; 3] = [
    "notifications.argoproj.io/",
    "notified.notifications.argoproj.io",
    "argocd-image-updater.argoproj.io/",
];

pub(super) fn annotations(meta: Meta<'_>) -> Map<String, Value> {
    let mut annotations = meta.annotations();
    annotations.retain(|key, value| {
        !is_volatile(key)
            && !is_reserved(key)
            && !FOR_CONTROLLERS.iter().any(|prefix| key.starts_with(prefix))
            && (!key.starts_with(LINK_PREFIX) || is_harmless(value))
    });
    to_map(annotations)
}

pub(super) fn labels(meta: Meta<'_>) -> Map<String, Value> {
    let mut labels = meta.labels();
    labels.retain(|key, _| !is_reserved(key));
    to_map(labels)
}

/// Whether a browser may follow the link, which may have a title before it: `title|https://…`.
fn is_harmless(link: &str) -> bool {
    let ([address] | [_, address]) = link.split('|').collect::<Vec<_>>()[..] else {
        return false;
    };
    is_web_link(address)
}
