//! `argocd-agentctl` on the command line: `status`, `why`, `check` and `support-bundle`.

pub(crate) mod adopt;
pub(crate) mod certificates;
pub(crate) mod spoke;

use std::path::PathBuf;

use anyhow::{Context as _, Result, ensure};
use lab::{
    argocd, product,
    steps::deliver::{self, Application},
    wait,
};
use serde_json::{Value, json};

use crate::stage::{SOON, Stage};

/// A group that the roles in `docs/agentctl.md` are bound to.
const TEAM: &str = "platform-team";
/// A user in that group, as the audit log names it.
pub(crate) const MEMBER: &str = "team-member";
/// A user without any role.
const NO_RIGHTS: &str = "no-rights";

/// Runs a command that should exit with this code, and returns its JSON output.
pub(crate) async fn ask(kubeconfig: PathBuf, code: i32, arguments: &[&str]) -> Result<Value> {
    let arguments = [arguments, &["-o", "json"]].concat();
    let output = product::agentctl(&kubeconfig, &arguments).await?;
    ensure!(output.code == Some(code), "{output:?}");
    serde_json::from_str(&output.out).with_context(|| format!("{output:?}"))
}

/// Runs a command that should fail, and returns its error output.
async fn fails(kubeconfig: PathBuf, arguments: &[&str]) -> Result<String> {
    let output = product::agentctl(&kubeconfig, arguments).await?;
    ensure!(
        output.code == Some(2) && output.out.is_empty(),
        "{output:?}"
    );
    Ok(output.err)
}

impl Stage {
    /// The kubeconfig of the cluster administrator.
    fn admin(&self) -> PathBuf {
        self.lab.hub().kubeconfig()
    }

    /// The kubeconfig of a user with the documented roles.
    pub(crate) async fn platform_team(&self) -> Result<PathBuf> {
        self.lab.hub().apply(&roles_of_the_page(1)?).await?;
        self.lab.hub().kubeconfig_for(MEMBER, Some(TEAM))
    }
}

/// A YAML block of `docs/agentctl.md`: block 1 has the roles on the hub, block 2 those on a spoke, block 3 those for
/// `hub setup`.
pub(crate) fn roles_of_the_page(block: usize) -> Result<String> {
    let page = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../docs/agentctl.md");
    let page = std::fs::read_to_string(page)?;
    let roles = page.split("```yaml\n").nth(block);
    let roles = roles.and_then(|rest| rest.split("```").next());
    Ok(roles.context("the page shows roles")?.to_owned())
}

/// `status` lists the fleet for a user who has the documented roles and no other.
pub(crate) async fn status_needs_only_the_documented_roles(stage: &Stage) -> Result<()> {
    stage.enrolled(1).await?;
    stage.enrolled(2).await?;
    let app = stage.greeter("looked-at", 1).await?;
    app.apply(&stage.hub).await?;
    deliver::until_healthy(&stage.hub, &app.at, "").await?;
    let team = stage.platform_team().await?;
    let fleet = ask(team.clone(), 0, &["status"]).await?;
    let clusters = fleet["clusters"].as_array().context("clusters")?;
    ensure!(clusters.len() == 2, "{fleet:#}");
    for cluster in clusters {
        let (mode, connected) = (&cluster["mode"], &cluster["connected"]["state"]);
        ensure!(mode == "managed" && connected == "yes", "{cluster:#}");
        ensure!(
            cluster["version"] == env!("CARGO_PKG_VERSION"),
            "{cluster:#}"
        );
    }
    let counted = &clusters[0]["applications"];
    ensure!(counted["sync"]["Synced"].as_u64() >= Some(1), "{counted:#}");
    ensure!(
        counted["health"]["Healthy"].as_u64() >= Some(1),
        "{counted:#}"
    );

    let output = product::agentctl(&team, &["status", "spoke2", "-o", "wide"]).await?;
    let lines: Vec<_> = output.out.lines().collect();
    let is_one =
        lines.len() == 2 && lines[0].starts_with("CLUSTER") && lines[1].starts_with("spoke2");
    ensure!(output.succeeded() && is_one, "{output:?}");
    ensure!(
        !output.out.contains('\u{1b}'),
        "colours away from a terminal"
    );

    let error = fails(team.clone(), &["status", "spoke11"]).await?;
    ensure!(error.contains("did you mean spoke1?"), "{error}");
    let without_rights = stage.lab.hub().kubeconfig_for(NO_RIGHTS, None)?;
    let error = fails(without_rights, &["status"]).await?;
    ensure!(
        error.contains("you may not list managedclusteraddons"),
        "{error}"
    );
    stage.clear(&app).await
}

/// The hops in the output of `why` that have this state.
fn hops<'a>(why: &'a Value, state: &str) -> Vec<&'a str> {
    let hops = why["hops"].as_array().into_iter().flatten();
    let of_state = hops.filter(|hop| hop["state"] == state);
    of_state.filter_map(|hop| hop["hop"].as_str()).collect()
}

