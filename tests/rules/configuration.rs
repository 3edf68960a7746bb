//! `docs/configuration.md` has a row for every setting of our programs, as the sources define it.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::{Delimiter, TokenStream};

use crate::shared::flags;
use crate::shared::sources;

use flags::{Group, changed_defaults, groups, is_shouted, stream_of, tuples, variables};
use sources::{Use, file, is_group, text, texts, tokens};

const DOCUMENT: &str = "docs/configuration.md";
const SHARED: &str = "runtime/src/args.rs";
const MANAGER: &str = "addon-manager/src/args.rs";
const MANAGER_REDIS: &str = "addon-manager/src/args/redis.rs";
const PRINCIPAL: &str = "addon-manager/src/args/principal.rs";
const PRINCIPAL_LATER: &str = "addon-manager/src/args/unsupported.rs";
const AGENT: &str = "agent/src/args.rs";
const AGENT_REDIS: &str = "agent/src/args/redis.rs";
const AGENT_LATER: &str = "agent/src/args/unsupported.rs";

#[test]
fn every_flag_of_the_hub_programs_has_its_row() {
    let groups = groups(&[SHARED, MANAGER, MANAGER_REDIS, PRINCIPAL]);
    let mut variables = variables(MANAGER);
    variables.extend(self::variables(PRINCIPAL));
    let expect = |root: &str| rows_of(&groups, &variables, root, &BTreeMap::new());
    let shared = expect("SharedArgs");
    compare("Flags in common", &shared);
    compare(
        "Flags of the whole hub program",
        &(&expect("ManagerArgs") - &shared),
    );
    compare("Flags of uninstall", &expect("UninstallArgs"));
    compare("Flags of ready", &expect("ReadyArgs"));
    compare(
        "Flags of the principal alone",
        &(&expect("PrincipalArgs") - &shared),
    );
}

/// The command line looks for them in the hub program's Deployment.
#[test]
fn settings_that_agentctl_reads_are_hub_program_flags() {
    let groups = groups(&[SHARED, MANAGER, MANAGER_REDIS, PRINCIPAL]);
    let variables = variables(MANAGER);
    let rows = rows_of(&groups, &variables, "SharedArgs", &BTreeMap::new());
    for (flag, variable) in [
        agentctl::settings::NAMESPACE,
        agentctl::settings::ALLOWED_NAMESPACES,
    ] {
        let cells = row(&[flag, variable, ""]);
        assert!(rows.iter().any(|it| it.starts_with(&cells)), "{cells}");
    }
    let rows = rows_of(&groups, &variables, "ManagerArgs", &BTreeMap::new());
    for flag in [
        agentctl::settings::REDIS_PROXY_PORT,
        agentctl::settings::REDIS_PROXY_TLS,
        agentctl::settings::REDIS_ADDRESS,
    ] {
        let cells = row(&[flag, "–", ""]);
        assert!(rows.iter().any(|it| it.starts_with(&cells)), "{cells}");
    }
}

#[test]
fn every_flag_of_the_agent_has_its_row() {
    let groups = groups(&[SHARED, AGENT, AGENT_REDIS]);
    let changed = changed_defaults(tokens(AGENT));
    assert!(!changed.is_empty(), "the agent has ports of its own");
    let rows = rows_of(&groups, &variables(AGENT), "Args", &changed);
    compare("Flags of the agent", &rows);
}

#[test]
fn every_flag_without_effect_has_its_row() {
    let principal = later(&tuples(tokens(PRINCIPAL_LATER)));
    compare(
        "Flags of the Go principal that are not supported yet",
        &principal,
    );

    let fates = fates_in_the_agent();
    let flags = groups(&[AGENT_LATER])
        .remove("LaterArgs")
        .unwrap_or_default();
    let agent = flags.flags.iter().map(|flag| {
        let fate = fates.get(&flag.name).map_or("ignored", String::as_str);
        let variable = flag.variable.as_deref().unwrap_or("–");
        row(&[&format!("--{}", flag.name), variable, fate])
    });
    compare(
        "Flags of the Go agent that are not supported yet",
        &agent.collect(),
    );
}

#[test]
fn every_variable_of_the_configuration_has_its_row() {
    let read = variable_calls();
    assert!(read.len() > 2, "only {read:?} were found");
    compare_first_cells("Variables of the AddOnDeploymentConfig", &read);
}

/// A variable that is read and not listed would be reported as unknown.
#[test]
fn every_variable_of_the_configuration_is_known_to_the_manager() {
    let known = addon_manager::addon::settings::VARIABLES.iter();
    let known: BTreeSet<String> = known.map(|it| (*it).to_owned()).collect();
    assert_eq!(
        known,
        variable_calls(),
        "left: VARIABLES in addon-manager/src/addon/settings/unknown.rs; right: variables that are read"
    );
}

