use proptest::prelude::*;

use super::*;

fn asked(method: &str, target: &str, level: UiAccess) -> Result<Allowed, Forbidden> {
    let read = Request::parse(method, target);
    read.map_or_else(|why| panic!("{target}: {why}"), |it| judge(&it, level))
}

#[test]
fn read_level_allows_objects_and_logs() {
    for target in [
        "/version",
        "/api",
        "/apis/apps/v1",
        "/openapi/v2",
        "/api/v1/namespaces/a/configmaps",
        "/api/v1/namespaces/a/pods/x",
        "/api/v1/namespaces/a/pods/x/log?follow=true",
        "/api/v1/pods?watch=true",
        "/apis/apps/v1/namespaces/a/deployments/x/scale",
        "/apis/example.org/v1/namespaces/a/things/x/status",
    ] {
        for level in [UiAccess::Read, UiAccess::Operate] {
            assert_eq!(asked("GET", target, level), Ok(Allowed::AsItIs), "{target}");
        }
        assert_eq!(
            asked("GET", target, UiAccess::None),
            Err(Forbidden::Everything)
        );
    }
}

#[test]
fn applications_level_allows_single_objects_that_belong() {
    let level = UiAccess::Applications;
    for target in ["/version", "/api", "/apis/apps/v1", "/openapi/v2"] {
        assert_eq!(asked("GET", target, level), Ok(Allowed::AsItIs), "{target}");
    }
    for target in [
        "/api/v1/namespaces/a",
        "/api/v1/namespaces/a/configmaps/x",
        "/api/v1/namespaces/a/events/x",
        "/api/v1/namespaces/a/pods/x/log?follow=true",
        "/apis/apps/v1/namespaces/a/deployments/x/scale",
        "/apis/example.org/v1/things/x/status",
    ] {
        let allowed = asked("GET", target, level);
        assert_eq!(allowed, Ok(Allowed::IfItBelongs), "{target}");
    }
}

#[test]
fn applications_level_lists_events_of_one_object_only() {
    let level = UiAccess::Applications;
    for target in [
        "/api/v1/namespaces/a/events?fieldSelector=involvedObject.name%3Dx",
        "/api/v1/namespaces/a/events?fieldSelector=involvedObject.uid%3Du,involvedObject.name%3D%3Dx&limit=5",
        "/api/v1/events?fieldSelector=involvedObject.name%3Dx,involvedObject.namespace%3D,involvedObject.uid%3Du",
    ] {
        let allowed = asked("GET", target, level);
        assert_eq!(allowed, Ok(Allowed::EventsOfApplications), "{target}");
    }
    for target in [
        "/api/v1/namespaces/a/configmaps",
        "/api/v1/pods",
        "/api/v1/namespaces/a/pods?watch=true",
        "/apis/apps/v1/namespaces/a/deployments?fieldSelector=involvedObject.name%3Dx",
        "/api/v1/namespaces/a/events",
        "/api/v1/namespaces/a/events?fieldSelector=involvedObject.name%3D",
        "/api/v1/namespaces/a/events?fieldSelector=involvedObject.name%3D%3D",
        "/api/v1/events?fieldSelector=involvedObject.uid%3D",
        "/api/v1/events?fieldSelector=involvedObject.uid!%3Du",
        "/api/v1/events?watch=true&fieldSelector=involvedObject.uid%3Du",
        "/api/v1/namespaces/a/events?fieldSelector=involvedObject.name!%3Dx",
        "/api/v1/namespaces/a/events?fieldSelector=involvedObject.namespace%3Dx",
        "/api/v1/namespaces/a/events?labelSelector=involvedObject.name%3Dx",
        "/api/v1/namespaces/a/events?watch=true&fieldSelector=involvedObject.name%3Dx",
        "/api/v1/events?fieldSelector=involvedObject.name%3Dx",
        "/apis/events.k8s.io/v1/namespaces/a/events?fieldSelector=involvedObject.name%3Dx",
    ] {
        let refused = asked("GET", target, level).unwrap_err();
        assert!(matches!(refused, Forbidden::Several { .. }), "{target}");
        let message = refused.to_string();
        for part in ["UI_ACCESS of this cluster is applications", "to read"] {
            assert!(message.contains(part), "{message}");
        }
    }
}

#[test]
fn a_reader_changes_nothing() {
    let (all, one) = ("/api/v1/namespaces/a/pods", "/api/v1/namespaces/a/pods/x");
    for (method, target) in [
        ("POST", all),
        ("PUT", one),
        ("PATCH", one),
        ("DELETE", one),
        ("DELETE", all),
        ("POST", "/api/v1/namespaces/a/pods/x/exec?command=sh"),
        ("POST", "/api/v1/namespaces/a/serviceaccounts/x/token"),
        ("POST", "/version"),
    ] {
        for level in [UiAccess::Applications, UiAccess::Read] {
            let refused = asked(method, target, level);
            assert!(
                matches!(refused, Err(Forbidden::Verb { .. })),
                "{method} {target}"
            );
        }
    }
}

