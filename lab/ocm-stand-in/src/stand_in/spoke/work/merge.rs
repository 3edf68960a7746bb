//! Merges a manifest into an existing object. Pure.

use serde_json::Value;

/// The owners an object should have: those of others, and ours if it is deleted with the work.
pub(super) fn owners(live: &Value, owner: &Value, is_ours: bool) -> Value {
    let has = live
        .pointer("/metadata/ownerReferences")
        .and_then(Value::as_array);
    let mut all = has.cloned().unwrap_or_default();
    let position = all.iter().position(|one| one["uid"] == owner["uid"]);
    match (position, is_ours) {
        (None, true) => all.push(owner.clone()),
        (Some(index), false) => {
            all.remove(index);
        }
        (None, false) | (Some(_), true) => {}
    }
    Value::Array(all)
}

/// The object for an update. Kinds that OCM knows are merged; of others the whole content is replaced.
pub(super) fn merged(live: &Value, manifest: &Value) -> Value {
    let mut after = live.clone();
    for key in ["labels", "annotations"] {
        for (name, value) in manifest["metadata"][key].as_object().into_iter().flatten() {
            after["metadata"][key][name] = value.clone();
        }
    }
    let is_known = is_known(manifest);
    let parts = |object: &Value| -> Vec<String> {
        let keys = object
            .as_object()
            .into_iter()
            .flatten()
            .map(|(key, _)| key.clone());
        keys.filter(|key| !["apiVersion", "kind", "metadata", "status"].contains(&key.as_str()))
            .collect()
    };
    for key in parts(manifest) {
        let wanted = &manifest[&key];
        after[&key] = match live.get(&key) {
            Some(has) if is_known => overlaid(has, wanted),
            Some(_) | None => wanted.clone(),
        };
    }
    if !is_known && let Some(map) = after.as_object_mut() {
        for key in parts(live)
            .iter()
            .filter(|key| manifest.get(key.as_str()).is_none())
        {
            map.remove(key);
        }
    }
    after
}

fn is_known(manifest: &Value) -> bool {
    let version = manifest["apiVersion"].as_str().unwrap_or_default();
    let kind = manifest["kind"].as_str().unwrap_or_default();
    let core = [
        "Namespace",
        "Service",
        "Pod",
        "ServiceAccount",
        "ConfigMap",
        "Secret",
    ];
    let groups = [
        "rbac.authorization.k8s.io/",
        "apiextensions.k8s.io/",
        "storage.k8s.io/",
        "admissionregistration.k8s.io/",
    ];
    (version == "v1" && core.contains(&kind))
        || groups.iter().any(|group| version.starts_with(group))
}

/// `wanted` over `has`: fields that the API server filled in stay, lists of equal length merge.
fn overlaid(has: &Value, wanted: &Value) -> Value {
    match (has, wanted) {
        (Value::Object(old), Value::Object(new)) => {
            let mut result = old.clone();
            for (key, value) in new {
                let value = old
                    .get(key)
                    .map_or_else(|| value.clone(), |was| overlaid(was, value));
                result.insert(key.clone(), value);
            }
            Value::Object(result)
        }
        (Value::Array(old), Value::Array(new)) if old.len() == new.len() => old
            .iter()
            .zip(new)
            .map(|(was, value)| overlaid(was, value))
            .collect(),
        _ => wanted.clone(),
    }
}

/// The object without fields that only the API server writes and without empty maps and lists.
pub(super) fn without_empty(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(owners) = object.pointer_mut("/metadata/ownerReferences")
        && owners.as_array().is_some_and(Vec::is_empty)
    {
        *owners = Value::Null;
    }
    prune(&mut object);
    object
}

fn prune(value: &mut Value) {
    if let Value::Object(map) = value {
        map.values_mut().for_each(prune);
        map.retain(|_, value| !value.is_null());
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_update_keeps_defaults_of_kinds_it_knows_and_replaces_others() {
        let live = json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": { "labels": { "theirs": "stays" } },
            "spec": { "clusterIP": "10.0.0.1", "ports": [{ "port": 1, "protocol": "TCP" }] },
            "status": {},
        });
        let manifest = json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": { "labels": { "ours": "new" } },
            "spec": { "ports": [{ "port": 2 }] },
        });
        let after = merged(&live, &manifest);
        assert_eq!(after["spec"]["clusterIP"], "10.0.0.1");
        assert_eq!(
            after["spec"]["ports"],
            json!([{ "port": 2, "protocol": "TCP" }])
        );
        assert_eq!(
            after["metadata"]["labels"],
            json!({ "theirs": "stays", "ours": "new" })
        );

        let live = json!({ "apiVersion": "x/v1", "kind": "Foo", "spec": { "a": 1 }, "extra": 1 });
        let manifest = json!({ "apiVersion": "x/v1", "kind": "Foo", "spec": { "b": 2 } });
        assert_eq!(merged(&live, &manifest), manifest);
    }

    #[test]
    fn owners_of_others_stay() {
        let ours = json!({ "uid": "ours" });
        let live = json!({ "metadata": { "ownerReferences": [{ "uid": "theirs" }] } });
        let both = json!([{ "uid": "theirs" }, { "uid": "ours" }]);
        assert_eq!(owners(&live, &ours, true), both);
        let live = json!({ "metadata": { "ownerReferences": both } });
        assert_eq!(owners(&live, &ours, false), json!([{ "uid": "theirs" }]));
    }
}
