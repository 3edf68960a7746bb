//! Parses the pages of the documentation: links, anchors, and blocks of commands with their marks.
//!
//! A mark is a comment before a block of commands, invisible to readers:
//!
//! ```text
//! <!-- run: the_name_of_a_test -->        that test takes the block from the page and runs it
//! <!-- not run: reason -->                no test runs it, and why
//! ```
//!
//! Pure: text in, values out.

use std::collections::{BTreeMap, BTreeSet};

/// Fences whose content a reader types into a shell.
const SHELLS: [&str; 4] = ["sh", "bash", "shell", "console"];

/// The mark of a block of commands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mark {
    /// The test of this name runs it.
    Run(String),
    /// No test runs it, for this reason.
    NotRun(String),
}

/// A fenced block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// The line of its first fence, counted from 1.
    pub line: usize,
    /// The language after the fence.
    pub language: String,
    /// Its mark.
    pub mark: Option<Mark>,
    /// Its content, without the fence's own indentation.
    pub text: String,
}

impl Block {
    /// Whether a reader types it into a shell.
    pub fn is_commands(&self) -> bool {
        SHELLS.contains(&self.language.as_str())
    }
}

/// A link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// The line that it is in, counted from 1.
    pub line: usize,
    /// Its target.
    pub target: String,
}

/// All fenced blocks of a page.
pub fn blocks(page: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let (mut mark, mut open) = (None, None::<(usize, Block)>);
    for (number, line) in (1..).zip(page.lines()) {
        let trimmed = line.trim();
        if let Some((indentation, mut block)) = open.take() {
            if trimmed == "```" {
                blocks.push(block);
            } else {
                block.text.push_str(without(line, indentation));
                block.text.push('\n');
                open = Some((indentation, block));
            }
        } else if let Some(language) = trimmed.strip_prefix("```") {
            let block = Block {
                line: number,
                language: language.to_owned(),
                mark: mark.take(),
                text: String::new(),
            };
            open = Some((line.len() - line.trim_start().len(), block));
        } else if !trimmed.is_empty() {
            mark = stated(trimmed);
        }
    }
    blocks
}

/// The blocks of commands that this test runs, in the order of the page.
pub fn blocks_of(page: &str, e2e_test: &str) -> Vec<Block> {
    let all = blocks(page).into_iter();
    all.filter(|block| {
        block.is_commands() && matches!(&block.mark, Some(Mark::Run(name)) if name == e2e_test)
    })
    .collect()
}

/// The blocks of commands below a heading of the second level, whether a test runs them or not.
pub fn blocks_below(page: &str, heading: &str) -> Vec<Block> {
    let title = format!("## {heading}");
    let mut headings = prose(page).filter(|(_, line)| line.starts_with("## "));
    let Some((start, _)) = headings.find(|(_, line)| *line == title) else {
        return Vec::new();
    };
    let end = headings.next().map_or(usize::MAX, |(number, _)| number);
    let all = blocks(page).into_iter();
    all.filter(|block| block.is_commands() && (start..end).contains(&block.line))
        .collect()
}

/// The commands of a block, as a reader counts them: continued lines are one command, and a here-document is part of its command.
pub fn commands(block: &str) -> Vec<String> {
    let (mut commands, mut open, mut end) = (Vec::new(), String::new(), None::<String>);
    for line in block.lines().map(str::trim) {
        if let Some(word) = &end {
            if line == word {
                end = None;
            }
            continue;
        }
        if let Some(start) = line.strip_suffix('\\') {
            open.push_str(start);
            continue;
        }
        open.push_str(line);
        let whole = std::mem::take(&mut open);
        if whole.starts_with('#') {
            continue;
        }
        end = whole.split_once("<<").map(|(_, word)| {
            let word = word.trim_start_matches('-');
            word.trim_matches(['\'', '"']).to_owned()
        });
        let parts = whole.split(" && ").flat_map(|part| part.split("; "));
        let parts = parts.map(str::trim).filter(|part| !part.is_empty());
        commands.extend(parts.map(str::to_owned));
    }
    commands
}

/// The mark in a comment.
fn stated(line: &str) -> Option<Mark> {
    let comment = line.strip_prefix("<!--")?.strip_suffix("-->")?.trim();
    let words = |prefix: &str| {
        let words = comment.strip_prefix(prefix)?.trim();
        (!words.is_empty()).then(|| words.to_owned())
    };
    words("run:")
        .map(Mark::Run)
        .or_else(|| words("not run:").map(Mark::NotRun))
}

fn without(line: &str, indentation: usize) -> &str {
    let blank = line.len() - line.trim_start().len();
    line.get(indentation.min(blank)..).unwrap_or_default()
}

/// All links of a page outside code.
pub fn links(page: &str) -> Vec<Link> {
    let mut links = Vec::new();
    for (line, text) in prose(page) {
        let text = outside_code(text);
        let targets = text.split("](").skip(1);
        links.extend(targets.filter_map(|after| {
            let target = after.split([')', ' ']).next()?.to_owned();
            Some(Link { line, target })
        }));
    }
    links
}

