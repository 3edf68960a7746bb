//! What a release is made with, held against what it has to fit: images against the manifests that start them, the tag against the versions,
//! and workflows against what they may do.

use std::{
    collections::BTreeSet, fs, os::unix::fs::PermissionsExt as _, path::PathBuf, process::Command,
};

use serde_json::Value;

mod olm;
mod packages;

/// A program, where it is started and as whom, and what the chart calls its image.
struct Program {
    name: &'static str,
    deployment: &'static str,
    user: &'static str,
    image: &'static str,
}

const PROGRAMS: [Program; 2] = [
    Program {
        name: "agent",
        deployment: "manifests/spoke/deployment.yaml",
        user: "manifests/spoke/deployment.yaml",
        image: "argocd-addon-agent",
    },
    Program {
        name: "addon-manager",
        deployment: "manifests/hub/templates/deployment.yaml",
        user: "manifests/hub/templates/_helpers.tpl",
        image: "argocd-addon-manager",
    },
];

/// A program is where its Deployment looks for it, and runs as a user that is not root. Which one, the image alone says: where
/// clusters give each namespace users of its own, as OpenShift does, a Pod that asks for another one is refused.
#[test]
fn images_fit_the_manifests() {
    let dockerfile = text("release/Dockerfile");
    let stages: Vec<_> = dockerfile.split("\nFROM ").skip(1).collect();
    assert_eq!(
        stages.len(),
        PROGRAMS.len(),
        "an image for each program: {stages:?}"
    );
    for program in PROGRAMS {
        let (name, image) = (program.name, program.image);
        let stage = stages
            .iter()
            .find(|stage| stage.starts_with(&format!("scratch AS {name}\n")));
        let stage = stage.unwrap_or_else(|| panic!("{name} is not an image from nothing"));
        let path = format!("/usr/local/bin/{name}");
        for line in [
            format!("COPY ${{TARGETARCH}}/{name} {path}"),
            format!("ENTRYPOINT [\"{path}\"]"),
            format!("image.title=\"{image}\""),
        ] {
            assert!(stage.contains(&line), "{name}: {line}");
        }
        let command = format!("command: [\"{path}\"");
        assert!(text(program.deployment).contains(&command), "{path}");
        let user = number_after(stage, "USER ").expect("a user with a number");
        assert_ne!(user, 0, "{name} is root");
        let pod = text(program.user);
        assert!(pod.contains("runAsNonRoot: true"), "{name}");
        for fixed in ["runAsUser", "runAsGroup", "fsGroup"] {
            assert!(!pod.contains(fixed), "{name}: {fixed}");
        }
        assert!(
            text("manifests/hub/values.yaml").contains(&format!("repository: {image}\n")),
            "the chart does not know {image}"
        );
    }
}

/// Jobs of the chart start `argocd-agentctl` from the hub program's image.
#[test]
fn the_image_of_the_hub_program_has_agentctl_for_the_chart() {
    let dockerfile = text("release/Dockerfile");
    let (_, image) = dockerfile
        .split_once("\nFROM scratch AS addon-manager\n")
        .expect("the image of the hub program");
    let path = "/usr/local/bin/argocd-agentctl";
    let copied = format!("COPY ${{TARGETARCH}}/argocd-agentctl {path}\n");
    assert!(image.contains(&copied), "{image}");
    let command = format!("command: [\"{path}\"]");
    assert!(text("manifests/hub/templates/_configure.tpl").contains(&command));
}

