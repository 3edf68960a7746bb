//! The attacks of the hostile agent, against their table in `docs/security.md`.

use std::fs;

use lab::bench::hostile::{ATTACKS, BY_KLUSTERLET, Verdict};

use crate::shared::sources::root;

const PAGE: &str = "docs/security.md";
const HEAD: &str = "| attack | result | test |";

/// Each attack has its row, with the result that its test requires, and there is no other row.
#[test]
fn table_of_attacks_matches_the_tests() {
    let text = fs::read_to_string(root().join(PAGE)).expect(PAGE);
    let rows: Vec<&str> = text
        .lines()
        .skip_while(|line| *line != HEAD)
        .skip(2)
        .take_while(|line| line.starts_with("| "))
        .collect();
    let expected = expected();
    assert!(
        rows == expected,
        "the table of {PAGE} below {HEAD:?} has to be\n{}",
        expected.join("\n")
    );
}

fn expected() -> Vec<String> {
    let row =
        |name: &str, verdict: Verdict, test: &str| format!("| {name} | {verdict} | `{test}` |");
    let over_the_wire = ATTACKS.iter().map(|attack| {
        let test = "every_attack_is_refused_or_bounded";
        row(attack.name, attack.verdict, test)
    });
    let by_klusterlet = BY_KLUSTERLET
        .iter()
        .map(|(name, verdict)| row(name, *verdict, "a_hostile_klusterlet_is_bounded"));
    over_the_wire.chain(by_klusterlet).collect()
}
