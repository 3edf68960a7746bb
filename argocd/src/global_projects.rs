//! Global projects: `globalProjects` in Argo CD's `argocd-cm` selects projects and adds the lists of another one to them.
//!
//! Argo CD judges an Application by its project with these lists. The hub does so, too, and sends the project with them to
//! the clusters, whose own `argocd-cm` does not have the setting.

use std::collections::BTreeSet;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::mirror::is_mirror;
use crate::object::{Meta, list, text};
use selector::{Selector, Unchecked};

mod selector;
#[cfg(test)]
mod tests;

/// The entry of the setting.
const ENTRY: &str = "globalProjects";

/// So many entries count: a list of thousands would cost time and memory for each project.
const MOST: usize = 100;

/// Aliases repeat at most so many bytes: they can make a short text long.
const MOST_REPEATED: usize = 8 << 20;

/// The longest part of an error that is kept, in characters.
const LONGEST_ERROR: usize = 300;

/// The lists of `spec` that Argo CD appends; all others are the project's own.
const APPENDED: [&str; 8] = [
    "clusterResourceWhitelist",
    "clusterResourceBlacklist",
    "namespaceResourceWhitelist",
    "namespaceResourceBlacklist",
    "syncWindows",
    "sourceRepos",
    "destinations",
    "destinationServiceAccounts",
];

/// The global projects of a hub, in the order of the setting.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GlobalProjects {
    entries: Vec<GlobalProject>,
    /// How many further entries do not count.
    left_out: usize,
    /// Whether further YAML documents follow, which do not count.
    has_more_documents: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct GlobalProject {
    /// The name of the project whose lists are appended.
    name: String,
    /// Selects the projects that get them; or why it is not valid.
    selector: Result<Selector, String>,
}

/// The setting is not a list of projects and selectors. Argo CD then has no global projects.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("globalProjects is not a list of projectName and labelSelector: {0}")]
pub struct Unreadable(String);

/// An entry as it is written.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Entry {
    project_name: Option<String>,
    label_selector: Option<Unchecked>,
}

impl GlobalProjects {
    /// Reads the setting of the `ConfigMap` as Argo CD does: its first YAML document, and of equal keys the last.
    pub fn of(config: &Value) -> Result<Self, Unreadable> {
        let data = config.get("data").unwrap_or(&Value::Null);
        let written = text(data, ENTRY);
        if written.trim().is_empty() {
            return Ok(Self::default());
        }
        let repeated = MOST_REPEATED / written.len();
        let options = serde_saphyr::options! {
            with_snippet: false,
            duplicate_keys: serde_saphyr::DuplicateKeyPolicy::LastWins,
            alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: repeated }
        };
        let mut reader = written.as_bytes();
        let mut documents =
            serde_saphyr::read_with_options::<_, Vec<Option<Entry>>>(&mut reader, options);
        let first = documents
            .next()
            .transpose()
            .map_err(|error| Unreadable(error.to_string().chars().take(LONGEST_ERROR).collect()))?;
        let entries = first.unwrap_or_default();
        let left_out = entries.len().saturating_sub(MOST);
        let entries = entries.into_iter().take(MOST).map(|entry| {
            let entry = entry.unwrap_or_default();
            GlobalProject {
                name: entry.project_name.unwrap_or_default(),
                selector: entry.label_selector.unwrap_or_default().checked(),
            }
        });
        Ok(Self {
            entries: entries.collect(),
            left_out,
            has_more_documents: documents.next().is_some(),
        })
    }

    /// Whether other projects may depend on this one.
    pub fn has(&self, project: &str) -> bool {
        self.entries.iter().any(|entry| entry.name == project)
    }

    /// The project with the lists of its global projects; none if it has no global project.
    ///
    /// `find` finds a project by name. What a cluster owns itself takes no part: its mirror gets no lists and gives none.
    pub fn merged<'a>(
        &self,
        project: &Value,
        find: impl Fn(&str) -> Option<&'a Value>,
    ) -> Option<Value> {
        let meta = Meta::of(project);
        if is_mirror(project) {
            return None;
        }
        let mut merged = None;
        let mut appended = BTreeSet::new();
        for entry in &self.entries {
            if entry.name == meta.name() {
                continue;
            }
            // As in Argo CD, the first invalid entry, and the first one without its project, ends the list.
            let Ok(selector) = &entry.selector else { break };
            if !selector.matches(meta) {
                continue;
            }
            let Some(global) = find(&entry.name).filter(|it| !is_mirror(it)) else {
                break;
            };
            // The same lists twice mean the same.
            if appended.insert(&entry.name) {
                append(merged.get_or_insert_with(|| project.clone()), global);
            }
        }
        merged
    }

    /// The entries that have no effect, with the reasons.
    pub fn ignored<'a>(&self, find: impl Fn(&str) -> Option<&'a Value>) -> Vec<String> {
        let reasons = self.entries.iter().filter_map(|entry| {
            let name = &entry.name;
            match (&entry.selector, find(name)) {
                (Err(reason), _) => Some(format!("the selector of project {name:?}: {reason}")),
                (Ok(_), None) => Some(format!("there is no project {name:?}")),
                (Ok(_), Some(global)) if is_mirror(global) => {
                    Some(format!("project {name:?} belongs to an autonomous cluster"))
                }
                (Ok(_), Some(_)) => None,
            }
        });
        let further = format!("{} entries after the first {MOST}", self.left_out);
        let further = (self.left_out > 0).then_some(further);
        let documents = "all YAML documents after the first one".to_owned();
        let documents = self.has_more_documents.then_some(documents);
        reasons.chain(further).chain(documents).collect()
    }
}

/// Appends the lists of the global project.
fn append(project: &mut Value, global: &Value) {
    let Some(from) = Meta::of(global).spec() else {
        return;
    };
    let Some(fields) = project.as_object_mut() else {
        return;
    };
    let to = fields.entry("spec").or_insert_with(|| json!({}));
    let Some(to) = to.as_object_mut() else {
        return;
    };
    for field in APPENDED {
        let more = list(from, field);
        if more.is_empty() {
            continue;
        }
        if let Some(Value::Array(own)) = to.get_mut(field) {
            own.extend_from_slice(more);
        } else {
            to.insert(field.to_owned(), more.into());
        }
    }
}
