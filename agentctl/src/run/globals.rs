//! The global projects of the hub's Argo CD, by which the hub program judges Applications.

use argocd::{
    Meta,
    global_projects::{self, GlobalProjects},
};
use serde_json::Value;

use super::Context;
use crate::hub::{CONFIG_MAPS, PROJECTS, all};

/// A project, if there is one; why it could not be read.
type Project = Result<Option<Value>, String>;

impl Context<'_> {
    /// The project with the lists of its global projects; and why these are unknown.
    pub(super) async fn with_globals(
        &self,
        argocd: &str,
        project: Project,
    ) -> (Project, Option<String>) {
        let Ok(Some(own)) = &project else {
            return (project, None);
        };
        match self.merged(argocd, own).await {
            Ok(None) => (project, None),
            Ok(merged) => (Ok(merged), None),
            Err(reason) => {
                let doubt = format!("global projects of Argo CD could not be read: {reason}");
                (project, Some(doubt))
            }
        }
    }

    async fn merged(&self, argocd: &str, project: &Value) -> Project {
        let (argocd, name) = (Some(argocd), global_projects::CONFIG);
        let Some(settings) = self.hub.find(CONFIG_MAPS, argocd, name).await? else {
            return Ok(None);
        };
        // A setting that cannot be read counts as none.
        let globals = GlobalProjects::of(&settings).unwrap_or_default();
        if globals == GlobalProjects::default() {
            return Ok(None);
        }
        let projects = self.hub.find_all(PROJECTS, argocd, all()).await?;
        let find = |name: &str| projects.iter().find(|it| Meta::of(it).name() == name);
        Ok(globals.merged(project, find))
    }
}
