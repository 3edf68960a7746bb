use super::*;

const SECRET: &str = "0123456789abcdef0123456789abcdef";
const FLEET: &str = "argocd:argocd-agent-fleet";

fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
    let mut map = HeaderMap::new();
    for (name, value) in pairs {
        let name: HeaderName = name.parse().unwrap();
        map.append(name, HeaderValue::from_str(value).unwrap());
    }
    map
}

fn target(text: &str) -> Uri {
    text.parse().unwrap()
}

fn method(word: &str) -> Method {
    word.parse().unwrap()
}

/// Judges a request with these headers.
fn judged(word: &str, path: &str, pairs: &[(&str, &str)]) -> Result<Route, Refusal> {
    let (method, uri, headers) = (method(word), target(path), headers(pairs));
    let token = Token::read(SECRET.as_bytes());
    check((&method, &uri, &headers), token.as_ref(), "argocd")
}

/// Judges a GET of argocd-server for this Application.
fn authorised(target: &str, application: &str) -> Result<Route, Refusal> {
    let headers = [
        ("Argocd-Agent-Token", SECRET),
        ("Argocd-Application-Name", application),
    ];
    judged("GET", target, &headers)
}

fn path(namespace: &str, name: &str) -> Route {
    Route::Path {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    }
}

#[test]
fn token_header_is_the_one_that_argocd_server_is_configured_to_send() {
    let name = argocd::keys::addon::UI_TOKEN_HEADER.to_lowercase();
    assert_eq!(TOKEN_HEADER.as_str(), name);
}

#[test]
fn request_gets_only_facts_that_argo_cd_authorised() {
    assert_eq!(authorised("/api/v1/fleet", FLEET), Ok(Route::Fleet));
    let paris = ClusterName::new("paris").unwrap();
    let cluster = authorised("/api/v1/clusters/paris", FLEET);
    assert_eq!(cluster, Ok(Route::Cluster(paris)));
    let found = authorised("/api/v1/applications/team-a/my.app/path", "team-a:my.app");
    assert_eq!(found, Ok(path("team-a", "my.app")));
}

#[test]
fn path_of_another_application_is_refused() {
    let target = "/api/v1/applications/team-a/app/path";
    for other in [
        FLEET,
        "team-a:other",
        "team-b:app",
        "team-a/app",
        "app",
        "team-a:app ,team-b:app",
        "team-a:app,team-b:app",
        "TEAM-A:app",
        "team-a:app:",
        "",
    ] {
        assert_eq!(
            authorised(target, other),
            Err(Refusal::Application),
            "{other}"
        );
    }
    for target in ["/api/v1/fleet", "/api/v1/clusters/paris"] {
        for other in [
            "argocd:app",
            "other:argocd-agent-fleet",
            "argocd-agent-fleet",
        ] {
            let found = authorised(target, other);
            assert_eq!(found, Err(Refusal::Application), "{target} {other}");
        }
    }
}

#[test]
fn requests_without_the_token_learn_nothing() {
    for target in ["/api/v1/fleet", "/api/v1/nothing", "/", "/api/v1/fleet?x"] {
        for headers in [
            &[][..],
            &[("argocd-application-name", FLEET)][..],
            &[
                ("argocd-agent-token", ""),
                ("argocd-application-name", FLEET),
            ][..],
            &[("argocd-agent-token", "$argocd-agent-addon-ui:token")][..],
            &[("argocd-agent-token", "0123456789abcdef0123456789abcdeF")][..],
            &[("argocd-agent-token", "0123456789abcdef0123456789abcdef0")][..],
        ] {
            let found = judged("GET", target, headers);
            assert_eq!(found, Err(Refusal::Token), "{target} {headers:?}");
        }
    }
}

#[test]
fn header_that_decides_must_occur_once() {
    let target = "/api/v1/applications/a/b/path";
    let (token, named) = (
        ("argocd-agent-token", SECRET),
        ("argocd-application-name", "a:b"),
    );
    for doubled in [
        [token, token, named],
        [token, ("Argocd-Agent-Token", "other"), named],
        [token, named, named],
        [token, named, ("Argocd-Application-Name", "c:d")],
    ] {
        let found = judged("GET", target, &doubled);
        assert_eq!(found, Err(Refusal::Duplicate), "{doubled:?}");
    }
}

#[test]
fn a_missing_application_header_authorises_nothing() {
    let found = judged("GET", "/api/v1/fleet", &[("argocd-agent-token", SECRET)]);
    assert_eq!(found, Err(Refusal::Application));
}

#[test]
fn only_get_is_answered() {
    let headers = [
        ("argocd-agent-token", SECRET),
        ("argocd-application-name", FLEET),
    ];
    for method in ["HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "get"] {
        let found = judged(method, "/api/v1/fleet", &headers);
        assert_eq!(found, Err(Refusal::Method), "{method}");
    }
}

#[test]
fn paths_have_one_spelling() {
    for other in [
        "/",
        "/api/v1",
        "/api/v1/",
        "/api/v1/fleet/",
        "//api/v1/fleet",
        "/api/v2/fleet",
        "/api/v1/Fleet",
        "/api/v1/fleet/../fleet",
        "/api/v1/clusters",
        "/api/v1/clusters/",
        "/api/v1/clusters/a/b",
        "/api/v1/clusters/a%2Fb",
        "/api/v1/clusters/..",
        "/api/v1/clusters/A",
        "/api/v1/%66leet",
        "/api/v1/applications/a/b",
        "/api/v1/applications/a/b/",
        "/api/v1/applications/a/b/path/",
        "/api/v1/applications/a/b/other",
        "/api/v1/applications/a%2Fb/c/path",
        "/api/v1/applications/a/b%2F..%2Fc/path",
        "/api/v1/applications/a/../path",
        "/api/v1/applications//b/path",
        "/api/v1/applications/a/<script>/path",
    ] {
        let Ok(target) = other.parse::<Uri>() else {
            continue;
        };
        assert_eq!(route(target.path()), None, "{other}");
    }
    let found = authorised("/api/v1/fleet?since=1", FLEET);
    assert_eq!(found, Err(Refusal::Parameters));
}

#[test]
fn without_a_token_of_its_own_the_program_answers_no_request() {
    let (method, uri) = (Method::GET, "/api/v1/fleet".parse().unwrap());
    let found = check((&method, &uri, &HeaderMap::new()), None, "argocd");
    assert_eq!(found, Err(Refusal::NoToken));
    assert_eq!(Refusal::NoToken.answer().0, StatusCode::SERVICE_UNAVAILABLE);
}
