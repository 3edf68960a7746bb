use diagnosis::testing::application;
use serde_json::json;

use super::*;

#[test]
fn credentials_are_hidden_in_every_field() {
    let object = json!({
        "metadata": {
            "name": "x",
            "managedFields": [{"manager": "m"}],
            "annotations": {keys::LAST_APPLIED: "hunter2", "kept": "yes"},
        },
        "spec": {
            "env": [
                {"name": "REDIS_PASSWORD", "value": "hunter2"},
                {"name": "LOG_LEVEL", "value": "info"},
                {"name": "API_KEY", "valueFrom": {"secretKeyRef": {"name": "kept-name", "key": "k"}}},
            ],
            "proxyConfig": {"httpsProxy": "https://user:hunter2@proxy:3128/x?a=b"},
            "bearerToken": "hunter2",
            "secretName": "kept-name",
            "note": "see http://a:hunter2@b and https://c/@d",
            "pem": "-----BEGIN EC PRIVATE KEY-----\nhunter2\n-----END EC PRIVATE KEY-----",
        },
    });
    let redacted = redacted(&object).unwrap();
    let text = redacted.to_string();
    assert!(
        !text.contains("hunter2") && !text.contains("managedFields"),
        "{text}"
    );
    let proxy = &redacted["spec"]["proxyConfig"]["httpsProxy"];
    assert_eq!(proxy, "https://***@proxy:3128/x?a=b");
    assert_eq!(
        redacted["spec"]["note"],
        "see http://***@b and https://***@d"
    );
    assert_eq!(redacted["spec"]["secretName"], "kept-name");
    assert_eq!(redacted["spec"]["env"][1]["value"], "info");
    assert_eq!(redacted["metadata"]["annotations"], json!({"kept": "yes"}));
}

/// The forms in which one comes along, each with a place for it.
#[test]
fn password_is_hidden_in_every_form() {
    for form in [
        "user:{}@proxy:3128",
        "http://user:{}@proxy",
        "http://user:{}/x@proxy",
        "http://a,http://user:{}@b",
        "http://user:{},x@a,http://b",
        "no_proxy=a HTTPS_PROXY=user:{}@b",
        "--redis-password={}",
        "--redis-password={} and more",
        "PGPASSWORD={}",
    ] {
        let input = form.replace("{}", "hunter2");
        let object = json!({"args": [input, "--log-level=info"], "spec": {"httpsProxy": input}});
        let redacted = redacted(&object).unwrap().to_string();
        assert!(!redacted.contains("hunter2"), "{form}: {redacted}");
        assert!(redacted.contains("--log-level=info"), "{redacted}");
    }
    let object = json!({
        "tokens": ["hunter2"],
        "passwords": {"first": "hunter2", "then": [{"more": "hunter2"}]},
        "pin-token": 4711,
        "args": ["--token", "hunter2", "--file", "seen"],
        "tokenFrom": {"name": "kept-name", "key": "kept-key"},
    });
    let redacted = redacted(&object).unwrap().to_string();
    assert!(
        !redacted.contains("hunter2") && !redacted.contains("4711"),
        "{redacted}"
    );
    for kept in ["kept-name", "kept-key", "seen"] {
        assert!(redacted.contains(kept), "{kept}: {redacted}");
    }
}

#[test]
fn values_that_only_resemble_credentials_stay() {
    for kept in [
        "registry.example.com/argocd-agent@sha256:0123",
        "https://agents.example.com:443/path",
        "a=b",
    ] {
        assert_eq!(redacted(&json!({"x": kept})).unwrap()["x"], kept);
    }
}

#[test]
fn bundle_contains_no_secret() {
    assert_eq!(redacted(&json!({"kind": "Secret", "data": {}})), None);
}

#[test]
fn of_an_application_there_is_nothing_that_it_deploys() {
    let mut app = application("paris", "shop", &json!({"name": "in-cluster"}));
    app["spec"]["source"]["helm"] = json!({"values": "password: hunter2"});
    let brief = brief(&app);
    assert_eq!(brief["health"], "Healthy");
    assert!(
        !brief.to_string().contains("hunter2") && !brief.to_string().contains("git.example.com")
    );
}
