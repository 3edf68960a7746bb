//! Spellings that users, other programs and stored objects depend on: none of those listed in `contracts.txt` may change.
//!
//! The list was made from the sources of commit 9309d7d and only grows: `UPDATE_GOLDEN=1` adds new entries and removes none.
//! An entry that goes is a breaking change: remove its line by hand and describe the migration in `CHANGELOG.md`.

use std::{collections::BTreeSet, fs};

use clap::CommandFactory as _;
use proc_macro2::{Delimiter, TokenStream, TokenTree};
use regex::Regex;

use crate::shared::{
    registered::{self, Metrics},
    sources::{self, is_group, is_punct, literals, root, tokens},
    updates_golden,
};

const LIST: &str = "tests/rules/contracts.txt";

#[test]
fn every_contract_keeps_its_spelling() {
    let now = contracts();
    let path = root().join(LIST);
    let listed: BTreeSet<String> = fs::read_to_string(&path)
        .unwrap_or_default()
        .lines()
        .map(str::to_owned)
        .collect();
    let gone: Vec<_> = listed.difference(&now).cloned().collect();
    if updates_golden() {
        let all: Vec<_> = listed.union(&now).cloned().collect();
        fs::write(&path, all.join("\n") + "\n").expect("the list of contracts");
    }
    assert!(
        gone.is_empty(),
        "these spellings are contracts and changed or disappeared; restore them:\n{}",
        gone.join("\n")
    );
}

/// An empty list would allow every change: one entry of each kind must be found.
#[test]
fn contracts_of_every_kind_are_found() {
    let now = contracts();
    for known in [
        "flag\tagent\t--server-address\t",
        "flag\targocd-agentctl why\t--exit-code\t",
        "field\tuuid",
        "key\targocd.argoproj.io/refresh",
        "metric\tagent\tagent_events_received counter",
        "name\targocd-agent-ca",
        "proto\trpc Subscribe(stream Event) returns (stream Event);",
        "reason\tAgentNeverConnected",
        "value\tmonitoring.rules.enabled",
        "variable\tUI_ACCESS",
    ] {
        let kind = known.split('\t').next().unwrap_or_default();
        let some: Vec<_> = now
            .iter()
            .filter(|it| it.starts_with(kind))
            .take(400)
            .collect();
        assert!(now.contains(known), "{known} is not among {some:#?}");
    }
}

fn contracts() -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    texts(&mut found);
    fields(&mut found);
    metrics("agent", &registered::agent(), &mut found);
    metrics("manager", &registered::manager(), &mut found);
    metrics("principal", &registered::principal(), &mut found);
    flags("", &addon_manager::args::command(), &mut found);
    flags("", &agent::args::Args::command(), &mut found);
    flags("", &agentctl::args::command(), &mut found);
    protocol(&mut found);
    values(&mut found);
    found
}

/// Reasons, labels, annotations, variables and names of objects, recognized by their form.
fn texts(found: &mut BTreeSet<String>) {
    let forms = [
        ("reason", r"^[A-Z][a-z]+[A-Za-z0-9]*$"),
        ("key", r"^[a-z0-9.-]+\.(io|com)/[A-Za-z0-9._-]*$"),
        ("variable", r"^[A-Z][A-Z0-9]*(_[A-Z0-9]+)+$"),
        ("name", r"^[a-z][a-z0-9]*(-[a-z0-9]+)+$"),
        ("name", r"^[a-z0-9-]+(\.[a-z0-9-]+)+$"),
    ];
    let forms = forms.map(|(kind, form)| (kind, Regex::new(form).expect(form)));
    for text in literals() {
        for (kind, form) in &forms {
            if form.is_match(&text.words) {
                found.insert(format!("{kind}\t{}", text.words));
            }
        }
        if text.file.ends_with("src/keys.rs") {
            found.insert(format!("name\t{}", text.words));
        }
    }
}

