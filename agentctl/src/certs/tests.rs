use base64::{Engine as _, engine::general_purpose::STANDARD};
use diagnosis::testing::{self, at, now};
use serde_json::json;

use super::*;
use crate::{
    output::{Format, render},
    testing::{is_documented, place},
};

/// A Secret with a certificate that ends then.
fn secret(ends: &str, annotations: &Value, next: bool) -> Value {
    let mut parameters = rcgen::CertificateParams::new(Vec::new()).unwrap();
    let ends = at(ends).as_second();
    parameters.not_after = time::OffsetDateTime::from_unix_timestamp(ends).unwrap();
    let key = rcgen::KeyPair::generate().unwrap();
    let pem = parameters.self_signed(&key).unwrap().pem();
    let mut secret = json!({
        "metadata": {"annotations": annotations},
        "data": {"tls.crt": STANDARD.encode(pem), "tls.key": "bm90IHJlYWQ="},
    });
    if next {
        secret["data"][NEXT_CA] = json!("eA==");
    }
    secret
}

fn of_hub() -> Vec<(&'static str, Result<Option<Value>, String>)> {
    let none = json!({});
    vec![
        (
            CA_SECRET,
            Ok(Some(secret("2036-11-19T12:00:00Z", &none, false))),
        ),
        (
            PRINCIPAL_SECRET,
            Ok(Some(secret("2027-02-17T12:00:00Z", &none, false))),
        ),
        (
            RESOURCE_PROXY_SECRET,
            Ok(Some(secret("2027-02-17T12:00:00Z", &none, false))),
        ),
    ]
}

#[test]
fn certs_list_shows_every_certificate_without_keys() {
    let all = certificates(&of_hub(), &testing::fleet(), now());
    let text = render(&all, place(Format::Table, now())).unwrap();
    insta::assert_snapshot!(text);
    is_documented(&text);
    let json = render(&all, place(Format::Json, now())).unwrap();
    assert!(!json.contains("bm90IHJlYWQ") && !json.contains("not read"));
    insta::assert_snapshot!(json);
}

#[test]
fn certs_list_shows_the_rotation_stage() {
    let since = json!({ROTATING_SINCE: "2026-11-22T11:59:00Z"});
    for (annotations, next, expected) in [
        (&json!({}), false, "settled"),
        (&since, true, "introduced since 2026-11-22T11:59:00Z"),
        (&since, false, "retiring since 2026-11-22T11:59:00Z"),
    ] {
        let stage = stage(&secret("2036-11-19T12:00:00Z", annotations, next));
        assert!(stage.starts_with(expected), "{stage}");
    }
}

#[test]
fn certs_list_distinguishes_missing_expired_and_unreadable() {
    let expired = secret("2026-11-20T12:00:00Z", &json!({}), false);
    let secrets = [
        (CA_SECRET, Err("you may not".to_owned())),
        (PRINCIPAL_SECRET, Ok(None)),
        (RESOURCE_PROXY_SECRET, Ok(Some(expired))),
        (CA_SECRET, Ok(Some(json!({"data": {"tls.crt": "eA=="}})))),
    ];
    let all = certificates(&secrets, &[], now()).certificates;
    let found: Vec<_> = all
        .iter()
        .map(|it| (it.degraded, it.expires.is_some()))
        .collect();
    assert_eq!(
        found,
        [(false, false), (true, false), (true, true), (true, false)]
    );
    assert!(all[0].state.contains("you may not"));
}
