use std::ffi::OsString;

use super::*;
use crate::args;

fn config(line: &str) -> anyhow::Result<Config> {
    let arguments = line.split_whitespace().map(OsString::from);
    Ok(Config::from_args(args::parse(arguments)?.cli)?)
}

#[test]
fn files_take_the_place_of_secrets() {
    let line = "addon-manager principal --tls-cert=c --tls-key=k --jwt-key=j";
    let Config::Principal(alone) = config(line).unwrap() else {
        panic!("the principal")
    };
    assert_eq!(
        alone.agents.serving,
        Source::Files(("c".into(), "k".into()))
    );
    assert_eq!(
        alone.agents.ca,
        Source::Secret("argocd-agent-ca".to_owned())
    );
    assert_eq!(alone.token_key, Source::Files("j".into()));
}

#[test]
fn one_shot_commands_log_one_sentence_at_start() {
    for (line, stated) in [
        (
            "addon-manager uninstall",
            Some("removes the add-on from all clusters; timeout 240s"),
        ),
        (
            "addon-manager ready --address=hub:8080 --timeout=90s",
            Some("waits until the hub program at hub:8080 is ready; timeout 90s"),
        ),
        ("addon-manager", None),
        ("addon-manager principal", None),
    ] {
        let message = config(line).unwrap().start_message();
        assert_eq!(message.as_deref(), stated, "{line}");
    }
}

#[test]
fn plaintext_is_for_a_mesh_only() {
    let header = "--auth=header:x-client:^(.+)$";
    for wrong in [
        "--insecure-plaintext",
        header,
        "--insecure-plaintext --auth=mtls:ocm",
    ] {
        let refused = config(&format!("addon-manager principal {wrong}"));
        let refused = refused.unwrap_err().downcast::<Error>().unwrap();
        assert!(matches!(refused, Error::Plaintext), "{wrong}");
    }
    let line = format!("addon-manager principal --insecure-plaintext {header}");
    let Config::Principal(alone) = config(&line).unwrap() else {
        panic!("the principal")
    };
    assert!(alone.shared.principal.plaintext);
}

#[test]
fn websockets_are_on_and_weaker_authentication_is_off() {
    let Config::Principal(alone) = config("addon-manager principal").unwrap() else {
        panic!("the principal")
    };
    let settings = &alone.shared.principal;
    assert!(settings.websockets && !settings.plaintext && settings.trusted_proxies.is_empty());
    assert_eq!(alone.registration, None);
}

#[test]
fn the_name_of_an_agent_is_no_proxy() {
    let line = "addon-manager --trusted-proxy=edge,system:open-cluster-management:cluster:a";
    let refused = config(line).unwrap_err().to_string();
    for part in ["--trusted-proxy", "cannot be a common name"] {
        assert!(refused.contains(part), "{refused}");
    }
    let Config::Manager(manager) = config("addon-manager --trusted-proxy=edge,other").unwrap()
    else {
        panic!("the manager")
    };
    assert_eq!(manager.shared.principal.trusted_proxies, ["edge", "other"]);
}

#[test]
fn the_redis_proxy_is_off_unless_it_has_a_port() {
    let of = |line: &str| match config(line).unwrap() {
        Config::Manager(manager) => manager.shared.principal.redis_proxy,
        Config::Principal(_) | Config::Uninstall(_) | Config::Ready(_) => None,
    };
    assert_eq!(of("addon-manager"), None);
    let proxy = of("addon-manager --redis-proxy-port=6379 --namespace=cd").unwrap();
    assert_eq!((proxy.listen.port(), proxy.tls), (6379, false));
}

#[test]
fn the_hubs_redis_is_found_unless_it_is_configured() {
    let of = |flags: &str| match config(&format!("addon-manager {flags}"))? {
        Config::Manager(manager) => anyhow::Ok(manager.redis),
        Config::Principal(_) | Config::Uninstall(_) | Config::Ready(_) => panic!("the manager"),
    };
    let found = redis_discovery::Settings {
        address: None,
        user: None,
        login: LoginSource::ArgoCd,
        tls: None,
    };
    let nothing =
        "--redis-address= --redis-secret= --redis-secret-key= --redis-username= --redis-tls=";
    for flags in ["", nothing, "--redis-tls=none"] {
        assert_eq!(of(flags).unwrap(), found, "{flags}");
    }
    let elsewhere = of("--redis-address=redis:7000").unwrap();
    assert_eq!(elsewhere.address.as_deref(), Some("redis:7000"));
    assert_eq!(elsewhere.login, LoginSource::of_manifests());
    let all =
        "--redis-secret=s --redis-secret-key=k --redis-username=argo --redis-tls=ConfigMap/ca";
    let (name, key) = ("s".to_owned(), "k".to_owned());
    let expected = redis_discovery::Settings {
        address: None,
        user: Some("argo".to_owned()),
        login: LoginSource::Secret { name, key },
        tls: Some(Ca::ConfigMap("ca".to_owned())),
    };
    assert_eq!(of(all).unwrap(), expected);
    let refused = of("--redis-secret-key=k").unwrap_err();
    assert!(refused.to_string().contains("--redis-secret"), "{refused}");
}

