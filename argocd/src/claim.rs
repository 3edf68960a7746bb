//! What agents claim, as much of it as may be told on.

/// A version is shorter.
const LONGEST_VERSION: usize = 64;

/// A version as it may be told, if it looks like one.
pub fn version(text: &str) -> Option<&str> {
    let fits = |c: char| c.is_ascii_alphanumeric() || ".-+".contains(c);
    let is_one = (1..=LONGEST_VERSION).contains(&text.len()) && text.chars().all(fits);
    is_one.then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

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
