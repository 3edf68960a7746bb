//! Clients that forge what argocd-server verifies, and users without rights.

use anyhow::{Context as _, Result, ensure};
use lab::{
    steps::{At, deliver, enrol::ARGOCD},
    wait,
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};

use super::{
    API, GUARD, Ui, View, api_address, application_page, delivery::greeter, fleet_page,
    page::Theme, set,
};
use crate::stage::{SOON, Stage, text};

const TOKEN: &str = "Argocd-Agent-Token";
const APPLICATION: &str = "Argocd-Application-Name";
/// A request of another client, and the status of its answer: the path and the headers.
type Case<'a> = (&'a str, &'a [(&'a str, &'a str)], u16);

/// An account that may see one project.
const ACCOUNT: &str = "ui-viewer";

/// Another client than argocd-server gets nothing: without the shared secret, with a wrong one, and with the right one for another
/// Application than the headers name.
pub(crate) async fn forged_headers_are_refused(stage: &Stage) -> Result<()> {
    let _ui = Ui::open(stage).await?;
    let address = api_address(stage).await?;
    let secret = stage.hub.read(&At::secret(ARGOCD, API)).await?;
    let secret = text(&secret, "token")?;
    let guard = format!("{ARGOCD}:{GUARD}");
    let path = "/api/v1/applications/spoke1/other/path";
    let (fleet, cluster) = ("/api/v1/fleet", "/api/v1/clusters/spoke1");
    let wrong = "0".repeat(secret.len());
    let cases: [Case<'_>; 9] = [
        (fleet, &[], 401),
        (fleet, &[(APPLICATION, &guard)], 401),
        (fleet, &[(TOKEN, &wrong), (APPLICATION, &guard)], 401),
        (fleet, &[(TOKEN, &secret)], 403),
        (fleet, &[(TOKEN, &secret), (APPLICATION, "spoke1:one")], 403),
        (
            cluster,
            &[(TOKEN, &secret), (APPLICATION, "spoke1:one")],
            403,
        ),
        (path, &[(TOKEN, &secret), (APPLICATION, "spoke1:one")], 403),
        (path, &[(TOKEN, &secret), (APPLICATION, &guard)], 403),
        (fleet, &[(TOKEN, &secret), (APPLICATION, &guard)], 200),
    ];
    for (target, headers, expected) in cases {
        let (status, body) = ask(&address, "GET", target, headers).await?;
        ensure!(status == expected, "{target} {expected}: {status}, {body}");
        ensure!(
            expected == 200 || !body.contains("spoke2"),
            "it has facts of the fleet: {body}"
        );
    }
    let right = [(TOKEN, secret.as_str()), (APPLICATION, guard.as_str())];
    let (status, _) = ask(&address, "POST", fleet, &right).await?;
    ensure!(status == 405, "a POST: {status}");
    let twice = [right[0], right[1], (APPLICATION, "spoke1:one")];
    let (status, _) = ask(&address, "GET", fleet, &twice).await?;
    ensure!(status == 400, "a header twice: {status}");
    Ok(())
}

/// The status and the body of the answer to a request.
async fn ask(
    address: &str,
    method: &str,
    target: &str,
    headers: &[(&str, &str)],
) -> Result<(u16, String)> {
    let headers = headers
        .iter()
        .map(|(name, value)| format!("{name}: {value}\r\n"));
    let headers: String = headers.collect();
    // The end of the connection is that of the answer.
    let request = format!(
        "{method} {target} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n{headers}\r\n"
    );
    let asking = async {
        let mut stream = TcpStream::connect(address).await?;
        stream.write_all(request.as_bytes()).await?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await?;
        anyhow::Ok(answer)
    };
    let answer = timeout(SOON, asking).await.context("no answer")??;
    let answer = String::from_utf8_lossy(&answer);
    let status = answer.split(' ').nth(1).context("no status")?;
    Ok((status.parse()?, answer.clone().into_owned()))
}

/// An account that may `get` the Applications of one project sees the delivery of those, and nothing of the fleet and of others: Argo CD
/// answers in place of the hub program, and the pages name the missing right.
pub(crate) async fn account_without_the_guard_learns_nothing(stage: &Stage) -> Result<()> {
    let ui = Ui::open(stage).await?;
    let (own, other) = (
        greeter(stage, "ui-own").await?,
        greeter(stage, "ui-other").await?,
    );
    for app in [&own, &other] {
        app.apply(&stage.hub).await?;
    }
    for app in [&own, &other] {
        deliver::until_healthy(&stage.hub, &app.at, "").await?;
    }
    let policy = format!(
        "p, {ACCOUNT}, applications, get, ui-own/*, allow\np, {ACCOUNT}, extensions, invoke, argocd-agent*, allow\n"
    );
    set(stage, "argocd-cm", json!({"accounts.ui-viewer": "login"})).await?;
    set(stage, "argocd-rbac-cm", json!({"policy.csv": policy})).await?;
    let viewer = ui.console.for_account(stage, ACCOUNT).await?;

    let mut page = ui.page_of(&viewer, Theme::Light).await?;
    page.goes(&application_page("spoke1", "ui-own", View::Delivery))
        .await?;
    // The server reads its policies a moment after they are written; the page asks again by itself.
    page.until_shows(&["Delivered, and in order"]).await?;
    let requests = [
        ("argocd-agent-fleet/api/v1/fleet", (ARGOCD, GUARD), GUARD),
        (
            "argocd-agent-fleet/api/v1/clusters/spoke2",
            (ARGOCD, GUARD),
            GUARD,
        ),
        (
            "argocd-agent-fleet/api/v1/fleet",
            ("spoke1", "ui-own"),
            "ui-own",
        ),
        (
            "argocd-agent/api/v1/applications/spoke1/ui-other/path",
            ("spoke1", "ui-other"),
            "ui-other",
        ),
        (
            "argocd-agent/api/v1/applications/spoke1/ui-other/path",
            ("spoke1", "ui-own"),
            "ui-own",
        ),
        ("argocd-agent/api/v1/fleet", ("spoke1", "ui-own"), "ui-own"),
    ];
    for (target, at, project) in requests {
        let (status, body) = page
            .asks(&format!("/extensions/{target}"), at, project)
            .await?;
        ensure!(
            matches!(status, 401 | 403),
            "{target} as {at:?}: {status}, {body}"
        );
        let is_silent = ["spoke2", "hops", "clusters\":"]
            .iter()
            .all(|it| !body.contains(it));
        ensure!(
            is_silent,
            "{target} as {at:?} has facts of the fleet: {body}"
        );
    }
    page.goes(fleet_page()).await?;
    let shown = page
        .until_shows(&["do not let you see the fleet", "ask an administrator"])
        .await?;
    ensure!(!shown.contains("spoke2"), "{shown}");
    page.is_innocent().await?;

    set(stage, "argocd-cm", json!({"accounts.ui-viewer": null})).await?;
    set(stage, "argocd-rbac-cm", json!({"policy.csv": null})).await?;
    is_admin_again(&ui).await?;
    stage.clear(&own).await?;
    stage.clear(&other).await
}

/// Waits until the server has read its policies again: later tests use the fleet page.
async fn is_admin_again(ui: &Ui<'_>) -> Result<()> {
    let look = async || {
        let mut page = ui.page().await?;
        page.goes(fleet_page()).await?;
        ui.fleet(&mut page).await
    };
    let is_there = |fleet: &Value| fleet["clusters"].is_array();
    wait::until("the admin sees the fleet", look, is_there)
        .await
        .map(drop)
}
