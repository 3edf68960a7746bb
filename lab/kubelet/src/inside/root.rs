//! The file system of a container: the machine's programs and settings under an overlay, everything
//! else fresh.
//!
//! Only `/usr`, `/etc` and `/opt` of the machine are visible (and `/bin`, `/lib`… where they are not
//! links into `/usr`), so that a Pod cannot come to depend on files in a user's home directory.
//! Writes go to memory and are gone with the container. Everything is mounted in a mount
//! namespace of the container's own.

mod files;

use std::{fs, os::unix::fs::symlink, path::Path};

use anyhow::Context;
use nix::{
    mount::{MntFlags, MsFlags, mount, umount2},
    unistd::pivot_root,
};

use super::{Mount, Process, Root, first::maps};
use files::Files;

/// The mount point of the machine's root while the container's is built.
const OLD: &str = "/.old";
/// Where overlays keep writes.
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

    let mut files = Files::default();
    lay_machine(&mut files).context("lay the machine's programs")?;
    for (path, mode) in FRESH {
        files.make_dir(path, mode)?;
    }
    files.link("/run", "/var/run")?;
    mount_kernel(&mut files).context("mount /proc and /dev")?;
    for file in &root.files {
        files
            .lay(file)
            .with_context(|| format!("lay {} of the image", file.path))?;
    }
    for text in &root.texts {
        files
            .write(&text.path, &text.content, 0o644)
            .with_context(|| format!("write {}", text.path))?;
    }
    name_user(process, &mut files).context("name the user")?;
    files.make_dir(&process.working_dir, 0o755)?;
    for volume in &root.mounts {
        files
            .bind(volume)
            .with_context(|| format!("mount {}", volume.target))?;
    }
    for place in [LAYERS, OLD] {
        umount2(place, MntFlags::MNT_DETACH).with_context(|| format!("let go of {place}"))?;
        fs::remove_dir(place)?;
    }
    if root.read_only {
        files.close()
    } else {
        Ok(())
    }
}

/// Shows the directories of the machine under overlays that permitted users can write to.
fn lay_machine(files: &mut Files) -> anyhow::Result<()> {
    files.make_dir(LAYERS, 0o755)?;
    mount(
        Some("tmpfs"),
        LAYERS,
        Some("tmpfs"),
        MsFlags::empty(),
        Some("mode=755"),
    )?;
    // In a user namespace the machine's files have an unmapped owner, so no process could write
    // over them. There is no overlay, and `Files` lays its own directories where needed.
    let alone = !maps(u32::MAX - 1);
    for name in MACHINE {
        let (place, lower) = (format!("/{name}"), format!("{OLD}/{name}"));
        let Ok(kind) = fs::symlink_metadata(&lower) else {
            continue;
        };
        if kind.is_symlink() {
            symlink(fs::read_link(&lower)?, &place)?;
            continue;
        }
        files.make_dir(&place, 0o755)?;
        if alone {
            let flags = MsFlags::MS_BIND | MsFlags::MS_REC;
            mount(Some(&*lower), &*place, NOTHING, flags, NOTHING).context(place)?;
            continue;
        }
        let (upper, work) = (
            format!("{LAYERS}/{name}/upper"),
            format!("{LAYERS}/{name}/work"),
        );
        fs::create_dir_all(&upper)?;
        fs::create_dir_all(&work)?;
        let options = format!("lowerdir={lower},upperdir={upper},workdir={work}");
        mount(
            Some("overlay"),
            &*place,
            Some("overlay"),
            MsFlags::empty(),
            Some(&*options),
        )
        .with_context(|| format!("overlay {place} ({options})"))?;
        files.laid(place);
    }
    Ok(())
}

fn mount_kernel(files: &mut Files) -> anyhow::Result<()> {
    let safe = MsFlags::MS_NOSUID | MsFlags::MS_NOEXEC | MsFlags::MS_NODEV;
    mount(Some("proc"), "/proc", Some("proc"), safe, NOTHING).context("/proc")?;
    // Useful (huge pages, CPU counts), but not always allowed, and no program needs it.
    let _optional = mount(
        Some("sysfs"),
        "/sys",
        Some("sysfs"),
        safe | MsFlags::MS_RDONLY,
        NOTHING,
    );
    files.make_dir("/dev", 0o755)?;
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
    files.make_dir("/dev/shm", 0o1777)?;
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

/// Adds the user to the password file if it is missing: git, ssh and others look themselves
/// up.
fn name_user(process: &Process, files: &mut Files) -> anyhow::Result<()> {
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
    files.write("/etc/passwd", &(users + &line), 0o644)
}
