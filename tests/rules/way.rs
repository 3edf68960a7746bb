//! The way of an Application from the hub's watch to the write on the spoke, file by file. The table in
//! `docs/architecture.md` is made from the one here: `UPDATE_GOLDEN=1 cargo test -p tests --test rules way` writes it.

use std::{collections::BTreeSet, fmt::Write as _, fs};

use proc_macro2::{Delimiter, TokenStream, TokenTree};

use crate::shared::{
    sources::{file, is_group, root, tokens},
    updates_golden,
};

/// One function on the way: its file, its name, what it uses to pass the change on, and what it does.
type Step = (&'static str, &'static str, &'static str, &'static str);

/// Values that only change their form (`argocd/projection`, `protocol/event/codec.rs`) are no step.
const WAY: &[Step] = &[
    (
        "runtime/src/kube/watch.rs",
        "watch_trimmed",
        "handle",
        "the watch delivers the object",
    ),
    (
        "principal/src/store/kube.rs",
        "watch",
        "report",
        "turns the event into a report",
    ),
    (
        "principal/src/sync/hub/objects.rs",
        "reporter",
        "report",
        "receives the report",
    ),
    (
        "principal/src/sync/hub/objects.rs",
        "take",
        "set",
        "takes the object into the index, under its lock",
    ),
    (
        "principal/src/sync/hub/index/change.rs",
        "set_application",
        "place",
        "replaces the known version",
    ),
    (
        "principal/src/sync/hub/index/change.rs",
        "settle",
        "settle",
        "finds its cluster, the owner of its name and its project's verdict",
    ),
    (
        "principal/src/sync/hub/index/entry.rs",
        "settle",
        "Effect",
        "compares with what was sent; result: state of X for cluster C",
    ),
    (
        "principal/src/sync/hub/objects.rs",
        "post_for",
        "notify",
        "passes the effect to the session of C",
    ),
    (
        "principal/src/sync/hub/mailbox.rs",
        "state",
        "note",
        "marks X once for the session",
    ),
    (
        "principal/src/sync/session/driver/wait.rs",
        "next",
        "mailbox",
        "wakes the session",
    ),
    (
        "principal/src/sync/session/driver.rs",
        "take_notes",
        "mark",
        "passes the mark to the protocol",
    ),
    (
        "protocol/src/session.rs",
        "mark",
        "outbox",
        "accepts the mark",
    ),
    (
        "protocol/src/outbox.rs",
        "next_object",
        "sendable",
        "keeps one mark for each object until the window has room",
    ),
    (
        "protocol/src/session.rs",
        "next_new",
        "encode",
        "asks for the newest body when it sends",
    ),
    (
        "principal/src/sync/hub/encode.rs",
        "encode",
        "event",
        "reads the newest object and builds the event",
    ),
    (
        "principal/src/sync/session/driver.rs",
        "write",
        "send",
        "writes it to the stream",
    ),
    (
        "agent/src/session/drive.rs",
        "act",
        "receive",
        "receives the event",
    ),
    (
        "protocol/src/session.rs",
        "receive",
        "insert",
        "checks it and acknowledges",
    ),
    (
        "protocol/src/inbox.rs",
        "next_work",
        "start",
        "keeps the newest event of each object; one piece of work for each",
    ),
    (
        "agent/src/session/drive.rs",
        "begin_work",
        "carry_out",
        "starts the work",
    ),
    (
        "agent/src/sync/replica.rs",
        "reconcile",
        "apply",
        "locks the object, plans and applies",
    ),
    (
        "agent/src/sync/replica/message.rs",
        "understand",
        "Message",
        "checks name, namespace and owner",
    ),
    (
        "agent/src/sync/replica/plan.rs",
        "state",
        "converge",
        "compares with the cache; result: the patch, or nothing",
    ),
    (
        "agent/src/sync/replica/apply.rs",
        "write",
        "patch",
        "carries the plan out and remembers its result",
    ),
    (
        "agent/src/sync/kube.rs",
        "patch",
        "patch",
        "one create, patch or delete, and none when nothing differs",
    ),
];

/// No change makes the way longer.
const AT_MOST: usize = 18;

#[test]
fn way_of_an_application_is_as_documented() {
    let wrong: Vec<String> = WAY
        .iter()
        .filter(|(path, function, uses, _)| !uses_in(tokens(path), function, uses))
        .map(|(path, function, uses, _)| format!("{path}: no function {function} uses {uses}"))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let files: BTreeSet<&str> = WAY.iter().map(|(path, ..)| *path).collect();
    assert!(files.len() <= AT_MOST, "{} files", files.len());

    let page = "docs/architecture.md";
    let (text, table) = (file(page), table(files.len()));
    let (begin, end) = ("<!-- begin: tests/rules/way.rs -->\n", "<!-- end -->");
    let (before, rest) = text.split_once(begin).expect("the begin of the table");
    let (known, after) = rest.split_once(end).expect("the end of the table");
    if updates_golden() {
        fs::write(
            root().join(page),
            format!("{before}{begin}{table}{end}{after}"),
        )
        .expect(page);
    } else {
        assert_eq!(known, table, "UPDATE_GOLDEN=1 updates it");
    }
}

fn table(files: usize) -> String {
    let mut table = format!(
        "{files} files; paths are below `src/`.\n\n| file | function | does |\n|---|---|---|\n"
    );
    for (path, function, _, does) in WAY {
        let path = path.replace("/src/", "/");
        writeln!(table, "| `{path}` | `{function}` | {does} |").expect("a string takes all");
    }
    table
}

/// Whether a function of this name uses this name in its body.
fn uses_in(stream: TokenStream, function: &str, used: &str) -> bool {
    let mut rest = stream.into_iter();
    let mut found = false;
    while let Some(token) = rest.next() {
        let is_function = matches!(&token, TokenTree::Ident(it) if it == "fn")
            && rest.next().is_some_and(|it| it.to_string() == function);
        if is_function {
            let body = rest.find(|it| is_group(it, Delimiter::Brace));
            found |= matches!(body, Some(TokenTree::Group(it)) if has(it.stream(), used));
        } else if let TokenTree::Group(group) = &token {
            found |= uses_in(group.stream(), function, used);
        }
    }
    found
}

fn has(stream: TokenStream, used: &str) -> bool {
    stream.into_iter().any(|token| match token {
        TokenTree::Ident(it) => it == used,
        TokenTree::Group(it) => has(it.stream(), used),
        TokenTree::Punct(_) | TokenTree::Literal(_) => false,
    })
}
