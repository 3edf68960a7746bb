//! Projects and their global projects, which are merged once for each change.

use std::{collections::BTreeSet, ops::Deref, sync::Arc};

use argocd::{global_projects::GlobalProjects, masked::Sealed};
use protocol::Kind;

use super::Provisions;
use crate::store::Packed;

impl Provisions {
    /// Sets a project, or removes it; returns it and the projects that this changes.
    pub(crate) fn set_project(
        &mut self,
        name: &str,
        object: Option<Arc<Packed>>,
    ) -> BTreeSet<String> {
        let place = (Kind::AppProject, name.to_owned());
        match object {
            Some(object) => self.objects.insert(place, Sealed::new(object)),
            None => self.objects.remove(&place),
        };
        let mut changed = if self.globals.has(name) {
            self.merge_all()
        } else {
            BTreeSet::new()
        };
        self.merge(name);
        changed.insert(name.to_owned());
        changed
    }

    /// Sets the global projects; returns the projects that this changes.
    pub(crate) fn set_globals(&mut self, globals: GlobalProjects) -> BTreeSet<String> {
        if self.globals == globals {
            return BTreeSet::new();
        }
        self.globals = globals;
        self.merge_all()
    }

    /// The global projects that have no effect, with the reasons.
    pub(crate) fn ignored_globals(&self) -> Vec<String> {
        self.globals.ignored(|name| self.project(name))
    }

    fn merge_all(&mut self) -> BTreeSet<String> {
        let names: Vec<String> = self.kept_projects().map(|(key, _)| key.name).collect();
        let changed = names.into_iter().filter(|name| self.merge(name));
        changed.collect()
    }

    /// Merges the global projects of a project again; true if that changes it.
    fn merge(&mut self, name: &str) -> bool {
        let find = |global: &str| self.project(global);
        let merged = find(name).and_then(|project| self.globals.merged(project, find));
        let known = self.merged.get(name).map(Deref::deref);
        if known == merged.as_ref() {
            return false;
        }
        match merged {
            Some(merged) => self.merged.insert(name.to_owned(), Sealed::new(merged)),
            None => self.merged.remove(name),
        };
        true
    }
}

#[cfg(test)]
mod tests;