/// `why` explains an Application that is delivered, one with a contradicting destination, and one that its project
/// rejects: it reports the state of each hop, the writers, and the next step.
pub(crate) async fn why_explains_the_route_of_an_application(stage: &Stage) -> Result<()> {
    stage.enrolled(1).await?;
    let team = stage.platform_team().await?;
    let mut app = stage.greeter("explained", 1).await?;
    app.apply(&stage.hub).await?;
    deliver::until_healthy(&stage.hub, &app.at, "").await?;
    let why = ask(team.clone(), 0, &["why", "explained", "--exit-code"]).await?;
    // For Argo CD on the hub its destination, `in-cluster`, is the hub.
    let next = why["next"].as_str().unwrap_or_default();
    let names_cluster = next.contains("set spec.destination.name to spoke1");
    ensure!(why["verdict"] == "good" && names_cluster, "{why:#}");
    let good = hops(&why, "good");
    ensure!(
        good.contains(&"routing") && good.contains(&"delivery"),
        "{why:#}"
    );
    let writers = why["writers"].as_array().context("writers")?;
    let principal = |it: &Value| {
        it["wrote"]
            .as_array()
            .is_some_and(|parts| parts.contains(&"status".into()))
    };
    ensure!(writers.iter().any(principal), "{why:#}");

    "spoke2".clone_into(&mut app.cluster);
    until_condition(stage, &app, "ArgoCDAgentConflict").await?;
    let why = ask(team.clone(), 1, &["why", "explained", "--exit-code"]).await?;
    ensure!(hops(&why, "bad") == ["routing"], "{why:#}");
    let next = why["next"].as_str().unwrap_or_default();
    ensure!(next.contains("spec.destination"), "{why:#}");

    "in-cluster".clone_into(&mut app.cluster);
    "other-project".clone_into(&mut app.project);
    until_condition(stage, &app, "ArgoCDAgentNotAdmitted").await?;
    let why = ask(team.clone(), 0, &["why", "explained", "-n", "spoke1"]).await?;
    ensure!(hops(&why, "bad") == ["project"], "{why:#}");
    let next = why["next"].as_str().unwrap_or_default();
    ensure!(next.contains("AppProject argocd/other-project"), "{why:#}");

    let error = fails(team, &["why", "nothing-of-that-name"]).await?;
    ensure!(error.contains("not found on the hub"), "{error}");
    "explained".clone_into(&mut app.project);
    app.apply(&stage.hub).await?;
    deliver::until_healthy(&stage.hub, &app.at, "").await?;
    stage.clear(&app).await
}

/// Applies a change and waits until the principal sets a condition of this type.
async fn until_condition(stage: &Stage, app: &Application, kind: &'static str) -> Result<()> {
    app.apply(&stage.hub).await?;
    let has_it = |app: &Value| {
        let conditions = app["status"]["conditions"].as_array();
        conditions
            .into_iter()
            .flatten()
            .any(|it| it["type"] == kind)
    };
    let what = format!("has the condition {kind}");
    stage
        .hub
        .until(&app.at, &what, SOON, has_it)
        .await
        .map(drop)
}

/// The results of all checks with this name.
pub(crate) fn results(found: &Value, check: &str) -> Vec<String> {
    let all = found["checks"].as_array().into_iter().flatten();
    let of = all.filter(|it| it["check"] == check);
    of.filter_map(|it| it["result"].as_str().map(str::to_owned))
        .collect()
}

/// `check` reports an argocd-server that is configured for a disabled redis proxy and lacks write rights. It accepts one
/// that uses its own redis and has the rights.
async fn argo_cd_settings_are_checked(stage: &Stage) -> Result<()> {
    const RIGHT: &str = r"
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: argocd-server-of-a-test}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}
subjects:
  - {kind: ServiceAccount, namespace: argocd, name: argocd-server}
";
    let (hub, team) = (stage.lab.hub(), stage.platform_team().await?);
    let at = argocd::parameters();
    let before = stage.hub.get(&at).await?;
    let led =
        |server: &str| json!({"data": {"application.namespaces": "*", "redis.server": server}});
    stage.hub.apply(&at, led(product::REDIS_PROXY)).await?;
    let found = ask(team.clone(), 1, &["check"]).await?;
    ensure!(results(&found, "redis") == ["failed"], "{found:#}");
    ensure!(results(&found, "server") == ["warning"], "{found:#}");
    ensure!(results(&found, "argo cd") == ["ok"], "{found:#}");
    ensure!(results(&found, "secrets") == ["ok"], "{found:#}");

    hub.apply(RIGHT).await?;
    stage.hub.apply(&at, led("argocd-redis:6379")).await?;
    let found = ask(team, 0, &["check"]).await?;
    ensure!(results(&found, "redis") == ["warning"], "{found:#}");
    ensure!(results(&found, "server") == ["ok"], "{found:#}");
    hub.delete(RIGHT).await?;
    match before {
        None => stage.hub.delete(&at).await,
        Some(before) => {
            let data = json!({"data": before["data"]});
            stage.hub.apply(&at, data).await.map(drop)
        }
    }
}

