use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

const SERVER: &str = "https://proxy:9090?agentName=spoke1";

fn clusters() -> Clusters {
    Clusters::new([
        ("spoke1".to_owned(), Some(SERVER.to_owned())),
        ("spoke2".to_owned(), None),
    ])
}

fn settings() -> RoutingSettings {
    RoutingSettings {
        argocd_namespace: "argocd".to_owned(),
        allowed_namespaces: vec!["team-*".to_owned()],
    }
}

fn app(namespace: &str, destination: &Value) -> Value {
    json!({
        "metadata": { "name": "guestbook", "namespace": namespace },
        "spec": { "destination": destination },
    })
}

fn routed(namespace: &str, destination: &Value) -> Route {
    route(
        Application::of(&app(namespace, destination)),
        &clusters(),
        &settings(),
    )
}

fn to(cluster: &str, spoke_namespace: SpokeNamespace) -> Route {
    Route::ToCluster {
        cluster: cluster.to_owned(),
        spoke_namespace,
    }
}

#[test]
fn an_application_in_a_clusters_namespace_goes_to_that_cluster() {
    for destination in [
        json!({ "name": "spoke1" }),
        json!({ "name": "in-cluster" }),
        json!({ "server": "https://kubernetes.default.svc" }),
        json!({ "server": "https://kubernetes.default.svc/" }),
        json!({ "server": SERVER }),
        json!({ "name": "spoke1", "server": SERVER }),
    ] {
        assert_eq!(
            routed("spoke1", &destination),
            to("spoke1", SpokeNamespace::ArgoCd)
        );
    }
}

#[test]
fn a_destination_that_contradicts_the_namespace_is_a_conflict() {
    for destination in [
        json!({ "name": "spoke2" }),
        json!({ "name": "production" }),
        json!({ "server": "https://elsewhere" }),
        json!({ "name": "spoke2", "server": SERVER }),
        json!({ "name": "in-cluster", "server": SERVER }),
        json!({ "namespace": "default" }),
        json!("garbage"),
    ] {
        let route = routed("spoke1", &destination);
        assert!(
            matches!(route, Route::Conflict(_)),
            "{destination} {route:?}"
        );
    }
}

#[test]
fn an_application_beside_argo_cd_goes_where_its_destination_points() {
    assert_eq!(
        routed("argocd", &json!({ "name": "spoke2" })),
        to("spoke2", SpokeNamespace::ArgoCd)
    );
    assert_eq!(
        routed("argocd", &json!({ "server": SERVER })),
        to("spoke1", SpokeNamespace::ArgoCd)
    );
}

#[test]
fn an_application_of_an_allowed_namespace_keeps_its_namespace() {
    let same = SpokeNamespace::Same("team-a".to_owned());
    assert_eq!(
        routed("team-a", &json!({ "name": "spoke1" })),
        to("spoke1", same)
    );
}

#[test]
fn namespace_that_is_not_allowed_is_a_conflict() {
    let Route::Conflict(message) = routed("secret", &json!({ "name": "spoke1" })) else {
        panic!("expected a conflict")
    };
    assert!(message.contains("allowed-namespaces"), "{message}");
}

#[test]
fn hub_local_destination_is_not_delivered() {
    for namespace in ["argocd", "team-a", "secret"] {
        for destination in [
            json!({ "name": "in-cluster" }),
            json!({ "server": "https://kubernetes.default.svc" }),
            json!({ "name": "production" }),
            json!({ "name": "a", "server": "https://b" }),
            json!({}),
        ] {
            assert_eq!(routed(namespace, &destination), Route::Local);
        }
    }
}

fn delivery(
    namespace: &str,
    uid: &str,
    created: &str,
    spoke_namespace: SpokeNamespace,
) -> Delivery {
    Delivery {
        namespace: namespace.to_owned(),
        name: "guestbook".to_owned(),
        uid: uid.to_owned(),
        created: created.to_owned(),
        cluster: "spoke1".to_owned(),
        spoke_namespace,
    }
}

