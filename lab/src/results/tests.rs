use super::*;

fn test(result: Outcome) -> Test {
    Test {
        result,
        seconds: 3,
        reason: (result == Outcome::NotRun).then(|| "did not end".to_owned()),
    }
}

fn record(peer: Peer, version: &str, tests: &[(&str, Outcome)]) -> Record {
    let tests = tests.iter();
    Record {
        peer,
        version: version.to_owned(),
        with: BTreeMap::from([(Peer::Argocd, "v3.2.11".to_owned())]),
        release: "0.1.0".to_owned(),
        commit: "4ca1de680000".to_owned(),
        date: "2026-11-26".to_owned(),
        tests: tests
            .map(|(name, result)| ((*name).to_owned(), test(*result)))
            .collect(),
    }
}

fn store(records: Vec<Record>) -> Store {
    let wanted = |version: &str| Wanted {
        peer: Peer::Ocm,
        version: version.to_owned(),
        reason: "no build".to_owned(),
    };
    Store {
        records,
        wanted: vec![wanted("v1.3"), wanted("v1.2")],
    }
}

#[test]
fn a_record_is_read_as_it_was_written_with_a_line_for_each_test() {
    let tests = [("b::c", Outcome::NotRun), ("a::b", Outcome::Passed)];
    let record = record(Peer::ArgocdAgent, "v0.9.0", &tests);
    let text = record.text().expect("JSON");
    assert_eq!(serde_json::from_str::<Record>(&text).expect("JSON"), record);
    let line = "    \"a::b\": {\"result\":\"passed\",\"seconds\":3},\n    \"b::c\": ";
    assert!(text.contains(line), "{text}");
    assert_eq!(record.file_name(), "argocd-agent-v0.9.0.json");
    let unknown = text.replace("\"date\"", "\"day\"");
    assert!(serde_json::from_str::<Record>(&unknown).is_err());
}

#[test]
fn runs_of_one_commit_add_up_and_another_commit_replaces_them() {
    let first = [
        ("a", Outcome::Failed),
        ("b", Outcome::Failed),
        ("c", Outcome::NotRun),
        ("d", Outcome::Passed),
    ];
    let second = [
        ("a", Outcome::Passed),
        ("b", Outcome::Failed),
        ("c", Outcome::Passed),
    ];
    let earlier = record(Peer::Ocm, "v1.3.1", &first);
    let later = record(Peer::Ocm, "v1.3.1", &second);
    let merged = later.clone().merged(Some(earlier.clone()));
    let results: Vec<_> = merged.tests.values().map(|it| it.result).collect();
    let expected = [
        Outcome::Sometimes,
        Outcome::Failed,
        Outcome::Passed,
        Outcome::Passed,
    ];
    assert_eq!(results, expected);
    let mut of_another_commit = earlier.clone();
    of_another_commit.commit = "0000".to_owned();
    assert_eq!(later.clone().merged(Some(of_another_commit)), later);
    let mut beside_another_version = earlier;
    beside_another_version.with.clear();
    assert_eq!(later.clone().merged(Some(beside_another_version)), later);
    assert_eq!(later.clone().merged(None), later);
}

#[test]
fn wanted_versions_stand_for_their_patch_releases() {
    let wanted = Wanted {
        peer: Peer::Ocm,
        version: "v1.1".to_owned(),
        reason: String::new(),
    };
    for (peer, version, expected) in [
        (Peer::Ocm, "v1.1", true),
        (Peer::Ocm, "v1.1.3", true),
        (Peer::Ocm, "v1.10.0", false),
        (Peer::Ocm, "v1.1.3-78-g00f84c32b", false),
        (Peer::Argocd, "v1.1.3", false),
    ] {
        let record = record(peer, version, &[]);
        assert_eq!(wanted.is_fulfilled_by(&record), expected, "{version}");
    }
}

const ROWS: &str = "Text\n\n<!-- results: rows ocm 2 -->\n\n\
    | # | tests | by hand |\n|---|---|---|\n\
    | 1 | `one_good_test`, `one_bad_test` | passed |\n\
    | 2 | `one_good_test`; unit: `an_unknown_test` | passed |\n\
    | 3 | `a_test_without_result` | passed |\n\
    | 4 | `one_bad_test` | passed |\n\n\
    <!-- end of the results -->\nEnd\n";

