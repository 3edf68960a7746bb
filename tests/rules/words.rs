//! One language: words that the glossary (`docs/glossary.md`) replaced do not come back.
//!
//! Every file of the tree is read: identifiers, text literals and comments of Rust sources, and the text of pages,
//! manifests and build files. `words/exceptions.txt` has the number of hits that each file may still have. It only
//! shrinks: a file with fewer hits than its line fails too, until the line is lowered (`UPDATE_GOLDEN=1` lowers, never raises).

use std::{collections::BTreeMap, fs, path::Path, sync::LazyLock};

use regex::Regex;

use crate::shared::{sources::root, updates_golden};

/// Retired everywhere.
const PROSE: &[&str] = &[
    "anew", "crew", "crooked", "desk", "desks", "doomed", "farewell", "hurries", "hurry", "lane",
    "lanes", "nobody", "obey", "obeyed", "obeys", "papers", "said", "seat", "seats", "sieve",
    "somebody", "tell", "telling", "tells", "told", "untold", "whatever", "whoever", "whomever",
];

/// Retired in names only: each is an ordinary word elsewhere.
const NAMES: &[&str] = &[
    "ailment", "ailments", "aside", "blame", "bring", "bringing", "brings", "brought", "chance",
    "conduct", "ear", "hear", "heard", "hears", "held", "lack", "lacks", "news", "offence",
    "parting", "patience", "road", "say", "saying", "says", "sight", "sighting", "stories",
    "story", "voice", "weather",
];

/// Retired at the start or inside of a name with several words, such as `what_is_left`.
const RIDDLES: &[&str] = &["what", "who", "whom", "whose"];

/// Speech and custody verbs in the passive hide who acts.
const PASSIVE: &str = r"(?i)\b(?:is|are|was|were|be|been|being) (?:told|said|held)\b";

/// The longest name of a test.
const LONGEST_TEST: usize = 70;

const EXCEPTIONS: &str = "tests/rules/words/exceptions.txt";

