//! Patterns with the semantics of Argo CD.

use regex::Regex;

#[cfg(test)]
mod tests;

/// Whether `text` matches one entry of a list: a glob, or a regular expression between slashes.
pub fn matches_entry(entry: &str, text: &str) -> bool {
    match expression(entry) {
        // unanchored, as in Argo CD; an expression that does not compile admits nothing
        Some(expression) => Regex::new(expression).is_ok_and(|regex| regex.is_match(text)),
        None => matches(entry, text),
    }
}

/// Whether an entry of a list can be compiled; another one matches nothing.
pub fn is_valid_entry(entry: &str) -> bool {
    match expression(entry) {
        Some(expression) => Regex::new(expression).is_ok(),
        None => compile(entry).is_some(),
    }
}

/// The regular expression of an entry between slashes.
fn expression(entry: &str) -> Option<&str> {
    entry.strip_prefix('/')?.strip_suffix('/')
}

/// Whether `text` matches a glob with `*`, `?`, `[..]`, `{a,b}` and `\` as escape.
pub fn matches(pattern: &str, text: &str) -> bool {
    pattern == text || pattern == "*" || compile(pattern).is_some_and(|regex| regex.is_match(text))
}

/// Whether `text` matches a glob that a leading `!` negates, as in destinations of projects.
pub fn matches_or_denies(pattern: &str, text: &str) -> bool {
    match pattern.strip_prefix('!') {
        Some(rest) => !matches(rest, text),
        None => matches(pattern, text),
    }
}

/// Whether the pattern is a negated one.
pub fn is_deny(pattern: &str) -> bool {
    pattern.starts_with('!')
}

/// Compiles the glob to a regular expression; matching is linear in the text.
fn compile(pattern: &str) -> Option<Regex> {
    let mut regex = String::from("(?s)^");
    let mut depth = 0_usize;
    let mut chars = pattern.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '*' => {
                while chars.next_if_eq(&'*').is_some() {}
                regex.push_str(".*");
            }
            '?' => regex.push('.'),
            '\\' => regex.push_str(&regex::escape(&chars.next()?.to_string())),
            '{' => {
                depth = depth.saturating_add(1);
                regex.push_str("(?:");
            }
            '}' if depth > 0 => {
                depth = depth.saturating_sub(1);
                regex.push(')');
            }
            ',' if depth > 0 => regex.push('|'),
            '[' => {
                regex.push('[');
                if chars.next_if_eq(&'!').is_some() {
                    regex.push('^');
                }
                loop {
                    match chars.next()? {
                        ']' => break,
                        '-' => regex.push('-'),
                        inner => regex.push_str(&regex::escape(&inner.to_string())),
                    }
                }
                regex.push(']');
            }
            other => regex.push_str(&regex::escape(&other.to_string())),
        }
    }
    regex.push('$');
    Regex::new(&regex).ok()
}
