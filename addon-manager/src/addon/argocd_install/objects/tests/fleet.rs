//! Objects with settings of the fleet.

use super::*;

/// The keys of the fleet are applied, so they go when they are no longer given; the object itself always stays.
#[test]
fn argocd_cm_with_settings_of_the_fleet_is_applied_and_still_stays() {
    let with = |keys: &[(&str, &str)]| {
        let keys = keys.iter();
        let keys = keys.map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        let tuned = Spoke {
            tuning: Tuning {
                cm: Some(keys.collect()),
                ..Tuning::default()
            },
            ..spoke()
        };
        on(&tuned, false, false, &AddOnDeploymentConfigSpec::default())
    };
    let keys = |rendered: &Rendered| {
        assert!(rendered.configs.is_empty());
        let mut maps = rendered.manifests.iter();
        let map = maps.find(|it| it["metadata"]["name"] == "argocd-cm");
        let map = map.unwrap();
        assert!(stays(map));
        let data = map["data"].as_object().unwrap().keys().cloned();
        data.collect::<BTreeSet<_>>()
    };
    let expected = ["globalProjects", "resource.exclusions"].map(str::to_owned);
    assert_eq!(keys(&with(&[("globalProjects", "[]")])), expected.into());
    let expected = ["resource.exclusions"].map(str::to_owned);
    assert_eq!(keys(&with(&[])), expected.into());
    // An empty map differs from none only in how it is applied.
    assert_eq!(with(&[]).manifests, plain().manifests);
}

#[test]
fn settings_of_the_fleet_change_their_objects_only() {
    let text = |objects: &[Value]| serde_json::to_string(objects).unwrap();
    let tuned = Spoke {
        tuning: Tuning {
            cm: Some([("timeout.reconciliation".to_owned(), "300s".to_owned())].into()),
            parameters: [("reposerver.log.level".to_owned(), "debug".to_owned())].into(),
            repo_servers: Some(2),
        },
        ..spoke()
    };
    let config = AddOnDeploymentConfigSpec::default();
    let (before, after) = (
        plain().manifests,
        on(&tuned, false, false, &config).manifests,
    );
    let pairs = before.iter().zip(&after);
    let changed: Vec<_> = pairs.filter(|(before, after)| before != after).collect();
    let changed: Vec<_> = changed
        .into_iter()
        .map(|(_, after)| after.clone())
        .collect();
    let expected = [
        "ConfigMap argocd-cm",
        "ConfigMap argocd-cmd-params-cm",
        "Deployment argocd-repo-server",
        "StatefulSet argocd-application-controller",
    ];
    assert_eq!(names(&changed, |_| true), expected);
    assert_eq!(text(&after).matches("300s").count(), 3);
    assert_eq!(text(&after).matches("debug").count(), 2);
}
