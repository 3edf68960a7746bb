//! Converts a container of a Pod into the spec of its shim.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::PermissionsExt,
    path::{Component, Path, PathBuf},
};

use anyhow::{Context, bail};
use k8s_openapi::api::core::v1::{Container, Pod, VolumeMount};
use kube::ResourceExt;

use crate::{
    Image, Network,
    env::hostname,
    inside::{Mount, Process, Root, ShimSpec, Text},
    log,
    sandbox::Sandbox,
    server,
    volumes::Volumes,
};

/// The paths of one Pod on this machine.
#[derive(Debug, Clone)]
pub(super) struct Paths {
    /// Everything that is deleted with the Pod.
    pub(super) dir: PathBuf,
    /// The output of its containers, which stays.
    pub(super) logs: PathBuf,
}

impl Paths {
    /// The paths of `pod` below the kubelet's directories.
    pub(super) fn of(pod: &Pod, state: &Path, logs: &Path) -> Self {
        let namespace = pod.namespace().unwrap_or_default();
        Self {
            dir: state.join(pod.uid().unwrap_or_default()),
            logs: logs.join(namespace).join(pod.name_any()),
        }
    }

    pub(super) fn volumes(&self) -> PathBuf {
        self.dir.join("volumes")
    }

    fn container(&self, container: &Container) -> PathBuf {
        self.dir.join("containers").join(&container.name)
    }

    /// Where a container may write a termination message.
    fn termination_log(&self, container: &Container) -> PathBuf {
        self.container(container).join("termination-log")
    }

    pub(super) fn log(&self, container: &Container, run: u32) -> PathBuf {
        server::log::path(&self.logs, &container.name, run)
    }
}

/// One run to be launched.
#[derive(Debug)]
pub(super) struct Launch<'a> {
    pub(super) pod: &'a Pod,
    pub(super) container: &'a Container,
    /// The number of the run, from 0.
    pub(super) run: u32,
    pub(super) image: Image,
    pub(super) process: Process,
    pub(super) paths: &'a Paths,
    pub(super) volumes: &'a Volumes,
    pub(super) sandbox: &'a Sandbox,
    pub(super) network: &'a Network,
}

impl Launch<'_> {
    /// Prepares directories and returns the spec of the shim.
    pub(super) fn spec(self) -> anyhow::Result<ShimSpec> {
        let Self {
            pod,
            container,
            run,
            image,
            process,
            paths,
            volumes,
            sandbox,
            network,
        } = self;
        let scratch = paths.container(container).join("root");
        fs::create_dir_all(&scratch)?;
        fs::create_dir_all(&paths.logs)?;
        begin_log(&paths.log(container, run)).context("begin the log")?;
        let last_words = paths.termination_log(container);
        fs::write(&last_words, "")?;
        fs::set_permissions(&last_words, fs::Permissions::from_mode(0o666))?;

        let mut mounts = mounts(pod, container, volumes, &process.env)?;
        let place = container
            .termination_message_path
            .clone()
            .filter(|path| !path.is_empty());
        mounts.push(Mount {
            source: last_words,
            target: place.unwrap_or_else(|| "/dev/termination-log".to_owned()),
            read_only: false,
        });
        // A mount below another one comes after it.
        mounts.sort_by_key(|mount| mount.target.len());

        let security = container.security_context.as_ref();
        Ok(ShimSpec {
            sandbox: sandbox.process(),
            log: paths.log(container, run),
            scratch,
            root: Root {
                files: image.files,
                texts: texts(pod, sandbox, network),
                mounts,
                read_only: security.and_then(|context| context.read_only_root_filesystem)
                    == Some(true),
            },
            process,
        })
    }
}

/// The termination message of a container: its own, or the end of its log if the Pod requests
/// that.
pub(super) fn last_words(
    paths: &Paths,
    container: &Container,
    run: u32,
    code: i32,
) -> Option<String> {
    let end = |text: Vec<u8>| {
        let tail = text.get(text.len().saturating_sub(LAST_WORDS)..)?;
        Some(String::from_utf8_lossy(tail).trim_end().to_owned()).filter(|text| !text.is_empty())
    };
    let message = fs::read(paths.termination_log(container))
        .ok()
        .and_then(end);
    let from_log = code != 0
        && container.termination_message_policy.as_deref() == Some("FallbackToLogsOnError");
    message.or_else(|| {
        let log = from_log.then(|| fs::read(paths.log(container, run)));
        end(log::text(log?.ok()?))
    })
}

/// Creates an empty log. An existing one is of an earlier Pod of this name and is kept beside it.
fn begin_log(log: &Path) -> std::io::Result<()> {
    if fs::metadata(log).is_ok_and(|there| there.len() > 0) {
        let mut places =
            (1..=u32::MAX).map(|number| log.with_extension(format!("{number}.old.log")));
        if let Some(place) = places.find(|place| !place.exists()) {
            fs::rename(log, place)?;
        }
    }
    fs::File::create(log).map(drop)
}

