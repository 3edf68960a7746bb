//! The string literals of our programs, read from their tokens without comments, attributes and tests.

use std::{
    fs,
    path::{Path, PathBuf},
};

use lab::product::CRATES;
use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// A text in the source of a program.
#[derive(Debug, Clone)]
pub(crate) struct Text {
    pub(crate) words: String,
    /// The file that it is in, from the root of the repository.
    pub(crate) file: String,
    pub(crate) used: Use,
}

/// How a literal is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Use {
    /// The program writes it, as far as the source shows.
    Emitted,
    /// It is compared with, or names a kind of object.
    Read,
}

/// The root of the repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("tests/ lies in the workspace")
        .into()
}

/// A file of the repository.
pub(crate) fn file(path: &str) -> String {
    fs::read_to_string(root().join(path)).expect(path)
}

/// The tokens of a source file.
pub(crate) fn tokens(path: &str) -> TokenStream {
    file(path).parse().expect(path)
}

/// The texts in our programs with one of these uses.
pub(crate) fn texts(uses: &[Use]) -> Vec<Text> {
    let mut texts = Vec::new();
    // These read reasons of others and have none of their own.
    let programs = CRATES
        .iter()
        .filter(|name| !["agentctl", "diagnosis"].contains(name));
    for path in programs.flat_map(|name| files(name)) {
        collect(tokens(&path), false, &path, &mut texts);
    }
    texts.retain(|text| uses.contains(&text.used));
    texts
}

/// The texts of all programs, the command line included, for any use.
pub(crate) fn literals() -> Vec<Text> {
    let mut texts = Vec::new();
    for path in CRATES.iter().flat_map(|name| files(name)) {
        collect(tokens(&path), false, &path, &mut texts);
    }
    texts
}

/// Source files of a crate that are part of its program.
pub(crate) fn files(name: &str) -> Vec<String> {
    let (root, mut found) = (root(), Vec::new());
    let mut folders = vec![root.join(name).join("src")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder)
            .expect("a folder of sources")
            .flatten()
        {
            let path = entry.path();
            let stem = path.file_stem().unwrap_or_default().to_string_lossy();
            if ["tests", "testing", "samples"].contains(&stem.as_ref()) {
                continue;
            }
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|it| it == "rs") {
                let path = path.strip_prefix(&root).expect("below the root");
                found.push(path.to_string_lossy().into_owned());
            }
        }
    }
    found.sort();
    found
}

fn collect(stream: TokenStream, named: bool, file: &str, texts: &mut Vec<Text>) {
    let mut before: Vec<String> = Vec::new();
    let mut rest = stream.into_iter().peekable();
    while let Some(token) = rest.next() {
        if is_punct(&token, '#') {
            let mut attribute = rest.next();
            if attribute.as_ref().is_some_and(|token| is_punct(token, '!')) {
                attribute = rest.next();
            }
            // An item for tests ends with its body, or without one at a semicolon.
            if attribute.is_some_and(|it| it.to_string() == "[cfg (test)]") {
                rest.find(|token| is_punct(token, ';') || is_group(token, Delimiter::Brace));
            }
            continue;
        }
        if let TokenTree::Group(group) = &token {
            let named = before
                .last()
                .is_some_and(|name| NAMING.contains(&name.as_str()));
            collect(group.stream(), named, file, texts);
        } else if let Some(text) = text(&token) {
            let pattern = rest.peek().is_some_and(|next| is_punct(next, '|'))
                || matches!(before.as_slice(), [.., other, bar] if other.starts_with('"') && bar == "|")
                || starts_an_arrow(rest.clone());
            let read = named || pattern || is_compared_or_a_kind(&before);
            texts.push(Text {
                words: text,
                file: file.to_owned(),
                used: if read { Use::Read } else { Use::Emitted },
            });
        }
        before.push(token.to_string());
    }
}

/// Functions whose literal is a debug name or a search string.
const NAMING: [&str; 3] = ["debug_struct", "debug_tuple", "has"];

fn is_compared_or_a_kind(before: &[String]) -> bool {
    match before {
        [.., first, second] if second == "=" && (first == "=" || first == "!") => true,
        [.., name, sign] if sign == ":" || sign == "=" => name.trim_matches('"') == "kind",
        _ => false,
    }
}

fn starts_an_arrow(mut rest: impl Iterator<Item = TokenTree>) -> bool {
    rest.next().is_some_and(|token| is_punct(&token, '='))
        && rest.next().is_some_and(|token| is_punct(&token, '>'))
}

/// The content of a string literal, with its escapes as written.
pub(crate) fn text(token: &TokenTree) -> Option<String> {
    let TokenTree::Literal(literal) = token else {
        return None;
    };
    let written = literal.to_string();
    let inner = written.strip_prefix('"')?.strip_suffix('"')?;
    Some(inner.to_owned())
}

pub(crate) fn is_punct(token: &TokenTree, wanted: char) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == wanted)
}

pub(crate) fn is_group(token: &TokenTree, wanted: Delimiter) -> bool {
    matches!(token, TokenTree::Group(group) if group.delimiter() == wanted)
}
