use super::*;
use crate::args::tests::parsed;

fn config(args: &[&str]) -> Result<Config, Error> {
    let usual = ["--server-address=hub", "--agent-mode=managed"];
    Config::try_from(&parsed(&[usual.as_slice(), args].concat()))
}

#[test]
fn an_address_is_a_name_or_a_number() {
    let host = |address: &str| {
        let address = format!("--server-address={address}");
        let args = parsed(&[&address, "--agent-mode=managed"]);
        Config::try_from(&args).map(|config| config.hub.host)
    };
    for good in ["hub", "principal.argocd.svc", "10.0.0.1", "2001:db8::1"] {
        assert_eq!(host(good).as_deref(), Ok(good));
    }
    assert_eq!(host("[2001:db8::1]").as_deref(), Ok("2001:db8::1"));
    for bad in ["a hub", "https://hub", "hub:443", "hub/path", "hub\n"] {
        assert_eq!(host(bad), Err(Error::Server(bad.to_owned())));
    }
}

#[test]
fn the_least_that_is_needed_is_an_address_and_a_mode() {
    let config = config(&[]).unwrap();
    assert_eq!(config.hub.method, Method::Mtls);
    assert_eq!(config.tls.tls_client_cert, None);
    assert_eq!(config.tls.tls_secret_name, "argocd-agent-client-tls");
    assert_eq!(config.policy.mismatch, Mismatch::Upsert);
    assert_eq!(config.redis.address, None);
    assert_eq!(config.recount, Duration::from_secs(10));
    assert_eq!(config.hub.keep_alive, None);
    assert!(config.hub.heartbeat.is_some());
}

#[test]
fn a_mode_is_managed_or_autonomous_and_the_latter_is_the_default_as_in_go() {
    let mode = |args: &[&str]| {
        let config = Config::try_from(&parsed(&[&["--server-address=hub"], args].concat()));
        config.map(|config| (config.scope.mode, config.scope.further_namespaces))
    };
    assert_eq!(
        mode(&["--allowed-namespaces=a"]),
        Ok((Mode::Autonomous, vec![])),
        "an autonomous agent has one namespace"
    );
    assert_eq!(mode(&["--agent-mode=managed"]), Ok((Mode::Managed, vec![])));
    assert_eq!(
        mode(&["--agent-mode=both"]),
        Err(Error::Mode("both".to_owned()))
    );
}

#[test]
fn settings_that_weaken_tls_are_rejected() {
    for flag in ["--insecure-tls", "--tls-max-version=tls1.2"] {
        assert!(
            matches!(config(&[flag]), Err(Error::Unsupported { .. })),
            "{flag}"
        );
    }
    assert!(config(&["--insecure-tls=false", "--enable-compression"]).is_ok());
}

#[test]
fn spire_settings_are_rejected_with_the_files_to_use() {
    for flag in [
        "--spire-agent-socket=unix:///run/spire/agent.sock",
        "--spire-auth-method=jwt",
    ] {
        let message = config(&[flag]).unwrap_err().to_string();
        let (name, _) = flag.split_once('=').unwrap();
        for part in [name, "spiffe-helper", "--tls-client-cert", "--root-ca-path"] {
            assert!(message.contains(part), "{message}");
        }
    }
    assert!(config(&["--spire-agent-socket="]).is_ok());
}

#[test]
fn queue_sizes_of_the_go_agent_are_accepted_with_any_value() {
    // Go ignores invalid sizes.
    for size in ["2000", "0", "many"] {
        let flags = [
            format!("--recv-queue-size={size}"),
            format!("--send-queue-size={size}"),
        ];
        assert!(config(&[&flags[0], &flags[1]]).is_ok(), "{size}");
    }
}

#[test]
fn plaintext_is_for_a_mesh_only() {
    for wrong in [
        &["--insecure-plaintext"][..],
        &["--insecure-plaintext", "--creds=mtls:any"],
        &["--creds=header:"],
    ] {
        assert_eq!(config(wrong).unwrap_err(), Error::Plaintext, "{wrong:?}");
    }
    let meshed = config(&["--insecure-plaintext", "--creds=header:"]).unwrap();
    assert_eq!(
        (meshed.hub.method, meshed.hub.plaintext),
        (Method::Header, true)
    );
}

#[test]
fn a_proxy_that_cannot_be_used_is_refused_without_its_password() {
    let error = config(&["--https-proxy=socks5://me:hunter2@proxy"]).unwrap_err();
    assert!(!error.to_string().contains("hunter2"), "{error}");
    let used = config(&["--https-proxy=http://me:hunter2@proxy:3128"]).unwrap();
    assert!(!format!("{used:?}").contains("hunter2"));
}

#[test]
fn a_certificate_needs_its_key() {
    assert_eq!(
        config(&["--tls-client-cert=a"]).unwrap_err(),
        Error::HalfCertificate
    );
}

#[test]
fn the_namespace_of_argo_cd_is_allowed_anyway() {
    let config = config(&["--allowed-namespaces=a, b,argocd"]).unwrap();
    assert_eq!(config.scope.further_namespaces, ["a", "b"]);
}

#[test]
fn reader_needs_a_user_and_a_level() {
    let user = "--ui-user=system:serviceaccount:a:b";
    let reader = |args: &[&str]| config(args).unwrap().ui.reader().map(str::to_owned);
    for level in ["applications", "read", "operate", "terminal"] {
        let level = format!("--ui-access={level}");
        let expected = Some("system:serviceaccount:a:b".to_owned());
        assert_eq!(reader(&[user, &level]), expected, "{level}");
    }
    assert_eq!(reader(&[user, "--ui-access=none"]), None);
    assert_eq!(reader(&[user, "--enable-resource-proxy=false"]), None);
    assert_eq!(reader(&["--ui-access=read"]), None);
}
