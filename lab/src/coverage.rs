//! Which lines of production code the unit tests and the simulation run, as cargo-llvm-cov measures it.

use std::{
    collections::BTreeMap,
    env, fs,
    path::Path,
    process::{Command, ExitCode},
};

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;

use crate::{
    product::CRATES,
    progress::print,
    tools::{self, workspace},
};

/// The programs of LLVM, if they are not those of the toolchain.
const LLVM: [&str; 2] = ["LLVM_COV", "LLVM_PROFDATA"];

/// Files with code that only tests use.
const OF_TESTS: [&str; 4] = ["/tests.rs", "/testing.rs", "/tests/", "/testing/"];

/// The options of [`run`].
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// Modules with fewer covered lines, in per cent, are named.
    pub threshold: u64,
}

/// Lines of code, and how many of them ran.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
struct Lines {
    count: u64,
    covered: u64,
}

impl Lines {
    /// In per cent, rounded down; code without lines is covered.
    fn percent(self) -> u64 {
        let percent = self.covered.saturating_mul(100).checked_div(self.count);
        percent.unwrap_or(100)
    }
}

/// What cargo-llvm-cov writes, as far as it is used.
#[derive(Debug, Deserialize)]
struct Export {
    data: Vec<Data>,
}

#[derive(Debug, Deserialize)]
struct Data {
    files: Vec<Measured>,
}

#[derive(Debug, Deserialize)]
struct Measured {
    filename: String,
    summary: Summary,
}

#[derive(Debug, Deserialize)]
struct Summary {
    lines: Lines,
}

/// Measures, and prints the coverage of each crate and the modules below the threshold.
pub fn run(request: &Request) -> Result<ExitCode> {
    ensure_llvm()?;
    let program = tools::cargo_llvm_cov()?;
    let path = workspace().join("target/coverage.json");
    let status = Command::new(program)
        .current_dir(workspace())
        .args(["llvm-cov", "--locked", "--workspace", "--lib"])
        .args(["--test", "simulation", "--json", "--summary-only"])
        .arg("--output-path")
        .arg(&path)
        .status()
        .context("start cargo-llvm-cov")?;
    ensure!(status.success(), "cargo-llvm-cov: {status}");
    let text = fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
    let export = serde_json::from_str(&text).context("read what cargo-llvm-cov wrote")?;
    let modules = modules(export, &workspace());
    ensure!(!modules.is_empty(), "no module of the product was measured");
    print(report(&modules, request.threshold));
    Ok(ExitCode::SUCCESS)
}

/// Installs the LLVM programs of the toolchain, unless variables name others.
fn ensure_llvm() -> Result<()> {
    let is_set = |name: &&str| env::var_os(name).is_some_and(|path| !path.is_empty());
    if LLVM.iter().all(is_set) {
        return Ok(());
    }
    let installed = Command::new("rustup")
        .current_dir(workspace())
        .args(["component", "add", "llvm-tools"])
        .status();
    if !installed.is_ok_and(|status| status.success()) {
        bail!(
            "rustup cannot install the component llvm-tools; install LLVM of the major version that `rustc -vV` names, and set \
             LLVM_COV and LLVM_PROFDATA to its programs llvm-cov and llvm-profdata"
        );
    }
    Ok(())
}

/// The lines of each module of the product, by its path.
fn modules(export: Export, root: &Path) -> BTreeMap<String, Lines> {
    let mut modules = BTreeMap::new();
    for Measured { filename, summary } in export.data.into_iter().flat_map(|data| data.files) {
        let Ok(path) = Path::new(&filename).strip_prefix(root) else {
            continue;
        };
        let path = path.to_string_lossy().into_owned();
        if is_production(&path) {
            modules.insert(path, summary.lines);
        }
    }
    modules
}

fn is_production(path: &str) -> bool {
    let in_crate = path
        .split_once("/src/")
        .is_some_and(|(folder, _)| CRATES.contains(&folder));
    let of_tests = OF_TESTS.iter().any(|part| path.contains(part));
    in_crate && !of_tests
}

fn report(modules: &BTreeMap<String, Lines>, threshold: u64) -> String {
    let mut crates: BTreeMap<&str, Lines> = BTreeMap::new();
    for (path, lines) in modules {
        let name = path.split('/').next().unwrap_or_default();
        let sum = crates.entry(name).or_default();
        sum.count = sum.count.saturating_add(lines.count);
        sum.covered = sum.covered.saturating_add(lines.covered);
    }
    let mut report = vec![
        "| crate | lines | covered |".to_owned(),
        "|---|---|---|".to_owned(),
    ];
    report.extend(
        crates
            .iter()
            .map(|(name, lines)| format!("| {name} | {} | {} % |", lines.count, lines.percent())),
    );
    report.push(format!("\nModules with less than {threshold} %:"));
    let mut low: Vec<_> = modules
        .iter()
        .map(|(path, lines)| (lines.percent(), path, lines.count))
        .filter(|(percent, ..)| *percent < threshold)
        .collect();
    low.sort();
    let rows = low
        .iter()
        .map(|(percent, path, count)| format!("{percent:>3} % of {count:>4} lines: {path}"));
    report.extend(rows);
    report.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn export(files: &[(&str, u64, u64)]) -> Export {
        let files = files.iter().map(|(filename, count, covered)| {
            serde_json::json!({
                "filename": filename,
                "summary": {"lines": {"count": count, "covered": covered, "percent": 1.5}, "regions": {}},
            })
        });
        let files: Vec<_> = files.collect();
        serde_json::from_value(serde_json::json!({"data": [{"files": files, "totals": {}}]}))
            .unwrap()
    }

    #[test]
    fn only_production_code_is_measured() {
        let export = export(&[
            ("/w/agent/src/a.rs", 10, 5),
            ("/w/agent/src/a/tests.rs", 10, 10),
            ("/w/agent/src/testing.rs", 10, 10),
            ("/w/argocd/src/testing/memory.rs", 10, 10),
            ("/w/agent/src/latests.rs", 4, 1),
            ("/w/lab/src/wait.rs", 10, 10),
            ("/w/tests/simulation/main.rs", 10, 10),
            ("/elsewhere/agent/src/a.rs", 10, 10),
        ]);
        let modules = modules(export, Path::new("/w"));
        let paths: Vec<_> = modules.keys().map(String::as_str).collect();
        assert_eq!(paths, ["agent/src/a.rs", "agent/src/latests.rs"]);
    }

    #[test]
    fn crates_are_summed_and_low_modules_named() {
        let export = export(&[
            ("/w/agent/src/a.rs", 100, 90),
            ("/w/agent/src/b.rs", 100, 10),
            ("/w/ocm/src/c.rs", 50, 25),
        ]);
        let report = report(&modules(export, Path::new("/w")), 50);
        assert!(report.contains("| agent | 200 | 50 % |"), "{report}");
        assert!(report.contains("| ocm | 50 | 50 % |"), "{report}");
        assert!(
            report.ends_with("50 %:\n 10 % of  100 lines: agent/src/b.rs"),
            "{report}"
        );
    }

    #[test]
    fn code_without_lines_is_covered() {
        assert_eq!(Lines::default().percent(), 100);
    }
}
