use serde_json::{Value, json};

use super::*;

fn connection() -> Connection {
    Connection {
        is_up: false,
        message: "not connected".to_owned(),
        at: "2026-11-22T10:00:00Z".to_owned(),
    }
}

#[test]
fn key_has_the_server_and_the_form_of_its_value() {
    let server = "https://argocd-agent-resource-proxy.ns.svc:9090?agentName=spoke1";
    let plain = format!("cluster|info|{server}|1.8.3");
    let compressed = format!("{plain}.gz");
    assert_eq!(server_of(plain.as_bytes()), Some((server, Form::Plain)));
    assert_eq!(
        server_of(compressed.as_bytes()),
        Some((server, Form::Compressed))
    );
    for other in [
        "cluster|info||1.8.3",
        "cluster|info|https://a",
        "cluster|info|https://a|1.8.3.zst",
        "cluster|info|https://a|2",
        "app|resources-tree|a|1.8.3",
        "cluster|inform|https://a|1.8.3",
    ] {
        assert_eq!(server_of(other.as_bytes()), None, "{other}");
    }
    assert_eq!(server_of(b"cluster|info|\xff|1.8.3"), None);
}

#[test]
fn the_keys_of_this_cluster_are_such_keys() {
    for (key, form) in of_this_cluster() {
        assert_eq!(
            server_of(key.as_bytes()),
            Some(("https://kubernetes.default.svc", form))
        );
    }
}

/// As the application controller of Argo CD 3.2 writes it, with a newline at the end.
#[test]
fn counts_of_the_controller_are_parsed() {
    let value = r#"{"connectionState":{"status":"Successful","message":"","attemptedAt":"2026-11-22T09:59:51Z"},
        "serverVersion":"1.36","cacheInfo":{"resourcesCount":241,"apisCount":58,"lastCacheSyncTime":"2026-11-22T09:50:00Z"},
        "applicationsCount":3,"apiVersions":["v1","apps/v1"]}
"#;
    let census = Census {
        applications: 3,
        apis: 58,
        resources: 241,
        server_version: Some("1.36".to_owned()),
    };
    assert_eq!(read(value.as_bytes(), Form::Plain).unwrap(), census);
    // A cluster that the controller has not counted yet.
    let empty = r#"{"connectionState":{"status":"Unknown","message":"","attemptedAt":null},"cacheInfo":{},"applicationsCount":0}"#;
    assert_eq!(
        read(empty.as_bytes(), Form::Plain).unwrap(),
        Census::default()
    );
}

#[test]
fn value_round_trips_in_both_forms() {
    let census = Census {
        applications: 1,
        apis: 2,
        resources: 3,
        server_version: Some("v1.36.1+k3s1".to_owned()),
    };
    for form in [Form::Plain, Form::Compressed] {
        let value = write(&connection(), &census, form);
        assert_eq!(read(&value, form).unwrap(), census);
    }
    let value: Value = serde_json::from_slice(&write(&connection(), &census, Form::Plain)).unwrap();
    assert_eq!(
        value,
        json!({
            "connectionState": {
                "status": "Failed",
                "message": "not connected",
                "attemptedAt": "2026-11-22T10:00:00Z",
            },
            "serverVersion": "v1.36.1+k3s1",
            "cacheInfo": {"resourcesCount": 3, "apisCount": 2},
            "applicationsCount": 1,
        })
    );
}

#[test]
fn invalid_or_oversized_values_are_rejected() {
    assert!(read(b"", Form::Plain).is_err());
    assert!(read(b"{}", Form::Compressed).is_err());
    assert!(read(br#"{"applicationsCount":-1}"#, Form::Plain).is_err());
    let mut bomb = GzEncoder::new(Vec::new(), Compression::best());
    bomb.write_all(&vec![b' '; 64 << 20]).unwrap();
    let bomb = bomb.finish().unwrap();
    assert!(bomb.len() < 128 << 10);
    assert!(read(&bomb, Form::Compressed).is_err());
}
