//! Rules by which Argo CD and Flux keep the chart in sync.

use super::*;
use crate::shared::sources;

/// Functions of templates whose result is another one each time.
const RANDOM: [&str; 14] = [
    "bcrypt",
    "date",
    "genCA",
    "genCAWithKey",
    "genPrivateKey",
    "genSelfSignedCert",
    "genSignedCert",
    "htpasswd",
    "now",
    "randAlpha",
    "randAlphaNum",
    "randAscii",
    "randBytes",
    "uuidv4",
];
/// Fields of a release that only Helm itself knows: Argo CD renders each time for a first installation.
const OF_HELM: [&str; 3] = ["IsInstall", "IsUpgrade", "Revision"];
/// The files that ask the cluster. `docs/gitops.md` describes the effect of each question.
const LOOKUPS: [&str; 4] = [
    "_configure.tpl",
    "_helpers.tpl",
    "_preflight.tpl",
    "configure.yaml",
];

#[test]
fn templates_render_the_same_twice() {
    for (name, sets) in GOLDEN {
        let [first, second] = [template(sets), template(sets)];
        assert!(first.success, "{name}: {}", first.err);
        assert_eq!(first.out, second.out, "{name}");
    }
}

#[test]
fn templates_depend_on_nothing_but_values() {
    let folder = helm::chart().join("templates");
    let mut lookups = BTreeSet::new();
    let mut folders = vec![folder];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("templates").flatten() {
            if entry.path().is_dir() {
                folders.push(entry.path());
                continue;
            }
            let name = entry.file_name().to_string_lossy().into_owned();
            let text = fs::read_to_string(entry.path()).expect("a template");
            for word in words_of_actions(&text) {
                assert!(!RANDOM.contains(&word), "{name}: {word} is random");
                assert!(!OF_HELM.contains(&word), "{name}: {word} is Helm's own");
                if word == "lookup" {
                    lookups.insert(name.clone());
                }
            }
        }
    }
    assert_eq!(lookups, BTreeSet::from(LOOKUPS.map(str::to_owned)));
}

/// The words between double braces, without comments and texts.
fn words_of_actions(template: &str) -> Vec<&str> {
    let actions = template.split("{{").skip(1);
    let actions = actions.filter_map(|rest| rest.split("}}").next());
    let code = actions.filter(|action| !action.trim_start_matches('-').trim().starts_with("/*"));
    let outside = code.flat_map(|action| action.split('"').step_by(2));
    outside
        .flat_map(|text| text.split(|c: char| !c.is_ascii_alphanumeric()))
        .collect()
}

#[test]
fn words_are_found_in_actions_only() {
    let template =
        "now {{/* now */}}{{- if eq (now | date \"2006 lookup\") .Values.at }}date{{ end }}";
    let words = words_of_actions(template);
    let found: Vec<_> = words.into_iter().filter(|it| RANDOM.contains(it)).collect();
    assert_eq!(found, ["now", "date"]);
}

/// The template of a Job is immutable, so another version of it can only replace it.
#[test]
fn jobs_are_hooks_that_replace_their_predecessor() {
    let jobs: Vec<_> = everything()
        .into_iter()
        .filter(|it| it["kind"] == "Job")
        .collect();
    assert!(!jobs.is_empty());
    for job in jobs {
        let annotations = &job["metadata"]["annotations"];
        assert!(annotations["helm.sh/hook"].is_string(), "{job}");
        let policy = annotations["helm.sh/hook-delete-policy"].as_str();
        let policy = policy.unwrap_or_default();
        assert!(policy.contains("before-hook-creation"), "{job}");
    }
}

/// The AppProject in `docs/gitops.md` permits everything that the chart creates with any values.
#[test]
fn project_on_the_page_permits_the_whole_chart() {
    let page = sources::file("docs/gitops.md");
    let (_, rest) = page.split_once("kind: AppProject\n").expect("a project");
    let (project, _) = rest.split_once("\n---\n").expect("its end");
    let project = parsed(project);
    let list = |field: &str| project["spec"][field].as_array().cloned().expect("a list");
    let kinds = list("clusterResourceWhitelist");
    let destinations = list("destinations");
    for object in everything() {
        let metadata = &object["metadata"];
        let version = object["apiVersion"].as_str().expect("a version");
        let group = version.split_once('/').map_or("", |(group, _)| group);
        let Some(namespace) = metadata["namespace"].as_str() else {
            let kind = json!({"group": group, "kind": object["kind"]});
            assert!(kinds.contains(&kind), "{kind} is not permitted");
            continue;
        };
        // The namespaces of the page, in place of those of the golden files.
        let namespace = match namespace {
            NAMESPACE => "argocd-agent-addon",
            "gitops" => "argocd",
            other => other,
        };
        let server = "https://kubernetes.default.svc";
        let destination = json!({"server": server, "namespace": namespace});
        assert!(destinations.contains(&destination), "{destination}");
    }
}
