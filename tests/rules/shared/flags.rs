//! Command-line flags as declared for clap, read from the sources.

use std::collections::BTreeMap;

use proc_macro2::{Delimiter, TokenStream, TokenTree};

use super::sources::{is_group, is_punct, text, tokens};

/// A struct of flags.
#[derive(Debug, Default)]
pub(crate) struct Group {
    pub(crate) flags: Vec<Flag>,
    /// Groups that are flattened into it.
    pub(crate) parts: Vec<String>,
}

#[derive(Debug)]
pub(crate) struct Flag {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) default: Option<String>,
    pub(crate) variable: Option<String>,
}

/// All structs with flags in these files, by name.
pub(crate) fn groups(files: &[&str]) -> BTreeMap<String, Group> {
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
            let argument_of =
                |word: &str| attributes.iter().find_map(|it| inside(it.clone(), word));
            if let Some(settings) = argument_of("arg") {
                group.flags.extend(flag(name, &settings));
            } else if argument_of("command").is_some_and(|it| it.to_string() == "flatten") {
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
pub(crate) fn changed_defaults(stream: TokenStream) -> BTreeMap<String, String> {
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

/// The pairs `("id", "VARIABLE")` in a file.
pub(crate) fn variables(path: &str) -> BTreeMap<String, String> {
    let pairs = tuples(tokens(path))
        .into_iter()
        .filter_map(|tuple| match tuple.as_slice() {
            [id, variable] if is_shouted(variable) => Some((id.clone(), variable.clone())),
            _ => None,
        });
    pairs.collect()
}

/// Texts and single words of everything in parentheses with commas.
pub(crate) fn tuples(stream: TokenStream) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    for token in stream {
        if let TokenTree::Group(group) = &token {
            if group.delimiter() == Delimiter::Parenthesis {
                let parts = split(group.stream());
                let strings = parts.iter().filter_map(|part| match part.as_slice() {
                    [] => None,
                    [single] => text(single).or_else(|| Some(single.to_string())),
                    several => Some(several.iter().map(ToString::to_string).collect()),
                });
                found.push(strings.collect());
            }
            found.extend(tuples(group.stream()));
        }
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

/// The contents of the parentheses behind a word.
fn inside(stream: TokenStream, word: &str) -> Option<TokenStream> {
    let mut before = String::new();
    stream.into_iter().find_map(|token| {
        let found = before == word && is_group(&token, Delimiter::Parenthesis);
        before = token.to_string();
        found.then(|| stream_of(&token))
    })
}

pub(crate) fn stream_of(token: &TokenTree) -> TokenStream {
    match token {
        TokenTree::Group(group) => group.stream(),
        TokenTree::Ident(_) | TokenTree::Punct(_) | TokenTree::Literal(_) => TokenStream::new(),
    }
}

pub(crate) fn is_shouted(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_uppercase() || c == '_')
}