/// With an engine that only records its arguments: the Dockerfile, and the platforms of each image.
#[test]
fn an_image_of_each_program_is_built_for_all_platforms() {
    let folder = tempfile::tempdir().expect("a folder");
    let (engine, notes) = (folder.path().join("buildah"), folder.path().join("notes"));
    fs::write(&engine, "#!/bin/sh\necho \"$@\" >> \"$NOTES\"\n").expect("an engine");
    fs::set_permissions(&engine, fs::Permissions::from_mode(0o755)).expect("a program");
    let path = std::env::var("PATH").expect("PATH");
    let script = Command::new(root().join("release/images"))
        .env("PATH", format!("{}:{path}", folder.path().display()))
        .env("NOTES", &notes)
        .envs([
            ("REGISTRY", "registry.example.org/team"),
            ("TAG", "v9"),
            ("PLATFORMS", "amd64 arm64"),
        ])
        .output()
        .expect("release/images");
    assert!(script.status.success(), "{script:?}");
    let notes = fs::read_to_string(&notes).expect("notes");
    let builds: Vec<_> = notes
        .lines()
        .filter(|it| it.starts_with("build "))
        .collect();
    assert_eq!(builds.len(), PROGRAMS.len(), "{notes}");
    for Program { name, image, .. } in PROGRAMS {
        let build = builds
            .iter()
            .find(|it| it.contains(&format!(" --target {name} ")));
        let build = build.unwrap_or_else(|| panic!("{name}: {notes}"));
        for part in [
            " --platform linux/amd64,linux/arm64 ".to_owned(),
            format!(" --manifest registry.example.org/team/{image}:v9 "),
            format!(" --file {}/release/Dockerfile ", root().display()),
        ] {
            assert!(build.contains(&part), "{part}: {build}");
        }
        assert!(build.ends_with(" target/dist"), "{build}");
    }
}

/// A tag that is not the version of everything makes no release.
#[test]
fn a_release_has_one_version() {
    let version = format!("v{}", env!("CARGO_PKG_VERSION"));
    let check = |tag: &str| {
        let script = Command::new(root().join("release/version"))
            .arg(tag)
            .output();
        script.expect("release/version")
    };
    let same = check(&version);
    assert!(same.status.success(), "{same:?}");
    let other = check(&format!("{version}1"));
    assert!(!other.status.success());
    let stderr = String::from_utf8_lossy(&other.stderr);
    assert!(
        stderr.contains(&version) && stderr.contains("Chart.yaml"),
        "{stderr}"
    );
}

/// Released images are pushed to where the chart looks for them.
#[test]
fn images_go_where_the_chart_looks_for_them() {
    let values: Value =
        serde_saphyr::from_str(&text("manifests/hub/values.yaml")).expect("values.yaml");
    let script = Command::new(root().join("release/registry"))
        .output()
        .expect("release/registry");
    assert_eq!(
        values["images"]["registry"].as_str(),
        Some(String::from_utf8_lossy(&script.stdout).trim())
    );
}

/// A tag of an action can be moved to other code, a commit cannot. Jobs get no more permissions than they need.
#[test]
fn workflows_pin_actions_and_have_least_privilege() {
    let mut used = BTreeSet::new();
    let folder = fs::read_dir(root().join(".github/workflows")).expect("workflows");
    for file in folder.flatten() {
        let name = file.file_name().to_string_lossy().into_owned();
        let workflow = fs::read_to_string(file.path()).expect("a workflow");
        let lines = workflow
            .lines()
            .map(|line| line.trim().trim_start_matches("- "));
        for action in lines.filter_map(|line| line.strip_prefix("uses: ")) {
            let pinned = action.split_once('@').is_some_and(|(_, at)| {
                let (commit, release) = at.split_once(" # v").unwrap_or((at, ""));
                commit.len() == 40
                    && commit.chars().all(|it| it.is_ascii_hexdigit())
                    && !release.is_empty()
            });
            assert!(
                pinned,
                "{name}: {action}: say the commit, and its release as a comment"
            );
            used.insert(action.to_owned());
        }
        let parsed: Value = serde_saphyr::from_str(&workflow).expect("YAML");
        assert_eq!(
            parsed["permissions"],
            serde_json::json!({"contents": "read"}),
            "{name}: what more a job needs, it says itself"
        );
        for (job, it) in parsed["jobs"].as_object().expect("jobs") {
            assert!(
                it["timeout-minutes"].is_u64(),
                "{name}: {job} may run for ever"
            );
        }
    }
    assert!(used.len() > 1, "only {used:?} were found");
}

/// The number behind a word, wherever it stands first.
fn number_after(text: &str, word: &str) -> Option<u32> {
    let rest = text.split_once(word)?.1;
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok()
}

fn text(path: &str) -> String {
    fs::read_to_string(root().join(path)).expect(path)
}

fn root() -> PathBuf {
    lab::tools::workspace()
}
