//! The hosts that an Application uses, and their TLS certificates and SSH keys.

use std::collections::BTreeSet;

use crate::glob;
use crate::object::Application;
use crate::repository;

#[cfg(test)]
mod tests;

/// The hosts of all repositories of an Application.
pub fn hosts(application: Application<'_>) -> BTreeSet<String> {
    repository::urls(application)
        .into_iter()
        .filter_map(host)
        .collect()
}

/// The host in a repository's URL, in lower case, without its port.
pub fn host(url: &str) -> Option<String> {
    let url = url.trim().to_lowercase();
    let (scheme, rest) = url.split_once("://").unwrap_or(("", &url));
    let authority = rest.split(['/', '?', '#']).next()?;
    let (user, authority) = authority
        .rsplit_once('@')
        .map_or(("", authority), |(user, host)| (user, host));
    // The URL of a registry has no scheme, nor has that of a file; git@host:path has a user.
    let is_bare = scheme.is_empty() && user.is_empty();
    let host = match authority.strip_prefix('[') {
        Some(six) => six.split_once(']')?.0,
        None => authority.split(':').next()?,
    };
    let is_host = !host.is_empty() && (!is_bare || host.contains('.') && rest.contains('/'));
    is_host.then(|| host.to_owned())
}

/// Whether an entry of the `ConfigMap` of TLS certificates is for one of these hosts.
pub fn is_certificate_of(entry: &str, hosts: &BTreeSet<String>) -> bool {
    hosts.contains(&entry.to_lowercase())
}

/// One line of SSH known hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownHost<'a> {
    /// Its hosts, as it spells them.
    pub hosts: &'a str,
    /// The marker, if any, and the kind of key.
    pub kind: (&'a str, &'a str),
}

impl<'a> KnownHost<'a> {
    /// Parses a line; none if it is empty, a comment or invalid.
    pub fn read(line: &'a str) -> Option<Self> {
        let line = line.trim();
        if line.starts_with('#') {
            return None;
        }
        let mut fields = line.split_whitespace();
        let first = fields.next()?;
        let (marker, hosts) = if first.starts_with('@') {
            (first, fields.next()?)
        } else {
            ("", first)
        };
        let algorithm = fields.next()?;
        fields.next()?;
        Some(Self {
            hosts,
            kind: (marker, algorithm),
        })
    }

    /// Whether it is for one of these hosts, on any port. A line with hashed hosts is for none.
    pub fn is_of(self, hosts: &BTreeSet<String>) -> bool {
        self.hosts.split(',').any(|pattern| {
            let pattern = pattern.to_lowercase();
            let name = pattern
                .strip_prefix('[')
                .and_then(|rest| rest.split_once(']'))
                .map_or(pattern.as_str(), |(name, _port)| name);
            hosts.iter().any(|host| is_pattern_of(name, host))
        })
    }
}

/// Matches with `*` and `?` as the only wildcards.
fn is_pattern_of(pattern: &str, host: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || ".-_:*?".contains(c);
    pattern == host || pattern.chars().all(is_plain) && glob::matches(pattern, host)
}