/// The most bytes of a termination message that the API accepts.
const LAST_WORDS: usize = 4096;

fn mounts(
    pod: &Pod,
    container: &Container,
    volumes: &Volumes,
    env: &BTreeMap<String, String>,
) -> anyhow::Result<Vec<Mount>> {
    let known = pod
        .spec
        .iter()
        .flat_map(|spec| spec.volumes.iter().flatten());
    let known: BTreeMap<&str, _> = known.map(|volume| (volume.name.as_str(), volume)).collect();
    let mut mounts = Vec::new();
    for mount in container.volume_mounts.iter().flatten() {
        let volume = known
            .get(mount.name.as_str())
            .with_context(|| format!("no volume {}", mount.name))?;
        let (place, read_only) = volumes.place(volume);
        mounts.push(Mount {
            source: within(&place, &sub_path(mount, env), volume.empty_dir.is_some())?,
            target: mount.mount_path.clone(),
            read_only: read_only || mount.read_only == Some(true),
        });
    }
    Ok(mounts)
}

fn sub_path(mount: &VolumeMount, env: &BTreeMap<String, String>) -> String {
    match (&mount.sub_path, &mount.sub_path_expr) {
        (Some(path), _) => path.clone(),
        (None, Some(text)) => crate::env::expand(text, env),
        (None, None) => String::new(),
    }
}

/// The file or directory `path` of the volume at `place`, created if permitted. A path that leaves
/// the volume is refused, by `..` as well as by a link.
fn within(place: &Path, path: &str, make: bool) -> anyhow::Result<PathBuf> {
    if path.is_empty() {
        return Ok(place.to_owned());
    }
    if !Path::new(path)
        .components()
        .all(|part| matches!(part, Component::Normal(_) | Component::CurDir))
    {
        bail!("the sub path {path:?} leaves the volume");
    }
    let full = place.join(path);
    if make && !full.exists() {
        fs::create_dir_all(&full)?;
        fs::set_permissions(&full, fs::Permissions::from_mode(0o777))?;
    }
    let real = full
        .canonicalize()
        .with_context(|| format!("sub path {path:?}"))?;
    if !real.starts_with(place.canonicalize()?) {
        bail!("the sub path {path:?} leads out of the volume");
    }
    Ok(real)
}

/// Host name and name service of a container.
fn texts(pod: &Pod, sandbox: &Sandbox, network: &Network) -> Vec<Text> {
    let spec = pod.spec.as_ref();
    let (name, namespace) = (hostname(pod), pod.namespace().unwrap_or_default());
    let domain = spec
        .and_then(|spec| spec.subdomain.as_deref())
        .filter(|domain| !domain.is_empty());
    let full = domain.map(|domain| format!("{name}.{domain}.{namespace}.svc.cluster.local\t"));
    let mut hosts = vec![
        "127.0.0.1\tlocalhost".to_owned(),
        "::1\tlocalhost ip6-localhost ip6-loopback".to_owned(),
        format!("{}\t{}{name}", sandbox.ip, full.unwrap_or_default()),
    ];
    for alias in spec
        .iter()
        .flat_map(|spec| spec.host_aliases.iter().flatten())
    {
        let names = alias.hostnames.as_deref().unwrap_or_default().join("\t");
        hosts.push(format!("{}\t{names}", alias.ip));
    }
    let hosts = hosts.join("\n") + "\n";
    let resolver = format!(
        "search {namespace}.svc.cluster.local svc.cluster.local cluster.local\nnameserver {}\noptions ndots:5\n",
        network.gateway()
    );
    [
        ("/etc/hosts", hosts),
        ("/etc/hostname", format!("{name}\n")),
        ("/etc/resolv.conf", resolver),
    ]
    .into_iter()
    .map(|(path, content)| Text {
        path: path.to_owned(),
        content,
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sub_path_cannot_lead_out_of_its_volume() {
        let dir = tempfile::tempdir().unwrap();
        let place = dir.path().join("volume");
        fs::create_dir(&place).unwrap();
        std::os::unix::fs::symlink("/etc", place.join("link")).unwrap();
        assert!(within(&place, "../x", true).is_err());
        assert!(within(&place, "link/passwd", false).is_err());
        assert!(within(&place, "missing", false).is_err());
        assert!(within(&place, "a/b", true).unwrap().is_dir());
    }

    #[test]
    fn the_log_of_an_earlier_pod_is_kept_beside_the_new_one() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("c.0.log");
        for text in ["first", "second", ""] {
            begin_log(&log).unwrap();
            assert_eq!(fs::read_to_string(&log).unwrap(), "");
            fs::write(&log, text).unwrap();
        }
        begin_log(&log).unwrap();
        let kept =
            |number: u32| fs::read_to_string(dir.path().join(format!("c.0.{number}.old.log")));
        assert_eq!(kept(1).unwrap(), "first");
        assert_eq!(kept(2).unwrap(), "second");
        assert!(kept(3).is_err());
    }
}
