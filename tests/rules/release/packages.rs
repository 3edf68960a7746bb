//! Packages beside the images: the plugin of kubectl, the chart at Artifact Hub, and an attestation of each.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::PermissionsExt as _,
    path::Path,
    process::{Command, Output},
};

use serde_json::{Value, json};

use super::{root, text};

/// Checksums of two contents, from the standard of SHA-256.
const OF_NOTHING: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
const OF_ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

const HOMEPAGE: &str = "https://forge.example.org/team/add-on";

#[test]
fn krew_manifest_has_the_checksum_of_each_archive() {
    let folder = tempfile::tempdir().expect("a folder");
    for (platform, content) in [("amd64", ""), ("arm64", "abc")] {
        let archive = folder.path().join(archive(platform));
        fs::write(archive, content).expect("an archive");
    }
    let written = krew(folder.path(), "amd64 arm64");
    assert!(written.status.success(), "{written:?}");
    let manifest = fs::read_to_string(folder.path().join("argocd-agent.krew.yaml"));
    let manifest: Value = serde_saphyr::from_str(&manifest.expect("a manifest")).expect("YAML");
    let version = "krew.googlecontainertools.github.com/v1alpha2";
    assert_eq!(manifest["apiVersion"], version);
    assert_eq!(manifest["kind"], "Plugin");
    assert_eq!(manifest["metadata"]["name"], "argocd-agent");
    let spec = &manifest["spec"];
    assert_eq!(spec["version"], "v9.1.0");
    assert_eq!(spec["homepage"], HOMEPAGE);
    let short = spec["shortDescription"].as_str().expect("a description");
    assert!(short.len() <= 50, "krew's index wants at most 50: {short}");
    assert!(spec["description"].is_string(), "{spec}");
    let platform = |name: &str, sum: &str| {
        json!({
            "selector": {"matchLabels": {"os": "linux", "arch": name}},
            "uri": format!("{HOMEPAGE}/releases/download/v9.1.0/{}", archive(name)),
            "sha256": sum,
            "bin": "argocd-agentctl",
        })
    };
    let platforms = [platform("amd64", OF_NOTHING), platform("arm64", OF_ABC)];
    assert_eq!(spec["platforms"], json!(platforms));
}

#[test]
fn krew_manifest_needs_every_archive() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join(archive("amd64")), "").expect("an archive");
    let written = krew(folder.path(), "amd64 arm64");
    assert!(!written.status.success(), "{written:?}");
}

/// The archives have the name that the manifest gives them, and the program at their root.
#[test]
fn archives_fit_the_krew_manifest() {
    let files = text("release/files");
    for part in [
        "argocd-agentctl-$TAG-linux-$platform.tar.gz",
        "--directory \"target/dist/$platform\" argocd-agentctl ",
        "LICENSE",
        "release/krew",
    ] {
        assert!(files.contains(part), "{part}");
    }
    let workflow = text(".github/workflows/release.yml");
    assert!(
        workflow.contains("      HOMEPAGE: ${{ github.server_url }}/${{ github.repository }}\n")
    );
}

fn archive(platform: &str) -> String {
    format!("argocd-agentctl-v9.1.0-linux-{platform}.tar.gz")
}

fn krew(files: &Path, platforms: &str) -> Output {
    let script = Command::new(root().join("release/krew"))
        .env("FILES", files)
        .envs([
            ("TAG", "v9.1.0"),
            ("PLATFORMS", platforms),
            ("HOMEPAGE", HOMEPAGE),
        ])
        .output();
    script.expect("release/krew")
}

/// Artifact Hub lists the images that the chart installs, and the licence of the sources.
#[test]
fn artifact_hub_lists_the_images_of_the_chart() {
    let parsed = |path: &str| -> Value { serde_saphyr::from_str(&text(path)).expect(path) };
    let chart = parsed("manifests/hub/Chart.yaml");
    let annotation = |name: &str| {
        let value = chart["annotations"][format!("artifacthub.io/{name}")].as_str();
        value.unwrap_or_else(|| panic!("no {name}")).to_owned()
    };
    assert_eq!(annotation("category"), "integration-delivery");
    let license = format!("license = \"{}\"", annotation("license"));
    assert!(text("Cargo.toml").contains(&license), "{license}");
    let version = chart["version"].as_str().expect("a version");
    let is_early = version.starts_with("0.");
    assert_eq!(annotation("prerelease"), is_early.to_string());

    let values = parsed("manifests/hub/values.yaml");
    let images = &values["images"];
    let expected = ["manager", "agent"].map(|name| {
        let repository = images[name]["repository"].as_str().expect("a repository");
        let registry = images["registry"].as_str().expect("a registry");
        let tag = chart["appVersion"].as_str().expect("a tag");
        json!({
            "name": repository,
            "image": format!("{registry}/{repository}:{tag}"),
            "platforms": ["linux/amd64", "linux/arm64"],
        })
    });
    let listed: Value = serde_saphyr::from_str(&annotation("images")).expect("YAML");
    assert_eq!(listed, json!(expected));

    let repository = parsed("release/artifacthub-repo.yml");
    let id = repository["repositoryID"].as_str().expect("an ID");
    let lengths: Vec<_> = id.split('-').map(str::len).collect();
    assert_eq!(lengths, [8, 4, 4, 4, 12], "a UUID: {id}");
    assert!(repository["owners"].is_array());
}

