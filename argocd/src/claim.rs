//! Sanitizes claims of agents before they are shown.

const LONGEST_VERSION: usize = 64;

/// The claimed version, if it has the form of one.
pub fn version(text: &str) -> Option<&str> {
    let fits = |c: char| c.is_ascii_alphanumeric() || ".-+".contains(c);
    let is_one = (1..=LONGEST_VERSION).contains(&text.len()) && text.chars().all(fits);
    is_one.then_some(text)
}

/// A claimed text as one line of at most `longest` characters, without control characters of a terminal.
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
    fn claimed_text_becomes_one_short_line_without_control_characters() {
        assert_eq!(words("no such host", 20), "no such host");
        assert_eq!(words(" a\n\tb\u{1b}[31m c ", 20), "a b [31m c");
        assert_eq!(words(&"ä".repeat(30), 20).chars().count(), 20);
        assert_eq!(words("\n\r\0", 20), "");
    }

    #[test]
    fn claimed_version_must_have_the_form_of_one() {
        for known in ["1.36", "v1.36.1+k3s1", "0.1.0+ab-c"] {
            assert_eq!(version(known), Some(known));
        }
        let long = "1".repeat(65);
        for other in ["", "<script>", "1.36\n", "a, version b", &long] {
            assert_eq!(version(other), None, "{other}");
        }
    }
}
