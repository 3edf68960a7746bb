//! The attacks of the hostile agent, against their table in `docs/security.md`.

use std::fs;

use lab::bench::hostile::{ATTACKS, BY_KLUSTERLET, Verdict};

use crate::shared::sources::root;

const PAGE: &str = "docs/security.md";
const HEAD: &str = "| attack | result | test |";

/// Attacks on live traffic, by a cluster on the hub's Argo CD or by other Pods of the hub: name, required result, and the
/// test of the principal that asserts its number.
const ON_LIVE_TRAFFIC: &[(&str, &str, &str)] = &[
    (
        "endless response to the hub's Argo CD",
        "at most 256 MiB of a response",
        "endless_response_ends_at_256_mib",
    ),
    (
        "redis value above the limit of 40 MiB",
        "refused: \"larger\"",
        "redis_value_of_any_size_is_streamed_and_never_truncated",
    ),
    (
        "redis value beyond its announced length of 1 MiB",
        "at most 1 MiB of a value",
        "redis_value_beyond_its_announced_length_is_cut",
    ),
    (
        "redis values of several clusters that arrive byte by byte",
        "at most 30 s for each",
        "dripping_redis_value_ends_after_30_seconds",
    ),
    (
        "idle connections to the redis proxy",
        "at most 128 without a password",
        "unauthenticated_redis_clients_leave_room_for_others",
    ),
    (
        "idle connections to the redis proxy from another address",
        "at most 128 without a password",
        "idle_redis_connections_evict_their_own_address",
    ),
    (
        "idle connections to the resource proxy",
        "at most 64 in the handshake, where 64 is the limit",
        "silent_resource_proxy_peers_evict_their_own_address",
    ),
];

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
    let line = |name: &str, result: &str, test: &str| format!("| {name} | {result} | `{test}` |");
    let row = |name: &str, verdict: Verdict, test: &str| line(name, &verdict.to_string(), test);
    let over_the_wire = ATTACKS.iter().map(|attack| {
        let test = "every_attack_is_refused_or_bounded";
        row(attack.name, attack.verdict, test)
    });
    let by_klusterlet = BY_KLUSTERLET
        .iter()
        .map(|(name, verdict)| row(name, *verdict, "a_hostile_klusterlet_is_bounded"));
    let on_live_traffic = ON_LIVE_TRAFFIC
        .iter()
        .map(|(name, result, test)| line(name, result, test));
    over_the_wire
        .chain(by_klusterlet)
        .chain(on_live_traffic)
        .collect()
}
