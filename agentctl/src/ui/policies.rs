//! The policies of Argo CD that let roles call our extensions. Without one not even administrators may. Pure.

use argocd::glob;
use diagnosis::object::text;
use serde_json::Value;

/// The key of Argo CD's policies for ours. Argo CD reads each `policy.NAME.csv` beside its `policy.csv`.
pub(crate) const POLICY_KEY: &str = "policy.argocd-agent.csv";
/// Users that may get an Application see its delivery, and administrators the fleet. The names are whole, since Argo CD may read
/// them as unanchored regular expressions.
pub(crate) const POLICY: &str = "\
p, role:admin, extensions, invoke, argocd-agent, allow
p, role:admin, extensions, invoke, argocd-agent-fleet, allow
p, role:readonly, extensions, invoke, argocd-agent, allow
";

/// Whether a policy lets any role call this extension; `policies` is `argocd-rbac-cm`.
pub(crate) fn may_invoke(policies: Option<&Value>, extension: &str) -> bool {
    let is_regex = policies.is_some_and(|it| text(it, "/data/policy.matchMode") == "regex");
    let matches = |pattern: &str, name: &str| {
        if is_regex {
            return glob::matches_entry(&format!("/{pattern}/"), name);
        }
        glob::matches(pattern, name)
    };
    let allows = |line: &str| {
        let fields: Vec<_> = line.split(',').map(str::trim).collect();
        let ["p", _, resource, action, object, "allow"] = fields.as_slice() else {
            return false;
        };
        matches(resource, "extensions") && matches(action, "invoke") && matches(object, extension)
    };
    let data = policies.and_then(|it| it.get("data")?.as_object());
    // Both parts may share the dot.
    let is_policy = |key: &str| key.starts_with("policy.") && key.strip_suffix(".csv").is_some();
    let texts = data.into_iter().flatten().filter(|(key, _)| is_policy(key));
    let texts = texts.filter_map(|(_, value)| value.as_str());
    texts.flat_map(str::lines).any(allows)
}

/// Whether our key is there. A user may have changed it, also to nothing: it stays.
pub(crate) fn is_decided(policies: Option<&Value>) -> bool {
    policies.is_some_and(|it| {
        it.get("data")
            .is_some_and(|it| it.get(POLICY_KEY).is_some())
    })
}
