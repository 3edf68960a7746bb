use proptest::prelude::*;

use super::*;

fn asked(method: &str, target: &str, level: UiAccess) -> Result<(), Forbidden> {
    let read = Request::parse(method, target);
    read.map_or_else(|why| panic!("{target}: {why}"), |it| judge(&it, level))
}

#[test]
fn a_reader_sees_what_is_there_and_its_logs() {
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
        assert_eq!(asked("GET", target, UiAccess::Read), Ok(()), "{target}");
        assert_eq!(
            asked("GET", target, UiAccess::None),
            Err(Forbidden::Everything)
        );
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
        let refused = asked(method, target, UiAccess::Read);
        assert!(
            matches!(refused, Err(Forbidden::Verb { .. })),
            "{method} {target}"
        );
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
        let refused = asked("GET", target, UiAccess::Read);
        assert!(matches!(refused, Err(Forbidden::Part { .. })), "{target}");
    }
}

#[test]
fn secrets_are_closed_by_whatever_name() {
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
        let refused = asked("GET", target, UiAccess::Read);
        assert!(
            matches!(refused, Err(Forbidden::Secrets { .. })),
            "{target}"
        );
    }
}

#[test]
fn levels_are_words() {
    for level in [UiAccess::None, UiAccess::Read] {
        assert_eq!(level.as_str().parse(), Ok(level));
    }
    for word in ["", "Read", "all", "operate"] {
        assert_eq!(word.parse::<UiAccess>(), Err(UnknownLevel), "{word}");
    }
}

proptest! {
    #[test]
    fn whatever_a_reader_gets_is_read_only_and_no_secret(
        method in "GET|POST|PATCH|DELETE|PUT",
        target in "/(api|apis/apps)/v1(/namespaces/a)?(/(pods|secrets|%73ecrets|x|log|exec|proxy)){0,3}(\\?watch=1)?",
    ) {
        let Ok(request) = Request::parse(&method, &target) else { return Ok(()) };
        prop_assert!(judge(&request, UiAccess::None).is_err());
        if judge(&request, UiAccess::Read).is_ok() {
            prop_assert_eq!(&method, "GET");
            let object = request.object();
            prop_assert!(object.is_none_or(|it| it.resource != "secrets"));
            prop_assert!(!request.is_exec());
        }
    }
}
