use proptest::prelude::*;

use super::*;

#[test]
fn patterns_match_as_in_argo_cd() {
    for (pattern, text) in [
        ("*", ""),
        ("*", "a/b"),
        ("spoke-*", "spoke-1"),
        ("https://*.example.com", "https://a.b.example.com"),
        ("team-?", "team-a"),
        ("{a,b-*}", "b-1"),
        ("[a-c]x", "bx"),
        ("[!a]x", "bx"),
        (r"a\*b", "a*b"),
        ("a.b", "a.b"),
    ] {
        assert!(matches(pattern, text), "{pattern} {text}");
    }
    for (pattern, text) in [
        ("", "a"),
        ("spoke-*", "xspoke-1"),
        ("team-?", "team-"),
        ("a.b", "axb"),
        (r"a\*b", "axb"),
        ("[a-c", "a"),
        ("{a,b", "a"),
        ("[!a]x", "ax"),
    ] {
        assert!(!matches(pattern, text), "{pattern} {text}");
    }
}

#[test]
fn an_entry_between_slashes_is_a_regular_expression() {
    assert!(matches_entry("/^team-[0-9]+$/", "team-12"));
    assert!(!matches_entry("/^team-[0-9]+$/", "team-x"));
    assert!(!matches_entry("/((/", "(("));
    assert!(matches_entry("team-*", "team-x"));
}

#[test]
fn entries_that_match_nothing_are_invalid() {
    for valid in ["team", "team-*", "{a,b}", "/^team-[0-9]+$/", "/", "[!a]x"] {
        assert!(is_valid_entry(valid), "{valid}");
    }
    for invalid in ["/((/", "[a-c", "{a,b", "\\"] {
        assert!(!is_valid_entry(invalid), "{invalid}");
    }
}

#[test]
fn negated_pattern_matches_the_complement() {
    assert!(matches_or_denies("!a", "b"));
    assert!(!matches_or_denies("!a", "a"));
    assert!(!matches_or_denies("!*", "a"));
}

proptest! {
    #[test]
    fn any_pattern_is_matched_without_a_panic(pattern in ".{0,40}", text in ".{0,40}") {
        let _ = (matches_entry(&pattern, &text), matches_or_denies(&pattern, &text));
    }
}
