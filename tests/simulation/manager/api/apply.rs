//! Server-side apply: each field has the managers that want it.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::Refusal;
use super::rules::OF_SERVER;

/// The steps to a field: names of members, or the key of an item of a list.
type Path = Vec<Step>;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Member(String),
    /// The item whose member of this name has this value.
    Item(&'static str, String),
    /// The item of a set.
    Value(String),
}

/// The fields that each manager of a part of the object wants.
#[derive(Clone, Debug, Default)]
pub(crate) struct Owners(BTreeMap<String, BTreeSet<Path>>);

/// The member that identifies the items of a list. Empty if they identify themselves, none if the list is one field.
fn key_of(path: &[Step]) -> Option<&'static str> {
    let members: Vec<&str> = path
        .iter()
        .filter_map(|step| match step {
            Step::Member(name) => Some(name.as_str()),
            Step::Item(..) | Step::Value(_) => None,
        })
        .collect();
    match members.as_slice() {
        ["status", "conditions"] => Some("type"),
        ["metadata", "ownerReferences"] => Some("uid"),
        ["metadata", "finalizers"] => Some(""),
        _ => None,
    }
}

/// The fields of a value, without those that identify the object.
fn leaves(value: &Value, path: &mut Path, found: &mut BTreeMap<Path, Value>) {
    match value {
        Value::Object(members) if !members.is_empty() => {
            for (name, value) in members {
                let is_identity = path.is_empty() && matches!(name.as_str(), "apiVersion" | "kind");
                let is_meta = matches!(path.as_slice(), [Step::Member(it)] if it == "metadata");
                if is_identity || is_meta && OF_SERVER.contains(&name.as_str()) {
                    continue;
                }
                path.push(Step::Member(name.clone()));
                leaves(value, path, found);
                path.pop();
            }
        }
        Value::Array(items) => match key_of(path) {
            Some("") => {
                for item in items {
                    let mut path = path.clone();
                    path.push(Step::Value(item.as_str().unwrap_or_default().to_owned()));
                    found.insert(path, item.clone());
                }
            }
            Some(key) => {
                for item in items {
                    let name = item[key].as_str().unwrap_or_default().to_owned();
                    path.push(Step::Item(key, name));
                    leaves(item, path, found);
                    path.pop();
                }
            }
            None => {
                found.insert(path.clone(), value.clone());
            }
        },
        Value::Null => {}
        Value::Object(_) | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            found.insert(path.clone(), value.clone());
        }
    }
}

fn fields(value: &Value) -> BTreeMap<Path, Value> {
    let mut found = BTreeMap::new();
    leaves(value, &mut vec![], &mut found);
    found
}

/// Sets a field, or removes it and what it leaves empty.
fn put(target: &mut Value, path: &[Step], value: Option<&Value>) {
    let Some((step, rest)) = path.split_first() else {
        *target = value.cloned().unwrap_or_default();
        return;
    };
    match step {
        Step::Member(name) => {
            if !target.is_object() {
                *target = json!({});
            }
            let Some(members) = target.as_object_mut() else {
                return;
            };
            put(
                members.entry(name.clone()).or_insert(Value::Null),
                rest,
                value,
            );
            if value.is_none() && members.get(name).is_some_and(is_nothing) {
                members.remove(name);
            }
        }
        Step::Item(key, name) => {
            let Some(items) = list(target) else { return };
            let is_it = |item: &Value| item[*key].as_str() == Some(name);
            let at = items.iter().position(is_it).unwrap_or_else(|| {
                items.push(json!({ *key: name }));
                items.len() - 1
            });
            put(&mut items[at], rest, value);
            if is_nothing(&items[at]) {
                items.remove(at);
            }
        }
        Step::Value(name) => {
            let Some(items) = list(target) else { return };
            items.retain(|item| item.as_str() != Some(name));
            items.extend(value.cloned());
        }
    }
}

fn list(target: &mut Value) -> Option<&mut Vec<Value>> {
    if !target.is_array() {
        *target = json!([]);
    }
    target.as_array_mut()
}

fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(members) => members.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

impl Owners {
    /// Takes note of a write that is no apply: the manager owns what it changed, and no other does.
    pub(crate) fn updated(&mut self, manager: &str, before: &Value, after: &Value) {
        let (before, after) = (fields(before), fields(after));
        let changed: BTreeSet<Path> = after
            .iter()
            .filter(|(path, value)| before.get(*path) != Some(*value))
            .map(|(path, _)| path.clone())
            .collect();
        for owned in self.0.values_mut() {
            owned.retain(|path| !changed.contains(path));
        }
        let own = self.0.entry(format!("{manager} by update")).or_default();
        own.extend(changed);
    }

    /// Applies what a manager wants, and returns the object after it.
    pub(crate) fn applied(
        &mut self,
        manager: &str,
        subresource: &str,
        before: &Value,
        wanted: &Value,
        force: bool,
    ) -> Result<Value, Refusal> {
        let name = format!("{manager} {subresource}");
        let (known, asked) = (fields(before), fields(wanted));
        let changed: Vec<&Path> = asked
            .iter()
            .filter(|(path, value)| known.get(*path) != Some(*value))
            .map(|(path, _)| path)
            .collect();
        let rivals = self.0.iter().filter(|(other, _)| **other != name);
        let causes: Vec<_> = rivals
            .flat_map(|(other, owned)| {
                let contested = changed.iter().filter(|path| owned.contains(**path));
                contested.map(move |path| {
                    let message = format!("conflict with {:?}", other.split(' ').next());
                    ("FieldManagerConflict", message, spelled(path))
                })
            })
            .collect();
        if !force && !causes.is_empty() {
            let refusal = Refusal::new(409, "Conflict", "Apply failed with conflicts");
            return Err(Refusal { causes, ..refusal });
        }
        let mut object = if before.is_null() {
            json!({ "apiVersion": wanted["apiVersion"], "kind": wanted["kind"] })
        } else {
            before.clone()
        };
        let dropped = self.0.get(&name).cloned().unwrap_or_default();
        for path in dropped.iter().filter(|path| !asked.contains_key(*path)) {
            let is_shared = self
                .0
                .iter()
                .any(|(other, owned)| *other != name && owned.contains(path));
            if !is_shared {
                put(&mut object, path, None);
            }
        }
        for (path, value) in &asked {
            put(&mut object, path, Some(value));
        }
        for (other, owned) in &mut self.0 {
            if *other != name {
                owned.retain(|path| !changed.contains(&path));
            }
        }
        self.0.insert(name, asked.into_keys().collect());
        Ok(object)
    }

    /// Forgets fields that the object does not have.
    pub(crate) fn forget_absent(&mut self, object: &Value) {
        let there = fields(object);
        for owned in self.0.values_mut() {
            owned.retain(|path| there.contains_key(path));
        }
        self.0.retain(|_, owned| !owned.is_empty());
    }
}

/// As in the causes of a conflict.
fn spelled(path: &[Step]) -> String {
    path.iter()
        .map(|step| match step {
            Step::Member(name) => format!(".{name}"),
            Step::Item(key, name) => format!("[{key}={name:?}]"),
            Step::Value(name) => format!("[={name:?}]"),
        })
        .collect()
}
