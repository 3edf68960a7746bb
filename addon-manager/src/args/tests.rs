use super::*;

fn parsed(line: &str) -> Result<Parsed, clap::Error> {
    parse(line.split_whitespace().map(OsString::from))
}

#[test]
fn clap_accepts_the_definitions() {
    command().debug_assert();
}

#[test]
fn without_a_subcommand_the_whole_program_runs_with_gos_ports() {
    let Parsed { cli, .. } = parsed("addon-manager --own-namespace=x").unwrap();
    assert!(cli.command.is_none());
    let shared = cli.shared;
    let listen = shared.listen(shared.listen_port);
    assert_eq!(listen.to_string(), "[::]:8443");
    assert_eq!(shared.admin.health().to_string(), "[::]:8003");
    assert_eq!(
        (shared.admin.healthz_port, shared.admin.metrics_port),
        (8003, 8000)
    );
    assert_eq!(cli.manager.certificate_life, Duration::from_hours(720));
}

#[test]
fn an_address_to_listen_on_is_kept_as_given() {
    for address in ["0.0.0.0", "127.0.0.1", "::", "::1", "2001:db8::1"] {
        let line =
            format!("addon-manager --listen-host={address} --admin-listen-address={address}");
        let shared = parsed(&line).unwrap().cli.shared;
        let wanted: IpAddr = address.parse().unwrap();
        assert_eq!(shared.listen(1).ip(), wanted);
        assert_eq!(shared.admin.health().ip(), wanted);
    }
}

#[test]
fn clusters_of_awsirsa_are_accepted_on_request_only() {
    for (line, accepted) in [
        ("addon-manager", false),
        ("addon-manager --accept-awsirsa", true),
        ("addon-manager --accept-awsirsa=true", true),
        ("addon-manager --accept-awsirsa=false", false),
    ] {
        let Parsed { cli, .. } = parsed(line).unwrap();
        assert_eq!(cli.manager.accept_awsirsa, accepted, "{line}");
    }
    assert!(parsed("addon-manager --accept-awsirsa=maybe").is_err());
}

#[test]
fn backup_label_is_the_value_of_a_label() {
    let long = "a".repeat(64);
    for (value, expected) in [
        ("", Some(None)),
        ("cluster", Some(Some("cluster"))),
        ("cluster-activation", Some(Some("cluster-activation"))),
        ("a.b_c", Some(Some("a.b_c"))),
        ("-a", None),
        ("a.", None),
        ("a/b", None),
        ("é", None),
        (long.as_str(), None),
    ] {
        let found = parsed(&format!("addon-manager --backup-label={value}")).ok();
        let found = found.map(|it| it.cli.manager.backup_label.0);
        let expected = expected.map(|it| it.map(str::to_owned));
        assert_eq!(found, expected, "{value:?}");
    }
}

#[test]
fn rotate_ca_needs_few_flags() {
    let parsed = parsed("addon-manager rotate-ca --own-namespace x").unwrap();
    assert!(matches!(
        parsed.cli.command,
        Some(Only::RotateCa(args)) if args.own_namespace == "x"
    ));
}

#[test]
fn flags_of_the_go_principal_are_accepted() {
    let line = "addon-manager principal -n argocd --listen-host=127.0.0.1 --auth=mtls:CN=([^,]+) \
                --allowed-namespaces=a,b --healthz-port=0x1F43 --redis-compression-type none --redis-tls-insecure=false --destination-based-mapping";
    let Parsed {
        cli,
        without_effect,
    } = parsed(line).unwrap();
    let Some(Only::Principal(principal)) = cli.command else {
        panic!("a subcommand")
    };
    let shared = principal.shared;
    assert_eq!(shared.allowed_namespaces, ["a", "b"]);
    let listen = shared.listen(shared.listen_port);
    assert_eq!(listen.to_string(), "127.0.0.1:8443");
    assert_eq!(
        without_effect,
        ["destination-based-mapping", "redis-compression-type"]
    );
}

#[test]
fn a_flag_that_would_be_dangerous_to_ignore_is_refused() {
    for (flag, instead) in [
        ("--client-cert-subject-match=true", "--auth=mtls"),
        ("--ha-enabled", "Helm chart"),
        ("--redis-tls-insecure", "--redis-ca-path"),
        ("--label-selector=a=b", "--allowed-namespaces"),
        (
            "--spire-agent-socket=unix:///run/spire/agent.sock",
            "spiffe-helper",
        ),
        ("--spire-auth-method=jwt", "spiffe-helper"),
    ] {
        let refused = parsed(&format!("addon-manager principal {flag}")).unwrap_err();
        let refused = refused.to_string();
        assert!(
            refused.contains("not supported yet") && refused.contains(instead),
            "{refused}"
        );
    }
}

#[test]
fn queue_sizes_of_the_go_principal_are_accepted_and_logged() {
    let line = "addon-manager principal --send-queue-size=2000 --recv-queue-size 0x10";
    let Parsed { without_effect, .. } = parsed(line).unwrap();
    assert_eq!(without_effect, ["recv-queue-size", "send-queue-size"]);
    let principal = command();
    let principal = principal.find_subcommand("principal").unwrap();
    let variables = principal.get_arguments().filter_map(clap::Arg::get_env);
    let variables: Vec<_> = variables.collect();
    for flag in without_effect {
        let name = format!("ARGOCD_AGENT_{}", flag.replace('-', "_").to_uppercase());
        assert!(variables.contains(&std::ffi::OsStr::new(&name)), "{name}");
    }
}

#[test]
fn a_flag_that_is_switched_off_is_accepted() {
    let Parsed { without_effect, .. } =
        parsed("addon-manager principal --ha-enabled=false").unwrap();
    assert!(without_effect.is_empty());
}