#[test]
fn rows_keep_their_first_columns_and_get_results() {
    let tests = [
        ("a::one_good_test", Outcome::Passed),
        ("b::one_bad_test", Outcome::Failed),
    ];
    let store = store(vec![record(Peer::Ocm, "v1.3.1", &tests)]);
    let made = rendered(ROWS, &store).expect("a page");
    let expected = "Text\n\n<!-- results: rows ocm 2 -->\n\n\
        | # | tests | v1.3.1 |\n|---|---|---|\n\
        | 1 | `one_good_test`, `one_bad_test` | 1 of 2 passed; failed: `one_bad_test` |\n\
        | 2 | `one_good_test`; unit: `an_unknown_test` | passed |\n\
        | 3 | `a_test_without_result` | not run: 1 (not in this run) |\n\
        | 4 | `one_bad_test` | failed |\n\n\
        <!-- end of the results -->\nEnd\n";
    assert_eq!(made, expected);
    assert_eq!(rendered(&made, &store).expect("a page"), made);
    let empty = rendered(&made, &Store::default()).expect("a page");
    let rows = "| # | tests | result |\n|---|---|---|\n\
        | 1 | `one_good_test`, `one_bad_test` | not run |\n";
    assert!(empty.contains(rows), "{empty}");
}

#[test]
fn versions_and_pairings_name_failures_and_gaps() {
    let tests = [
        ("interop::a_go_principal_and_a_go_agent::x", Outcome::Failed),
        (
            "interop::our_principal_and_a_go_agent::x",
            Outcome::Sometimes,
        ),
        ("interop::our_principal_and_a_go_agent::y", Outcome::Passed),
        ("transport::z", Outcome::Passed),
    ];
    let store = store(vec![
        record(
            Peer::Ocm,
            "v1.3.1",
            &[("a::b", Outcome::Passed), ("a::c", Outcome::NotRun)],
        ),
        record(Peer::ArgocdAgent, "v0.9.0", &tests),
    ]);
    let made = |order: &str| {
        let page = format!("<!-- results: {order} --><!-- end of the results -->");
        rendered(&page, &store).expect("a page")
    };
    let versions = made("versions ocm");
    for line in [
        "| v1.3.1 | 1 of 1 passed; not run: 1 (did not end) | Argo CD v3.2.11 | 4ca1de680000 (0.1.0) | 2026-11-26 |\n",
        "| v1.2 | not run: no build | – | – | – |\n",
    ] {
        assert!(versions.contains(line), "{versions}");
    }
    assert!(!versions.contains("| v1.3 |"), "{versions}");
    let pairings = made("pairings argocd-agent");
    for line in [
        "| v0.9.0 | a go principal and a go agent | 0 of 1 passed; failed: `x` (a go principal and a go agent) |\n",
        "| v0.9.0 | our principal and a go agent | 1 of 2 passed; sometimes: `x` (our principal and a go agent) |\n",
        "| v0.9.0 | other tests | 1 of 1 passed |\n",
    ] {
        assert!(pairings.contains(line), "{pairings}");
    }
    let summary = made("summary");
    let line = "| Open Cluster Management | v1.3.1 (1 of 1 passed; not run: 1 (did not end), commit 4ca1de680000) | v1.2 |\n";
    assert!(summary.contains(line), "{summary}");
    // Without the pairing of two Go programs.
    let line = "| argocd-agent (Go) | v0.9.0 (2 of 3 passed; sometimes: `x`";
    assert!(summary.contains(line), "{summary}");
}

#[test]
fn broken_comments_are_refused() {
    for (page, expected) in [
        ("<!-- results: summary -->\n", "have no end"),
        ("<!-- results: summary", "has no end"),
        ("<!-- results: x --><!-- end of the results -->", "no table"),
        (
            "<!-- results: versions x --><!-- end of the results -->",
            "no peer",
        ),
        (
            "<!-- results: rows ocm 2 --><!-- end of the results -->",
            "without rows",
        ),
        (
            "<!-- results: rows ocm 2 -->\n| a |\n<!-- end of the results -->",
            "lacks columns",
        ),
    ] {
        let error = rendered(page, &Store::default()).expect_err(page);
        assert!(format!("{error:#}").contains(expected), "{error:#}");
    }
}

#[test]
fn claims_by_hand_are_found_outside_of_tables_only() {
    assert_eq!(by_hand(ROWS), Vec::<String>::new());
    let claim = "| 5 | passed, as seen |";
    let page = format!("{ROWS}\n{claim}\n\nIt passed.\n");
    assert_eq!(by_hand(&page), [claim]);
}

#[test]
fn versions_are_in_order_of_their_numbers() {
    let folder = std::env::temp_dir().join(format!("results-{}", std::process::id()));
    for version in ["v1.10.0", "v1.9.0"] {
        let record = record(Peer::Ocm, version, &[("a::b", Outcome::Passed)]);
        record.save(&folder).expect("a file");
    }
    fs::write(folder.join(WANTED), "[]").expect("a file");
    let store = Store::load_from(&folder).expect("records");
    fs::remove_dir_all(&folder).expect("the folder goes");
    let versions: Vec<_> = store.records.iter().map(|it| it.version.as_str()).collect();
    assert_eq!(versions, ["v1.9.0", "v1.10.0"]);
    let none = Store::load_from(&folder).expect("an absent folder is empty");
    assert!(none.records.is_empty() && none.wanted.is_empty());
}
