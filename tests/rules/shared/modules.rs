//! Which modules of a crate use which, from the paths in their tokens. Items for tests do not count.

use std::{
    collections::{BTreeMap, BTreeSet},
    iter::Peekable,
};

use proc_macro2::{Delimiter, TokenStream, TokenTree, token_stream};

use super::sources::{self, is_group, is_punct};

/// A path of names; that of the crate's root is empty.
pub(crate) type Module = Vec<String>;

/// Each module of a crate, with the modules that it names.
pub(crate) fn graph(name: &str) -> BTreeMap<Module, BTreeSet<Module>> {
    let files = sources::files(name);
    let modules: BTreeMap<Module, &String> = files.iter().map(|it| (module(it), it)).collect();
    let known: BTreeSet<&Module> = modules.keys().collect();
    let used = |(at, file): (&Module, &&String)| {
        let mut paths = Vec::new();
        collect(sources::tokens(file), &[], &mut paths);
        let used = paths.iter().filter_map(|path| resolve(at, path, &known));
        (at.clone(), used.filter(|it| it != at).collect())
    };
    modules.iter().map(used).collect()
}

/// The module of a file.
fn module(file: &str) -> Module {
    let (_, path) = file.split_once("/src/").expect("a source file");
    let names = path.trim_end_matches(".rs").split('/');
    let is_root = |name: &&str| ["lib", "main"].contains(name);
    names.filter(|it| !is_root(it)).map(str::to_owned).collect()
}

/// The module that a path in another module leads to, if it is one of this crate.
fn resolve(at: &Module, path: &[String], known: &BTreeSet<&Module>) -> Option<Module> {
    let mut base = at.clone();
    let mut rest = path;
    match path.first()?.as_str() {
        "crate" => {
            base.clear();
            rest = rest.get(1..)?;
        }
        "self" => rest = rest.get(1..)?,
        "super" => {
            while rest.first().is_some_and(|it| it == "super") {
                base.pop()?;
                rest = rest.get(1..)?;
            }
        }
        child => {
            let child = [at.as_slice(), &[child.to_owned()]].concat();
            known.get(&child)?;
        }
    }
    base.extend(rest.iter().cloned());
    while !known.contains(&base) {
        base.pop()?;
    }
    // The items of the root are the crate's own: every module may name them.
    (!base.is_empty()).then_some(base)
}

/// Finds all paths of at least two names, each element of a list of imports on its own.
fn collect(stream: TokenStream, before: &[String], paths: &mut Vec<Vec<String>>) {
    let mut tokens = stream.into_iter().peekable();
    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Punct(it) if it.as_char() == '#' => skip_attribute(&mut tokens),
            TokenTree::Group(group) => collect(group.stream(), before, paths),
            // The scope of a visibility is no use.
            TokenTree::Ident(name) if name == "pub" => {
                tokens.next_if(|it| is_group(it, Delimiter::Parenthesis));
            }
            TokenTree::Ident(name) => {
                let mut path = before.to_vec();
                path.push(name.to_string());
                follow(path, &mut tokens, paths);
            }
            TokenTree::Punct(_) | TokenTree::Literal(_) => {}
        }
    }
}

/// Follows a path to its end, or to the list at its end.
fn follow(
    mut path: Vec<String>,
    tokens: &mut Peekable<token_stream::IntoIter>,
    paths: &mut Vec<Vec<String>>,
) {
    while tokens.next_if(|it| is_punct(it, ':')).is_some() {
        if tokens.next_if(|it| is_punct(it, ':')).is_none() {
            break;
        }
        match tokens.peek() {
            Some(TokenTree::Ident(name)) => {
                path.push(name.to_string());
                tokens.next();
            }
            Some(TokenTree::Group(list)) if list.delimiter() == Delimiter::Brace => {
                collect(list.stream(), &path, paths);
                tokens.next();
                return;
            }
            Some(_) | None => break,
        }
    }
    if path.len() > 1 {
        paths.push(path);
    }
}

/// Passes an attribute, and the item behind it if that is for tests: it ends with its body, or at a semicolon.
fn skip_attribute(tokens: &mut Peekable<token_stream::IntoIter>) {
    let attribute = tokens.next().map(|it| it.to_string()).unwrap_or_default();
    if attribute == "[cfg (test)]" {
        tokens.find(|it| is_punct(it, ';') || is_group(it, Delimiter::Brace));
    }
}
