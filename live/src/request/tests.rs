use proptest::prelude::*;

use super::*;

fn get(target: &str) -> Result<Request, Unreadable> {
    Request::parse("GET", target)
}

fn object(request: &Request) -> &Object {
    request.object().expect("a request about an object")
}

#[test]
fn requests_of_argo_cd_and_kubectl_round_trip() {
    for (target, verb, reply) in [
        ("/version", Verb::Get, "/version"),
        ("/api?timeout=32s", Verb::Get, "/api"),
        ("/apis", Verb::Get, "/apis"),
        ("/apis/apps", Verb::Get, "/apis/apps"),
        ("/api/v1", Verb::Get, "/api/v1"),
        ("/apis/apps/v1", Verb::Get, "/apis/apps/v1"),
        ("/openapi/v2", Verb::Get, "/openapi/v2"),
        (
            "/openapi/v3/apis/apps/v1?hash=AB12",
            Verb::Get,
            "/openapi/v3/apis/apps/v1",
        ),
        ("/api/v1/nodes", Verb::List, "nodes"),
        ("/api/v1/namespaces", Verb::List, "namespaces"),
        ("/api/v1/namespaces/shop", Verb::Get, "namespaces shop"),
        (
            "/api/v1/namespaces/shop/status",
            Verb::Get,
            "namespaces/status shop",
        ),
        (
            "/apis/apps/v1/namespaces/shop/deployments/front",
            Verb::Get,
            "deployments.apps shop/front",
        ),
        (
            "/api/v1/namespaces/shop/pods?limit=500&watch=true",
            Verb::Watch,
            "pods shop/",
        ),
        (
            "/api/v1/events?fieldSelector=involvedObject.name%3Da%2Cx%3Db",
            Verb::List,
            "events",
        ),
        (
            "/api/v1/namespaces/shop/pods/front-1/log?container=main&follow=true&tailLines=10",
            Verb::Get,
            "pods/log shop/front-1",
        ),
        (
            "/apis/rbac.authorization.k8s.io/v1/clusterroles/system:aggregate-to-view",
            Verb::Get,
            "clusterroles.rbac.authorization.k8s.io system:aggregate-to-view",
        ),
    ] {
        let read = get(target).unwrap();
        assert_eq!(read.verb, verb, "{target}");
        assert_eq!(read.subject.to_string(), reply);
        assert_eq!(read.target(), target);
    }
}

#[test]
fn verbs_are_those_of_rbac() {
    let named = "/api/v1/namespaces/shop/pods/a";
    let all = "/api/v1/namespaces/shop/pods";
    for (method, target, verb) in [
        ("POST", all, Verb::Create),
        ("PUT", named, Verb::Update),
        ("PATCH", named, Verb::Patch),
        ("DELETE", named, Verb::Delete),
        ("DELETE", all, Verb::DeleteCollection),
    ] {
        assert_eq!(Request::parse(method, target).unwrap().verb, verb);
    }
    for method in ["HEAD", "OPTIONS", "CONNECT", "get", ""] {
        let refused = Request::parse(method, named);
        assert!(matches!(refused, Err(Unreadable::Method(_))), "{method:?}");
    }
}

#[test]
fn a_path_that_leads_elsewhere_is_refused() {
    for path in [
        "",
        "api/v1",
        "/",
        "//api/v1",
        "/api/v1/",
        "/api//v1/pods",
        "/api/v1/namespaces/a/../../secrets",
        "/api/v1/namespaces/a/./pods",
        "/api/v1/namespaces/a/pods/%2e%2e/secrets",
        "/api/v1/namespaces/a/pods/%2E",
        "/api/v1/namespaces/a/pods/x%2Flog",
        "/api/v1/namespaces/a/pods/x%5Clog",
        "/api/v1/namespaces/a/pods/%252e%252e",
        "/api/v1/namespaces/a/pods/x%2",
        "/api/v1/namespaces/a/pods/x%zz",
        "/api/v1/namespaces/a/pods/x%00",
        "/api/v1/namespaces/a/pods/x%0d%0aHost:%20x",
        "/api/v1/namespaces/a/pods/%ff",
        "/api/v1/namespaces/a/pods/ä",
        "/api/v1/namespaces/a/pods/x y",
        "/api/v1/namespaces/A/pods",
        "/api/v1/watch/namespaces/a/secrets",
        "/api/v1/proxy/nodes/a",
        "/api/v1/namespaces/a/pods/x/proxy/metrics",
        "/api/v1/namespaces/a/services/x:80/proxy/",
        "/api/one/pods",
        "/apis/apps/1/deployments",
        "/apis/a_b/v1/things",
        "/apis/apps/v1/Deployments",
        "/metrics",
        "/healthz",
        "/logs/kube-apiserver.log",
        "/openapi/v1",
        "/openapi/v3/apis/apps/v1/more",
    ] {
        assert!(matches!(get(path), Err(Unreadable::Path(_))), "{path:?}");
    }
    let long = format!("/api/v1/namespaces/a/pods/{}", "x".repeat(254));
    assert!(matches!(get(&long), Err(Unreadable::Path(_))));
    let longer = format!("/api/v1/pods?labelSelector={}", "x".repeat(LONGEST));
    assert_eq!(get(&longer), Err(Unreadable::TooLong));
}

