use serde_json::json;

use super::*;
use crate::testing::application;

#[test]
fn what_looks_like_a_credential_is_not_told_wherever_it_stands() {
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
    let told = redacted(&object).unwrap();
    let text = told.to_string();
    assert!(
        !text.contains("hunter2") && !text.contains("managedFields"),
        "{text}"
    );
    let proxy = &told["spec"]["proxyConfig"]["httpsProxy"];
    assert_eq!(proxy, "https://***@proxy:3128/x?a=b");
    assert_eq!(told["spec"]["note"], "see http://***@b and https://***@d");
    assert_eq!(told["spec"]["secretName"], "kept-name");
    assert_eq!(told["spec"]["env"][1]["value"], "info");
    assert_eq!(told["metadata"]["annotations"], json!({"kept": "yes"}));
}

/// The forms in which one comes along, each with a place for it.
#[test]
fn a_password_is_hidden_in_whatever_form_it_comes_along() {
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
        let said = form.replace("{}", "hunter2");
        let object = json!({"args": [said, "--log-level=info"], "spec": {"httpsProxy": said}});
        let told = redacted(&object).unwrap().to_string();
        assert!(!told.contains("hunter2"), "{form}: {told}");
        assert!(told.contains("--log-level=info"), "{told}");
    }
    let object = json!({
        "tokens": ["hunter2"],
        "passwords": {"first": "hunter2", "then": [{"more": "hunter2"}]},
        "pin-token": 4711,
        "args": ["--token", "hunter2", "--file", "seen"],
        "tokenFrom": {"name": "kept-name", "key": "kept-key"},
    });
    let told = redacted(&object).unwrap().to_string();
    assert!(
        !told.contains("hunter2") && !told.contains("4711"),
        "{told}"
    );
    for kept in ["kept-name", "kept-key", "seen"] {
        assert!(told.contains(kept), "{kept}: {told}");
    }
}

#[test]
fn what_only_looks_alike_stays() {
    for kept in [
        "registry.example.com/argocd-agent@sha256:0123",
        "https://agents.example.com:443/path",
        "a=b",
    ] {
        assert_eq!(redacted(&json!({"x": kept})).unwrap()["x"], kept);
    }
}

#[test]
fn a_secret_is_no_part_of_it_whatever_it_holds() {
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