/// `release/push` prints name and digest of both images and of the chart, and the workflow attests each of them.
#[test]
fn everything_pushed_is_attested() {
    let pushed = push("echo 'Pushed: x'; echo 'Digest: sha256:chart' >&2");
    assert!(pushed.status.success(), "{pushed:?}");
    let printed = String::from_utf8_lossy(&pushed.stdout).into_owned();
    let outputs: BTreeMap<_, _> = printed
        .lines()
        .filter_map(|it| it.split_once('='))
        .collect();
    let expected = [
        ("addon-manager-digest", "sha256:image"),
        (
            "addon-manager-name",
            "registry.example.org/team/argocd-addon-manager",
        ),
        ("agent-digest", "sha256:image"),
        ("agent-name", "registry.example.org/team/argocd-addon-agent"),
        ("chart-digest", "sha256:chart"),
        (
            "chart-name",
            "registry.example.org/team/charts/argocd-agent-addon",
        ),
    ];
    assert_eq!(outputs, BTreeMap::from(expected));
    let workflow = text(".github/workflows/release.yml");
    for output in outputs.keys() {
        let used = format!("${{{{ steps.images.outputs.{output} }}}}");
        assert!(workflow.contains(&used), "{used}");
    }
}

#[test]
fn chart_that_is_not_pushed_fails_the_release() {
    for helm in ["echo 'Pushed: x'", "echo 'no access' >&2; exit 1"] {
        let pushed = push(helm);
        assert!(!pushed.status.success(), "{helm}: {pushed:?}");
        assert!(!pushed.stderr.is_empty(), "{helm}");
    }
}

/// The programs of a release need nothing beside them: `release/dist` asks the compiler for static ones, and refuses others.
#[test]
fn released_programs_are_static() {
    for (headers, is_static) in [("LOAD", true), ("INTERP", false)] {
        let folder = tempfile::tempdir().expect("a folder");
        let cargo = "case $RUSTFLAGS in *+crt-static*) ;; *) exit 1 ;; esac\n\
                     built=$CARGO_TARGET_DIR/x86_64-unknown-linux-gnu/dist\n\
                     mkdir -p $built\n\
                     touch $built/addon-manager $built/agent $built/argocd-agentctl";
        let readelf = format!("echo {headers}");
        let programs = [("cargo", cargo), ("readelf", readelf.as_str())];
        let path = with_programs(folder.path(), &programs);
        let script = Command::new(root().join("release/dist"))
            .env("PATH", path)
            .env("CARGO_TARGET_DIR", folder.path().join("target"))
            .env("OUT", folder.path().join("dist"))
            .env("PLATFORMS", "amd64")
            .output()
            .expect("release/dist");
        assert_eq!(script.status.success(), is_static, "{script:?}");
        let stderr = String::from_utf8_lossy(&script.stderr).into_owned();
        assert_eq!(stderr.contains("is not static"), !is_static, "{stderr}");
    }
}

/// Writes shell scripts as programs into a folder; returns a PATH on which they come first.
fn with_programs(folder: &Path, programs: &[(&str, &str)]) -> String {
    for (name, script) in programs {
        let program = folder.join(name);
        fs::write(&program, format!("#!/bin/sh\n{script}\n")).expect("a program");
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("a program");
    }
    let path = std::env::var("PATH").expect("PATH");
    format!("{}:{path}", folder.display())
}

/// `release/push` with an engine that pushes nothing, and this in place of Helm.
fn push(helm: &str) -> Output {
    let folder = tempfile::tempdir().expect("a folder");
    let engine = "while [ $# -gt 0 ]; do\n\
                  if [ \"$1\" = --digestfile ]; then echo sha256:image > \"$2\"; fi\n\
                  shift\n\
                  done";
    let path = with_programs(folder.path(), &[("buildah", engine), ("helm", helm)]);
    let script = Command::new(root().join("release/push"))
        .env("PATH", path)
        .envs([("REGISTRY", "registry.example.org/team"), ("TAG", "v9")])
        .output();
    script.expect("release/push")
}