#[test]
fn only_known_parameters_go_on_and_each_once() {
    let pods = "/api/v1/namespaces/a/pods";
    for query in [
        "agentName=b",
        "insecureSkipTLSVerifyBackend=true",
        "x=%61",
        "Watch=1",
    ] {
        let refused = get(&format!("{pods}?{query}"));
        assert!(matches!(refused, Err(Unreadable::Parameter(_))), "{query}");
    }
    for query in [
        "watch=0&watch=1",
        "limit=%",
        "limit=1%00",
        &"timeout=1&".repeat(65),
    ] {
        let refused = get(&format!("{pods}?{query}"));
        assert!(matches!(refused, Err(Unreadable::Query(_))), "{query}");
    }
    let following = get(&format!("{pods}/x/log?follow=true")).unwrap();
    assert!(following.is_lasting());
    assert!(
        !get(&format!("{pods}/x/log?follow=False"))
            .unwrap()
            .is_lasting()
    );
    assert!(get(&format!("{pods}/x?follow=true")).is_err());
}

#[test]
fn words_of_a_command_come_several_times() {
    let target = "/api/v1/namespaces/a/pods/x/exec?command=sh&command=-c&tty=true";
    let read = Request::parse("POST", target).unwrap();
    assert!(read.is_exec() && read.is_lasting());
    assert_eq!(read.target(), target);
}

#[test]
fn impersonation_headers_are_detected() {
    for header in ["Impersonate-User", "impersonate-extra-x", "X-Remote-Group"] {
        assert!(is_impersonation(header), "{header}");
    }
    for header in ["accept", "impersonat", "x-request-id", "", "ä"] {
        assert!(!is_impersonation(header), "{header}");
    }
}

fn name() -> impl Strategy<Value = String> {
    "[a-z0-9]([a-z0-9:@+=, _.-]{0,20}[a-z0-9])?"
}

fn label() -> impl Strategy<Value = String> {
    "[a-z]([a-z0-9-]{0,8}[a-z0-9])?"
}

fn any_object() -> impl Strategy<Value = Object> {
    let group = prop_oneof![Just(String::new()), "[a-z]{1,8}(\\.[a-z]{1,8}){0,2}"];
    let rest = (
        proptest::option::of(label()),
        proptest::option::of((name(), proptest::option::of(label()))),
    );
    (group, "v[1-9](beta1)?", "[a-z]{3,9}s", rest).prop_map(
        |(group, version, resource, (namespace, named))| {
            let (name, subresource) = named.map_or((None, None), |(name, part)| (Some(name), part));
            Object {
                group,
                version,
                resource,
                namespace,
                name,
                subresource,
            }
        },
    )
}

proptest! {
    #[test]
    fn serialized_request_parses_to_the_same(wanted in any_object(), value in "\\PC{0,20}") {
        // These have another meaning at that position.
        prop_assume!(!["namespaces", "status"].contains(&wanted.resource.as_str()));
        let request = Request {
            verb: if wanted.name.is_some() { Verb::Get } else { Verb::List },
            subject: Subject::Object(wanted),
            query: query::read("").unwrap(),
        };
        prop_assert_eq!(get(&request.target()), Ok(request.clone()));
        if request.verb == Verb::List {
            let mut target = request.target() + "?labelSelector=";
            query::encode_into(&mut target, &value, false);
            let read = get(&target).unwrap();
            prop_assert_eq!(read.query.get("labelSelector"), Some(value.as_str()));
            prop_assert_eq!(read.target(), target);
        }
    }

    #[test]
    fn any_request_round_trips_or_is_refused(
        method in "GET|POST|PATCH|DELETE|PUT|\\PC{0,5}",
        target in prop_oneof![
            "\\PC{0,60}",
            "/(api|apis|apis/apps)/v1(/(namespaces|pods|secrets|a|\\.\\.|%2e|%252e|%2f|log|)){0,6}(\\?\\PC{0,20})?",
        ],
    ) {
        if let Ok(read) = Request::parse(&method, &target) {
            let again = read.target();
            prop_assert!(!again.split('?').next().unwrap().split('/').skip(1).any(|it| {
                it.is_empty() || it == "." || it == ".."
            }), "{}", again);
            prop_assert!(again.is_ascii());
            prop_assert_eq!(Request::parse(&method, &again), Ok(read));
        }
    }
}

#[test]
fn object_of_a_request_is_displayed() {
    let read = get("/apis/apps/v1/namespaces/a/deployments/b/scale").unwrap();
    let found = object(&read);
    assert!(found.is("apps", "deployments") && !found.is("", "deployments"));
    assert_eq!(found.to_string(), "deployments.apps/scale a/b");
}
