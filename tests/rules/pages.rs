//! The pages in Argo CD's UI: the JavaScript that the chart installs is that of the sources in `ui`.

use std::{fs, process::Command};

use lab::tools::{browser, directory, workspace};

/// The file in the chart.
const BUNDLE: &str = "manifests/hub/extension/extension-argocd-agent.js";
/// The most bytes that it may have, uncompressed; compressed it has a third.
const LIMIT: usize = 150 << 10;

/// It runs with the login of the viewer, so it has nothing that makes code or markup from a text, and loads nothing from elsewhere.
#[test]
fn bundle_of_the_pages_is_small_and_executes_no_text() {
    let text = fs::read_to_string(workspace().join(BUNDLE)).expect(BUNDLE);
    assert!(text.len() < LIMIT, "{} bytes", text.len());
    let head = text.lines().next().unwrap_or_default();
    let version = env!("CARGO_PKG_VERSION");
    assert!(head.contains(&format!(" {version}:")), "{head}");
    assert!(head.ends_with("SPDX-License-Identifier: Apache-2.0"));
    let forbidden = [
        "eval(",
        "Function(",
        "innerHTML",
        "dangerouslySetInnerHTML",
        "insertAdjacentHTML",
        "document.write",
        "import(",
        "http://",
        "https://argo",
    ];
    let found: Vec<_> = forbidden.iter().filter(|it| text.contains(**it)).collect();
    assert!(found.is_empty(), "{found:?}");
}

/// Node and the modules of `ui/package-lock.json` build it again. Where they cannot be installed, `make tools` prints the reason.
#[test]
fn committed_bundle_matches_its_sources() {
    if let Some(part) = browser::missing().filter(|part| ["NODE", "NPM"].contains(part)) {
        println!("not compared: {part} is missing");
        return;
    }
    let built = Command::new("node")
        .arg(workspace().join("ui/build.mjs"))
        .arg("--check")
        .env("UI_MODULES", directory().join("ui"))
        .output()
        .expect("node runs");
    let text = String::from_utf8_lossy(&built.stderr);
    assert!(built.status.success(), "{text}");
}