#[test]
fn the_older_application_keeps_the_name() {
    let deliveries = [
        delivery(
            "argocd",
            "younger",
            "2026-11-20T10:00:01Z",
            SpokeNamespace::ArgoCd,
        ),
        delivery(
            "spoke1",
            "older",
            "2026-11-20T10:00:00Z",
            SpokeNamespace::ArgoCd,
        ),
        delivery(
            "team-a",
            "apart",
            "2026-11-20T10:00:02Z",
            SpokeNamespace::Same("team-a".to_owned()),
        ),
    ];
    let losers = resolve_names(deliveries);
    assert_eq!(
        losers.into_iter().collect::<Vec<_>>(),
        [("younger".to_owned(), "spoke1".to_owned())]
    );
}

proptest! {
    #[test]
    fn every_application_has_a_route(app in crate::testing::json()) {
        let _ = route(Application::of(&app), &clusters(), &settings());
    }

    #[test]
    fn exactly_one_application_keeps_a_name_in_any_order(
        mut created in proptest::collection::vec(0..3_u8, 1..6),
    ) {
        let all = |created: &[u8]| -> Vec<Delivery> {
            created
                .iter()
                .enumerate()
                .map(|(n, at)| delivery(&n.to_string(), &format!("{at}{n}"), &at.to_string(), SpokeNamespace::ArgoCd))
                .collect()
        };
        let deliveries = all(&created);
        let losers = resolve_names(deliveries.clone());
        prop_assert_eq!(losers.len(), deliveries.len() - 1);
        prop_assert_eq!(resolve_names(deliveries.into_iter().rev()), losers);
        created.clear();
    }
}

#[test]
fn an_autonomous_cluster_owns_its_applications_and_the_hub_shows_mirrors() {
    let clusters = clusters().with_autonomous(["spoke2".to_owned()]);
    let routed = |app: &Value| route(Application::of(app), &clusters, &settings());
    let here = json!({ "name": "in-cluster" });
    let mirror = |namespace: &str| {
        let mut mirror = app(namespace, &here);
        mirror["metadata"]["annotations"] = json!({ crate::keys::MIRRORED_FROM: namespace });
        mirror
    };
    assert_eq!(
        routed(&mirror("spoke2")),
        Route::Mirror("spoke2".to_owned())
    );
    for made_here in [
        app("spoke2", &here),
        app("argocd", &json!({ "name": "spoke2" })),
        app("team-a", &json!({ "name": "spoke2" })),
    ] {
        let route = routed(&made_here);
        assert!(
            matches!(&route, Route::Conflict(why) if why.contains("autonomous")),
            "{route:?}"
        );
    }
    let left = routed(&mirror("spoke1"));
    assert!(
        matches!(&left, Route::Conflict(why) if why.contains("mirrored-from")),
        "a mirror from before is not delivered: {left:?}"
    );
    assert_eq!(routed(&mirror("nowhere")), Route::Local);
}

#[test]
fn project_name_on_the_hub_has_one_owner() {
    let names = ["a", "a-b", "cluster", "x", "own"];
    let clusters = Clusters::new(names.map(|name| (name.to_owned(), None)))
        .with_autonomous(["a", "a-b", "cluster", "own"].map(str::to_owned));
    for (name, owner) in [
        ("a-default", Some("a")),
        ("a-b", Some("a")),
        ("a-b-default", Some("a-b")),
        ("a-bc-default", Some("a")),
        ("x-default", None),
        ("default", None),
        // x is managed: it may have a restricted project
        ("cluster-x", Some("x")),
        ("cluster-own", Some("cluster")),
        ("cluster-x-y", Some("cluster")),
        ("cluster-", Some("cluster")),
    ] {
        assert_eq!(clusters.owner_of_project(name), owner, "{name}");
    }
}
