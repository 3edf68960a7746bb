use super::*;

fn secret(labels: &[(&str, &str)], claims: &[(&str, &str)], access: &Access) -> Value {
    let map = |pairs: &[(&str, &str)]| {
        pairs
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect()
    };
    build(Inputs {
        cluster: "spoke1",
        argocd_namespace: "argocd",
        server: &server_url("proxy:9090", "spoke1"),
        access,
        labels: &map(labels),
        claims: &map(claims),
    })
}

fn decoded(secret: &Value, field: &str) -> String {
    let encoded = secret["data"][field].as_str().unwrap();
    String::from_utf8(STANDARD.decode(encoded).unwrap()).unwrap()
}

#[test]
fn secret_has_the_fields_that_argo_cd_and_the_go_principal_read() {
    let access = Access {
        ca: Some("CA".to_owned()),
        ..Access::default()
    };
    let secret = secret(&[("env", "prod")], &[], &access);
    assert_eq!(secret["metadata"]["name"], "cluster-spoke1");
    assert_eq!(
        secret["metadata"]["labels"],
        json!({ "env": "prod", keys::SECRET_TYPE: "cluster", keys::AGENT_NAME: "spoke1" })
    );
    assert_eq!(
        secret["metadata"]["annotations"],
        json!({ "managed-by": "argocd-agent", keys::SKIP_RECONCILE: "true" })
    );
    assert_eq!(decoded(&secret, "name"), "spoke1");
    assert_eq!(
        decoded(&secret, "server"),
        "https://proxy:9090?agentName=spoke1"
    );
    let config: Value = serde_json::from_str(&decoded(&secret, "config")).unwrap();
    assert_eq!(
        config,
        json!({ "tlsClientConfig": { "insecure": false, "caData": "Q0E=" } })
    );
}

#[test]
fn a_spoke_cannot_label_itself_as_another() {
    let secret = secret(
        &[
            (keys::AGENT_NAME, "spoke2"),
            (keys::SECRET_TYPE, "repository"),
            ("argocd.argoproj.io/anything", "x"),
            ("argocd-agent.open-cluster-management.io/mode", "managed"),
        ],
        &[("region", "eu"), ("bad key", "x"), (&"x".repeat(64), "x")],
        &Access::default(),
    );
    assert_eq!(
        secret["metadata"]["labels"],
        json!({ keys::SECRET_TYPE: "cluster", keys::AGENT_NAME: "spoke1" })
    );
    let annotations = secret["metadata"]["annotations"].as_object().unwrap();
    assert_eq!(annotations.len(), 3);
    assert_eq!(annotations[&format!("{CLAIM_PREFIX}region")], "eu");
}

/// An Application on the hub may create the ManagedCluster, and Argo CD may track its parts by this label.
#[test]
fn secret_is_no_part_of_the_application_with_the_cluster() {
    let labels = [(keys::INSTANCE, "clusters"), ("env", "prod")];
    let secret = secret(&labels, &[], &Access::default());
    assert_eq!(
        secret["metadata"]["labels"],
        json!({ "env": "prod", keys::SECRET_TYPE: "cluster", keys::AGENT_NAME: "spoke1" })
    );
}

#[test]
fn credentials_are_never_printed() {
    let access = Access {
        bearer_token: Some("hunter2".to_owned()),
        ..Access::default()
    };
    assert!(!format!("{access:?}").contains("hunter2"));
}

#[test]
fn credentials_are_read_back_as_they_were_written() {
    let written = Access {
        bearer_token: Some("t".to_owned()),
        ca: Some("CA".to_owned()),
        certificate: Some("CERT".to_owned()),
        key: Some("KEY".to_owned()),
    };
    assert!(access(config(&written).to_string().as_bytes()) == written);
    for garbage in [
        "",
        "[]",
        "{\"tlsClientConfig\":{\"certData\":\"%\"}}",
        "\u{0}",
    ] {
        assert!(
            access(garbage.as_bytes()) == Access::default(),
            "{garbage:?}"
        );
    }
}

#[test]
fn secrets_of_our_predecessors_are_known_and_no_others() {
    let map = |entries: &[(&str, &str)]| -> BTreeMap<String, String> {
        let entries = entries.iter();
        entries
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect()
    };
    let base = [(keys::SECRET_TYPE, "cluster"), (keys::AGENT_NAME, "c")];
    let agentctl = map(&[(keys::MANAGED_BY, keys::MANAGED_BY_US)]);
    let none = BTreeMap::new();
    assert!(is_predecessors("c", &map(&base), &agentctl));
    for extra in [
        (keys::SELF_REGISTERED, "true"),
        (keys::OLDER_CLUSTER_NAME, "c"),
    ] {
        let labels = map(&[base[0], base[1], extra]);
        assert!(is_predecessors("c", &labels, &none), "{extra:?}");
        assert!(!is_predecessors("other", &labels, &none));
    }
    assert!(!is_predecessors("c", &map(&base), &none), "a user's own");
    assert!(!is_predecessors("c", &map(&base[..1]), &agentctl));
    let wrong = map(&[base[0], base[1], (keys::OLDER_CLUSTER_NAME, "d")]);
    assert!(!is_predecessors("c", &wrong, &none));
}

#[test]
fn new_credentials_keep_other_fields_of_the_config() {
    let token = |token: Option<&str>| Access {
        bearer_token: token.map(str::to_owned),
        ca: Some("ca".to_owned()),
        ..Access::default()
    };
    let renewed = |before: &[u8], access: &Access| -> Value {
        let encoded = with_access(before, access);
        serde_json::from_slice(&STANDARD.decode(encoded).unwrap()).unwrap()
    };
    let before = json!({"bearerToken": "old", "disableCompression": true,
        "tlsClientConfig": {"serverName": "x", "caData": "old"}});
    let before = before.to_string().into_bytes();
    let after = renewed(&before, &token(Some("new")));
    assert_eq!(access(after.to_string().as_bytes()), token(Some("new")));
    assert_eq!(after["disableCompression"], true);
    assert_eq!(after["tlsClientConfig"]["serverName"], "x");
    assert_eq!(renewed(&before, &token(None)).get("bearerToken"), None);
    for nonsense in [&b""[..], b"[]", b"nonsense"] {
        let after = renewed(nonsense, &token(Some("new")));
        assert_eq!(access(after.to_string().as_bytes()), token(Some("new")));
    }
}