/// Fields and variants of all types that are read or written as JSON, YAML or TOML.
fn fields(found: &mut BTreeSet<String>) {
    for path in lab::product::CRATES
        .iter()
        .flat_map(|name| sources::files(name))
    {
        let mut derived = false;
        let mut rest = tokens(&path).into_iter().peekable();
        while let Some(token) = rest.next() {
            if is_punct(&token, '#') {
                let attribute = rest.next().map(|it| it.to_string()).unwrap_or_default();
                derived |= attribute.contains("derive")
                    && (attribute.contains("Serialize") || attribute.contains("Deserialize"));
            } else if is_group(&token, Delimiter::Brace) {
                if let (true, TokenTree::Group(body)) = (derived, &token) {
                    members(&body.stream(), found);
                }
                derived = false;
            } else if is_punct(&token, ';') {
                derived = false;
            }
        }
    }
}

/// The names of a type's fields or variants, as they are serialized.
fn members(body: &TokenStream, found: &mut BTreeSet<String>) {
    let rename = Regex::new(r#"rename = "([^"]+)""#).expect("a pattern");
    let mut renamed = None;
    let mut named = false;
    let mut rest = body.clone().into_iter().peekable();
    while let Some(token) = rest.next() {
        if is_punct(&token, '#') {
            let attribute = rest.next().map(|it| it.to_string()).unwrap_or_default();
            renamed = renamed.or_else(|| {
                let name = rename.captures(&attribute)?;
                name.get(1).map(|it| it.as_str().to_owned())
            });
        } else if is_punct(&token, ',') {
            (renamed, named) = (None, false);
        } else if let TokenTree::Ident(name) = &token
            && !named
            && name != "pub"
        {
            let name = renamed.take().unwrap_or_else(|| name.to_string());
            found.insert(format!("field\t{name}"));
            named = true;
        }
    }
}

fn metrics(program: &str, metrics: &Metrics, found: &mut BTreeSet<String>) {
    for (name, metric) in metrics {
        found.insert(format!("metric\t{program}\t{name} {}", metric.kind));
        for (label, values) in &metric.labels {
            for value in values {
                found.insert(format!("metric\t{program}\t{name} {label}={value}"));
            }
        }
    }
}

fn flags(parent: &str, command: &clap::Command, found: &mut BTreeSet<String>) {
    let name = format!("{parent} {}", command.get_name());
    let name = name.trim();
    for argument in command.get_arguments() {
        let flag = argument.get_long().map(|it| format!("--{it}"));
        let variable = argument.get_env().unwrap_or_default().to_string_lossy();
        let spelled = flag.unwrap_or_else(|| argument.get_id().to_string());
        found.insert(format!("flag\t{name}\t{spelled}\t"));
        found.insert(format!("flag\t{name}\t{spelled}\t{variable}"));
        if !variable.is_empty() {
            found.insert(format!("variable\t{variable}"));
        }
    }
    for command in command.get_subcommands() {
        flags(name, command, found);
    }
}

/// Declarations of the protocol, each with its number.
fn protocol(found: &mut BTreeSet<String>) {
    let mut folders = vec![root().join("protocol/proto")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a folder").flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let text = fs::read_to_string(&path).expect("a file of the protocol");
            let lines = text
                .lines()
                .filter_map(|line| line.split("//").next().map(str::trim));
            let declared = lines.filter(|line| {
                line.ends_with(';')
                    || ["message", "service", "rpc"]
                        .iter()
                        .any(|it| line.starts_with(it))
            });
            found.extend(declared.map(|line| format!("proto\t{line}")));
        }
    }
}

/// Values of the chart, by their paths.
fn values(found: &mut BTreeSet<String>) {
    let values: serde_json::Value =
        serde_saphyr::from_str(&sources::file("manifests/hub/values.yaml")).expect("values");
    let mut open = vec![(String::new(), &values)];
    while let Some((path, value)) = open.pop() {
        if !path.is_empty() {
            found.insert(format!("value\t{path}"));
        }
        for (name, value) in value.as_object().into_iter().flatten() {
            let path = if path.is_empty() {
                name.clone()
            } else {
                format!("{path}.{name}")
            };
            open.push((path, value));
        }
    }
}
