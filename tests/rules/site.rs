//! The documentation as a site: every page is linked, every link resolves, every command is run or has a reason why not.

use std::{
    collections::BTreeSet,
    fs,
    path::{Component, Path, PathBuf},
};

use lab::pages::{self, Mark};

use crate::shared::names;

/// Pages outside docs/ that users read, too.
const BESIDE: [&str; 2] = ["README.md", "manifests/hub/README.md"];

/// The programs with which commands begin.
const PROGRAMS: [&str; 8] = [
    "kubectl",
    "helm",
    "clusteradm",
    "kind",
    "make",
    "cargo",
    "docker",
    "argocd",
];

/// The site has every page of docs/ once, and no page that is not there.
#[test]
fn every_page_is_in_the_summary() {
    let listed: Vec<_> = pages::links(&text("docs/SUMMARY.md"))
        .into_iter()
        .map(|link| format!("docs/{}", link.target))
        .collect();
    let once: BTreeSet<_> = listed.iter().cloned().collect();
    assert_eq!(listed.len(), once.len(), "a page is listed twice");
    let mut there: BTreeSet<_> = pages_below("docs").into_iter().collect();
    there.remove("docs/SUMMARY.md");
    let missing: Vec<_> = there.difference(&once).collect();
    let unknown: Vec<_> = once.difference(&there).collect();
    assert!(
        missing.is_empty() && unknown.is_empty(),
        "not in docs/SUMMARY.md: {missing:?}; in it, and not there: {unknown:?}"
    );
}

/// Every link of a page to another one, to an anchor or to a file of the repository leads somewhere.
#[test]
fn every_link_between_pages_leads_somewhere() {
    let (mut wrong, mut followed) = (Vec::new(), 0);
    for page in all_pages() {
        for link in pages::links(&text(&page)) {
            if link.target.contains("://") {
                continue;
            }
            followed += 1;
            if let Err(why) = follow(&page, &link.target) {
                wrong.push(format!("{page}:{}: {}: {why}", link.line, link.target));
            }
        }
    }
    assert!(followed > 100, "only {followed} links were found");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A test runs every block of commands, or a comment says why none does; and commands are marked as such.
#[test]
fn every_command_block_is_run_or_explained() {
    let known = names::test_names();
    let (mut wrong, mut run) = (Vec::new(), 0);
    for page in all_pages() {
        for block in pages::blocks(&text(&page)) {
            let place = format!("{page}:{}", block.line);
            match &block.mark {
                Some(Mark::Run(e2e_test)) if !known.contains(e2e_test) => {
                    wrong.push(format!("{place}: no test is named {e2e_test}"));
                }
                Some(Mark::Run(e2e_test)) if !takes_from(e2e_test, &page) => {
                    wrong.push(format!("{place}: {e2e_test} does not read this page"));
                }
                Some(Mark::Run(_)) => run += 1,
                None if block.is_commands() => wrong.push(format!(
                    "{place}: put the test that runs it before it: `<!-- run: NAME_OF_TEST -->` or `<!-- not run: reason -->`"
                )),
                None if block.language.is_empty() && has_commands(&block.text) => {
                    wrong.push(format!("{place}: these are commands, so begin it with ```sh"));
                }
                Some(Mark::NotRun(_)) | None => {}
            }
        }
    }
    assert!(run > 8, "only {run} blocks are run");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn has_commands(text: &str) -> bool {
    text.lines().any(|line| {
        let word = line.split_whitespace().next();
        word.is_some_and(|word| PROGRAMS.contains(&word)) && !line.starts_with(' ')
    })
}

/// Whether the test's module names the page, which it has to do to run its blocks.
fn takes_from(e2e_test: &str, page: &str) -> bool {
    let modules = files_below("tests/e2e", "rs");
    modules.iter().map(|path| text(path)).any(|source| {
        source.contains(&format!("async fn {e2e_test}(")) && source.contains(&format!("\"{page}\""))
    })
}

/// Looks where a link of a page leads.
fn follow(page: &str, target: &str) -> Result<(), String> {
    let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
    let place = if path.is_empty() {
        PathBuf::from(page)
    } else {
        beside(page, path)
    };
    if !root().join(&place).exists() {
        return Err("is not there".to_owned());
    }
    let place = place.to_string_lossy().into_owned();
    if anchor.is_empty() {
        return Ok(());
    }
    let anchors = pages::anchors(&text(&place));
    let is_there = anchors.contains(anchor);
    is_there
        .then_some(())
        .ok_or_else(|| format!("{place} has no such heading"))
}

/// The place of a link, from the root of the repository.
fn beside(page: &str, path: &str) -> PathBuf {
    let mut place = PathBuf::from(page);
    place.pop();
    for part in Path::new(path).components() {
        match part {
            Component::ParentDir => {
                place.pop();
            }
            Component::Normal(name) => place.push(name),
            Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
        }
    }
    place
}

fn all_pages() -> Vec<String> {
    let beside = BESIDE.iter().map(|&page| page.to_owned());
    pages_below("docs").into_iter().chain(beside).collect()
}

fn pages_below(folder: &str) -> Vec<String> {
    files_below(folder, "md")
}

/// Paths from the root of the repository, in order.
fn files_below(folder: &str, extension: &str) -> Vec<String> {
    let mut files = Vec::new();
    for entry in fs::read_dir(root().join(folder)).expect(folder).flatten() {
        let path = format!("{folder}/{}", entry.file_name().to_string_lossy());
        if entry.path().is_dir() {
            files.extend(files_below(&path, extension));
        } else if entry.path().extension().is_some_and(|it| it == extension) {
            files.push(path);
        }
    }
    files.sort();
    files
}

fn text(path: &str) -> String {
    fs::read_to_string(root().join(path)).expect(path)
}

fn root() -> PathBuf {
    lab::tools::workspace()
}
