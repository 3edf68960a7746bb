//! The redis keys of Argo CD's cache that concern one Application, and their form in requests from the hub to a spoke.
//!
//! ```text
//!   app|managed-resources|INSTANCE|VERSION        INSTANCE is NAME in Argo CD's own namespace,
//!   app|resources-tree|INSTANCE|VERSION           and NAMESPACE_NAME in any other
//!   app|resources-tree|INSTANCE|SHARD|VERSION     VERSION ends in .gz where values are compressed
//! ```
//!
//! Requests for other keys never reach a spoke. A request to a spoke has the parts of a key, each checked on both sides,
//! and never a key as the client wrote it.

use std::fmt;

use argocd::name::{is_dns_label, is_name};

#[cfg(test)]
mod tests;

/// The prefix of the path of a request for a spoke's cache.
pub const PATH: &str = "/argocd/cache/";
/// The query of a request for notifications of changes.
const WATCH: &str = "watch=true";
/// Stands for Argo CD's own namespace, which may differ on hub and spoke.
const OWN: &str = "-";
/// No tree has more shards: Argo CD puts a hundred nodes into each.
const MOST_SHARDS: u32 = 100_000;

/// The kind of a cached value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Item {
    /// The managed resources, each with its live and its target state.
    ManagedResources,
    /// The tree of all resources.
    ResourcesTree,
}

impl Item {
    /// The word in a key.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ManagedResources => "managed-resources",
            Self::ResourcesTree => "resources-tree",
        }
    }

    fn from_word(word: &str) -> Option<Self> {
        [Self::ManagedResources, Self::ResourcesTree]
            .into_iter()
            .find(|item| item.as_str() == word)
    }
}

/// One key, or one channel for notifications of changes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CacheKey {
    /// The kind of the value.
    pub item: Item,
    /// The namespace of the Application; none for that of Argo CD.
    pub namespace: Option<String>,
    /// The Application's name.
    pub name: String,
    /// The part of a large tree; none for the first.
    pub shard: Option<u32>,
    /// The version of the format, with the suffix of its compression.
    pub version: String,
}

impl CacheKey {
    /// Parses a key; none if it does not concern an Application.
    pub fn parse(key: &[u8]) -> Option<Self> {
        let mut fields = str::from_utf8(key).ok()?.split('|');
        if fields.next()? != "app" {
            return None;
        }
        let item = Item::from_word(fields.next()?)?;
        let instance = fields.next()?;
        // Neither namespaces nor names have an underscore.
        let (namespace, name) = match instance.split_once('_') {
            Some((namespace, name)) => (Some(namespace.to_owned()), name),
            None => (None, instance),
        };
        let (shard, version) = match (fields.next()?, fields.next()) {
            (version, None) => (None, version),
            (shard, Some(version)) => (Some(number(shard)?), version),
        };
        if fields.next().is_some() {
            return None;
        }
        Self {
            item,
            namespace,
            name: name.to_owned(),
            shard,
            version: version.to_owned(),
        }
        .checked()
    }

    /// The key of the same value for an Application with another namespace and name.
    #[must_use]
    pub fn of(&self, namespace: Option<String>, name: String) -> Self {
        Self {
            namespace,
            name,
            ..self.clone()
        }
    }

    /// The target of a request to a spoke: for its value, or for notifications of changes.
    pub fn target(&self, watch: bool) -> String {
        let Self { name, version, .. } = self;
        let (item, shard) = (self.item.as_str(), self.shard.unwrap_or_default());
        let namespace = self.namespace.as_deref().unwrap_or(OWN);
        let target = format!("{PATH}{item}/{namespace}/{name}/{shard}/{version}");
        if watch {
            format!("{target}?{WATCH}")
        } else {
            target
        }
    }

    /// Parses such a target, and whether it is for notifications of changes.
    pub fn from_target(target: &str) -> Option<(Self, bool)> {
        let (path, watch) = match target.split_once('?') {
            None => (target, false),
            Some((path, WATCH)) => (path, true),
            Some(_) => return None,
        };
        let mut parts = path.strip_prefix(PATH)?.split('/');
        let item = Item::from_word(parts.next()?)?;
        let namespace = parts.next().filter(|it| !it.is_empty())?;
        let name = parts.next()?.to_owned();
        let shard = match parts.next()? {
            "0" => None,
            shard => Some(number(shard)?),
        };
        let version = parts.next()?.to_owned();
        if parts.next().is_some() {
            return None;
        }
        let key = Self {
            item,
            namespace: (namespace != OWN).then(|| namespace.to_owned()),
            name,
            shard,
            version,
        };
        key.checked().map(|key| (key, watch))
    }

    fn checked(self) -> Option<Self> {
        let namespace = self.namespace.as_deref();
        let good = namespace.is_none_or(is_dns_label)
            && is_name(&self.name)
            && (self.shard.is_none() || self.item == Item::ResourcesTree)
            && is_version(&self.version);
        good.then_some(self)
    }
}

/// The key in the form of Argo CD.
impl fmt::Display for CacheKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "app|{}|", self.item.as_str())?;
        if let Some(namespace) = &self.namespace {
            write!(f, "{namespace}_")?;
        }
        write!(f, "{}|", self.name)?;
        if let Some(shard) = self.shard {
            write!(f, "{shard}|")?;
        }
        f.write_str(&self.version)
    }
}

/// Parses the number of a shard in the form of Argo CD.
fn number(text: &str) -> Option<u32> {
    let number = text.parse().ok()?;
    let is_written_so = (1..MOST_SHARDS).contains(&number) && number.to_string() == text;
    is_written_so.then_some(number)
}

fn is_version(text: &str) -> bool {
    (1..=32).contains(&text.len())
        && text
            .bytes()
            .all(|it| it.is_ascii_alphanumeric() || matches!(it, b'.' | b'-'))
        && !text.contains("..")
}
