//! The replacement of a container image: a few files of this machine.

use std::{
    collections::BTreeMap,
    fmt,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
};

use serde::{Deserialize, Serialize};

/// The replacement of one container image: the files it adds to the machine's root and its
/// entry point.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Image {
    /// The files it adds.
    pub files: Vec<File>,
    /// The command when the container sets none.
    pub entrypoint: Vec<String>,
    /// The arguments when the container sets neither `command` nor `args`.
    pub cmd: Vec<String>,
    /// Environment, which the container's own overrides.
    pub env: BTreeMap<String, String>,
    /// The numeric user (and group) when the container sets none; root without.
    pub user: Option<u32>,
    /// The working directory; `/` without.
    pub working_dir: Option<String>,
    /// Whether the image brings an init process (tini and the like) that passes signals on and
    /// collects orphans.
    pub init: bool,
}

impl Image {
    /// An image of one program at `path` inside, which it runs, as `program` is on this machine.
    pub fn of_program(path: impl Into<String>, program: impl Into<PathBuf>) -> Self {
        let path = path.into();
        Self {
            entrypoint: vec![path.clone()],
            ..Self::default()
        }
        .file(path, Source::Machine(program.into()))
    }

    /// Adds a file.
    #[must_use]
    pub fn file(mut self, path: impl Into<String>, source: Source) -> Self {
        self.files.push(File {
            path: path.into(),
            source,
        });
        self
    }

    /// Sets the numeric user.
    #[must_use]
    pub const fn user(mut self, user: u32) -> Self {
        self.user = Some(user);
        self
    }

    /// Sets one environment variable.
    #[must_use]
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.env.insert(name.into(), value.into());
        self
    }

    /// Says that the image brings an init process.
    #[must_use]
    pub const fn with_init(mut self) -> Self {
        self.init = true;
        self
    }
}

/// A file of an [`Image`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct File {
    /// Its absolute path inside.
    pub path: String,
    /// Its content.
    pub source: Source,
}

/// Where the content of a [`File`] comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Source {
    /// A file or directory of this machine, seen read-only at the path inside.
    Machine(PathBuf),
    /// A symbolic link to another path inside.
    Link(String),
    /// An executable text, such as a shell script.
    Script(String),
    /// An empty directory that every user may write to.
    Directory,
}

/// The known images. Clones share one table, which may change while Pods run.
#[derive(Clone, Default)]
pub struct Images {
    // Locked only for one lookup or one insertion.
    table: Arc<Mutex<BTreeMap<String, Image>>>,
}

impl Images {
    /// Sets the replacement of an image. `reference` is a full reference (`quay.io/x/y:v1`), or a
    /// repository without tag (`quay.io/x/y`), which matches every tag without an entry of its own.
    pub fn insert(&self, reference: impl Into<String>, image: Image) {
        self.table
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(reference.into(), image);
    }

    /// The replacement of `reference`.
    pub fn find(&self, reference: &str) -> Option<Image> {
        let table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        table
            .get(reference)
            .or_else(|| table.get(repository(reference)))
            .cloned()
    }
}

impl fmt::Debug for Images {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        f.debug_set().entries(table.keys()).finish()
    }
}

/// The reference without tag and digest. A colon before the last slash is a registry's port.
fn repository(reference: &str) -> &str {
    let named = reference
        .split_once('@')
        .map_or(reference, |(name, _digest)| name);
    match named.rsplit_once(':') {
        Some((repository, tag)) if !tag.contains('/') => repository,
        Some(_) | None => named,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tag_and_the_digest_are_not_part_of_the_repository() {
        assert_eq!(repository("quay.io/a/b:v1"), "quay.io/a/b");
        assert_eq!(repository("localhost:5000/a"), "localhost:5000/a");
        assert_eq!(repository("quay.io/a/b:v1@sha256:00"), "quay.io/a/b");
    }

    #[test]
    fn a_full_reference_overrides_its_repository() {
        let images = Images::default();
        images.insert("a/b", Image::default().user(1));
        images.insert("a/b:v2", Image::default().user(2));
        assert_eq!(images.find("a/b:v1").and_then(|image| image.user), Some(1));
        assert_eq!(images.find("a/b:v2").and_then(|image| image.user), Some(2));
        assert_eq!(images.find("a/c:v2"), None);
    }
}
