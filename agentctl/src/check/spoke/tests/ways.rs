//! What is found on the way to the principal, of clocks, and where things are.

use super::*;

fn shown(verdict: Verdict) -> Handshake {
    Handshake {
        verdict,
        names: vec!["other.example.com".to_owned()],
        expires: Some(at("2027-02-17T12:00:00Z")),
        http2: true,
    }
}

#[test]
fn each_step_of_the_way_has_its_finding() {
    let of = |handshake: Result<Handshake, String>| {
        let mut facts = facts();
        facts.way.met = Some(Ok(handshake));
        troubles(&facts)
    };
    let tls = |outcome| vec![("tls", outcome)];
    for verdict in [
        Verdict::WrongName,
        Verdict::UnknownAuthority,
        Verdict::WrongTime,
        Verdict::Bad("odd".to_owned()),
    ] {
        assert_eq!(
            of(Ok(shown(verdict.clone()))),
            tls(Outcome::Failed),
            "{verdict:?}"
        );
    }
    assert_eq!(of(Err("no TLS".to_owned())), tls(Outcome::Failed));
    let unknown = Verdict::NotJudged("you may not".to_owned());
    assert_eq!(of(Ok(shown(unknown))), tls(Outcome::Unclear));
    let mut old = shown(Verdict::Trusted);
    old.expires = Some(at("2026-11-22T20:00:00Z"));
    assert_eq!(of(Ok(old.clone())), tls(Outcome::Warning));
    old.http2 = false;
    assert_eq!(of(Ok(old)), tls(Outcome::Warning));

    let mut shut = facts();
    shut.way.met = Some(Err("refused".to_owned()));
    assert_eq!(troubles(&shut), [("port", Outcome::Failed)]);
    shut.way.proxy = Some("proxy.example.com:3128".to_owned());
    assert_eq!(troubles(&shut), [("port", Outcome::Unclear)]);
    (shut.way.met, shut.way.address) = (None, None);
    assert_eq!(troubles(&shut), [("address", Outcome::Unclear)]);
}

#[test]
fn certificate_with_many_names_lists_the_first_ones() {
    let mut facts = facts();
    let mut other = shown(Verdict::UnknownAuthority);
    other.names = ["a", "b", "c", "d", "e"].map(str::to_owned).to_vec();
    facts.way.met = Some(Ok(Ok(other)));
    let found = check(&facts).checks.into_iter();
    let found = found.filter(|it| it.check == "tls").map(|it| it.cause);
    let found: Vec<_> = found.collect();
    assert!(found[0].contains("(a, b, c and 2 more)"), "{found:?}");
}

#[test]
fn clock_skew_beyond_measurement_error_is_reported() {
    for (cluster, hub_is, expected) in [
        (0, 5, vec![]),
        (0, 7, vec![("clock", Outcome::Warning); 2]),
        (100, 0, vec![("clock", Outcome::Warning)]),
        (-290, 0, vec![("clock", Outcome::Warning)]),
        (-310, 0, vec![("clock", Outcome::Failed)]),
        // Both agree, and this machine does not.
        (400, 400, vec![("clock", Outcome::Warning)]),
    ] {
        let mut facts = facts();
        facts.api = Ok(about(cluster));
        hub(&mut facts).about = about(hub_is);
        assert_eq!(troubles(&facts), expected, "{cluster} {hub_is}");
    }
    let mut alone = facts();
    (alone.hub, alone.api) = (None, Ok(about(-400)));
    let clock = check(&alone).checks.pop().unwrap();
    assert_eq!(clock.result, Outcome::Failed);
    assert!(
        clock
            .cause
            .starts_with("the clock of the cluster is 6m behind that of this machine")
    );
}

