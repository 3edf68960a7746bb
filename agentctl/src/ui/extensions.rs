//! The proxy extensions in Argo CD's settings. Pure.
//!
//! Each extension has a key of its own, which Argo CD reads beside its list in `extension.config`. So setup never changes the
//! list of a user.

use argocd::keys::addon::{UI_PORT, UI_SECRET, UI_SERVICE, UI_TOKEN, UI_TOKEN_HEADER};
use diagnosis::object::{list, text};
use serde_json::Value;

/// The key of Argo CD's settings with a list of extensions.
pub(crate) const LIST_KEY: &str = "extension.config";
/// The key of Argo CD's settings for our extension for single Applications.
pub(crate) const APPLICATION_KEY: &str = "extension.config.argocd-agent";
/// That for the fleet.
pub(crate) const FLEET_KEY: &str = "extension.config.argocd-agent-fleet";
/// Both keys, in the order of [`EXTENSIONS`](super::EXTENSIONS).
pub(crate) const CONFIG_KEYS: [&str; 2] = [APPLICATION_KEY, FLEET_KEY];

/// How an extension is configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Configured {
    /// It leads to the hub program, with the token.
    Right,
    /// Nothing has it.
    Absent,
    /// Its own key leads elsewhere, or comes without the token.
    Wrong,
    /// The list has it, and leads elsewhere or comes without the token.
    WrongInList,
    /// The list and its own key have it; argocd-server then serves no extension at all.
    Twice,
    /// The list cannot be read, and why; argocd-server then serves no extension at all.
    Unreadable(String),
}

/// The configuration of an extension that leads to the hub program in namespace `own`. argocd-server puts the token of the
/// Secret into the header.
pub(crate) fn config(own: &str) -> String {
    format!(
        "services:\n- url: http://{UI_SERVICE}.{own}.svc:{UI_PORT}\n  headers:\n  - name: {UI_TOKEN_HEADER}\n    \
        value: ${UI_SECRET}:{UI_TOKEN}\n"
    )
}

/// How the settings have this extension; `data` is the content of `argocd-cm`, and `own` the namespace of the hub program.
pub(crate) fn configured(data: Option<&Value>, extension: &str, own: &str) -> Configured {
    let entry = |key: &str| data.and_then(|it| it.get(key)?.as_str());
    let backend = entry(&format!("{LIST_KEY}.{extension}"));
    let listed = match entry(LIST_KEY).map(parsed).transpose() {
        Ok(listed) => listed.unwrap_or_default(),
        Err(cause) => return Configured::Unreadable(cause),
    };
    let mut listed = list(&listed, "/extensions").iter();
    let listed = listed.find(|it| text(it, "/name") == extension);
    let listed = listed.map(|it| it.get("backend").cloned().unwrap_or_default());
    match (backend, listed) {
        (None, None) => Configured::Absent,
        (Some(_), Some(_)) => Configured::Twice,
        (None, Some(backend)) if leads_to_us(&backend, own) => Configured::Right,
        (None, Some(_)) => Configured::WrongInList,
        (Some(backend), None) => {
            let is_right = parsed(backend).is_ok_and(|it| leads_to_us(&it, own));
            if is_right {
                Configured::Right
            } else {
                Configured::Wrong
            }
        }
    }
}

fn parsed(yaml: &str) -> Result<Value, String> {
    serde_saphyr::from_str(yaml).map_err(|error| error.to_string())
}

/// Whether a backend is the hub program, and gets the token.
fn leads_to_us(backend: &Value, own: &str) -> bool {
    let ours = format!("http://{UI_SERVICE}.{own}.svc");
    let port = format!(":{UI_PORT}");
    let token = format!("${UI_SECRET}:{UI_TOKEN}");
    let [service] = list(backend, "/services") else {
        return false;
    };
    let url = text(service, "/url").trim_end_matches('/');
    let domain = url
        .strip_prefix(&ours)
        .and_then(|it| it.strip_suffix(&port));
    let is_ours = domain.is_some_and(|it| it.is_empty() || it.starts_with('.'));
    let mut headers = list(service, "/headers").iter();
    let has_token = headers.any(|it| {
        let is_header = text(it, "/name").eq_ignore_ascii_case(UI_TOKEN_HEADER);
        is_header && text(it, "/value").trim() == token
    });
    is_ours && has_token
}