/// The message about a refused key refers to this list.
#[test]
fn every_setting_of_an_installed_argo_cd_is_listed() {
    let source = file("addon-manager/src/addon/settings/tuning/keys.rs");
    let literals = source.split('"').skip(1).step_by(2);
    let is_key = |it: &&str| it.contains('.') && it.starts_with(|it: char| it.is_ascii_lowercase());
    let keys: Vec<_> = literals.filter(is_key).collect();
    assert!(keys.len() > 50, "only {keys:?} were found");
    let lines: Vec<_> = section("Settings of installed Argo CDs").collect();
    let listed: Vec<_> = lines.iter().flat_map(|it| it.split_whitespace()).collect();
    let is_missing = |key: &&&str| {
        let fits = |word: &&str| word == *key || (key.ends_with('.') && word.starts_with(**key));
        !listed.iter().any(fits)
    };
    let missing: Vec<_> = keys.iter().filter(is_missing).collect();
    assert!(missing.is_empty(), "{DOCUMENT} does not list {missing:?}");
}

/// Helm renders `templates/` only; it silently ignores a manifest beside it.
#[test]
fn every_manifest_of_the_hub_is_in_the_chart() {
    let folder = sources::root().join("manifests");
    let names = |folder: &std::path::Path| -> BTreeSet<String> {
        let entries = std::fs::read_dir(folder).expect("a folder of manifests");
        let names = entries
            .flatten()
            .map(|it| it.file_name().to_string_lossy().into_owned());
        names.collect()
    };
    let known = ["hub", "spoke"].map(str::to_owned);
    assert_eq!(
        names(&folder),
        known.into(),
        "optional manifests of the hub are templates behind a value: manifests/hub/templates, values.yaml, \
         values.schema.json"
    );
    let known = [
        ".helmignore",
        "Chart.yaml",
        "README.md",
        // Files that templates take in.
        "extension",
        "monitoring",
        "templates",
        "values.schema.json",
        "values.yaml",
    ];
    assert_eq!(
        names(&folder.join("hub")),
        known.map(str::to_owned).into(),
        "manifests are in manifests/hub/templates"
    );
}

/// The chart refuses unknown variables, so its schema has to list every variable that a program reads.
#[test]
fn every_variable_of_the_configuration_is_a_value_of_the_chart() {
    let schema = file("manifests/hub/values.schema.json");
    let schema: serde_json::Value = serde_json::from_str(&schema).expect("JSON");
    let variables = &schema["properties"]["agent"]["properties"]["variables"]["properties"];
    let known = variables.as_object().expect("agent.variables");
    let known: BTreeSet<String> = known.keys().cloned().collect();
    assert_eq!(
        known,
        variable_calls(),
        "left: properties of agent.variables in manifests/hub/values.schema.json; right: what is read"
    );
}

#[test]
fn every_label_and_annotation_has_its_row() {
    let prefixes = [
        "argocd-agent.open-cluster-management.io/",
        "argocd-agent.argoproj-labs.io/",
        "argocd-agent.argoproj.io/",
        "argocd.argoproj.io/",
    ];
    let ours = texts(&[Use::Emitted, Use::Read])
        .into_iter()
        .map(|it| it.words)
        .filter(|text| {
            let name = prefixes.iter().find_map(|prefix| text.strip_prefix(prefix));
            // With a value it is a selector; its name occurs alone elsewhere.
            name.is_some_and(|name| !name.is_empty() && !name.contains([' ', '=']))
        });
    compare_first_cells("Labels and annotations", &ours.collect());
}

#[test]
fn every_secret_of_the_manager_has_its_row() {
    let mut before = [const { String::new() }; 5];
    let mut secrets = BTreeSet::new();
    // const A_SECRET: &str = "…"
    let sources = ["addon-manager/src/issuer.rs", "argocd/src/keys/addon.rs"];
    for token in sources.into_iter().flat_map(tokens) {
        if before[0].ends_with("_SECRET") {
            secrets.extend(text(&token));
        }
        before.rotate_left(1);
        before[4] = token.to_string();
    }
    assert!(secrets.len() > 3, "only {secrets:?} were found");
    let documented: BTreeSet<String> = section("Secrets")
        .filter_map(|line| first_cell(&line))
        .collect();
    let missing: Vec<_> = secrets.difference(&documented).collect();
    assert!(
        missing.is_empty(),
        "{DOCUMENT}, Secrets: no row for {missing:?}"
    );
}

#[test]
fn every_port_of_the_manifests_has_its_row() {
    let manifests =
        file("manifests/hub/templates/deployment.yaml") + &file("manifests/spoke/deployment.yaml");
    let ports = manifests
        .lines()
        .filter_map(|line| Some(line.split_once("containerPort: ")?.1.to_owned()))
        .collect();
    compare_first_cells("Ports", &ports);
}

