//! The global projects of the hub's Argo CD, by which the hub program judges Applications.

use argocd::{Meta, global_projects::GlobalProjects, keys};
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
        let (argocd, name) = (Some(argocd), keys::SETTINGS);
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

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use clap::Parser as _;
    use diagnosis::testing::now;
    use http::{Request, Response};
    use kube::{Client, client::Body};
    use serde_json::json;
    use tower::service_fn;

    use super::*;
    use crate::{args::Cli, hub::Hub, output::Format, progress::Progress, testing::place};

    /// The repositories that project `team` permits, where Argo CD's settings have this answer; and the doubt.
    async fn repositories(code: u16, settings: Value) -> (Value, Option<String>) {
        let service = service_fn(move |request: Request<Body>| {
            let guard = json!({"metadata": {"name": "guard"}, "spec": {"sourceRepos": ["b"]}});
            let (code, body) = if request.uri().path().ends_with("/appprojects") {
                (200, json!({"metadata": {}, "items": [guard]}))
            } else {
                (code, settings.clone())
            };
            async move {
                let response = Response::builder().status(code);
                let response = response.body(Body::from(body.to_string().into_bytes()));
                Ok::<_, Infallible>(response.unwrap())
            }
        });
        let Cli { global, .. } = Cli::parse_from(["argocd-agentctl", "status"]);
        let context = Context {
            hub: Hub::new(Client::new(service, "default")),
            global: &global,
            place: place(Format::Table, now()),
            progress: &Progress::new(false),
        };
        let own = json!({"metadata": {"name": "team"}, "spec": {"sourceRepos": ["a"]}});
        let (project, doubt) = context.with_globals("argocd", Ok(Some(own))).await;
        (
            project.unwrap().unwrap()["spec"]["sourceRepos"].clone(),
            doubt,
        )
    }

    #[tokio::test]
    async fn why_reads_a_project_with_its_global_projects() {
        for (setting, expected) in [
            ("- projectName: guard", json!(["a", "b"])),
            ("- projectName: gone", json!(["a"])),
            ("guard", json!(["a"])),
            ("", json!(["a"])),
        ] {
            let settings = json!({"data": {"globalProjects": setting}});
            let found = repositories(200, settings).await;
            assert_eq!(found, (expected, None), "{setting}");
        }
        let missing = json!({"kind": "Status", "status": "Failure", "code": 404});
        assert_eq!(repositories(404, missing).await, (json!(["a"]), None));
        let refused = json!({"kind": "Status", "status": "Failure", "code": 403});
        let (own, doubt) = repositories(403, refused).await;
        assert_eq!(own, json!(["a"]));
        assert!(doubt.is_some_and(|it| it.contains("configmaps in namespace argocd")));
    }
}
