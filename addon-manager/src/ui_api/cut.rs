//! Bounds on what others wrote: clusters, controllers and users of the hub. Pure.

use std::collections::BTreeMap;

/// The longest message, in bytes.
pub const MESSAGE: usize = 4 << 10;
/// The longest word, such as a reason or a name, in bytes.
pub const WORD: usize = 256;
/// The most labels of a cluster.
pub const LABELS: usize = 64;
/// The most entries of a list of an answer, such as conditions or hops.
pub const ENTRIES: usize = 64;

/// Stands at the end of a text that was cut.
const MARK: &str = "…";

/// Cuts a text to so many bytes, and marks that.
pub fn text(mut text: String, longest: usize) -> String {
    if text.len() > longest {
        text.truncate(text.floor_char_boundary(longest.saturating_sub(MARK.len())));
        text.push_str(MARK);
        text.shrink_to_fit();
    }
    text
}

/// Cuts a message.
pub fn message(it: String) -> String {
    text(it, MESSAGE)
}

/// Cuts a word.
pub fn word(it: String) -> String {
    text(it, WORD)
}

/// The first labels, cut.
pub fn labels(all: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let kept = all.iter().take(LABELS);
    kept.map(|(key, value)| (word(key.clone()), word(value.clone())))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_cut_at_a_character_and_marked() {
        assert_eq!(text("abc".to_owned(), 3), "abc");
        assert_eq!(text("abcdef".to_owned(), 5), "ab…");
        assert_eq!(text("äöü".to_owned(), 5), "ä…");
        assert_eq!(text("abc".to_owned(), 0), "…");
        let long = message("ä".repeat(1 << 20));
        assert!(long.len() <= MESSAGE && long.ends_with("ä…"));
    }

    #[test]
    fn labels_are_bounded_in_number_and_length() {
        let many = (0..100).map(|it| (format!("k{it:03}"), "v".repeat(1000)));
        let kept = labels(&many.collect());
        assert_eq!(kept.len(), LABELS);
        assert!(
            kept.iter()
                .all(|(key, value)| key.len() == 4 && value.len() == WORD)
        );
    }
}
