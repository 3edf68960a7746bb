//! The keys under which Argo CD keeps in redis what it knows of one Application, and their way from the hub to a spoke.
//!
//! ```text
//!   app|managed-resources|INSTANCE|VERSION        INSTANCE is NAME in Argo CD's own namespace,
//!   app|resources-tree|INSTANCE|VERSION           and NAMESPACE_NAME in any other
//!   app|resources-tree|INSTANCE|SHARD|VERSION     VERSION ends in .gz where values are compressed
//! ```
//!
//! Whatever has another key is no business of a spoke's. What goes to a spoke is the parts of a key, each checked on
//! both sides, and never a key as somebody wrote it.

use std::fmt;

#[cfg(test)]
mod tests;

/// What the path of a request for a spoke's cache begins with.
pub const PATH: &str = "/argocd/cache/";
/// The query of a request that is to be told of changes.
const WATCH: &str = "watch=true";
/// Stands for Argo CD's own namespace, wherever that is.
const OWN: &str = "-";
/// More of them are of no tree: Argo CD puts a hundred nodes into each.
const MOST_SHARDS: u32 = 100_000;

/// What is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Item {
    /// The managed resources, each as it is and as it should be.
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

/// One key, or one channel on which a change is told.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CacheKey {
    /// What is kept.
    pub item: Item,
    /// The namespace of the Application; none for that of Argo CD.
    pub namespace: Option<String>,
    /// The Application's name.
    pub name: String,
    /// Which part of a large tree; none for the first.
    pub shard: Option<u32>,
    /// The version of the format, and how it is compressed.
    pub version: String,
}

impl CacheKey {
    /// Reads a key. None: it is about no Application.
    pub fn parse(key: &[u8]) -> Option<Self> {
        let mut fields = str::from_utf8(key).ok()?.split('|');
        if fields.next()? != "app" {
            return None;
        }
        let item = Item::from_word(fields.next()?)?;
        let instance = fields.next()?;
        // No namespace has an underscore, and no name.
        let (namespace, name) = match instance.split_once('_') {
            Some((namespace, name)) => (Some(namespace.to_owned()), name),
            None => (None, instance),
        };
        let (shard, version) = match (fields.next()?, fields.next()) {
            (version, None) => (None, version),
            (shard, Some(version)) => (Some(shard), version),
        };
        if fields.next().is_some() || (item == Item::ManagedResources && shard.is_some()) {
            return None;
        }
        Self {
            item,
            namespace,
            name: name.to_owned(),
            shard: shard.map(number).transpose().ok()?,
            version: version.to_owned(),
        }
        .checked()
    }

    /// The same for an Application that is called so elsewhere.
    #[must_use]
    pub fn of(&self, namespace: Option<String>, name: String) -> Self {
        Self {
            namespace,
            name,
            ..self.clone()
        }
    }

    /// The request in which it goes to a spoke: its value, or word of each change.
    pub fn target(&self, watch: bool) -> String {
        let Self {
            item,
            namespace,
            name,
            shard,
            version,
        } = self;
        let (item, namespace) = (item.as_str(), namespace.as_deref().unwrap_or(OWN));
        let shard = shard.unwrap_or_default();
        let query = if watch {
            format!("?{WATCH}")
        } else {
            String::new()
        };
        format!("{PATH}{item}/{namespace}/{name}/{shard}/{version}{query}")
    }

    /// Reads such a request, and whether it is to be told of changes.
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
            shard => Some(number(shard).ok()?),
        };
        let version = parts.next()?.to_owned();
        if parts.next().is_some() || (item == Item::ManagedResources && shard.is_some()) {
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
        let good = namespace.is_none_or(|it| is_name(it, 63) && !it.contains('.'))
            && is_name(&self.name, 253)
            && is_version(&self.version);
        good.then_some(self)
    }
}

/// As Argo CD writes it.
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

/// The number of a part, as Argo CD writes it.
fn number(text: &str) -> Result<u32, ()> {
    let number = text.parse().map_err(|_no_number| ())?;
    let is_written_so = (1..MOST_SHARDS).contains(&number) && number.to_string() == text;
    is_written_so.then_some(number).ok_or(())
}

fn is_name(text: &str, longest: usize) -> bool {
    let byte = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    (1..=longest).contains(&text.len())
        && text.bytes().all(|it| byte(it) || matches!(it, b'-' | b'.'))
        && text.bytes().next().is_some_and(byte)
        && text.bytes().next_back().is_some_and(byte)
        && !text.contains("..")
}

fn is_version(text: &str) -> bool {
    (1..=32).contains(&text.len())
        && text
            .bytes()
            .all(|it| it.is_ascii_alphanumeric() || matches!(it, b'.' | b'-'))
        && !text.contains("..")
}
