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

#[test]
fn variables_of_argocd_server_win_over_parameters() {
    const NAMESPACES: &str = "ARGOCD_APPLICATION_NAMESPACES";
    let shown = |entry: Value, args: &[&str]| {
        let container = json!({"env": [entry], "args": args});
        let server = json!({"spec": {"template": {"spec": {"containers": [container]}}}});
        let parameters = json!({"data": {"application.namespaces": "a"}});
        let parameters = in_effect(Ok(Some(parameters)), Some(&server)).unwrap();
        parameters.map(|it| it["data"]["application.namespaces"].clone())
    };
    let own = json!({"name": NAMESPACES, "value": "b,c"});
    assert_eq!(shown(own.clone(), &[]), Some(json!("b,c")));
    assert_eq!(
        shown(own, &["--application-namespaces=d"]),
        Some(json!("d"))
    );
    // Argo CD's manifests.
    let shared = json!({"configMapKeyRef": {"name": "argocd-cmd-params-cm", "key": "application.namespaces"}});
    let shared = json!({"name": NAMESPACES, "valueFrom": shared});
    assert_eq!(shown(shared, &[]), Some(json!("a")));
}

#[test]
fn next_step_names_the_list_that_argocd_server_reads() {
    let next = |has_own_namespaces| {
        let mut facts = facts();
        let data = json!({"application.namespaces": "paris"});
        facts.parameters = Ok(Some(json!({ "data": data })));
        facts.shared_parameters = facts.parameters.clone();
        facts.has_own_namespaces = has_own_namespaces;
        let mut checks = check(&facts).checks.into_iter();
        checks
            .find(|it| it.check == "argo cd")
            .unwrap()
            .next
            .unwrap()
    };
    assert!(next(false).contains("argocd-cmd-params-cm"));
    // It may be equal to the shared one.
    assert!(next(true).contains("argocd-server's Deployment"));
}

#[test]
fn own_list_of_argocd_server_is_a_flag_or_a_variable() {
    let has = |container: Value| {
        let spec = json!({"containers": [container]});
        has_own_namespaces(Some(&json!({"spec": {"template": {"spec": spec}}})))
    };
    let name = "ARGOCD_APPLICATION_NAMESPACES";
    let shared = json!({"configMapKeyRef": {"name": "argocd-cmd-params-cm"}});
    assert!(has(json!({"args": ["--application-namespaces", "a"]})));
    assert!(has(
        json!({"command": ["server", "--application-namespaces=a"]})
    ));
    assert!(has(json!({"env": [{"name": name, "value": "a"}]})));
    assert!(!has(json!({"env": [{"name": name, "valueFrom": shared}]})));
    assert!(!has(json!({})) && !has_own_namespaces(None));
}

#[test]
fn namespaces_of_argocd_server_alone_concern_no_old_controller() {
    let old = || controller("quay.io/argoproj/argocd:v3.2.11", "argocd", 1);
    let with = |controller: Value, shared: &str| {
        let mut facts = facts();
        facts.controllers = Ok(vec![controller]);
        let data = json!({"application.namespaces": shared});
        facts.shared_parameters = Ok(Some(json!({ "data": data })));
        troubles(&facts)
    };
    let of = |outcome| [("controllers", outcome)];
    // argocd-server shows both clusters by a setting of its own, see facts().
    for (shared, expected) in [
        ("", Outcome::Warning),
        ("team-*", Outcome::Warning),
        ("team-*,paris", Outcome::Failed),
        ("*", Outcome::Failed),
    ] {
        assert_eq!(with(old(), shared), of(expected), "{shared}");
    }
    // Its own list wins over the shared one.
    for (own, expected) in [
        (
            json!({"env": [{"name": "ARGOCD_APPLICATION_NAMESPACES", "value": "team-*"}]}),
            Outcome::Warning,
        ),
        (
            json!({"args": ["--application-namespaces", "par*"]}),
            Outcome::Failed,
        ),
        (
            json!({"env": [{"name": "ARGOCD_APPLICATION_NAMESPACES", "valueFrom": {}}]}),
            Outcome::Failed,
        ),
    ] {
        let mut controller = old();
        let container = &mut controller["spec"]["template"]["spec"]["containers"][0];
        container["env"] = own["env"].clone();
        container["args"] = own["args"].clone();
        assert_eq!(with(controller, "*"), of(expected), "{own}");
    }
    let newer = controller("quay.io/argoproj/argocd:v3.4.0", "argocd", 1);
    assert_eq!(with(newer, ""), []);
}