#[test]
fn parts_that_lead_somewhere_else_are_closed() {
    for target in [
        "/api/v1/namespaces/a/pods/x/exec?command=sh",
        "/api/v1/namespaces/a/pods/x/attach",
        "/api/v1/namespaces/a/pods/x/portforward",
        "/api/v1/namespaces/a/pods/x/proxy",
        "/api/v1/namespaces/a/services/x/proxy",
        "/api/v1/nodes/x/proxy",
        "/apis/example.org/v1/namespaces/a/pods/x/log",
    ] {
        for level in UiAccess::ALL.into_iter().skip(1) {
            if level == UiAccess::Terminal && target.contains("exec") {
                continue;
            }
            let refused = asked("GET", target, level);
            assert!(matches!(refused, Err(Forbidden::Part { .. })), "{target}");
        }
    }
}

#[test]
fn secrets_are_forbidden_in_every_group() {
    for target in [
        "/api/v1/secrets",
        "/api/v1/secrets?watch=true",
        "/api/v1/namespaces/a/secrets",
        "/api/v1/namespaces/a/secrets/x",
        "/api/v1/namespaces/a/secrets/x/status",
        "/api/v1/namespaces/a/%73ecrets/x",
        "/api/v2/namespaces/a/secrets/x",
        "/apis/example.org/v1/namespaces/a/secrets/x",
    ] {
        for level in [UiAccess::Applications, UiAccess::Read] {
            let refused = asked("GET", target, level);
            assert!(
                matches!(refused, Err(Forbidden::Secrets { .. })),
                "{target}"
            );
        }
    }
}

#[test]
fn an_operator_sees_one_secret_of_an_application_and_no_list() {
    let level = UiAccess::Operate;
    let one = asked("GET", "/api/v1/namespaces/a/secrets/x", level);
    assert_eq!(one, Ok(Allowed::IfItBelongs));
    for target in [
        "/api/v1/secrets",
        "/api/v1/namespaces/a/secrets",
        "/api/v1/namespaces/a/secrets?watch=true",
        "/api/v1/namespaces/a/secrets/x/status",
        "/apis/example.org/v1/namespaces/a/secrets/x",
    ] {
        let refused = asked("GET", target, level);
        assert!(
            matches!(refused, Err(Forbidden::Secrets { .. })),
            "{target}"
        );
    }
    for method in ["PATCH", "DELETE"] {
        let target = "/apis/example.org/v1/namespaces/a/secrets/x";
        assert!(asked(method, target, level).is_err(), "{method}");
    }
}

#[test]
fn operate_level_changes_objects_of_applications_only() {
    for (method, target, allowed) in [
        (
            "PATCH",
            "/apis/apps/v1/namespaces/a/deployments/x",
            Allowed::IfItBelongs,
        ),
        (
            "PATCH",
            "/apis/apps/v1/namespaces/a/deployments/x?dryRun=All&force=true",
            Allowed::IfItBelongs,
        ),
        (
            "PATCH",
            "/apis/apps/v1/namespaces/a/deployments/x/scale",
            Allowed::IfItBelongs,
        ),
        (
            "PATCH",
            "/apis/argoproj.io/v1alpha1/namespaces/a/rollouts/x/status",
            Allowed::IfItBelongs,
        ),
        (
            "PATCH",
            "/api/v1/namespaces/a/secrets/x",
            Allowed::IfItBelongs,
        ),
        ("PATCH", "/api/v1/namespaces/a", Allowed::IfItBelongs),
        (
            "DELETE",
            "/api/v1/namespaces/a/pods/x",
            Allowed::IfItBelongs,
        ),
        (
            "DELETE",
            "/api/v1/namespaces/a/secrets/x",
            Allowed::IfItBelongs,
        ),
        (
            "POST",
            "/apis/batch/v1/namespaces/a/jobs",
            Allowed::IfItsOwnerBelongs,
        ),
        (
            "POST",
            "/apis/argoproj.io/v1alpha1/namespaces/a/workflows",
            Allowed::IfItsOwnerBelongs,
        ),
    ] {
        assert_eq!(
            asked(method, target, UiAccess::Operate),
            Ok(allowed),
            "{method} {target}"
        );
    }
}

