//! A sample of mutants, drawn by a seed.

use sha2::{Digest as _, Sha256};

/// The mutants of a sample, in the order of the list.
///
/// Each mutant's place in the draw depends on the seed and its own name only, so a change of the sources replaces few of them.
pub(super) fn drawn(listed: &[String], seed: u64, count: usize) -> Vec<String> {
    let mut places: Vec<(String, usize)> = listed
        .iter()
        .enumerate()
        .map(|(index, name)| (hex(&format!("{seed} {name}")), index))
        .collect();
    places.sort();
    let mut drawn: Vec<usize> = places
        .into_iter()
        .take(count)
        .map(|(_, index)| index)
        .collect();
    drawn.sort_unstable();
    let names = drawn.into_iter().filter_map(|index| listed.get(index));
    names.cloned().collect()
}

/// A short name of a list of mutants.
pub(super) fn digest(listed: &[String]) -> String {
    hex(&listed.join("\n")).chars().take(16).collect()
}

/// The regular expression of exactly this text.
pub(super) fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        if r"\.+*?()|[]{}^$#&-~".contains(character) {
            escaped.push('\\');
        }
        escaped.push(character);
    }
    escaped
}

fn hex(text: &str) -> String {
    format!("{:x}", Sha256::digest(text.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(count: u32) -> Vec<String> {
        let name =
            |line| format!("principal/src/sync/hub.rs:{line}:5: replace x -> bool with true");
        (0..count).map(name).collect()
    }

    #[test]
    fn a_seed_determines_the_sample() {
        let listed = listed(100);
        let sample = drawn(&listed, 7, 20);
        assert_eq!(sample.len(), 20);
        assert_eq!(sample, drawn(&listed, 7, 20));
        assert_ne!(sample, drawn(&listed, 8, 20));
        assert!(sample.iter().all(|name| listed.contains(name)));
    }

    #[test]
    fn a_sample_of_more_than_all_is_all() {
        assert_eq!(drawn(&listed(3), 7, 20), listed(3));
        assert!(drawn(&[], 7, 20).is_empty());
    }

    #[test]
    fn a_new_mutant_replaces_at_most_one() {
        let (before, after) = (drawn(&listed(100), 7, 20), drawn(&listed(101), 7, 20));
        let kept = before.iter().filter(|name| after.contains(name)).count();
        assert!(kept >= 19, "{kept}");
    }

    #[test]
    fn another_list_has_another_digest() {
        assert_eq!(digest(&listed(2)).len(), 16);
        assert_ne!(digest(&listed(2)), digest(&listed(3)));
    }

    #[test]
    fn characters_of_regular_expressions_are_escaped() {
        let name = "a.rs:1:2: replace f -> Option<(u8, [u8; 2])> with None && x || y";
        let expected =
            r"a\.rs:1:2: replace f \-> Option<\(u8, \[u8; 2\]\)> with None \&\& x \|\| y";
        assert_eq!(escaped(name), expected);
    }
}
