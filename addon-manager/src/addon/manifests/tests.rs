use proptest::prelude::*;

use super::*;
use crate::addon::golden;

mod namespaces;
mod redis;
mod ui;

fn spoke() -> Spoke {
    Spoke {
        agent_namespace: "open-cluster-management-agent-addon".to_owned(),
        argocd_namespace: "argocd".to_owned(),
        allowed_namespaces: BTreeSet::new(),
        mode: Mode::Managed,
        principal: "hub.example.org:8443".parse().unwrap(),
        ca_bundle: "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n".to_owned(),
        image: "quay.io/open-cluster-management/argocd-addon-agent:v0.1.0".to_owned(),
        log_level: "info".to_owned(),
        ui_access: UiAccess::Read,
        read_groups: ReadGroups::default(),
        placement: NodePlacement::default(),
        proxy: Proxy::default(),
        resources: None,
        traces: None,
        pod: PodOptions::default(),
        redis: RedisOptions::default(),
        tuning: Tuning::default(),
    }
}

fn render(spoke: &Spoke) -> Vec<Value> {
    Templates::embedded().unwrap().render(spoke).unwrap()
}

fn of_kind<'a>(objects: &'a [Value], kind: &str) -> Vec<&'a Value> {
    objects
        .iter()
        .filter(|object| object["kind"] == kind)
        .collect()
}

/// The agent's own permissions, without those for users of the hub's Argo CD.
fn of_the_agent<'a>(objects: &'a [Value], kind: &str) -> Vec<&'a Value> {
    let component = |object: &Value| {
        let labels = &object["metadata"]["labels"];
        labels["app.kubernetes.io/component"].clone()
    };
    let objects = of_kind(objects, kind).into_iter();
    objects.filter(|it| component(it) == "agent").collect()
}

