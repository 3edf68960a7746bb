use super::*;

fn service(name: &str, labels: &[(&str, &str)]) -> Service {
    let labels = labels.iter();
    Service {
        name: name.to_owned(),
        labels: labels
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect(),
        is_operated: false,
        ports: vec![PORT],
    }
}

/// A Service of Argo CD's own manifests.
fn plain(name: &str) -> Service {
    service(name, &[OF_ARGOCD])
}

/// A Service of an operator's instance.
fn operated(instance: &str, end: &str) -> Service {
    let name = format!("{instance}-{end}");
    Service {
        is_operated: true,
        ..service(&name, &[OF_ARGOCD, (MANAGED_BY, instance)])
    }
}

/// Service, Secret and key.
fn found(services: &[Service]) -> (String, Option<(&'static str, &'static str)>) {
    let choice = choose(services);
    let password = choice.password.map(|it| (it.secret, it.key));
    (choice.service, password)
}

const ENDS: [&str; 5] = [
    "redis-ha",
    "redis-ha-announce-0",
    "redis-ha-announce-1",
    "redis-ha-haproxy",
    "server",
];

/// An operator would own it.
#[test]
fn label_of_an_operator_alone_means_no_operator() {
    let labelled = service("argocd-redis", &[OF_ARGOCD, (MANAGED_BY, "argocd")]);
    let expected = ("argocd-redis".to_owned(), Some(("argocd-redis", "auth")));
    assert_eq!(found(&[labelled]), expected);
}

#[test]
fn redis_of_each_known_installation_is_found() {
    let auth = Some(("argocd-redis", "auth"));
    let of_operator = Some(("argocd-redis-initial-password", "admin.password"));
    let of_gitops = Some(("openshift-gitops-redis-initial-password", "admin.password"));
    let helm = [OF_ARGOCD, (MANAGED_BY, "Helm")];
    let ha = |instance: &str| ENDS.map(|end| operated(instance, end)).to_vec();
    for (services, name, password) in [
        // Argo CD's manifests, also with labels removed.
        (
            vec![plain("argocd-server"), plain("argocd-redis")],
            "argocd-redis",
            auth,
        ),
        (vec![service("argocd-redis", &[])], "argocd-redis", auth),
        // Those with redis-ha.
        (
            ENDS.map(|end| plain(&format!("argocd-{end}"))).to_vec(),
            "argocd-redis-ha-haproxy",
            auth,
        ),
        (vec![plain("argocd-redis-ha")], "argocd-redis-ha", auth),
        // argo-helm with another release, and with redis-ha, whose Services have labels of their own.
        (
            vec![
                service("cd-argocd-redis", &helm),
                service("cd-argocd-redis-metrics", &helm),
            ],
            "cd-argocd-redis",
            auth,
        ),
        (
            vec![
                service("cd-redis-ha", &[("app", "redis-ha")]),
                service("cd-redis-ha-haproxy", &[("app", "redis-ha")]),
            ],
            "cd-redis-ha-haproxy",
            auth,
        ),
        // argocd-operator and OpenShift GitOps, single and highly available.
        (
            vec![operated("argocd", "server"), operated("argocd", "redis")],
            "argocd-redis",
            of_operator,
        ),
        (ha("argocd"), "argocd-redis-ha-haproxy", of_operator),
        (
            vec![operated("openshift-gitops", "redis")],
            "openshift-gitops-redis",
            of_gitops,
        ),
        (
            ha("openshift-gitops"),
            "openshift-gitops-redis-ha-haproxy",
            of_gitops,
        ),
    ] {
        assert_eq!(found(&services), (name.to_owned(), password));
        assert_eq!(choose(&services).doubt, None, "{name}");
        let reversed: Vec<_> = services.into_iter().rev().collect();
        assert_eq!(found(&reversed), (name.to_owned(), password));
    }
}

#[test]
fn services_of_others_are_ignored() {
    let others = [
        plain("argocd-server"),
        plain("argocd-redis-metrics"),
        plain("argocd-agent-redis-proxy"),
        service("shop-redis", &[]),
        service("shop-redis-ha", &[("app", "redis-ha")]),
        service("redis", &[OF_ARGOCD]),
        Service::default(),
    ];
    assert_eq!(
        choose(&others),
        Choice {
            doubt: Some(Doubt::NotFound),
            ..Choice::usual()
        }
    );
    assert_eq!(choose(&[]), choose(&others));
    let message = choose(&[]).doubt.unwrap().text(&ON_CLUSTER);
    assert!(message.contains("REDIS_ADDR"), "{message}");
}

#[test]
fn several_candidates_give_the_default_and_name_the_variable() {
    let two = [operated("team-a", "redis"), operated("team-b", "redis")];
    let choice = choose(&two);
    let [one, other] = two;
    assert_eq!(choice, choose(&[other, one]), "in any order");
    assert_eq!(choice.address("cd"), "argocd-redis.cd.svc:6379");
    let message = choice.doubt.unwrap().text(&ON_CLUSTER);
    assert!(
        message.contains("team-a-redis, team-b-redis") && message.contains("REDIS_ADDR"),
        "{message}"
    );
    // The Service of today stays in use, with the password that belongs to it.
    let moved = [
        plain("argocd-redis-ha-haproxy"),
        operated("argocd", "redis"),
    ];
    let choice = choose(&moved);
    assert_eq!(choice.service, "argocd-redis");
    let secret = choice.password.map(|it| it.secret);
    assert_eq!(secret, Some("argocd-redis-initial-password"));
    assert!(matches!(choice.doubt, Some(Doubt::Several(_))));
    let many: Vec<_> = (0..100).map(|it| plain(&format!("{it}-redis"))).collect();
    let message = choose(&many).doubt.unwrap().text(&ON_CLUSTER);
    assert!(message.len() < 200, "{message}");
}

#[test]
fn password_of_another_instance_is_not_guessed() {
    let choice = choose(&[operated("team", "redis")]);
    assert_eq!(
        (choice.service.as_str(), choice.password),
        ("team-redis", None)
    );
    let message = choice.doubt.unwrap().text(&ON_CLUSTER);
    for part in [
        "REDIS_SECRET",
        "team-redis-initial-password",
        "admin.password",
    ] {
        assert!(message.contains(part), "{message}");
    }
    // A label of other tools is no instance, also with an operator.
    for managed_by in ["", "Helm", "argo", "argocd-redis"] {
        let odd = Service {
            is_operated: true,
            ..service("argocd-redis", &[(MANAGED_BY, managed_by)])
        };
        assert_eq!(choose(&[odd]).password, Some(PASSWORD), "{managed_by:?}");
    }
}

#[test]
fn port_is_that_of_redis_or_the_first() {
    for (ports, port) in [
        (&[][..], 6379),
        (&[7000], 7000),
        (&[9101, 6379], 6379),
        (&[7000, 9101], 7000),
    ] {
        let service = Service {
            ports: ports.to_vec(),
            ..plain("argocd-redis")
        };
        let address = choose(&[service]).address("cd");
        assert_eq!(address, format!("argocd-redis.cd.svc:{port}"));
    }
}

#[test]
fn every_found_password_is_in_a_listed_secret() {
    let listed: Vec<_> = secrets().collect();
    assert_eq!(listed.len(), INSTANCES.len() + 1);
    for (instance, _) in INSTANCES {
        let password = choose(&[operated(instance, "redis")]).password.unwrap();
        assert!(listed.contains(&password.secret), "{instance}");
        assert_eq!(
            password.secret,
            format!("{instance}-redis-initial-password")
        );
    }
}