/// Flags and variables of a group and of its flattened groups, as rows.
fn rows_of(
    groups: &BTreeMap<String, Group>,
    variables: &BTreeMap<String, String>,
    root: &str,
    changed: &BTreeMap<String, String>,
) -> BTreeSet<String> {
    let Some(group) = groups.get(root) else {
        // A group in another file has a table of its own.
        return BTreeSet::new();
    };
    let parts = group
        .parts
        .iter()
        .flat_map(|part| rows_of(groups, variables, part, changed));
    let flags = group.flags.iter().map(|flag| {
        let variable = flag.variable.as_ref().or_else(|| variables.get(&flag.id));
        let default = changed.get(&flag.id).or(flag.default.as_ref());
        let default = default.filter(|default| !default.is_empty());
        row(&[
            &format!("--{}", flag.name),
            variable.map_or("–", String::as_str),
            default.map_or("–", String::as_str),
        ])
    });
    flags.chain(parts).collect()
}

/// `("flag", "VARIABLE", Ignored)` of the Go principal's flags, as rows.
fn later(tuples: &[Vec<String>]) -> BTreeSet<String> {
    let rows = tuples.iter().filter_map(|tuple| match tuple.as_slice() {
        [flag, variable, ignored] if is_shouted(variable) && variable.len() > 1 => {
            let fate = if ignored == "Misleading" {
                "refused"
            } else {
                "ignored, logged"
            };
            Some(row(&[&format!("--{flag}"), variable, fate]))
        }
        _ => None,
    });
    rows.collect()
}

/// How the agent handles flags that it does not support.
fn fates_in_the_agent() -> BTreeMap<String, String> {
    let fates = tuples(tokens("agent/src/config.rs"))
        .into_iter()
        .filter_map(|tuple| {
            let at = tuple.iter().position(|part| part.starts_with("--"))?;
            let fate = if at + 1 == tuple.len() {
                "ignored, logged"
            } else {
                "refused"
            };
            let flag = tuple.get(at)?.strip_prefix("--")?.to_owned();
            (at == 1).then(|| (flag, fate.to_owned()))
        });
    fates.collect()
}

/// Literals that are the only argument of a function called `variable`.
fn variable_calls() -> BTreeSet<String> {
    fn collect(stream: TokenStream, found: &mut BTreeSet<String>) {
        let mut before = String::new();
        for token in stream {
            if is_group(&token, Delimiter::Parenthesis) && before == "variable" {
                found.extend(
                    stream_of(&token)
                        .into_iter()
                        .next()
                        .and_then(|it| text(&it)),
                );
            }
            before = token.to_string();
            collect(stream_of(&token), found);
        }
    }
    let files: BTreeSet<String> = texts(&[Use::Emitted, Use::Read])
        .into_iter()
        .map(|it| it.file)
        .filter(|file| file.starts_with("addon-manager/"))
        .collect();
    let mut found = BTreeSet::new();
    for path in files {
        collect(tokens(&path), &mut found);
    }
    found
}

fn row(cells: &[&str]) -> String {
    cells.join(" | ")
}

/// Lines of the document below a heading, up to the next one.
fn section(title: &str) -> impl Iterator<Item = String> {
    let lines: Vec<String> = file(DOCUMENT).lines().map(ToOwned::to_owned).collect();
    let title = title.to_owned();
    let below = lines
        .into_iter()
        .skip_while(move |line| line.trim_start_matches('#').trim() != title);
    below.skip(1).take_while(|line| !line.starts_with('#'))
}

fn cells(line: &str) -> Option<Vec<String>> {
    let inner = line.strip_prefix("| `")?;
    let cells = inner
        .split(" | ")
        .map(|cell| cell.trim_matches(['`', '|', ' ']).to_owned());
    Some(cells.collect())
}

fn first_cell(line: &str) -> Option<String> {
    cells(line)?.into_iter().next()
}

fn compare(title: &str, wanted: &BTreeSet<String>) {
    let rows = section(title).filter_map(|line| {
        let cells = cells(&line)?;
        Some(row(&cells
            .iter()
            .take(3)
            .map(String::as_str)
            .collect::<Vec<_>>()))
    });
    differ(title, wanted, &rows.collect());
}

fn compare_first_cells(title: &str, wanted: &BTreeSet<String>) {
    differ(
        title,
        wanted,
        &section(title)
            .filter_map(|line| first_cell(&line))
            .collect(),
    );
}

fn differ(title: &str, wanted: &BTreeSet<String>, documented: &BTreeSet<String>) {
    assert!(
        !wanted.is_empty(),
        "{title}: the sources have nothing, which cannot be"
    );
    let line = |sign, row: &String| format!("{sign} {row}");
    let missing = wanted.difference(documented).map(|row| line("+", row));
    let extra = documented.difference(wanted).map(|row| line("-", row));
    let all: Vec<_> = missing.chain(extra).collect();
    assert!(
        all.is_empty(),
        "{DOCUMENT}, section {title:?} (+ is missing, - is not in the sources):\n{}",
        all.join("\n")
    );
}
