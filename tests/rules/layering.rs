//! The dependencies between our crates and between the folders of `principal` and `agent`, against the tables here.

use std::collections::{BTreeMap, BTreeSet};

use cargo_metadata::{DependencyKind, MetadataCommand};
use proc_macro2::{Delimiter, TokenStream, TokenTree};

use crate::shared::sources::{self, is_group, is_punct};

/// Which crate may use which. A new arrow is a decision: change `docs/architecture.md` with it.
const ARROWS: &[(&str, &[&str])] = &[
    ("runtime", &[]),
    ("argocd", &[]),
    ("protocol", &[]),
    ("live", &["argocd"]),
    ("ocm", &[]),
    ("principal", &["argocd", "live", "protocol", "runtime"]),
    (
        "addon-manager",
        &["argocd", "live", "ocm", "principal", "protocol", "runtime"],
    ),
    ("agent", &["argocd", "live", "protocol", "runtime"]),
    ("agentctl", &["argocd", "live", "ocm", "runtime"]),
    ("lab-kubelet", &[]),
    ("lab-ocm-stand-in", &[]),
    (
        "lab",
        &[
            "lab-kubelet",
            "lab-ocm-stand-in",
            "live",
            "protocol",
            "runtime",
        ],
    ),
];

/// The test bed may use everything, and nothing may use it.
const TEST_BED: &str = "tests";

#[test]
fn crates_use_only_allowed_dependencies() {
    let metadata = MetadataCommand::new()
        .no_deps()
        .exec()
        .expect("cargo describes the workspace");
    let members: BTreeSet<&str> = metadata.packages.iter().map(|p| p.name.as_str()).collect();
    let allowed: BTreeMap<&str, BTreeSet<&str>> = ARROWS
        .iter()
        .map(|(from, to)| (*from, to.iter().copied().collect()))
        .collect();

    let mut wrong = Vec::new();
    for package in metadata
        .packages
        .iter()
        .filter(|p| p.name.as_str() != TEST_BED)
    {
        let name = package.name.as_str();
        let Some(allowed) = allowed.get(name) else {
            wrong.push(format!("{name} is not in the table of arrows"));
            continue;
        };
        let ours = package
            .dependencies
            .iter()
            .filter(|d| d.kind != DependencyKind::Development && members.contains(d.name.as_str()));
        for dependency in ours.filter(|d| !allowed.contains(d.name.as_str())) {
            wrong.push(format!("{name} must not use {}", dependency.name));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_crate_of_the_table_exists() {
    let metadata = MetadataCommand::new()
        .no_deps()
        .exec()
        .expect("cargo describes the workspace");
    let members: BTreeSet<&str> = metadata.packages.iter().map(|p| p.name.as_str()).collect();
    let missing: Vec<_> = ARROWS
        .iter()
        .map(|(n, _)| *n)
        .filter(|n| !members.contains(n))
        .collect();
    assert!(
        missing.is_empty(),
        "in the table but not in the workspace: {missing:?}"
    );
}

/// Which folder of a crate may use which other module at its top. A new arrow is a decision: change
/// `docs/architecture.md` with it.
const FOLDERS: &[(&str, &str, &[&str])] = &[
    (
        "principal",
        "sync",
        &[
            "admission",
            "domain",
            "fleet",
            "live",
            "metrics",
            "report",
            "settings",
            "state",
            "store",
        ],
    ),
    (
        "principal",
        "live",
        &[
            "admission",
            "domain",
            "fleet",
            "metrics",
            "report",
            "settings",
            "store",
            "transport",
        ],
    ),
    (
        "principal",
        "admission",
        &["fleet", "metrics", "report", "state"],
    ),
    (
        "principal",
        "transport",
        &["admission", "metrics", "settings"],
    ),
    (
        "principal",
        "service",
        &["admission", "live", "metrics", "settings", "sync"],
    ),
    ("principal", "store", &["domain", "metrics"]),
    (
        "agent",
        "session",
        &["config", "live", "metrics", "sync", "transport"],
    ),
    ("agent", "sync", &["config", "lock", "metrics", "transport"]),
    ("agent", "live", &["config", "lock", "metrics", "transport"]),
    ("agent", "transport", &["config", "lock", "metrics"]),
];

#[test]
fn folders_use_only_modules_that_the_table_allows() {
    let mut wrong = Vec::new();
    for (program, folder, allowed) in FOLDERS {
        for (used, file) in uses(program, folder) {
            if used != *folder && !allowed.contains(&used.as_str()) {
                wrong.push(format!("{file}: {program}::{folder} must not use {used}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn no_two_modules_at_the_top_use_each_other() {
    let mut wrong = Vec::new();
    for program in ["principal", "agent"] {
        let uses: BTreeMap<String, _> = tops_of(program)
            .into_iter()
            .map(|it| (it.clone(), uses(program, &it)))
            .collect();
        for (one, used) in &uses {
            for (other, file) in used.range(one.clone()..).filter(|it| it.0 != one) {
                if let Some(back) = uses.get(other).and_then(|it| it.get(one)) {
                    wrong.push(format!("{program}: {one} and {other} ({file}, {back})"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The modules at the top of a crate.
fn tops_of(program: &str) -> BTreeSet<String> {
    let src = format!("{program}/src/");
    let files = sources::files(program);
    let tops = files
        .iter()
        .filter_map(|it| it.strip_prefix(&src)?.split('/').next());
    tops.map(|it| it.trim_end_matches(".rs").to_owned())
        .filter(|it| it != "lib" && it != "main")
        .collect()
}

/// The modules at the top of the crate that the production code of a folder names, each with a file.
fn uses(program: &str, folder: &str) -> BTreeMap<String, String> {
    let inside = format!("{program}/src/{folder}/");
    let root = format!("{program}/src/{folder}.rs");
    let mut used = BTreeMap::new();
    for path in sources::files(program) {
        if path == root || path.starts_with(&inside) {
            collect(sources::tokens(&path), &path, &mut used);
        }
    }
    // Items of `lib.rs`, and the module for tests.
    used.retain(|name, _| name.starts_with(char::is_lowercase) && name != "testing");
    used
}

/// Finds `crate::name` and `crate::{name, ..}`, outside of items for tests.
fn collect(stream: TokenStream, file: &str, used: &mut BTreeMap<String, String>) {
    let mut tokens = stream.into_iter().peekable();
    while let Some(token) = tokens.next() {
        if is_punct(&token, '#') {
            let attribute = tokens.next().map(|it| it.to_string()).unwrap_or_default();
            if attribute == "[cfg (test)]" {
                tokens.find(|it| is_punct(it, ';') || is_group(it, Delimiter::Brace));
            }
            continue;
        }
        if let TokenTree::Group(group) = token {
            collect(group.stream(), file, used);
            continue;
        }
        if token.to_string() != "crate" {
            continue;
        }
        let path: Vec<_> = tokens.by_ref().take(2).collect();
        if !path.iter().all(|it| is_punct(it, ':')) {
            continue;
        }
        if let Some(TokenTree::Ident(top)) = tokens.peek() {
            used.insert(top.to_string(), file.to_owned());
        } else if let Some(TokenTree::Group(list)) = tokens.next() {
            tops(list.stream(), file, used);
        }
    }
}

/// The first name of each item of a list of imports.
fn tops(list: TokenStream, file: &str, used: &mut BTreeMap<String, String>) {
    let mut begins = true;
    for token in list {
        if let TokenTree::Ident(name) = &token
            && begins
        {
            used.insert(name.to_string(), file.to_owned());
        }
        begins = is_punct(&token, ',');
    }
}