#[test]
fn the_api_of_the_ui_is_off_unless_it_has_a_port() {
    for (line, expected) in [
        ("addon-manager", None),
        ("addon-manager --ui-api-port=0", None),
        (
            "addon-manager --ui-api-port=8081 --listen-host=127.0.0.1",
            Some("127.0.0.1:8081"),
        ),
    ] {
        let Config::Manager(manager) = config(line).unwrap() else {
            panic!("the manager")
        };
        let found = manager.ui_api.map(|address| address.to_string());
        assert_eq!(found.as_deref(), expected, "{line}");
    }
    assert!(config("addon-manager principal --ui-api-port=8081").is_err());
}

#[test]
fn the_principal_alone_has_the_redis_proxy_flags_of_upstream() {
    let of = |line: &str| match config(&format!("addon-manager principal {line}")).unwrap() {
        Config::Principal(alone) => alone.shared.principal.redis_proxy.zip(alone.redis),
        Config::Manager(_) | Config::Uninstall(_) | Config::Ready(_) => panic!("alone"),
    };
    let (proxy, redis) = of("").unwrap();
    assert_eq!((proxy.listen.port(), proxy.tls), (6379, false));
    let server = redis.server;
    assert_eq!(server.address.as_deref(), Some("argocd-redis:6379"));
    assert_eq!(server.login, LoginSource::of_manifests());
    assert_eq!((server.tls, redis.serving), (None, None));
    for off in ["--disable-redis-proxy", "--redis-proxy-port=0"] {
        assert!(of(off).is_none(), "{off}");
    }
    let (proxy, redis) = of("--redis-tls-enabled --redis-ca-path=ca").unwrap();
    assert!(proxy.tls);
    assert_eq!(redis.server.tls, Some(Ca::File("ca".into())));
    let name = "argocd-redis-proxy-tls".to_owned();
    assert_eq!(redis.serving, Some(Source::Secret(name)));
}

#[test]
fn a_password_of_redis_is_in_a_folder_or_given_or_where_argo_cd_has_it() {
    for (flags, wanted) in [
        ("--redis-password=x", "Given"),
        ("--redis-password=", "Secret"),
        ("--redis-password=x --redis-creds-dir-path=d", "Folder"),
    ] {
        let Config::Principal(alone) = config(&format!("addon-manager principal {flags}")).unwrap()
        else {
            panic!("alone")
        };
        let found = format!("{:?}", alone.redis.unwrap().server.login);
        assert!(found.starts_with(wanted), "{flags}: {found}");
    }
}

#[test]
fn half_a_pair_is_refused() {
    for (half, is_missing) in [
        (
            "--redis-proxy-server-tls-cert",
            "--redis-proxy-server-tls-key",
        ),
        ("--tls-cert", "--tls-key"),
        ("--resource-proxy-key-path", "--resource-proxy-cert-path"),
    ] {
        let refused = config(&format!("addon-manager principal {half}=x")).unwrap_err();
        assert!(refused.to_string().contains(is_missing), "{refused}");
    }
}

#[test]
fn the_principal_alone_has_the_resource_proxy_flags_of_upstream() {
    let of = |line: &str| match config(line).unwrap() {
        Config::Principal(alone) => (alone.shared.principal.resource_proxy, alone.visitors),
        Config::Manager(_) | Config::Uninstall(_) | Config::Ready(_) => panic!("alone"),
    };
    let (address, visitors) = of("addon-manager principal");
    assert_eq!(address.unwrap().port(), 9090);
    let visitors = visitors.unwrap();
    let secret = |name: &str| Source::Secret(name.to_owned());
    assert_eq!(visitors.serving, secret("argocd-agent-resource-proxy-tls"));
    assert_eq!(visitors.ca, Source::Secret("argocd-agent-ca".to_owned()));
    for off in ["--enable-resource-proxy=false", "--resource-proxy-port=0"] {
        assert_eq!(of(&format!("addon-manager principal {off}")), (None, None));
    }
}

#[test]
fn invalid_values_are_refused_at_start_with_the_flag() {
    for (flag, value) in [
        ("--namespace", "Argo_CD"),
        ("--own-namespace", ""),
        ("--certificate-life", "1s"),
        ("--grpc-max-message-size", "0"),
        ("--status-writes-per-second", "1"),
        ("--resource-proxy-address", "https://x/y"),
        ("--redis-address", "redis://x"),
        ("--redis-secret", "../s"),
        ("--redis-username", "a\tb"),
        ("--redis-tls", "Secret"),
    ] {
        let refused = config(&format!("addon-manager {flag}={value}")).unwrap_err();
        assert!(refused.to_string().contains(flag), "{refused}");
    }
}

#[test]
fn an_address_that_cannot_be_dialled_is_refused_at_start() {
    assert!(config("addon-manager --principal-address=https://x").is_err());
    let Config::Manager(manager) = config("addon-manager --principal-address=x").unwrap() else {
        panic!("the manager")
    };
    assert_eq!(
        manager.args.principal_address.0.unwrap().to_string(),
        "x:443"
    );
}