#[test]
fn an_operator_does_nothing_that_argo_cd_does_not_do() {
    for (method, target) in [
        ("PUT", "/apis/apps/v1/namespaces/a/deployments/x"),
        ("DELETE", "/apis/apps/v1/namespaces/a/deployments"),
        ("DELETE", "/api/v1/pods"),
        ("PATCH", "/api/v1/namespaces/a/pods"),
        ("POST", "/api/v1/namespaces/a/pods"),
        ("POST", "/api/v1/namespaces/a/secrets"),
        ("POST", "/apis/batch/v1/jobs"),
        ("POST", "/apis/batch/v1/namespaces/a/jobs/x"),
        ("POST", "/apis/example.org/v1/namespaces/a/jobs"),
        (
            "POST",
            "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
        ),
        (
            "POST",
            "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
        ),
        ("POST", "/api/v1/namespaces/a/pods/x/exec?command=sh"),
        ("POST", "/api/v1/namespaces/a/pods/x/eviction"),
        ("POST", "/api/v1/namespaces/a/pods/x/binding"),
        ("POST", "/api/v1/namespaces/a/serviceaccounts/x/token"),
        ("PATCH", "/api/v1/namespaces/a/pods/x/ephemeralcontainers"),
        ("PATCH", "/api/v1/namespaces/a/finalize"),
        (
            "PUT",
            "/apis/certificates.k8s.io/v1/certificatesigningrequests/x/approval",
        ),
        ("DELETE", "/api/v1/namespaces/a/pods/x/status"),
        ("DELETE", "/version"),
        ("POST", "/apis/apps/v1"),
    ] {
        assert!(
            asked(method, target, UiAccess::Operate).is_err(),
            "{method} {target}"
        );
    }
}

#[test]
fn a_terminal_is_opened_in_a_pod_of_an_application_and_nowhere_else() {
    let level = UiAccess::Terminal;
    let target = "/api/v1/namespaces/a/pods/x/exec?command=sh&stdin=true&tty=true";
    for method in ["GET", "POST"] {
        assert_eq!(asked(method, target, level), Ok(Allowed::IfItBelongs));
        for lower in UiAccess::ALL.into_iter().filter(|it| *it < level) {
            assert!(asked(method, target, lower).is_err(), "{method} {lower}");
        }
    }
    for (method, target) in [
        ("PATCH", "/api/v1/namespaces/a/pods/x/exec"),
        ("DELETE", "/api/v1/namespaces/a/pods/x/exec"),
        ("GET", "/api/v1/pods/x/exec?command=sh"),
        ("POST", "/api/v1/namespaces/a/pods/x/attach"),
        ("POST", "/api/v1/namespaces/a/pods/x/portforward"),
        ("GET", "/apis/example.org/v1/namespaces/a/pods/x/exec"),
        ("GET", "/api/v1/namespaces/a/services/x/exec"),
    ] {
        assert!(asked(method, target, level).is_err(), "{method} {target}");
    }
}

#[test]
fn levels_are_words() {
    let [others @ .., last] = UiAccess::ALL.map(UiAccess::as_str);
    assert_eq!(LEVELS, format!("{} or {last}", others.join(", ")));
    assert!(UiAccess::ALL.is_sorted());
    for level in UiAccess::ALL {
        assert_eq!(level.as_str().parse(), Ok(level));
    }
    for word in ["", "Read", "all", "operator"] {
        assert_eq!(word.parse::<UiAccess>(), Err(UnknownLevel), "{word}");
    }
}

proptest! {
    #[test]
    fn read_level_grants_reads_without_secrets(
        method in "GET|POST|PATCH|DELETE|PUT",
        target in "/(api|apis/apps)/v1(/namespaces/a)?(/(pods|secrets|%73ecrets|x|log|exec|proxy)){0,3}(\\?watch=1)?",
    ) {
        let Ok(request) = Request::parse(&method, &target) else { return Ok(()) };
        prop_assert!(judge(&request, UiAccess::None).is_err());
        if let Ok(allowed) = judge(&request, UiAccess::Operate) {
            let secret = request.object().is_some_and(|it| it.resource == "secrets");
            let changes = !request.verb.only_reads();
            prop_assert_eq!(allowed != Allowed::AsItIs, changes || secret);
            prop_assert!(!request.is_exec());
        }
        if let Ok(allowed) = judge(&request, UiAccess::Applications) {
            prop_assert_eq!(judge(&request, UiAccess::Read), Ok(Allowed::AsItIs));
            prop_assert_eq!(allowed == Allowed::AsItIs, request.object().is_none());
        }
        if judge(&request, UiAccess::Read).is_ok() {
            prop_assert_eq!(&method, "GET");
            let object = request.object();
            prop_assert!(object.is_none_or(|it| it.resource != "secrets"));
            prop_assert!(!request.is_exec());
        }
    }
}
