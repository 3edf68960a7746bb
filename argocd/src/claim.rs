//! What agents claim, as much of it as may be told on.

/// A version is shorter.
const LONGEST_VERSION: usize = 64;

/// A version as it may be told, if it looks like one.
pub fn version(text: &str) -> Option<&str> {
    let fits = |c: char| c.is_ascii_alphanumeric() || ".-+".contains(c);
    let is_one = (1..=LONGEST_VERSION).contains(&text.len()) && text.chars().all(fits);
    is_one.then_some(text)
}

/// Words of a cluster as they may be told: one line of at most so many characters, and nothing that a terminal would obey.
pub fn words(text: &str, longest: usize) -> String {
    let printable = |c: char| if c.is_control() { ' ' } else { c };
    let text: String = text.chars().map(printable).collect();
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ").chars().take(longest).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_one_short_line_without_anything_that_a_terminal_obeys() {
        assert_eq!(words("no such host", 20), "no such host");
        assert_eq!(words(" a\n\tb\u{1b}[31m c ", 20), "a b [31m c");
        assert_eq!(words(&"ä".repeat(30), 20).chars().count(), 20);
        assert_eq!(words("\n\r\0", 20), "");
    }

    #[test]
    fn only_what_looks_like_a_version_is_told_as_one() {
        for known in ["1.36", "v1.36.1+k3s1", "0.1.0+ab-c"] {
            assert_eq!(version(known), Some(known));
        }
        let long = "1".repeat(65);
        for other in ["", "<script>", "1.36\n", "a, version b", &long] {
            assert_eq!(version(other), None, "{other}");
        }
    }
}