#[test]
fn namespaces_resolve_from_flag_cluster_config_or_default() {
    let none = Configured::default();
    let usual = places(&Given::default(), &[], None, &none);
    assert_eq!(
        (usual.agent.as_str(), usual.argocd.as_str()),
        (AGENTS, "argocd")
    );
    let configured = Configured::read(&json!({"spec": {"customizedVariables": [
        {"name": "ARGOCD_NAMESPACE", "value": "gitops"}, {"name": "PRINCIPAL_ADDRESS", "value": "[2001:db8::1]:8443"},
    ]}}));
    let addon = json!({"spec": {"installNamespace": "spec"}, "status": {"namespace": "status"}});
    let found = places(&Given::default(), &[], Some(&addon), &configured);
    assert_eq!(
        (found.agent.as_str(), found.argocd.as_str()),
        ("status", "gitops")
    );
    let running = places(&Given::default(), &[agent()], Some(&addon), &configured);
    assert_eq!(
        (running.agent.as_str(), running.argocd.as_str()),
        (AGENTS, "argocd")
    );
    let given = Given {
        agent: Some("a".to_owned()),
        argocd: Some("b".to_owned()),
        address: Some("c.example.com".to_owned()),
    };
    let finding = places(&given, &[agent()], Some(&addon), &configured);
    assert_eq!(
        (finding.agent.as_str(), finding.argocd.as_str()),
        ("a", "b")
    );

    let of_hub = [("hub.example.com".to_owned(), 8443)];
    let dialled = |given: &Given, programs: &[Value], configured: &Configured| {
        address(given, programs, configured, &of_hub)
    };
    let unsaid = Given::default();
    let expected = |host: &str, port, source| Some((host.to_owned(), port, source));
    assert_eq!(
        dialled(&given, &[agent()], &configured),
        expected("c.example.com", 443, Source::Given)
    );
    assert_eq!(
        dialled(&unsaid, &[agent()], &configured),
        expected("agents.example.com", 443, Source::Agent)
    );
    assert_eq!(
        dialled(&unsaid, &[], &configured),
        expected("2001:db8::1", 8443, Source::Configuration)
    );
    assert_eq!(
        dialled(&unsaid, &[], &none),
        expected("hub.example.com", 8443, Source::Hub)
    );
    assert_eq!(address(&unsaid, &[], &none, &[]), None);
}

#[test]
fn an_ipv6_address_is_read_and_shown_with_brackets() {
    let mut six = agent();
    let env = six["spec"]["template"]["spec"]["containers"][0]["env"]
        .as_array_mut()
        .unwrap();
    env.retain(|it| it["name"] != "ARGOCD_AGENT_REMOTE_SERVER");
    env.push(json!({"name": "ARGOCD_AGENT_REMOTE_SERVER", "value": "[2001:db8::1]"}));
    let read = address(&Given::default(), &[six], &Configured::default(), &[]);
    let expected = ("2001:db8::1".to_owned(), 443, Source::Agent);
    assert_eq!(read, Some(expected));
    let mut facts = facts();
    facts.way.address = read;
    let found = check(&facts).checks.into_iter();
    let found = found.filter(|it| it.check == "address").map(|it| it.cause);
    let found: Vec<_> = found.collect();
    assert!(found[0].starts_with("[2001:db8::1]:443, "), "{found:?}");
}

#[test]
fn the_configuration_is_that_of_the_add_on_or_the_default_of_all() {
    let kind = "addondeploymentconfigs";
    let addon = json!({"status": {"configReferences": [
        {"resource": "other", "name": "x", "namespace": "x"},
        {"resource": kind, "name": "old", "namespace": "old", "desiredConfig": {"name": "own", "namespace": "a"}},
    ]}});
    let offer = json!({"spec": {"supportedConfigs": [
        {"resource": kind, "defaultConfig": {"name": "default", "namespace": "b"}},
    ]}});
    let pair = |namespace: &str, name: &str| Some((namespace.to_owned(), name.to_owned()));
    assert_eq!(configuration(Some(&addon), Some(&offer)), pair("a", "own"));
    assert_eq!(configuration(None, Some(&offer)), pair("b", "default"));
    assert_eq!(configuration(Some(&json!({})), None), None);
}

#[test]
fn proxy_credentials_are_not_shown() {
    let mut agent = agent();
    let env = agent["spec"]["template"]["spec"]["containers"][0]["env"]
        .as_array_mut()
        .unwrap();
    env.push(json!({"name": "HTTPS_PROXY", "value": "http://user:secret@proxy.example.com:3128"}));
    assert_eq!(proxy(&[agent]).as_deref(), Some("proxy.example.com:3128"));
    assert_eq!(proxy(&[]), None);
}