#[test]
fn retired_words_do_not_come_back() {
    let found: BTreeMap<String, Vec<String>> = files()
        .into_iter()
        .map(|path| {
            let text = fs::read_to_string(root().join(&path)).unwrap_or_default();
            let hits = hits(&path, &text);
            (path, hits)
        })
        .filter(|(_, hits)| !hits.is_empty())
        .collect();
    let allowed = exceptions();
    if updates_golden() {
        bless(&found, &allowed);
    }
    let mut wrong = Vec::new();
    for (path, hits) in &found {
        let allowed = allowed.get(path).copied().unwrap_or_default();
        if hits.len() > allowed {
            wrong.push(format!(
                "{path}: {} retired words, {allowed} allowed:\n  {}",
                hits.len(),
                hits.join("\n  ")
            ));
        }
    }
    for (path, allowed) in &allowed {
        let hits = found.get(path).map_or(0, Vec::len);
        if hits < *allowed {
            wrong.push(format!(
                "{path}: {hits} retired words; lower its {allowed} in {EXCEPTIONS}"
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A check that finds nothing would prove nothing.
#[test]
fn each_form_of_a_retired_word_is_found() {
    let source = concat!(
        "fn was_to",
        "ld() {} // So",
        "mebody else\n",
        "let text = \"it is sa",
        "id\"; struct He",
        "ld;\n",
        "let kept = \"a lock is kept\"; // holds it\n",
        "#[test]\nfn a_name_of_a_test_that_is_so_long_that_nothing_can_be_found_by_reading_it() {}\n",
    );
    let found = hits("x.rs", source);
    let words: Vec<_> = found.iter().map(String::as_str).collect();
    assert_eq!(words.len(), 6, "{words:#?}");
    assert_eq!(
        hits("x.md", "It was sa\u{69}d, as the hub sees it.").len(),
        2
    );
}

/// The glossary fits on one screen.
#[test]
fn the_glossary_stays_short() {
    let text = fs::read_to_string(root().join("docs/glossary.md")).expect("the glossary");
    assert!(text.lines().count() <= 60, "one screen, please");
}

fn hits(path: &str, text: &str) -> Vec<String> {
    if Path::new(path).extension().is_some_and(|it| it == "rs") {
        return in_source(text);
    }
    let lines = text.lines().enumerate();
    lines
        .flat_map(|(number, line)| in_prose(line, number + 1))
        .collect()
}

fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("a pattern")
}

/// Spellings of contracts that contain a retired word, and names that the protocol's compiler makes of them.
static CONTRACTS: LazyLock<Vec<String>> = LazyLock::new(|| {
    let list = fs::read_to_string(root().join("tests/rules/contracts.txt")).expect("contracts");
    let parts = list.lines().filter_map(|line| line.split_once('\t'));
    let kept = parts
        .filter(|(kind, _)| ["metric", "key", "name", "variable", "field", "proto"].contains(kind));
    let words = kept.flat_map(|(_, value)| value.split([' ', '\t', '=', ';', '(', ')']));
    let retired = |word: &&str| {
        word.len() > 4
            && PART
                .find_iter(word)
                .any(|it| is_retired(&it.as_str().to_lowercase()))
    };
    let generated = [
        "LaneServer",
        "LaneClient",
        "lane_server",
        "lane_client",
        "argocdagent.lane.Lane",
        "Lane/Open",
        "Lane",
        "\"lane\"",
        "\"lanes\"",
    ];
    let mut all: Vec<String> = words
        .filter(retired)
        .chain(generated)
        .map(str::to_owned)
        .collect();
    all.sort_by_key(|it| std::cmp::Reverse(it.len()));
    all.dedup();
    all
});

fn is_retired(word: &str) -> bool {
    PROSE.contains(&word) || NAMES.contains(&word)
}

static PIECE: LazyLock<Regex> = LazyLock::new(|| {
    pattern(concat!(
        r##"(?s)//[^\n]*|/\*.*?\*/|b?r#".*?"#|b?r"[^"]*"|"##,
        r#"b?"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])'"#
    ))
});
static NAME: LazyLock<Regex> = LazyLock::new(|| pattern("[A-Za-z_][A-Za-z0-9_]*"));
static PART: LazyLock<Regex> = LazyLock::new(|| pattern("[A-Z]?[a-z]+|[A-Z]+"));
static WORD: LazyLock<Regex> = LazyLock::new(|| pattern("[A-Za-z]+"));
static HIDDEN_ACTOR: LazyLock<Regex> = LazyLock::new(|| pattern(PASSIVE));
static TEST: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r"#\[(?:tokio::)?test[^\n]*\]\n(?:\s*#[^\n]*\n)*\s*(?:async )?fn (\w+)")
});

/// Comments and literals are prose; the rest are names.
fn in_source(text: &str) -> Vec<String> {
    let lines = Lines::of(text);
    let mut found = Vec::new();
    let mut at = 0;
    for piece in PIECE.find_iter(text) {
        found.extend(in_names(text, at, piece.start(), &lines));
        for (offset, line) in piece.as_str().lines().enumerate() {
            found.extend(in_prose(line, lines.number(piece.start()) + offset));
        }
        at = piece.end();
    }
    found.extend(in_names(text, at, text.len(), &lines));
    let tests = TEST.captures_iter(text).filter_map(|it| it.get(1));
    let long = tests.filter(|it| it.as_str().len() > LONGEST_TEST);
    found.extend(long.map(|it| {
        format!(
            "line {}: long name {}",
            lines.number(it.start()),
            it.as_str()
        )
    }));
    found
}

fn in_names(text: &str, from: usize, to: usize, lines: &Lines) -> Vec<String> {
    let mut found = Vec::new();
    for name in NAME.find_iter(text.get(from..to).unwrap_or_default()) {
        if CONTRACTS.iter().any(|it| it == name.as_str()) {
            continue;
        }
        for part in PART.find_iter(name.as_str()) {
            let word = part.as_str().to_lowercase();
            let riddle = name.as_str().contains('_') && RIDDLES.contains(&word.as_str());
            if riddle || is_retired(&word) {
                let line = lines.number(from + name.start());
                found.push(format!("line {line}: {word} in {}", name.as_str()));
            }
        }
    }
    found
}

fn in_prose(line: &str, number: usize) -> Vec<String> {
    let line = CONTRACTS
        .iter()
        .fold(line.to_owned(), |line, it| line.replace(it.as_str(), ""));
    let line = line.as_str();
    let words = WORD.find_iter(line).map(|it| it.as_str().to_lowercase());
    let retired = words.filter(|it| PROSE.contains(&it.as_str()));
    let passive = HIDDEN_ACTOR.find_iter(line);
    retired
        .chain(passive.map(|it| it.as_str().to_owned()))
        .map(|word| format!("line {number}: {word}"))
        .collect()
}

/// Where the lines of a text begin.
struct Lines(Vec<usize>);

impl Lines {
    fn of(text: &str) -> Self {
        Self(text.match_indices('\n').map(|(at, _)| at).collect())
    }

    /// The number of the line with this byte; the first is 1.
    fn number(&self, at: usize) -> usize {
        self.0.partition_point(|newline| *newline < at) + 1
    }
}

/// All files of the tree with words of ours.
fn files() -> Vec<String> {
    let (root, mut found) = (root(), Vec::new());
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder").flatten() {
            let (path, name) = (entry.path(), entry.file_name());
            let name = name.to_string_lossy();
            let skipped = [
                "target",
                "crds",
                "fixtures",
                "proptest-regressions",
                "node_modules",
            ];
            if path.is_dir() {
                if !name.starts_with('.') && !skipped.contains(&&*name) {
                    folders.push(path);
                }
                continue;
            }
            let path = path.strip_prefix(&root).expect("below the root");
            let path = path.to_string_lossy().into_owned();
            let ours = [".rs", ".md", ".yaml", ".tpl", ".txt", ".toml"];
            let ours = ours.iter().any(|it| name.ends_with(it)) || name == "Makefile";
            if ours && !path.starts_with("tests/rules/words") && !path.ends_with("contracts.txt") {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

fn exceptions() -> BTreeMap<String, usize> {
    let text = fs::read_to_string(root().join(EXCEPTIONS)).expect("the exceptions");
    text.lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split_once(' '))
        .map(|(count, path)| (path.to_owned(), count.parse().expect(path)))
        .collect()
}

/// Lowers the exceptions to what there is; never raises one.
fn bless(found: &BTreeMap<String, Vec<String>>, allowed: &BTreeMap<String, usize>) {
    let text = fs::read_to_string(root().join(EXCEPTIONS)).expect("the exceptions");
    let head = text.lines().filter(|line| line.starts_with('#'));
    let lowered = allowed.iter().filter_map(|(path, allowed)| {
        let hits = found.get(path).map_or(0, Vec::len).min(*allowed);
        (hits > 0).then(|| format!("{hits} {path}"))
    });
    let lines: Vec<_> = head.map(str::to_owned).chain(lowered).collect();
    fs::write(root().join(EXCEPTIONS), lines.join("\n") + "\n").expect("the exceptions");
}
