//! The file system of a container: the machine's programs and settings under an overlay, everything
//! else fresh.
//!
//! Only `/usr`, `/etc` and `/opt` of the machine show (and `/bin`, `/lib`… where they are not links
//! into `/usr`), so that a Pod cannot come to depend on what happens to lie in somebody's home.
//! What is written goes to memory and is gone with the container. Everything is mounted in a mount
//! namespace of the container's own.

use std::{
    fs,
    io::ErrorKind,
    os::unix::fs::{PermissionsExt, symlink},
    path::Path,
};

use anyhow::Context;
use nix::{
    mount::{MntFlags, MsFlags, mount, umount2},
    sys::statvfs::{FsFlags, statvfs},
    unistd::pivot_root,
};

use super::{Mount, Process, Root, first::maps};
use crate::images::{File, Source};

/// Where the machine's root is seen while the container's is built.
const OLD: &str = "/.old";
/// Where overlays keep what is written.
const LAYERS: &str = "/.layers";
/// The directories of the machine that containers see, if the machine has them.
const MACHINE: [&str; 9] = [
    "usr", "etc", "opt", "bin", "sbin", "lib", "lib32", "lib64", "libx32",
];
/// The directories that every container has for itself.
const FRESH: [(&str, u32); 12] = [
    ("/home", 0o755),
    ("/mnt", 0o755),
    ("/proc", 0o555),
    ("/root", 0o700),
    ("/run", 0o755),
    ("/run/lock", 0o1777),
    ("/srv", 0o755),
    ("/sys", 0o555),
    ("/tmp", 0o1777),
    ("/var/lib", 0o755),
    ("/var/log", 0o755),
    ("/var/tmp", 0o1777),
];
const NOTHING: Option<&str> = None;

/// Makes `root` the root of this process. `scratch` is an empty directory to begin on.
pub(super) fn build(scratch: &Path, root: &Root, process: &Process) -> anyhow::Result<()> {
    mount(
        NOTHING,
        "/",
        NOTHING,
        MsFlags::MS_REC | MsFlags::MS_PRIVATE,
        NOTHING,
    )
    .context("keep mounts to ourselves")?;
    mount(
        Some("tmpfs"),
        scratch,
        Some("tmpfs"),
        MsFlags::MS_NODEV,
        Some("mode=755"),
    )
    .context("mount the root")?;
    let old = scratch.join(".old");
    fs::create_dir(&old)?;
    pivot_root(scratch, &old).context("change the root")?;
    std::env::set_current_dir("/")?;

    let overlaid = lay_machine().context("lay the machine's programs")?;
    for (path, mode) in FRESH {
        make_dir(path, mode)?;
    }
    relink("/run", "/var/run")?;
    mount_kernel().context("mount /proc and /dev")?;
    for file in &root.files {
        lay_file(file).with_context(|| format!("lay {} of the image", file.path))?;
    }
    for text in &root.texts {
        replace(&text.path, &text.content).with_context(|| format!("write {}", text.path))?;
    }
    name_user(process)?;
    make_dir(&process.working_dir, 0o755)?;
    for volume in &root.mounts {
        bind(volume).with_context(|| format!("mount {}", volume.target))?;
    }
    for place in [LAYERS, OLD] {
        umount2(place, MntFlags::MNT_DETACH).with_context(|| format!("let go of {place}"))?;
        fs::remove_dir(place)?;
    }
    if root.read_only {
        for place in overlaid.iter().map(String::as_str).chain(["/"]) {
            close(place).with_context(|| format!("close {place} for writing"))?;
        }
    }
    Ok(())
}

/// Lays an overlay over each directory of the machine, and says which.
fn lay_machine() -> anyhow::Result<Vec<String>> {
    make_dir(LAYERS, 0o700)?;
    mount(
        Some("tmpfs"),
        LAYERS,
        Some("tmpfs"),
        MsFlags::empty(),
        Some("mode=755"),
    )?;
    // Where root is not root of the machine, an overlay may keep its marks in `user.` attributes
    // only.
    let attributes = if maps(u32::MAX - 1) { "" } else { ",userxattr" };
    let mut overlaid = Vec::new();
    for name in MACHINE {
        let (place, lower) = (format!("/{name}"), format!("{OLD}/{name}"));
        let Ok(kind) = fs::symlink_metadata(&lower) else {
            continue;
        };
        if kind.is_symlink() {
            symlink(fs::read_link(&lower)?, &place)?;
            continue;
        }
        make_dir(&place, 0o755)?;
        let (upper, work) = (
            format!("{LAYERS}/{name}/upper"),
            format!("{LAYERS}/{name}/work"),
        );
        fs::create_dir_all(&upper)?;
        fs::create_dir_all(&work)?;
        let options = format!("lowerdir={lower},upperdir={upper},workdir={work}{attributes}");
        mount(
            Some("overlay"),
            &*place,
            Some("overlay"),
            MsFlags::empty(),
            Some(&*options),
        )
        .with_context(|| format!("overlay {place} ({options})"))?;
        overlaid.push(place);
    }
    Ok(overlaid)
}