/// The link targets in a page: its headings, as GitHub and mdBook name them.
pub fn anchors(page: &str) -> BTreeSet<String> {
    let mut seen = BTreeMap::<String, usize>::new();
    let headings = prose(page).filter_map(|(_, line)| {
        let heading = line.trim_start_matches('#');
        let level = line.len() - heading.len();
        (1..=6)
            .contains(&level)
            .then(|| heading.strip_prefix(' '))?
    });
    let mut anchors = BTreeSet::new();
    for heading in headings {
        let name = anchor(heading);
        let before = seen.entry(name.clone()).or_default();
        anchors.insert(if *before == 0 {
            name
        } else {
            format!("{name}-{before}")
        });
        *before += 1;
    }
    anchors
}

fn anchor(heading: &str) -> String {
    let kept = heading.trim().to_lowercase();
    let kept = kept
        .chars()
        .filter(|c| c.is_alphanumeric() || "-_ ".contains(*c));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// Lines that are in no fenced block, with their numbers.
fn prose(page: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    (1..).zip(page.lines()).filter(move |(_, line)| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        !fence && !fenced
    })
}

fn outside_code(line: &str) -> String {
    line.split('`').step_by(2).collect::<Vec<_>>().join("`")
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "# A page: `it` & more\n\
        <!-- run: a_test -->\n\
        ```sh\n\
        one <<EOF\n  two\nEOF\n\
        ```\n\
        \n\
        - <!-- not run: for a reason -->\n\
        1. a list\n\n\
        \x20  <!-- not run: for a reason -->\n\n\
        \x20  ```sh\n\
        \x20  in a list\n\
        \x20    deeper\n\
        \x20  ```\n\
        ```yaml\nkey: [not](a-link)\n```\n\
        ## Again\n## Again\n\
        See [this](one.md#two) and `[that](no.md)`, and [other](https://example.org).\n";

    #[test]
    fn blocks_are_read_with_their_marks() {
        let blocks = blocks(PAGE);
        let texts: Vec<_> = blocks.iter().map(|it| it.text.as_str()).collect();
        let list = "in a list\n  deeper\n";
        assert_eq!(
            texts,
            ["one <<EOF\n  two\nEOF\n", list, "key: [not](a-link)\n"]
        );
        let marks: Vec<_> = blocks.into_iter().map(|it| (it.line, it.mark)).collect();
        let not_run = Mark::NotRun("for a reason".to_owned());
        let run = Mark::Run("a_test".to_owned());
        assert_eq!(marks, [(3, Some(run)), (14, Some(not_run)), (18, None)]);
        assert_eq!(blocks_of(PAGE, "a_test").len(), 1);
        assert_eq!(blocks_of(PAGE, "another"), []);
    }

    #[test]
    fn blocks_of_a_section_end_at_the_next_heading() {
        let page = "## One\n```sh\na\n```\n### Part\n```sh\n## Two\nb\n```\n```yaml\nc: d\n```\n## Two\n```sh\ne\n```\n";
        let of = |heading| {
            let below = blocks_below(page, heading).into_iter();
            below.map(|it| it.text).collect::<Vec<_>>()
        };
        assert_eq!(of("One"), ["a\n", "## Two\nb\n"]);
        assert_eq!(of("Two"), ["e\n"]);
        assert_eq!(of("Three"), Vec::<String>::new());
    }

    #[test]
    fn commands_are_counted_as_readers_do() {
        let block = "one \\\n  --flag && two; three | four\n\n# nothing\nfive <<EOF\nsix\nseven; eight\nEOF\nnine\n";
        let expected = ["one --flag", "two", "three | four", "five <<EOF", "nine"];
        assert_eq!(commands(block), expected);
        assert_eq!(commands("a <<'END'\nb\n  END\nc\n"), ["a <<'END'", "c"]);
    }

    #[test]
    fn text_between_a_mark_and_a_block_separates_them() {
        let page = "<!-- run: a_test -->\nWords.\n```sh\nx\n```\n```sh\ny\n```\n";
        assert!(blocks(page).iter().all(|it| it.mark.is_none()));
        let nothing = "<!-- run: -->\n```sh\nx\n```\n";
        assert!(blocks(nothing).iter().all(|it| it.mark.is_none()));
    }

    #[test]
    fn links_are_found_outside_code_only() {
        let targets: Vec<_> = links(PAGE).into_iter().map(|it| it.target).collect();
        assert_eq!(targets, ["one.md#two", "https://example.org"]);
    }

    #[test]
    fn headings_have_the_names_that_links_use() {
        let names: Vec<_> = anchors(PAGE).into_iter().collect();
        assert_eq!(names, ["a-page-it--more", "again", "again-1"]);
    }
}
