use super::*;

#[test]
fn hub_setup_is_the_next_step_after_live_findings_only() {
    let of = |change: fn(&mut Facts)| {
        let mut facts = facts();
        change(&mut facts);
        let text = render(&check(&facts), place(Format::Table, now())).unwrap();
        text.contains("argocd-agentctl hub setup")
    };
    assert!(!of(|_| ()));
    assert!(of(|it| it.parameters = Ok(Some(json!({"data": {}})))));
    assert!(of(|it| it.server_rights = vec![(String::new(), Ok(false))]));
    assert!(of(|it| it.manager = Ok(Some(json!({"status": {}})))));
    // It installs no Argo CD, and changes nothing else.
    assert!(!of(|it| it.parameters = Ok(None)));
    assert!(!of(|it| it.labels = Err("you may not".to_owned())));
}

#[test]
fn flags_of_argocd_server_win_over_parameters() {
    let server = |args: &[&str]| {
        let container = json!({"command": ["argocd-server"], "args": args});
        json!({"spec": {"template": {"spec": {"containers": [container]}}}})
    };
    let parameters = || Some(json!({"data": {"redis.server": "a:6379"}}));
    let in_effect = |parameters: Option<Value>, server: Option<&Value>| {
        let parameters = in_effect(Ok(parameters), server).unwrap();
        parameters.map(|it| it["data"].clone())
    };
    assert_eq!(in_effect(None, None), None);
    assert_eq!(in_effect(None, Some(&server(&["--redis-use-tls"]))), None);
    let set = json!({"redis.server": "a:6379"});
    assert_eq!(in_effect(parameters(), Some(&server(&[]))), Some(set));
    // As the operator writes them, and as a user may.
    let both = json!({"redis.server": "b:6379", "application.namespaces": "c,d"});
    for flags in [
        ["--redis", "b:6379", "--application-namespaces", "c,d"].as_slice(),
        &[
            "--redis=x",
            "--redis=b:6379",
            "--application-namespaces=c,d",
        ],
    ] {
        let server = server(flags);
        let expected = Some(both.clone());
        assert_eq!(
            in_effect(parameters(), Some(&server)),
            expected,
            "{flags:?}"
        );
        assert_eq!(in_effect(None, Some(&server)), expected, "{flags:?}");
    }
}
