use super::*;
use serde_json::json;

fn set(hosts: &[&str]) -> BTreeSet<String> {
    hosts.iter().map(|host| (*host).to_owned()).collect()
}

#[test]
fn the_host_is_found_in_every_kind_of_url() {
    for (url, found) in [
        ("https://Git.example/team/app.git", Some("git.example")),
        (
            "https://user:secret@git.example:8443/x",
            Some("git.example"),
        ),
        ("ssh://git@git.example:2222/x", Some("git.example")),
        ("git@git.example:team/app", Some("git.example")),
        ("git://git.lab/x.git", Some("git.lab")),
        ("https://[fd00::1]:443/x", Some("fd00::1")),
        ("oci://registry.example/charts", Some("registry.example")),
        ("registry.example:5000/charts", Some("registry.example")),
        ("file:///srv/git", None),
        ("charts", None),
        ("", None),
    ] {
        assert_eq!(host(url).as_deref(), found, "{url}");
    }
}

#[test]
fn an_application_needs_the_hosts_of_all_its_repositories() {
    let app = json!({ "spec": { "sources": [
        { "repoURL": "https://a.example/x" }, { "repoURL": "git@b.example:y" }, { "repoURL": "https://a.example/z" },
    ] } });
    assert_eq!(
        hosts(Application::of(&app)),
        set(&["a.example", "b.example"])
    );
}

#[test]
fn a_known_host_is_of_the_hosts_that_it_names() {
    let is_of = |line: &str, host: &str| KnownHost::read(line).unwrap().is_of(&set(&[host]));
    assert!(is_of("git.example ssh-ed25519 AAAA", "git.example"));
    assert!(is_of(
        "a.example,Git.example ssh-rsa AAAA comment",
        "git.example"
    ));
    assert!(is_of("[git.example]:2222 ssh-rsa AAAA", "git.example"));
    assert!(is_of("*.example ssh-rsa AAAA", "git.example"));
    assert!(is_of("@revoked git.example ssh-rsa AAAA", "git.example"));
    assert!(!is_of("git.example ssh-rsa AAAA", "xgit.example"));
    assert!(!is_of("|1|c2FsdA==|aGFzaA== ssh-rsa AAAA", "git.example"));
    assert!(!is_of("{a,git.example} ssh-rsa AAAA", "git.example"));
}

#[test]
fn invalid_known_hosts_lines_are_skipped() {
    for line in [
        "",
        "  ",
        "# comment",
        "host",
        "host ssh-rsa",
        "@revoked host ssh-rsa",
    ] {
        assert_eq!(KnownHost::read(line), None, "{line}");
    }
}
