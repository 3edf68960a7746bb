//! Detects whether the add-on installed the definitions of Argo CD's kinds.
//!
//! Our definitions carry a mark in their description, which every client of the API may read without further rights. A
//! definition that another client applied later has no mark.

use std::time::Duration;

use argocd::keys::addon::INSTALLED_KIND;
use http::Request;
use kube::Client;
use protocol::payload::Runs;
use serde_json::Value;
use tokio::time::Instant;

const DESCRIPTION: &str = "/openapi/v3/apis/argoproj.io/v1alpha1";
/// The kinds that the add-on installs.
const KINDS: [&str; 2] = ["Application", "AppProject"];

/// How long a negative answer is kept. The description is large, and the API updates it with a delay.
const RECHECK: Duration = Duration::from_mins(1);

/// The last answer, as a cache.
#[derive(Debug, Default)]
pub(super) struct Definitions {
    asked: Option<(Runs, Instant, bool)>,
}

impl Definitions {
    /// Asks the API where the answer matters: where the add-on may install an Argo CD and the API serves its kinds.
    pub(super) async fn are_installed(
        &mut self,
        client: &Client,
        runs: Runs,
        serves: bool,
    ) -> Result<bool, kube::Error> {
        if !serves || !matches!(runs, Runs::Nothing | Runs::Ours) {
            return Ok(false);
        }
        if let Some((about, at, answer)) = self.asked
            && about == runs
            && (answer || at.elapsed() < RECHECK)
        {
            return Ok(answer);
        }
        let answer = ask(client).await?;
        self.asked = Some((runs, Instant::now(), answer));
        Ok(answer)
    }
}

/// Asks the API. If it does not describe the kinds, the definitions count as foreign.
async fn ask(client: &Client) -> Result<bool, kube::Error> {
    let request = Request::get(DESCRIPTION).body(Vec::new());
    let request = request.map_err(kube::Error::HttpError)?;
    match client.request::<Value>(request).await {
        Ok(described) => Ok(judge(&described)),
        Err(kube::Error::Api(status)) if matches!(status.code, 401 | 403 | 404) => Ok(false),
        Err(error) => Err(error),
    }
}

fn judge(described: &Value) -> bool {
    let schemas = described
        .pointer("/components/schemas")
        .and_then(Value::as_object);
    let schemas = || schemas.into_iter().flat_map(serde_json::Map::values);
    KINDS.into_iter().all(|kind| {
        let mut of_kind = schemas().filter(|schema| is_of(schema, kind)).peekable();
        of_kind.peek().is_some()
            && of_kind.all(|schema| schema["description"].as_str() == Some(INSTALLED_KIND))
    })
}

fn is_of(schema: &Value, kind: &str) -> bool {
    let kinds = schema["x-kubernetes-group-version-kind"].as_array();
    let mut kinds = kinds.into_iter().flatten();
    kinds.any(|it| it["group"] == "argoproj.io" && it["kind"] == kind)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn described(application: &str, project: &str) -> Value {
        let schema = |kind: &str, description: &str| {
            json!({
                "description": description, "type": "object",
                "x-kubernetes-group-version-kind": [{ "group": "argoproj.io", "kind": kind, "version": "v1alpha1" }],
            })
        };
        json!({ "components": { "schemas": {
            "io.argoproj.v1alpha1.Application": schema("Application", application),
            "io.argoproj.v1alpha1.ApplicationList": schema("ApplicationList", "a list"),
            "io.argoproj.v1alpha1.AppProject": schema("AppProject", project),
            "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta": { "description": "metadata" },
        } } })
    }

    #[test]
    fn definitions_are_ours_only_if_all_carry_the_exact_mark() {
        assert!(judge(&described(INSTALLED_KIND, INSTALLED_KIND)));
        let upstream = "Application is a definition of Application resource.";
        let longer = format!("{INSTALLED_KIND} And changed.");
        for (application, project) in [
            (upstream, upstream),
            (INSTALLED_KIND, upstream),
            (upstream, INSTALLED_KIND),
            (&longer, INSTALLED_KIND),
            ("", INSTALLED_KIND),
        ] {
            assert!(
                !judge(&described(application, project)),
                "{application}, {project}"
            );
        }
    }

    #[test]
    fn unclear_definitions_are_foreign() {
        let mut half = described(INSTALLED_KIND, INSTALLED_KIND);
        half["components"]["schemas"]["io.argoproj.v1alpha1.AppProject"] = json!({});
        // A foreign definition of another version beside ours.
        let mut two = described(INSTALLED_KIND, INSTALLED_KIND);
        two["components"]["schemas"]["io.argoproj.v1.Application"] = json!({
            "x-kubernetes-group-version-kind": [{ "group": "argoproj.io", "kind": "Application" }],
        });
        for odd in [json!({}), json!([]), Value::Null, half, two] {
            assert!(!judge(&odd), "{odd}");
        }
    }
}
