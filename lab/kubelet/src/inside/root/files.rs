//! Puts files into the root of a container, also into directories that it cannot write to.

use std::{
    fs,
    io::{self, ErrorKind},
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
};

use anyhow::Context;
use nix::{
    mount::{MntFlags, MsFlags, mount, umount2},
    sys::statvfs::{FsFlags, statvfs},
};

use super::{LAYERS, Mount, NOTHING, OLD};
use crate::images::{File, Source};

/// The files of a root that is being built.
///
/// A directory of the machine that cannot be written to is replaced by one of our own, which shows
/// everything that was there.
#[derive(Debug, Default)]
pub(super) struct Files {
    /// The writable mounts.
    laid: Vec<PathBuf>,
    mirrors: u32,
}

impl Files {
    /// Records a mount that [`close`](Self::close) shall close.
    pub(super) fn laid(&mut self, place: impl Into<PathBuf>) {
        self.laid.push(place.into());
    }

    /// Makes the root and all mounts on it read-only; volumes stay unchanged.
    pub(super) fn close(self) -> anyhow::Result<()> {
        for place in self
            .laid
            .iter()
            .map(PathBuf::as_path)
            .chain([Path::new("/")])
        {
            close(place).with_context(|| format!("close {} for writing", place.display()))?;
        }
        Ok(())
    }

    /// Puts a file of an image in its place.
    pub(super) fn lay(&mut self, file: &File) -> anyhow::Result<()> {
        match &file.source {
            Source::Machine(source) => {
                let (source, target) = (source.clone(), file.path.clone());
                self.bind(&Mount {
                    source,
                    target,
                    read_only: true,
                })
            }
            Source::Link(target) => self.link(target, &file.path),
            Source::Script(text) => self.write(&file.path, text, 0o755),
            Source::Directory => self.make_dir(&file.path, 0o777),
        }
    }

    /// Shows a file or directory of the machine at its place inside.
    pub(super) fn bind(&mut self, volume: &Mount) -> anyhow::Result<()> {
        let Mount {
            source,
            target,
            read_only,
        } = volume;
        let source = Path::new(OLD).join(source.strip_prefix("/").unwrap_or(source));
        let kind = fs::metadata(&source)
            .with_context(|| format!("look at {}", volume.source.display()))?;
        let target = Path::new(target);
        if kind.is_dir() {
            self.make_dir(target, 0o755)?;
        } else if !target.exists() {
            self.entry(target, || fs::File::create(target).map(drop))?;
        }
        mount(
            Some(&source),
            target,
            NOTHING,
            MsFlags::MS_BIND | MsFlags::MS_REC,
            NOTHING,
        )?;
        if *read_only { close(target) } else { Ok(()) }
    }

    /// Writes a file and replaces any existing file or link.
    pub(super) fn write(&mut self, path: &str, content: &str, mode: u32) -> anyhow::Result<()> {
        self.entry(Path::new(path), || {
            remove(path)?;
            fs::write(path, content)?;
            fs::set_permissions(path, fs::Permissions::from_mode(mode))
        })
    }

    /// Creates a symbolic link and replaces any existing file or link.
    pub(super) fn link(&mut self, target: &str, path: &str) -> anyhow::Result<()> {
        self.entry(Path::new(path), || {
            remove(path)?;
            symlink(target, path)
        })
    }

    /// Creates a directory and its parents, with this mode if it was missing.
    pub(super) fn make_dir<P: AsRef<Path> + ?Sized>(
        &mut self,
        path: &P,
        mode: u32,
    ) -> anyhow::Result<()> {
        let path = path.as_ref();
        if path.is_dir() {
            return Ok(());
        }
        let there = path
            .ancestors()
            .skip(1)
            .find(|dir| dir.is_dir())
            .map(Path::to_owned);
        self.within(there.as_deref(), || {
            fs::create_dir_all(path)?;
            fs::set_permissions(path, fs::Permissions::from_mode(mode))
        })
        .with_context(|| format!("make {}", path.display()))
    }

    /// Changes an entry of a directory and creates the directory if it is missing.
    fn entry(&mut self, path: &Path, change: impl FnMut() -> io::Result<()>) -> anyhow::Result<()> {
        let parent = path.parent();
        if let Some(parent) = parent {
            self.make_dir(parent, 0o755)?;
        }
        self.within(parent, change)
    }

    /// Changes something in `dir`. If that is denied, replaces the directory by a mirror and retries.
    fn within(
        &mut self,
        dir: Option<&Path>,
        mut change: impl FnMut() -> io::Result<()>,
    ) -> anyhow::Result<()> {
        let refused = match (change(), dir) {
            (Err(error), Some(dir)) if is_refusal(&error) => dir,
            (other, _) => return Ok(other?),
        };
        self.mirror(refused)
            .with_context(|| format!("lay over {}", refused.display()))?;
        Ok(change()?)
    }

    fn mirror(&mut self, dir: &Path) -> anyhow::Result<()> {
        self.mirrors += 1;
        let original = Path::new(LAYERS).join(format!("mirror{}", self.mirrors));
        fs::create_dir(&original)?;
        mount(
            Some(dir),
            &original,
            NOTHING,
            MsFlags::MS_BIND | MsFlags::MS_REC,
            NOTHING,
        )?;
        mount(
            Some("tmpfs"),
            dir,
            Some("tmpfs"),
            MsFlags::empty(),
            Some("mode=755"),
        )?;
        for entry in fs::read_dir(&original)? {
            let entry = entry?;
            let (source, place) = (entry.path(), dir.join(entry.file_name()));
            let kind = entry.file_type()?;
            if kind.is_symlink() {
                symlink(fs::read_link(&source)?, &place)?;
                continue;
            }
            if kind.is_dir() {
                fs::create_dir(&place)?;
            } else {
                fs::File::create(&place)?;
            }
            mount(
                Some(&source),
                &place,
                NOTHING,
                MsFlags::MS_BIND | MsFlags::MS_REC,
                NOTHING,
            )?;
        }
        self.laid(dir);
        Ok(())
    }
}

fn is_refusal(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem
    )
}

fn remove(path: &str) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        // A file of the machine, shown in a mirror of its directory.
        Err(error) if error.kind() == ErrorKind::ResourceBusy => {
            umount2(path, MntFlags::MNT_DETACH)?;
            fs::remove_file(path)
        }
        other => other,
    }
}

/// Makes a mount read-only and keeps its other flags: in a user namespace some of them cannot be
/// removed.
fn close(place: &Path) -> anyhow::Result<()> {
    let flags = statvfs(place)?.flags();
    let mut keep = MsFlags::MS_BIND | MsFlags::MS_REMOUNT | MsFlags::MS_RDONLY;
    for (set, flag) in [
        (FsFlags::ST_NOSUID, MsFlags::MS_NOSUID),
        (FsFlags::ST_NODEV, MsFlags::MS_NODEV),
        (FsFlags::ST_NOEXEC, MsFlags::MS_NOEXEC),
        (FsFlags::ST_NOATIME, MsFlags::MS_NOATIME),
        (FsFlags::ST_NODIRATIME, MsFlags::MS_NODIRATIME),
        (FsFlags::ST_RELATIME, MsFlags::MS_RELATIME),
    ] {
        if flags.contains(set) {
            keep |= flag;
        }
    }
    Ok(mount(NOTHING, place, NOTHING, keep, NOTHING)?)
}