fn mount_kernel() -> anyhow::Result<()> {
    let safe = MsFlags::MS_NOSUID | MsFlags::MS_NOEXEC | MsFlags::MS_NODEV;
    mount(Some("proc"), "/proc", Some("proc"), safe, NOTHING).context("/proc")?;
    // Good to have (huge pages, CPU counts), not always allowed, and missed by nobody.
    let _optional = mount(
        Some("sysfs"),
        "/sys",
        Some("sysfs"),
        safe | MsFlags::MS_RDONLY,
        NOTHING,
    );
    make_dir("/dev", 0o755)?;
    mount(
        Some("tmpfs"),
        "/dev",
        Some("tmpfs"),
        MsFlags::MS_NOSUID,
        Some("mode=755"),
    )
    .context("/dev")?;
    for device in ["null", "zero", "full", "random", "urandom", "tty"] {
        let place = format!("/dev/{device}");
        fs::File::create(&place)?;
        let source = format!("{OLD}/dev/{device}");
        mount(Some(&*source), &*place, NOTHING, MsFlags::MS_BIND, NOTHING).context(place)?;
    }
    for (target, place) in [
        ("/proc/self/fd", "/dev/fd"),
        ("/proc/self/fd/0", "/dev/stdin"),
        ("/proc/self/fd/1", "/dev/stdout"),
        ("/proc/self/fd/2", "/dev/stderr"),
    ] {
        symlink(target, place)?;
    }
    make_dir("/dev/shm", 0o1777)?;
    let shared = safe - MsFlags::MS_NOEXEC;
    mount(
        Some("tmpfs"),
        "/dev/shm",
        Some("tmpfs"),
        shared,
        Some("mode=1777"),
    )
    .context("/dev/shm")
}

fn lay_file(file: &File) -> anyhow::Result<()> {
    match &file.source {
        Source::Machine(source) => bind(&Mount {
            source: source.clone(),
            target: file.path.clone(),
            read_only: true,
        }),
        Source::Link(target) => relink(target, &file.path),
        Source::Script(text) => {
            replace(&file.path, text)?;
            Ok(fs::set_permissions(
                &file.path,
                fs::Permissions::from_mode(0o755),
            )?)
        }
        Source::Directory => make_dir(&file.path, 0o777),
    }
}

/// Shows a file or directory of the machine at its place inside.
fn bind(volume: &Mount) -> anyhow::Result<()> {
    let source = Path::new(OLD).join(volume.source.strip_prefix("/").unwrap_or(&volume.source));
    let kind =
        fs::metadata(&source).with_context(|| format!("look at {}", volume.source.display()))?;
    let target = Path::new(&volume.target);
    if kind.is_dir() {
        make_dir(target, 0o755)?;
    } else if !target.exists() {
        make_parent(target)?;
        fs::File::create(target)?;
    }
    mount(
        Some(&source),
        target,
        NOTHING,
        MsFlags::MS_BIND | MsFlags::MS_REC,
        NOTHING,
    )?;
    if volume.read_only {
        close(target)?;
    }
    Ok(())
}

/// Makes a mount read-only, keeping its other flags: in a user namespace some of them cannot be
/// taken off.
fn close<P: AsRef<Path> + ?Sized>(place: &P) -> anyhow::Result<()> {
    let place = place.as_ref();
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

/// Gives the user a line in the password file if it has none: git, ssh and others look themselves
/// up.
fn name_user(process: &Process) -> anyhow::Result<()> {
    let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let id = process.user.to_string();
    if users
        .lines()
        .any(|line| line.split(':').nth(2) == Some(&id))
    {
        return Ok(());
    }
    let home = process.env.get("HOME").map_or("/", String::as_str);
    let line = format!("app:x:{id}:{}::{home}:/usr/sbin/nologin\n", process.group);
    replace("/etc/passwd", &(users + &line))
}

/// Makes a directory and what leads to it, with this mode if it was not there.
fn make_dir<P: AsRef<Path> + ?Sized>(path: &P, mode: u32) -> anyhow::Result<()> {
    let path = path.as_ref();
    if path.is_dir() {
        return Ok(());
    }
    fs::create_dir_all(path).with_context(|| format!("make {}", path.display()))?;
    Ok(fs::set_permissions(path, fs::Permissions::from_mode(mode))?)
}

fn make_parent(path: &Path) -> anyhow::Result<()> {
    path.parent()
        .map_or(Ok(()), |parent| make_dir(parent, 0o755))
}

/// Puts a file of our own in the place of whatever is there, a link included.
fn replace(path: &str, content: &str) -> anyhow::Result<()> {
    make_parent(Path::new(path))?;
    remove(path)?;
    fs::write(path, content)?;
    Ok(fs::set_permissions(
        path,
        fs::Permissions::from_mode(0o644),
    )?)
}

fn relink(target: &str, path: &str) -> anyhow::Result<()> {
    make_parent(Path::new(path))?;
    remove(path)?;
    symlink(target, path).with_context(|| format!("link {path}"))
}

fn remove(path: &str) -> anyhow::Result<()> {
    match fs::remove_file(path) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error).with_context(|| format!("remove {path}")),
    }
}
