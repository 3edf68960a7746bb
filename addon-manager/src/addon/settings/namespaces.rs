//! Further namespaces of Applications, as names and as patterns of Argo CD. Pure.

use std::collections::BTreeSet;

use argocd::glob;
use ocm::{api::addon::AddOnDeploymentConfigSpec, name::is_dns_label};

use super::{Error, variable};

/// The longest pattern, in bytes.
const LONGEST: usize = 253;

/// The valid form of `ALLOWED_NAMESPACES`.
const WANTED: &str = "names of namespaces, patterns such as team-*, or regular expressions such as \
                      /^team-[a-z]+$/, separated by commas";

/// The namespaces of Applications besides Argo CD's. Commas separate entries, also within patterns, as in Argo CD.
pub(super) fn allowed(config: &AddOnDeploymentConfigSpec) -> Result<BTreeSet<String>, Error> {
    let parse = |value: &str| {
        let entries = value.split(',').map(str::trim);
        let entries = entries.filter(|entry| !entry.is_empty());
        entries.map(entry).collect()
    };
    let entries = variable("ALLOWED_NAMESPACES", config, WANTED, parse)?;
    Ok(entries.unwrap_or_default())
}

fn entry(text: &str) -> Option<String> {
    (is_dns_label(text) || is_pattern(text)).then(|| text.to_owned())
}

/// Whether it is a pattern that can match a namespace.
fn is_pattern(text: &str) -> bool {
    let is_in_glob = |byte: u8| {
        byte.is_ascii_lowercase()
            || byte.is_ascii_digit()
            || matches!(byte, b'-' | b'*' | b'?' | b'[' | b']' | b'!' | b'^')
    };
    let is_expression = text.len() > 2 && text.starts_with('/') && text.ends_with('/');
    // Without a wildcard it is a misspelled name; a leading `!` negates nothing here.
    let is_glob =
        text.bytes().all(is_in_glob) && text.contains(['*', '?', '[']) && !text.starts_with('!');
    text.len() <= LONGEST && (is_expression || is_glob) && glob::is_valid_entry(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_those_of_argo_cd() {
        for good in [
            "*",
            "team-*",
            "team-?",
            "team-[a-c]",
            "team-[!x]*",
            "/^team-[a-z]+$/",
            "/x/",
        ] {
            assert_eq!(entry(good).as_deref(), Some(good));
        }
    }

    #[test]
    fn misspelled_names_and_invalid_patterns_are_refused() {
        let long = format!("{}*", "a".repeat(LONGEST));
        for bad in [
            "", "Team", "Team-*", "team.a", "!team-*", "{a", "b}", "team-[a", "/", "//", "/a",
            "/((/", "/[/", &long,
        ] {
            assert_eq!(entry(bad), None, "{bad}");
        }
    }
}
