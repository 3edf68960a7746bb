//! `docs/configuration.md` has a row for every setting of our programs, as the sources define it.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::{Delimiter, TokenStream, TokenTree};

#[path = "shared/sources.rs"]
mod sources;
use sources::{Use, file, is_group, is_punct, text, texts, tokens};

const DOCUMENT: &str = "docs/configuration.md";
const SHARED: &str = "runtime/src/args.rs";
const MANAGER: &str = "addon-manager/src/args.rs";
const PRINCIPAL_LATER: &str = "addon-manager/src/args/unsupported.rs";
const AGENT: &str = "agent/src/args.rs";
const AGENT_LATER: &str = "agent/src/args/later.rs";

#[test]
fn every_flag_of_the_hub_programs_has_its_row() {
    let groups = groups(&[SHARED, MANAGER]);
    let variables = variables(MANAGER);
    let expect = |root: &str| rows_of(&groups, &variables, root, &BTreeMap::new());
    let shared = expect("SharedArgs");
    compare("Flags in common", &shared);
    compare(
        "Flags of the whole hub program",
        &(&expect("ManagerArgs") - &shared),
    );
    compare(
        "Flags of the principal alone",
        &(&expect("PrincipalArgs") - &shared),
    );
}

#[test]
fn every_flag_of_the_agent_has_its_row() {
    let groups = groups(&[SHARED, AGENT]);
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
    let variables = variables(AGENT_LATER);
    let flags = groups(&[AGENT_LATER])
        .remove("LaterArgs")
        .unwrap_or_default();
    let agent = flags.flags.iter().map(|flag| {
        let fate = fates.get(&flag.name).map_or("ignored", String::as_str);
        let variable = variables.get(&flag.id).map_or("–", String::as_str);
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

#[test]
fn every_label_and_annotation_has_its_row() {
    let prefixes = [
        "argocd-agent.open-cluster-management.io/",
        "argocd-agent.argoproj-labs.io/",
        "argocd-agent.argoproj.io/",
        "argocd.argoproj.io/",
    ];
    let ours = texts(&[Use::Said, Use::Read])
        .into_iter()
        .map(|it| it.text)
        .filter(|text| {
            let name = prefixes.iter().find_map(|prefix| text.strip_prefix(prefix));
            name.is_some_and(|name| !name.is_empty() && !name.contains(' '))
        });
    compare_first_cells("Labels and annotations", &ours.collect());
}

#[test]
fn every_secret_of_the_manager_has_its_row() {
    let mut before = [const { String::new() }; 5];
    let mut secrets = BTreeSet::new();
    // const A_SECRET: &str = "…"
    for token in tokens("addon-manager/src/issuer.rs") {
        if before[0].ends_with("_SECRET") {
            secrets.extend(text(&token));
        }
        before.rotate_left(1);
        before[4] = token.to_string();
    }
    assert!(secrets.len() > 3, "only {secrets:?} were found");
    let documented: BTreeSet<String> = section("Secrets").filter_map(first_cell).collect();
    let missing: Vec<_> = secrets.difference(&documented).collect();
    assert!(
        missing.is_empty(),
        "{DOCUMENT}, Secrets: no row for {missing:?}"
    );
}

#[test]
fn every_port_of_the_manifests_has_its_row() {
    let manifests =
        file("manifests/hub/40-deployment.yaml") + &file("manifests/spoke/deployment.yaml");
    let ports = manifests
        .lines()
        .filter_map(|line| Some(line.split_once("containerPort: ")?.1.to_owned()))
        .collect();
    compare_first_cells("Ports", &ports);
}

/// A struct of flags.
#[derive(Debug, Default)]
struct Group {
    flags: Vec<Flag>,
    /// Groups that are flattened into it.
    parts: Vec<String>,
}

#[derive(Debug)]
struct Flag {
    id: String,
    name: String,
    default: Option<String>,
    variable: Option<String>,
}

/// All structs with flags in these files, by name.
fn groups(files: &[&str]) -> BTreeMap<String, Group> {
    let mut groups = BTreeMap::new();
    for path in files {
        let mut before = [const { String::new() }; 2];
        for token in tokens(path) {
            if is_group(&token, Delimiter::Brace) && before[0] == "struct" {
                groups.insert(before[1].clone(), group(stream_of(&token)));
            }
            before = [std::mem::take(&mut before[1]), token.to_string()];
        }
    }
    groups
}

/// Fields are attributes, then `pub name: Type,`.
fn group(fields: TokenStream) -> Group {
    let mut group = Group::default();
    let mut attributes = Vec::new();
    let mut words: Vec<String> = Vec::new();
    let mut rest = fields.into_iter();
    while let Some(token) = rest.next() {
        if is_punct(&token, '#') {
            attributes.extend(rest.next().map(|token| stream_of(&token)));
            continue;
        }
        if !is_punct(&token, ',') {
            words.push(token.to_string());
            continue;
        }
        let field = (attributes.as_slice(), words.as_slice());
        if let (attributes, [_pub, name, _colon, kind, ..]) = field {
            let said = |word: &str| attributes.iter().find_map(|it| inside(it.clone(), word));
            if let Some(settings) = said("arg") {
                group.flags.extend(flag(name, &settings));
            } else if said("command").is_some_and(|it| it.to_string() == "flatten") {
                group.parts.push(kind.clone());
            }
        }
        (attributes, words) = (Vec::new(), Vec::new());
    }
    group
}

fn flag(id: &str, settings: &TokenStream) -> Option<Flag> {
    let parts = split(settings.clone());
    let given = |word: &str| {
        let part = parts
            .iter()
            .find(|part| part.first().is_some_and(|it| it.to_string() == word))?;
        Some(part.iter().skip(2).cloned().collect::<Vec<_>>())
    };
    given("long")?;
    let literal = |word| given(word).and_then(|it| it.first().and_then(text));
    let computed = given("default_value_t").map(|it| computed(&it));
    Some(Flag {
        id: id.to_owned(),
        name: literal("long").unwrap_or_else(|| id.replace('_', "-")),
        default: literal("default_value").or(computed),
        variable: literal("env"),
    })
}

/// The few defaults that are written as expressions.
fn computed(expression: &[TokenTree]) -> String {
    let text: String = expression.iter().map(ToString::to_string).collect();
    if text.contains("UNSPECIFIED") {
        return "0.0.0.0".to_owned();
    }
    let text = text.replace('_', "");
    match text
        .split_once("<<")
        .map(|(a, b)| (a.parse::<u64>(), b.parse::<u32>()))
    {
        Some((Ok(number), Ok(bits))) => (number << bits).to_string(),
        _ => text,
    }
}

/// `mut_arg("id", |arg| arg.default_value("x"))`: defaults that a program changes.
fn changed_defaults(stream: TokenStream) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut before = String::new();
    for token in stream {
        if let TokenTree::Group(group) = &token {
            let parts: Vec<_> = group.stream().into_iter().collect();
            let value = inside(group.stream(), "default_value");
            let value = value.and_then(|it| it.into_iter().next().and_then(|it| text(&it)));
            match (before.as_str(), parts.first().and_then(text), value) {
                ("mut_arg", Some(id), Some(value)) => drop(found.insert(id, value)),
                _ => found.extend(changed_defaults(group.stream())),
            }
        }
        before = token.to_string();
    }
    found
}

/// Flags and variables of a group and of what is flattened into it, as rows.
fn rows_of(
    groups: &BTreeMap<String, Group>,
    variables: &BTreeMap<String, String>,
    root: &str,
    changed: &BTreeMap<String, String>,
) -> BTreeSet<String> {
    let Some(group) = groups.get(root) else {
        // What is in another file has a table of its own.
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

/// What `("id", "VARIABLE")` in a file says.
fn variables(path: &str) -> BTreeMap<String, String> {
    let pairs = tuples(tokens(path))
        .into_iter()
        .filter_map(|tuple| match tuple.as_slice() {
            [id, variable] if is_shouted(variable) => Some((id.clone(), variable.clone())),
            _ => None,
        });
    pairs.collect()
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

/// What the agent does with flags that it does not support, where it does anything.
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

/// Texts and single words of everything in parentheses with commas.
fn tuples(stream: TokenStream) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    for token in stream {
        if let TokenTree::Group(group) = &token {
            if group.delimiter() == Delimiter::Parenthesis {
                let parts = split(group.stream());
                let said = parts.iter().filter_map(|part| match part.as_slice() {
                    [] => None,
                    [single] => text(single).or_else(|| Some(single.to_string())),
                    several => Some(several.iter().map(ToString::to_string).collect()),
                });
                found.push(said.collect());
            }
            found.extend(tuples(group.stream()));
        }
    }
    found
}

/// Texts that stand alone as the argument of a function called `variable`.
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
    let files: BTreeSet<String> = texts(&[Use::Said, Use::Read])
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

/// The tokens between commas.
fn split(stream: TokenStream) -> Vec<Vec<TokenTree>> {
    let tokens: Vec<_> = stream.into_iter().collect();
    tokens
        .split(|token| is_punct(token, ','))
        .map(<[_]>::to_vec)
        .collect()
}

/// What is in the parentheses behind a word.
fn inside(stream: TokenStream, word: &str) -> Option<TokenStream> {
    let mut before = String::new();
    stream.into_iter().find_map(|token| {
        let found = before == word && is_group(&token, Delimiter::Parenthesis);
        before = token.to_string();
        found.then(|| stream_of(&token))
    })
}

fn stream_of(token: &TokenTree) -> TokenStream {
    match token {
        TokenTree::Group(group) => group.stream(),
        TokenTree::Ident(_) | TokenTree::Punct(_) | TokenTree::Literal(_) => TokenStream::new(),
    }
}

fn is_shouted(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_uppercase() || c == '_')
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

fn first_cell(line: String) -> Option<String> {
    cells(&line)?.into_iter().next()
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
        &section(title).filter_map(first_cell).collect(),
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
