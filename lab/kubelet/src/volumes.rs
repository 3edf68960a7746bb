//! The volumes of one Pod: directories of this machine, mounted at their true paths in containers.
//!
//! Volumes made of objects are updated while the Pod runs, by swapping one symbolic link,
//! so a reader sees the old files or the new ones and never a mixture.

mod atomic;
mod payload;
mod tokens;

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::{PermissionsExt, chown},
    path::{Path, PathBuf},
};

use anyhow::Context;
use k8s_openapi::api::core::v1::{HostPathVolumeSource, Pod, Volume};

pub(crate) use payload::{Addresses, Missing, field};
pub(crate) use tokens::{Stored, keep};

use crate::objects::Look;
use payload::{Made, Payload};

/// The volumes of one Pod.
#[derive(Debug)]
pub(crate) struct Volumes {
    dir: PathBuf,
    group: Option<u32>,
    /// The current files of each volume.
    written: BTreeMap<String, Payload>,
}

impl Volumes {
    /// Volumes below `dir`, which they own, with files for `group` (the Pod's `fsGroup`).
    pub(crate) const fn new(dir: PathBuf, group: Option<u32>) -> Self {
        Self {
            dir,
            group,
            written: BTreeMap::new(),
        }
    }

    /// Creates missing volumes and replaces changed ones. A second call with the same inputs
    /// does nothing.
    ///
    /// An error names the missing object; existing volumes stay unchanged.
    pub(crate) fn refresh(
        &mut self,
        pod: &Pod,
        look: &impl Look,
        retained: &Stored,
    ) -> anyhow::Result<()> {
        let volumes = pod
            .spec
            .iter()
            .flat_map(|spec| spec.volumes.iter().flatten());
        for volume in volumes {
            let name = &volume.name;
            self.make(volume, pod, look, retained)
                .with_context(|| format!("volume {name}"))?;
        }
        Ok(())
    }

    fn make(
        &mut self,
        volume: &Volume,
        pod: &Pod,
        look: &impl Look,
        retained: &Stored,
    ) -> anyhow::Result<()> {
        let place = self.dir.join(&volume.name);
        let payload = match payload::make(volume, pod, look, retained)? {
            Made::Files(payload) => payload,
            Made::Empty if place.exists() => return Ok(()),
            Made::Empty => return self.make_empty(&place),
            Made::Machine(host) => return make_host_path(&host),
        };
        if self.written.get(&volume.name) == Some(&payload) {
            return Ok(());
        }
        // A few small files; not worth a thread of their own.
        atomic::write(&place, &payload, self.group)?;
        self.written.insert(volume.name.clone(), payload);
        Ok(())
    }

    fn make_empty(&self, place: &Path) -> anyhow::Result<()> {
        fs::create_dir_all(place)?;
        // The set-group bit passes the group on to new files in it.
        let mode = if self.group.is_some() { 0o2777 } else { 0o777 };
        give(place, self.group);
        Ok(fs::set_permissions(
            place,
            fs::Permissions::from_mode(mode),
        )?)
    }

    /// The path of a volume on this machine, and whether it is read-only.
    pub(crate) fn place(&self, volume: &Volume) -> (PathBuf, bool) {
        volume.host_path.as_ref().map_or_else(
            || (self.dir.join(&volume.name), volume.empty_dir.is_none()),
            |host| (PathBuf::from(&host.path), false),
        )
    }
}

/// Sets the group of a file, where that group exists.
fn give(place: &Path, group: Option<u32>) {
    if let Some(group) = group {
        // In a user namespace with one user there is no other group, nor any other user to exclude.
        let _unmapped = chown(place, None, Some(group));
    }
}

fn make_host_path(host: &HostPathVolumeSource) -> anyhow::Result<()> {
    if host.type_.as_deref() == Some("DirectoryOrCreate") {
        fs::create_dir_all(&host.path)?;
    }
    fs::metadata(&host.path).with_context(|| format!("path {} of the machine", host.path))?;
    Ok(())
}
