//! Writes the files of a volume so that readers see all of the old or all of the new.
//!
//! The layout is the real kubelet's, which programs know and watch:
//!
//! ```text
//!   tls.crt -> ..data/tls.crt
//!   ..data  -> ..4
//!   ..4/tls.crt
//! ```

use std::{
    collections::BTreeSet,
    fs,
    io::{ErrorKind, Write},
    os::unix::fs::{OpenOptionsExt, PermissionsExt, symlink},
    path::{Component, Path, PathBuf},
};

use anyhow::{Context, ensure};

use super::{give, payload::Payload};

const DATA: &str = "..data";

/// Makes `payload` the content of the volume at `place`.
pub(super) fn write(place: &Path, payload: &Payload, group: Option<u32>) -> anyhow::Result<()> {
    fs::create_dir_all(place)?;
    let old = fs::read_link(place.join(DATA)).ok();
    let number = old
        .as_ref()
        .and_then(|old| number(old))
        .map_or(1, |number| number + 1);
    let new = PathBuf::from(format!("..{number}"));
    fill(&place.join(&new), payload, group)?;

    let staged = place.join("..data_tmp");
    remove_file(&staged)?;
    symlink(&new, &staged)?;
    fs::rename(&staged, place.join(DATA)).context("swap the data")?;

    link(place, payload)?;
    if let Some(old) = old {
        fs::remove_dir_all(place.join(old)).context("remove the data of before")?;
    }
    Ok(())
}

fn number(data: &Path) -> Option<u64> {
    data.to_str()?.strip_prefix("..")?.parse().ok()
}

fn fill(dir: &Path, payload: &Payload, group: Option<u32>) -> anyhow::Result<()> {
    // Left by an interrupted write.
    if dir.exists() {
        fs::remove_dir_all(dir)?;
    }
    fs::create_dir_all(dir)?;
    fs::set_permissions(dir, fs::Permissions::from_mode(0o755))?;
    for (path, file) in payload {
        ensure!(stays_inside(path), "the path {path:?} leaves the volume");
        let path = dir.join(path);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        let mut out = fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)?;
        out.write_all(&file.content)?;
        give(&path, group);
        // The group may read, even if the mode excludes others.
        let mode = if group.is_some() {
            file.mode | 0o440
        } else {
            file.mode
        };
        fs::set_permissions(&path, fs::Permissions::from_mode(mode))?;
    }
    Ok(())
}

/// Creates the links that readers use, one for each first part of a path, and removes dangling
/// ones.
fn link(place: &Path, payload: &Payload) -> anyhow::Result<()> {
    let wanted: BTreeSet<&str> = payload
        .keys()
        .filter_map(|path| path.split('/').next())
        .collect();
    for entry in fs::read_dir(place)? {
        let name = entry?.file_name();
        let name = name.to_string_lossy();
        if !name.starts_with("..") && !wanted.contains(&*name) {
            remove_file(&place.join(&*name))?;
        }
    }
    for name in wanted {
        match symlink(Path::new(DATA).join(name), place.join(name)) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            other => other.with_context(|| format!("link {name}"))?,
        }
    }
    Ok(())
}

fn remove_file(path: &Path) -> anyhow::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error.into()),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Whether a path of a volume item is below the volume, and not one of its internal names.
fn stays_inside(path: &str) -> bool {
    !path.is_empty()
        && !path.starts_with("..")
        && Path::new(path)
            .components()
            .all(|part| matches!(part, Component::Normal(_)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::volumes::payload::FileContent;

    fn payload(files: &[(&str, &str)]) -> Payload {
        let file = |content: &str| FileContent {
            content: content.as_bytes().to_vec(),
            mode: 0o644,
        };
        files
            .iter()
            .map(|(path, content)| ((*path).to_owned(), file(content)))
            .collect()
    }

    fn names(place: &Path) -> BTreeSet<String> {
        fs::read_dir(place)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect()
    }

    #[test]
    fn a_changed_volume_shows_the_new_files_and_only_those() {
        let place = tempfile::tempdir().unwrap();
        write(place.path(), &payload(&[("a", "1"), ("d/b", "2")]), None).unwrap();
        assert_eq!(fs::read_to_string(place.path().join("d/b")).unwrap(), "2");

        write(place.path(), &payload(&[("a", "3")]), None).unwrap();
        assert_eq!(fs::read_to_string(place.path().join("a")).unwrap(), "3");
        assert_eq!(
            names(place.path()),
            ["..2", "..data", "a"].map(String::from).into()
        );
    }

    #[test]
    fn an_open_directory_shows_the_old_files_until_the_swap() {
        let place = tempfile::tempdir().unwrap();
        write(place.path(), &payload(&[("a", "1")]), None).unwrap();
        let data = fs::read_link(place.path().join(DATA)).unwrap();
        assert_eq!(data, Path::new("..1"));
        assert_eq!(
            fs::read_link(place.path().join("a")).unwrap(),
            Path::new("..data/a")
        );
    }

    #[test]
    fn a_path_that_leaves_the_volume_is_refused() {
        for path in ["../x", "/x", "a/../../x", "..data", ""] {
            assert!(!stays_inside(path), "{path}");
        }
        assert!(stays_inside("a/b"));
    }
}
