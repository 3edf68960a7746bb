//! The forms of names in Kubernetes: of objects, namespaces and labels.

/// The longest name of an object.
pub const LONGEST_NAME: usize = 253;
/// The longest DNS label, the longest value of a label, and the longest name in a key.
pub(crate) const LONGEST_LABEL: usize = 63;

/// Whether the text is a DNS-1123 label, as names of namespaces are.
pub fn is_dns_label(text: &str) -> bool {
    text.len() <= LONGEST_LABEL && is_part(text)
}

/// Whether the text is a DNS subdomain, as names of objects are.
pub fn is_name(text: &str) -> bool {
    text.len() <= LONGEST_NAME && text.split('.').all(is_part)
}

/// Whether the text is the key of a label, with a prefix or without.
pub fn is_label_key(text: &str) -> bool {
    match text.split_once('/') {
        Some((prefix, name)) => is_name(prefix) && is_label_name(name),
        None => is_label_name(text),
    }
}

/// Whether the text is the value of a label, which may be empty.
pub fn is_label_value(text: &str) -> bool {
    text.is_empty() || is_label_name(text)
}

/// Lower-case letters, digits and inner hyphens, of any length.
fn is_part(text: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    !text.is_empty() && text.bytes().all(is_inner) && !text.starts_with('-') && !text.ends_with('-')
}

fn is_label_name(text: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    text.len() <= LONGEST_LABEL
        && text.bytes().all(is_inner)
        && text.starts_with(|first: char| first.is_ascii_alphanumeric())
        && text.ends_with(|last: char| last.is_ascii_alphanumeric())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_names_never_get_into_a_request_path() {
        for good in ["a", "guestbook-1", "my.app", &"a".repeat(253)] {
            assert!(is_name(good), "{good}");
        }
        for bad in [
            "",
            "..",
            "a/b",
            "a..b",
            "../secrets/x",
            "A",
            "-a",
            "a.",
            "a-.b",
            "a%2fb",
            "ä",
            &"a".repeat(254),
        ] {
            assert!(!is_name(bad), "{bad}");
            assert!(!is_dns_label(bad), "{bad}");
        }
    }

    #[test]
    fn dns_label_is_short_and_has_no_dots() {
        for (text, is_label) in [
            ("spoke-1", true),
            (&*"a".repeat(63), true),
            (&*"a".repeat(64), false),
            ("my.app", false),
            ("a-", false),
        ] {
            assert_eq!(is_dns_label(text), is_label, "{text}");
        }
    }

    #[test]
    fn labels_have_keys_and_values() {
        for (text, is_key, is_value) in [
            ("", false, true),
            ("Team_A.b-1", true, true),
            ("example.org/team", true, false),
            ("Example.org/team", false, false),
            ("/team", false, false),
            ("example.org/", false, false),
            ("a/b/c", false, false),
            ("-a", false, false),
            ("a_", false, false),
            ("a b", false, false),
            ("ä", false, false),
            (&*"a".repeat(63), true, true),
            (&*"a".repeat(64), false, false),
        ] {
            assert_eq!(is_label_key(text), is_key, "key {text:?}");
            assert_eq!(is_label_value(text), is_value, "value {text:?}");
        }
    }
}
