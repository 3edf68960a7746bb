//! The replacements of Argo CD's images: its program as the lab built it, and the machine's redis.

use std::{fs, path::Path};

use anyhow::{Context as _, Result};
use lab_kubelet::{Image, Images, Source};

use crate::Tools;

const ARGOCD: &str = "quay.io/argoproj/argocd";
const REDIS: &str = "public.ecr.aws/docker/library/redis";
/// The user in both images.
const USER: u32 = 999;
/// The names under which the one program acts as another one, as links in its image.
const NAMES: [&str; 8] = [
    "applicationset-controller",
    "application-controller",
    "cmp-server",
    "commit-server",
    "k8s-auth",
    "notifications",
    "repo-server",
    "server",
];
/// Scripts with which the repo server checks signatures.
const SCRIPTS: [&str; 2] = ["gpg-wrapper.sh", "git-verify-wrapper.sh"];

/// Registers the replacements of the images in Argo CD's manifests with the kubelets, for any tag.
pub fn provide(images: &Images, tools: &Tools) -> Result<()> {
    images.insert(ARGOCD, argocd(tools)?);
    let mut redis =
        Image::of_program("/usr/local/bin/redis-server", &tools.redis_server).user(USER);
    redis.working_dir = Some("/tmp".to_owned());
    images.insert(REDIS, redis);
    Ok(())
}

/// The image of Argo CD's Dockerfile, as far as its programs without UI need it.
fn argocd(tools: &Tools) -> Result<Image> {
    let program = "/usr/local/bin/argocd";
    let mut image = Image::default()
        .user(USER)
        // Its entry point is tini.
        .with_init()
        .env("HOME", "/home/argocd")
        .env("USER", "argocd")
        .file(program, Source::Machine(tools.argocd.clone()))
        .file("/usr/local/bin/helm", Source::Machine(tools.helm.clone()))
        .file(
            "/usr/local/bin/kustomize",
            Source::Machine(tools.kustomize.clone()),
        )
        .file("/home/argocd", Source::Directory)
        .file("/app/config/ssh", Source::Directory)
        .file("/app/config/tls", Source::Directory)
        .file("/app/config/gpg/source", Source::Directory)
        .file("/app/config/gpg/keys", Source::Directory)
        .file(
            "/etc/ssh/ssh_known_hosts",
            Source::Link("/app/config/ssh/ssh_known_hosts".to_owned()),
        );
    image.working_dir = Some("/home/argocd".to_owned());
    for name in NAMES {
        image = image.file(
            format!("{program}-{name}"),
            Source::Link(program.to_owned()),
        );
    }
    for script in SCRIPTS {
        let text = fs::read_to_string(tools.argocd_module.join("hack").join(script))
            .with_context(|| format!("read hack/{script} of Argo CD"))?;
        image = image.file(format!("/usr/local/bin/{script}"), Source::Script(text));
    }
    // Argo CD checks signatures itself; without gpg it would not even start.
    if !Path::new("/usr/bin/gpg").exists() {
        image = image.env("ARGOCD_GPG_ENABLED", "false");
    }
    Ok(image)
}