#[test]
fn live_requests_use_their_own_service_account_and_roles() {
    let named = |objects: &[Value]| {
        let ui = objects.iter().filter(|object| {
            let name = object["metadata"]["name"].as_str().unwrap();
            name.starts_with("argocd-agent-addon-ui")
        });
        ui.map(|object| object["kind"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    let objects = render(&spoke());
    let ui = [
        "ServiceAccount",
        "Role",
        "RoleBinding",
        "ClusterRole",
        "ClusterRoleBinding",
    ];
    assert_eq!(named(&objects), ui);
    let bound = &of_kind(&objects, "ClusterRoleBinding")[0]["subjects"][0]["name"];
    assert_eq!(bound, "argocd-agent-addon-ui");
    let env = |objects: &[Value], name: &str| {
        let pod = &of_kind(objects, "Deployment")[0]["spec"]["template"]["spec"];
        let env = pod["containers"][0]["env"].as_array().unwrap();
        let found = env.iter().find(|it| it["name"] == name).unwrap();
        found["value"].as_str().unwrap().to_owned()
    };
    assert_eq!(env(&objects, "ARGOCD_AGENT_UI_ACCESS"), "read");
    assert_eq!(
        env(&objects, "ARGOCD_AGENT_UI_USER"),
        "system:serviceaccount:open-cluster-management-agent-addon:argocd-agent-addon-ui"
    );
    let operated = render(&Spoke {
        ui_access: UiAccess::Operate,
        ..spoke()
    });
    let more = ["ClusterRole", "ClusterRoleBinding"];
    assert_eq!(named(&operated), [&ui[..], &more].concat());
    assert_eq!(env(&operated, "ARGOCD_AGENT_UI_ACCESS"), "operate");
    let open = render(&Spoke {
        ui_access: UiAccess::Terminal,
        ..spoke()
    });
    assert_eq!(named(&open), [&ui[..], &more, &more].concat());
    let closed = render(&Spoke {
        ui_access: UiAccess::None,
        ..spoke()
    });
    assert_eq!(named(&closed), [""; 0]);
    assert_eq!(env(&closed, "ARGOCD_AGENT_UI_ACCESS"), "none");
}

/// The whole rendering, byte for byte; a change of a manifest shows in the review of this file.
#[test]
fn the_rendering_is_the_golden_one() {
    let objects = render(&spoke());
    let text = serde_json::to_string_pretty(&objects).unwrap() + "\n";
    golden::compare("manifests/golden.json", &text);
}

#[test]
fn an_agent_that_owns_its_applications_may_make_and_delete_nothing() {
    let verbs = |mode: Mode| -> Vec<String> {
        let objects = render(&Spoke { mode, ..spoke() });
        let [role] = of_the_agent(&objects, "Role")[..] else {
            panic!("one Role in mode {mode}");
        };
        let lists = role["rules"].as_array().unwrap().iter();
        lists
            .flat_map(|rule| rule["verbs"].as_array().unwrap())
            .map(|verb| verb.as_str().unwrap().to_owned())
            .collect()
    };
    assert!(verbs(Mode::Managed).contains(&"create".to_owned()));
    // It watches Applications and projects, sends commands to Applications, gets the Secret of redis, and lists programs
    // and Services.
    let few = ["list", "watch", "patch", "get", "list", "watch", "list"];
    assert_eq!(verbs(Mode::Autonomous), few);
    let objects = render(&Spoke {
        mode: Mode::Autonomous,
        ..spoke()
    });
    let deployment = of_kind(&objects, "Deployment")[0].to_string();
    assert!(deployment.contains(r#""name":"ARGOCD_AGENT_MODE","value":"autonomous""#));
}

#[test]
fn namespaces_outlive_the_add_on_and_come_first() {
    let objects = render(&spoke());
    for namespace in &objects[..2] {
        assert_eq!(namespace["kind"], "Namespace");
        let annotations = &namespace["metadata"]["annotations"];
        assert!(annotations.get(ocm::keys::DELETION_ORPHAN).is_some());
    }
}

#[test]
fn a_shared_namespace_is_named_once() {
    let shared = Spoke {
        agent_namespace: "argocd".to_owned(),
        ..spoke()
    };
    assert_eq!(of_kind(&render(&shared), "Namespace").len(), 1);
}

#[test]
fn each_further_namespace_of_applications_is_made_with_rights_in_it_alone() {
    let further = |mode, names: &[&str]| Spoke {
        mode,
        allowed_namespaces: names.iter().map(|name| (*name).to_owned()).collect(),
        ..spoke()
    };
    let two = further(Mode::Managed, &["team-b", "team-a", "argocd"]);
    let objects = render(&two);
    for kind in ["Role", "RoleBinding"] {
        let all = of_the_agent(&objects, kind);
        let namespaces: Vec<_> = all.iter().map(|it| &it["metadata"]["namespace"]).collect();
        assert_eq!(namespaces, ["argocd", "team-a", "team-b"], "{kind}");
    }
    let namespaces = of_kind(&objects, "Namespace");
    assert_eq!(namespaces.len(), 4);
    for namespace in namespaces {
        let annotations = &namespace["metadata"]["annotations"];
        assert!(annotations.get(ocm::keys::DELETION_ORPHAN).is_some());
    }
    let roles = of_the_agent(&objects, "Role");
    assert_eq!(roles[1]["rules"][0]["resources"], json!(["applications"]));
    assert_eq!(roles[1]["rules"].as_array().unwrap().len(), 1);
    let allowed = |objects: &[Value]| {
        let pod = &of_kind(objects, "Deployment")[0]["spec"]["template"]["spec"];
        let env = pod["containers"][0]["env"].as_array().unwrap().iter();
        let mut env = env.filter(|it| it["name"] == "ARGOCD_AGENT_ALLOWED_NAMESPACES");
        env.next().map(|it| it["value"].clone())
    };
    assert_eq!(allowed(&objects), Some(json!("team-a,team-b")));
    let last = objects.last().unwrap();
    assert_eq!(last["kind"], "Deployment", "its rights are there before it");

    let autonomous = render(&further(Mode::Autonomous, &["team-a"]));
    assert_eq!(of_the_agent(&autonomous, "Role").len(), 1);
    assert_eq!(allowed(&autonomous), None);
    assert_eq!(allowed(&render(&spoke())), None);
}

#[test]
fn rules_of_the_spoke_have_no_wildcard_and_get_only_the_secret_of_redis() {
    for role in of_the_agent(&render(&spoke()), "Role") {
        let rules = role["rules"].to_string();
        assert!(!rules.contains('*'), "{rules}");
        // It watches repository Secrets by label, and gets that of redis by its name; none in another namespace.
        assert_eq!(role["metadata"]["namespace"], "argocd");
        for rule in role["rules"].as_array().unwrap() {
            let secrets = rule["resources"].to_string().contains("secrets");
            let verbs = rule["verbs"].to_string();
            assert!(!secrets || !verbs.contains("update"));
            if secrets && verbs.contains("get") {
                let of_redis: Vec<_> = live::redis_service::secrets().collect();
                assert_eq!(rule["resourceNames"], json!(of_redis));
                assert_eq!(rule["verbs"], json!(["get"]));
            }
        }
    }
}

#[test]
fn pod_waits_for_the_client_certificate_of_ocm() {
    let objects = render(&spoke());
    let volumes = &of_kind(&objects, "Deployment")[0]["spec"]["template"]["spec"]["volumes"];
    let secret = &volumes[1]["secret"];
    let signer = crate::keys::SIGNER.replace('/', "-");
    assert_eq!(
        secret["secretName"],
        format!("{}-{signer}-client-cert", crate::keys::ADDON)
    );
    assert!(secret.get("optional").is_none());
}

#[test]
fn a_new_certificate_of_the_ca_rolls_no_pod() {
    let other = Spoke {
        ca_bundle: "other".to_owned(),
        ..spoke()
    };
    let (before, after) = (render(&spoke()), render(&other));
    assert_eq!(
        of_kind(&before, "Deployment"),
        of_kind(&after, "Deployment")
    );
    assert_ne!(of_kind(&before, "ConfigMap"), of_kind(&after, "ConfigMap"));
}

#[test]
fn placement_proxies_and_resources_reach_the_pod() {
    let adjusted = Spoke {
        placement: NodePlacement {
            node_selector: [("disk".to_owned(), "fast".to_owned())].into(),
            tolerations: serde_json::from_value(json!([{"operator": "Exists"}])).unwrap(),
        },
        proxy: Proxy {
            https: "http://proxy:3128".to_owned(),
            ..Proxy::default()
        },
        resources: Some(json!({"limits": {"memory": "1Gi"}})),
        pod: PodOptions {
            priority_class: Some("high".to_owned()),
            host_aliases: [(
                "10.0.0.1".parse().unwrap(),
                vec!["hub.example.org".to_owned()],
            )]
            .into(),
        },
        ..spoke()
    };
    let objects = render(&adjusted);
    let pod = &of_kind(&objects, "Deployment")[0]["spec"]["template"]["spec"];
    assert_eq!(pod["nodeSelector"], json!({"disk": "fast"}));
    assert_eq!(pod["tolerations"], json!([{"operator": "Exists"}]));
    assert_eq!(pod["priorityClassName"], "high");
    let aliases = json!([{"ip": "10.0.0.1", "hostnames": ["hub.example.org"]}]);
    assert_eq!(pod["hostAliases"], aliases);
    assert_eq!(
        pod["containers"][0]["resources"],
        json!({"limits": {"memory": "1Gi"}})
    );
    let env = pod["containers"][0]["env"].as_array().unwrap();
    assert!(env.contains(&json!({"name": "HTTPS_PROXY", "value": "http://proxy:3128"})));
    assert!(env.iter().all(|variable| variable["name"] != "HTTP_PROXY"));
    assert!(
        env.iter()
            .all(|variable| variable["name"] != "CA_BUNDLE_FILE_PATH")
    );
}

#[test]
fn the_certificates_of_a_proxy_are_beside_those_of_the_principal() {
    let adjusted = Spoke {
        proxy: Proxy {
            https: "https://proxy:3129".to_owned(),
            ca: "PROXY PEM".to_owned(),
            ..Proxy::default()
        },
        ..spoke()
    };
    let objects = render(&adjusted);
    let pod = &of_kind(&objects, "Deployment")[0]["spec"]["template"]["spec"];
    let container = &pod["containers"][0];
    let env = container["env"].as_array().unwrap();
    let path = env
        .iter()
        .find(|it| it["name"] == "CA_BUNDLE_FILE_PATH")
        .unwrap();
    let (directory, file) = path["value"].as_str().unwrap().rsplit_once('/').unwrap();
    let mounted = &container["volumeMounts"][0];
    assert_eq!(
        (&mounted["name"], &mounted["mountPath"]),
        (&json!("ca"), &json!(directory))
    );
    assert_eq!(of_kind(&objects, "ConfigMap")[0]["data"][file], "PROXY PEM");
    let without = render(&spoke());
    assert_eq!(of_kind(&without, "ConfigMap")[0]["data"][file], json!(null));
}

#[test]
fn traces_go_to_the_collector_that_is_named_and_by_its_certificates() {
    let rendered = |traces: Traces| {
        let objects = render(&Spoke {
            traces: Some(traces),
            ..spoke()
        });
        let pod = &of_kind(&objects, "Deployment")[0]["spec"]["template"]["spec"];
        let env = pod["containers"][0]["env"].as_array().unwrap().iter();
        let ours = env.filter(|it| it["name"].as_str().unwrap().contains("OTLP"));
        let ours: Vec<_> = ours.map(|it| it["value"].clone()).collect();
        (
            ours,
            of_kind(&objects, "ConfigMap")[0]["data"]["otlp-ca.crt"].clone(),
        )
    };
    let address = "otel:4317".to_owned();
    let plain = Traces {
        address: address.clone(),
        ca: None,
        ratio: None,
    };
    assert_eq!(
        rendered(plain),
        (vec![json!(address), json!("true")], json!(null))
    );
    let known = Traces {
        address: address.clone(),
        ca: Some("COLLECTOR PEM".to_owned()),
        ratio: Some("0.1".to_owned()),
    };
    let (env, ca) = rendered(known);
    assert_eq!(env, [&address, "/etc/argocd-agent/ca/otlp-ca.crt", "0.1"]);
    assert_eq!(ca, "COLLECTOR PEM");
}

#[test]
fn container_identities_may_use_stars_for_whole_parts() {
    for id in [
        "deployments:argocd-agent-addon-agent:agent",
        "*:*:*",
        "deployments:*:agent",
    ] {
        assert!(is_agent_container(id), "{id}");
    }
    for id in [
        "",
        "deployments",
        "daemonsets:*:*",
        "deployments:argocd-agent-addon-agent:a*",
    ] {
        assert!(!is_agent_container(id), "{id}");
    }
}

proptest! {
    #[test]
    fn values_do_not_change_the_kinds_of_rendered_objects(
        namespace in "[a-z]{1,10}", level in "\\PC{0,20}", ca in "\\PC{0,60}", image in "\\PC{0,40}",
    ) {
        let odd = Spoke {
            agent_namespace: namespace, log_level: level, ca_bundle: ca, image, ..spoke()
        };
        let kinds = |objects: &[Value]| objects.iter().map(|o| o["kind"].clone()).collect::<Vec<_>>();
        prop_assert_eq!(kinds(&render(&odd)), kinds(&render(&spoke())));
    }
}
