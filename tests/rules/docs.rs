//! Claims of the documentation, compared with the source tree.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use argocd::keys::addon::CA_SECRET;
use serde_json::Value;

use crate::shared::names;

use names::test_names;

/// Every name that a row of `docs/features.md` gives as proof exists, as a test or as an end-to-end test.
#[test]
fn every_proof_of_a_feature_exists() {
    let known = test_names();
    let mut wrong = Vec::new();
    for (row, state, proofs) in features() {
        let proofs: Vec<_> = backticked(&proofs).collect();
        match state.as_str() {
            "partly" | "done" if proofs.is_empty() => {
                wrong.push(format!("{row}: is {state} without a test"));
            }
            "planned" | "partly" | "done" => {}
            other => wrong.push(format!("{row}: unknown state {other:?}")),
        }
        let unknown = proofs.iter().filter(|proof| !known.contains(**proof));
        wrong.extend(unknown.map(|proof| format!("{row}: no test is named {proof}")));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Every name that these pages give as proof exists, as a test or as an end-to-end test.
#[test]
fn every_proof_on_the_pages_of_proofs_exists() {
    for (page, least) in [
        ("docs/security.md", 40),
        ("docs/ocm.md", 30),
        ("docs/interop.md", 30),
        ("docs/tenants.md", 20),
        ("docs/rbac.md", 10),
    ] {
        every_proof_exists(page, least);
    }
}

/// Every point of the conformance list has its line, with at least one test.
#[test]
fn every_point_of_conformance_has_a_test() {
    let text = fs::read_to_string(root().join("docs/ocm.md")).expect("docs/ocm.md");
    for point in 1..=23 {
        let start = format!("| {point} | ");
        let line = text.lines().find(|line| line.starts_with(&start));
        let line = line.unwrap_or_else(|| panic!("docs/ocm.md has no line for point {point}"));
        let tests = backticked(line).filter(|it| is_sentence(it)).count();
        assert!(tests > 0, "point {point} has no test");
    }
}

/// The example for cert-manager makes the Secret that the manager reads, and each of its issuers.
#[test]
fn cert_manager_example_makes_the_secret_of_the_ca() {
    let page = fs::read_to_string(root().join("docs/certificates.md")).expect("the page");
    let (_, rest) = page.split_once("```yaml\n").expect("the example");
    let (example, _) = rest.split_once("```").expect("its end");
    let objects = example.split("---\n");
    let objects: Vec<Value> = objects
        .map(|object| serde_saphyr::from_str(object).expect("YAML"))
        .collect();
    let of = |kind: &str| {
        let kind = Value::from(kind);
        objects.iter().filter(move |it| it["kind"] == kind)
    };
    for certificate in of("Certificate") {
        assert_eq!(certificate["spec"]["isCA"], true);
        let issuer = &certificate["spec"]["issuerRef"]["name"];
        assert!(of("Issuer").any(|it| it["metadata"]["name"] == *issuer));
    }
    let mut namespaces = objects.iter().map(|it| &it["metadata"]["namespace"]);
    assert!(namespaces.all(|namespace| namespace == "argocd-agent-addon"));
    let secrets = of("Certificate").map(|it| &it["spec"]["secretName"]);
    let secrets: Vec<_> = secrets.filter_map(Value::as_str).collect();
    assert!(secrets.contains(&CA_SECRET), "{secrets:?}");
    let mut made = of("Issuer").filter_map(|it| it["spec"]["ca"]["secretName"].as_str());
    assert!(made.all(|secret| secrets.contains(&secret)));
}

fn every_proof_exists(page: &str, least: usize) {
    let text = fs::read_to_string(root().join(page)).expect(page);
    let known = test_names();
    let proofs: Vec<_> = backticked(&text).filter(|it| is_sentence(it)).collect();
    assert!(
        proofs.len() > least,
        "only {} proofs were found in {page}",
        proofs.len()
    );
    let unknown: Vec<_> = proofs
        .into_iter()
        .filter(|it| !known.contains(*it))
        .collect();
    assert!(unknown.is_empty(), "no tests have these names: {unknown:?}");
}

/// Every module at the top of a crate has its place in `docs/architecture.md`.
#[test]
fn every_module_is_in_the_architecture() {
    let page = root().join("docs/architecture.md");
    let text = fs::read_to_string(page).expect("docs/architecture.md");
    let described: BTreeSet<_> = backticked(&text).collect();
    let mut missing = Vec::new();
    for name in lab::product::CRATES {
        let files = fs::read_dir(root().join(name).join("src")).expect("a crate's sources");
        for path in files.flatten().map(|entry| entry.path()) {
            let module = path.file_stem().unwrap_or_default().to_string_lossy();
            let is_reported =
                ["lib", "main", "testing"].contains(&&*module) || described.contains(&*module);
            if path.is_file() && !is_reported {
                missing.push(format!("{name}::{module}"));
            }
        }
    }
    assert!(
        missing.is_empty(),
        "not in docs/architecture.md: {missing:?}"
    );
}

/// Whether this is how a test is called: words in lower case with lines between them.
fn is_sentence(text: &str) -> bool {
    text.matches('_').count() > 1
        && text
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
}

/// A renamed test would leave its group without its duration.
#[test]
fn every_duration_is_of_an_end_to_end_test() {
    let known = test_names();
    let table = fs::read_to_string(root().join("tests/e2e/durations.txt")).expect("the table");
    let lines = table.lines().filter(|line| !line.starts_with('#'));
    let tests: Vec<&str> = lines.filter_map(|line| line.rsplit("::").next()).collect();
    let unknown: Vec<_> = tests
        .iter()
        .filter(|test| !known.contains(**test))
        .collect();
    assert!(tests.len() > 10, "only {} durations", tests.len());
    assert!(unknown.is_empty(), "no test has this name: {unknown:?}");
}

/// An unreadable feature list would prove nothing.
#[test]
fn the_feature_list_is_read() {
    assert!(
        features().len() > 60,
        "only {} rows were read",
        features().len()
    );
    assert!(
        test_names().len() > 50,
        "only {} tests were found",
        test_names().len()
    );
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("tests/ lies in the workspace")
        .into()
}

/// (row, state, proofs) of every line of the table.
fn features() -> Vec<(String, String, String)> {
    let text = fs::read_to_string(root().join("docs/features.md")).expect("docs/features.md");
    text.lines()
        .filter(|line| line.starts_with("| ") && !line.starts_with("| area"))
        .map(|line| {
            let cells: Vec<_> = line.trim_matches('|').split(" | ").map(str::trim).collect();
            let cell = |n: usize| cells.get(n).copied().unwrap_or_default().to_owned();
            (cell(1), cell(2), cell(3).trim_end_matches('|').to_owned())
        })
        .collect()
}

fn backticked(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}
