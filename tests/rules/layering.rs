//! The dependencies between our crates and between the folders of `principal` and `agent`, against the tables here.

use std::collections::{BTreeMap, BTreeSet};

use cargo_metadata::{DependencyKind, MetadataCommand};

use crate::shared::{
    modules::{Module, graph},
    sources,
};

/// Which crate may use which. A new arrow is a decision: change `docs/architecture.md` with it.
const ARROWS: &[(&str, &[&str])] = &[
    ("runtime", &[]),
    ("argocd", &[]),
    ("protocol", &[]),
    ("live", &["argocd"]),
    ("redis-discovery", &["live", "runtime"]),
    ("ocm", &[]),
    ("diagnosis", &["argocd", "ocm"]),
    (
        "principal",
        &["argocd", "live", "protocol", "redis-discovery", "runtime"],
    ),
    (
        "addon-manager",
        &[
            "argocd",
            "diagnosis",
            "live",
            "ocm",
            "principal",
            "protocol",
            "redis-discovery",
            "runtime",
        ],
    ),
    (
        "agent",
        &["argocd", "live", "protocol", "redis-discovery", "runtime"],
    ),
    (
        "agentctl",
        &["argocd", "diagnosis", "live", "ocm", "runtime"],
    ),
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
        for (module, used) in graph(program) {
            let tops = used.iter().filter_map(|it| it.first());
            let forbidden = tops.filter(|top| *top != folder && !allowed.contains(&top.as_str()));
            if module.first().is_some_and(|top| top == folder) {
                wrong.extend(
                    forbidden
                        .map(|top| format!("{program}::{} must not use {top}", module.join("::"))),
                );
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// At every depth: also a parent and its child.
#[test]
fn no_two_modules_use_each_other() {
    let mut wrong = Vec::new();
    for program in ["principal", "agent"] {
        let uses = graph(program);
        for (one, used) in &uses {
            let mutual = |other: &&Module| *one < **other && uses[*other].contains(one);
            let mutual = used.iter().filter(mutual);
            wrong
                .extend(mutual.map(|other| {
                    format!("{program}: {} and {}", one.join("::"), other.join("::"))
                }));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A type whose methods are in many files has more than one job: its parts want names.
#[test]
fn methods_of_a_type_are_in_at_most_three_files() {
    let mut files_of: BTreeMap<(&str, String), BTreeSet<String>> = BTreeMap::new();
    for program in lab::product::CRATES {
        for path in sources::files(program) {
            let text = sources::file(&path);
            let types = text.lines().filter_map(inherent);
            for name in types {
                let files = files_of.entry((program, name)).or_default();
                files.insert(path.clone());
            }
        }
    }
    assert!(files_of.len() > 300, "only {} types", files_of.len());
    files_of.retain(|_, files| files.len() > 3);
    assert!(files_of.is_empty(), "{files_of:#?}");
}

/// All connections to a host are made by one function, which tries the addresses of both families.
#[test]
fn programs_connect_by_the_function_for_both_families() {
    let mut dialling = Vec::new();
    for path in lab::product::CRATES
        .iter()
        .flat_map(|name| sources::files(name))
    {
        let text = sources::file(&path);
        let program = text.split("\n#[cfg(test)]").next().unwrap_or_default();
        // The listeners of all programs are made there.
        let listens = path == "runtime/src/net.rs";
        if program.contains("TcpStream::connect") || (program.contains("TcpSocket") && !listens) {
            dialling.push(path);
        }
    }
    assert!(
        dialling.is_empty(),
        "use runtime::connection::tcp: {dialling:?}"
    );
    let function = sources::file("runtime/src/connection.rs");
    assert!(function.contains("set_happy_eyeballs_timeout(Some("));
}

/// The type of an inherent `impl`, if this line begins one.
fn inherent(line: &str) -> Option<String> {
    let rest = line.strip_prefix("impl")?;
    let generic = rest.starts_with('<');
    let rest = if generic {
        rest.split_once("> ")?.1
    } else {
        rest.strip_prefix(' ')?
    };
    let name = rest
        .split(|c: char| !c.is_alphanumeric() && c != '_')
        .next()?;
    (!line.contains(" for ")).then(|| name.to_owned())
}

#[test]
fn inherent_blocks_are_found() {
    let found = |line| inherent(line);
    assert_eq!(found("impl Hub {").as_deref(), Some("Hub"));
    assert_eq!(
        found("impl<A: Addon> Reconcile<'_, A> {").as_deref(),
        Some("Reconcile")
    );
    assert_eq!(found("impl Drop for Hub {"), None);
    assert_eq!(found("    impl Hub {"), None);
}