/// `check` passes on a complete hub, warns a user about missing rights, and fails for a wrong namespace.
pub(crate) async fn check_reports_hub_prerequisites_and_rights(stage: &Stage) -> Result<()> {
    stage.enrolled(1).await?;
    let found = ask(stage.platform_team().await?, 0, &["check"]).await?;
    for check in [
        "add-on",
        "hub program",
        "replicas",
        "address",
        "controllers",
        "your rights",
    ] {
        ensure!(results(&found, check) == ["ok"], "{check}: {found:#}");
    }
    ensure!(
        results(&found, "api") == ["ok", "ok", "ok", "ok"],
        "{found:#}"
    );

    argo_cd_settings_are_checked(stage).await?;
    let without_rights = stage.lab.hub().kubeconfig_for(NO_RIGHTS, None)?;
    let found = ask(without_rights, 0, &["check"]).await?;
    ensure!(results(&found, "your rights") == ["warning"], "{found:#}");
    for check in ["hub program", "replicas"] {
        ensure!(results(&found, check) == ["unclear"], "{check}: {found:#}");
    }
    let elsewhere = ["check", "--own-namespace", "default"];
    let found = ask(stage.admin(), 1, &elsewhere).await?;
    ensure!(results(&found, "hub program") == ["failed"], "{found:#}");
    Ok(())
}

/// An admission policy that rejects Applications whose name begins with `refused`.
const POLICY: &str = r#"
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: refused-by-a-test}
spec:
  failurePolicy: Fail
  matchConstraints:
    resourceRules:
      - {apiGroups: [argoproj.io], apiVersions: [v1alpha1], operations: [CREATE], resources: [applications]}
  validations:
    - expression: "!object.metadata.name.startsWith('refused')"
      message: this test does not want it
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: refused-by-a-test}
spec: {policyName: refused-by-a-test, validationActions: [Deny]}
"#;

/// `why` quotes the error of the API server that rejected an object.
pub(crate) async fn why_explains_a_refused_object(stage: &Stage) -> Result<()> {
    stage.enrolled(1).await?;
    let team = stage.platform_team().await?;
    let cluster = &stage.lab.spokes()[0];
    cluster.apply(POLICY).await?;
    // The API server enforces a policy some moments after its creation.
    let probe = Stage::replica("refused-probe");
    let source = json!({"repoURL": "https://git.example.com/x.git", "path": "x"});
    let spec = json!({"project": "default", "source": source, "destination": {"namespace": "x"}});
    let look = || async {
        let refused = stage.spoke(1).apply(&probe, json!({"spec": spec})).await;
        stage.spoke(1).delete(&probe).await?;
        Ok(refused.is_err())
    };
    wait::until("the policy is enforced", look, |refused| *refused).await?;

    let app = stage.greeter("refused-there", 1).await?;
    until_condition(stage, &app, "ArgoCDAgentError").await?;
    let why = ask(team.clone(), 1, &["why", "refused-there", "--exit-code"]).await?;
    ensure!(hops(&why, "bad") == ["refused"], "{why:#}");
    let hop = why["hops"].as_array().into_iter().flatten();
    let mut words = hop.filter_map(|hop| hop["what"].as_str());
    ensure!(
        words.any(|it| it.contains("this test does not want it")),
        "{why:#}"
    );

    let folder = stage.lab.dir().join("support-bundle");
    let bundle = ["support-bundle", folder.to_str().context("a path")?];
    let output = product::agentctl(&team, &bundle).await?;
    ensure!(output.succeeded(), "{output:?}");
    let read = |name: &str| -> Result<Value> {
        Ok(serde_json::from_str(&std::fs::read_to_string(
            folder.join(name),
        )?)?)
    };
    let applications = read("applications.json")?;
    let mut all = applications.as_array().into_iter().flatten();
    ensure!(
        all.any(|it| it["name"] == "refused-there"),
        "{applications:#}"
    );
    ensure!(
        read("add-ons.json")?
            .as_array()
            .is_some_and(|all| !all.is_empty())
    );
    for file in std::fs::read_dir(&folder)? {
        let text = std::fs::read_to_string(file?.path())?;
        ensure!(
            !text.contains("PRIVATE KEY") && !text.contains("notRead"),
            "{text}"
        );
    }
    let again = fails(team, &bundle).await?;
    ensure!(again.contains("exists; name a new folder"), "{again}");

    cluster.delete(POLICY).await?;
    stage.clear(&app).await
}
