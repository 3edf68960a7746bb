use super::*;

/// The checks that block the changes, each with its cause and next step.
fn obstacles(facts: &Facts) -> Vec<(&'static str, String)> {
    let plan = plan(facts);
    let is_blocked = plan.state == State::Blocked;
    assert_eq!(is_blocked, !plan.obstacles.is_empty(), "{plan:#?}");
    let all = plan.obstacles.into_iter();
    let all = all.map(|it| (it.check, format!("{}; {}", it.cause, it.next.unwrap())));
    all.collect()
}

fn blocked_by(facts: &Facts, check: &str, part: &str) {
    let found = obstacles(facts);
    let is_found = |(name, text): &(&str, String)| *name == check && text.contains(part);
    assert!(
        found.len() == 1 && found.iter().all(is_found),
        "{check} {part}: {found:#?}"
    );
    let plan = plan(facts);
    let text = render(&plan, crate::testing::place(Format::Table, now())).unwrap();
    assert!(
        plan.is_bad() && text.contains("Nothing was written"),
        "{text}"
    );
}

fn with(change: impl FnOnce(&mut Facts)) -> Facts {
    let mut facts = facts();
    change(&mut facts);
    facts
}

fn with_manager(args: &[&str]) -> Facts {
    with(|facts| set_args(facts.manager.as_mut().unwrap(), json!(args)))
}

fn with_server(args: &[&str]) -> Facts {
    with(|facts| set_args(&mut facts.server, json!(args)))
}

#[test]
fn a_redis_proxy_that_argo_cd_cannot_use_blocks_setup() {
    let on = "--redis-proxy-port=6379";
    let none = with(|facts| facts.manager = None);
    blocked_by(&none, "hub program", "--own-namespace");
    let off = with_manager(&["--redis-proxy-port=0"]);
    blocked_by(&off, "redis", "redisProxy.enabled=true");
    let tls = with_manager(&[on, "--redis-proxy-tls=true"]);
    blocked_by(&tls, "redis", "--redis-use-tls");
    let tls = with_server(&["--redis-use-tls", "--redis-ca-certificate=x"]);
    blocked_by(&tls, "redis", "redisProxy.tls=true");
    let other = with_manager(&[on, "--redis-address=other.argocd.svc:6379"]);
    let next = "argocd.redis.address=argocd-redis.argocd.svc:6379";
    blocked_by(&other, "redis", next);
    let no_password = with(|facts| facts.has_password = false);
    blocked_by(&no_password, "redis", "key auth");
}

#[test]
fn settings_that_would_have_no_effect_block_setup() {
    blocked_by(&with_server(&["--redis", "own:6379"]), "flags", "--redis,");
    let flag = with_server(&["--application-namespaces=a"]);
    blocked_by(&flag, "flags", "--application-namespaces,");
    let none = with(|facts| facts.parameters = None);
    blocked_by(&none, "argo cd", "argocd-cmd-params-cm");
    let unread = vec![(String::new(), Err("you may not".to_owned()))];
    let unread = with(|facts| facts.server_rights = unread);
    blocked_by(&unread, "rights", "you may not");
    let foreign = with(|facts| facts.role = Some(json!({"rules": []})));
    blocked_by(&foreign, "rights", "without the label");
    let broken = with(|facts| {
        let parameters = facts.parameters.as_mut().unwrap();
        parameters["metadata"]["annotations"] = json!({HUB_SETUP: "{\"fields\": 7"});
    });
    blocked_by(&broken, "record", "cannot be read");
    assert_eq!(undo(&broken).state, State::Blocked);
}

#[test]
fn flags_that_win_over_good_settings_block_setup() {
    let set = |flag: &str| {
        let mut facts = with_server(&[flag]);
        let data = json!({"application.namespaces": "*", "redis.server": OURS});
        facts.parameters = Some(parameters(&data));
        facts
    };
    blocked_by(&set("--redis=other:6379"), "flags", "--redis,");
    for narrow in ["", "team-*,paris"] {
        let flag = format!("--application-namespaces={narrow}");
        blocked_by(&set(&flag), "flags", "--application-namespaces,");
    }
    let redis = format!("--redis={OURS}");
    for flag in [redis.as_str(), "--application-namespaces=berlin,par*"] {
        assert_eq!(obstacles(&set(flag)), []);
    }
}

#[test]
fn namespaces_of_argocd_server_alone_leave_the_shared_ones_as_they_are() {
    let set = |namespaces: &str| {
        with(|facts| {
            let container = &mut facts.server["spec"]["template"]["spec"]["containers"][0];
            let name = "ARGOCD_APPLICATION_NAMESPACES";
            container["env"] = json!([{"name": name, "value": namespaces}]);
            let mut controller = facts.server.clone();
            controller["spec"]["template"]["spec"]["containers"][0]["env"] = json!([]);
            facts.controllers = Ok(vec![controller]);
        })
    };
    // An old application controller does not look there.
    let all = plan(&set("berlin,paris"));
    assert_eq!(all.state, State::Planned, "{all:#?}");
    let fields = all.changes.iter().flat_map(|change| &change.fields);
    let fields: Vec<_> = fields.map(|it| it.field.as_str()).collect();
    assert!(fields.contains(&"data.redis.server"), "{fields:?}");
    assert!(
        !fields.contains(&"data.application.namespaces"),
        "{fields:?}"
    );
    let name = "variable ARGOCD_APPLICATION_NAMESPACES,";
    blocked_by(&set("team-*,paris"), "flags", name);
}

#[test]
fn an_old_application_controller_blocks_setup() {
    let controller = |image: &str, facts: &mut Facts| {
        let mut controller = facts.server.clone();
        controller["metadata"]["name"] = json!("argocd-application-controller");
        controller["spec"]["template"]["spec"]["containers"][0]["image"] = json!(image);
        facts.controllers = Ok(vec![controller]);
    };
    let old = "registry.example.com/argocd:v3.2.11";
    let facts = with(|facts| controller(old, facts));
    blocked_by(&facts, "controllers", "3.4");
    let new = "registry.example.com/argocd:v3.4.0";
    let facts = with(|facts| controller(new, facts));
    assert_eq!(obstacles(&facts), []);
    // It would deploy to the hub there.
    let notes = plan(&facts).notes;
    assert_eq!(notes[0].check, "controllers", "{notes:#?}");
    // It reads the parameters of its own namespace.
    let far = with(|facts| {
        controller(old, facts);
        let all = facts.controllers.as_mut().unwrap();
        all[0]["metadata"]["namespace"] = json!("elsewhere");
    });
    assert_eq!(obstacles(&far), []);
    // It looks at Argo CD's namespace alone.
    let own = with(|facts| {
        controller(old, facts);
        let all = facts.controllers.as_mut().unwrap();
        let env = json!([{"name": "ARGOCD_APPLICATION_NAMESPACES", "value": ""}]);
        all[0]["spec"]["template"]["spec"]["containers"][0]["env"] = env;
    });
    assert_eq!(obstacles(&own), []);
    let notes = plan(&own).notes;
    let cause = &notes[0].cause;
    assert!(cause.contains("each Application in argocd"), "{cause}");
    let unread = with(|facts| facts.controllers = Err("you may not".to_owned()));
    let found = plan(&unread);
    assert_eq!(found.state, State::Blocked, "{found:#?}");
}

#[test]
fn a_policy_that_shuts_the_hub_program_out_blocks_setup() {
    let policy = |name: &str, from: Value| {
        let redis = json!({"matchLabels": {"app.kubernetes.io/name": "argocd-redis"}});
        let spec = json!({"podSelector": redis, "ingress": [{"from": [from]}]});
        json!({"metadata": {"name": name}, "spec": spec})
    };
    let name = |name: &str| json!({"matchLabels": {"app.kubernetes.io/name": name}});
    let argo_cd = policy("of-argo-cd", json!({"podSelector": name("argocd-server")}));
    let own = json!({"matchLabels": {"kubernetes.io/metadata.name": "argocd-agent-addon"}});
    let pods = name("argocd-agent-addon-manager");
    let ours = json!({"namespaceSelector": own, "podSelector": pods});
    let ours = policy("argocd-agent-redis", ours);
    let shut = with(|facts| facts.fences = vec![argo_cd.clone()]);
    blocked_by(&shut, "network", "redisProxy.networkPolicy=always");
    let open = with(|facts| facts.fences = vec![argo_cd, ours]);
    assert_eq!(obstacles(&open), []);
}

#[test]
fn the_hub_program_has_to_use_the_redis_of_argo_cd() {
    let mut facts = facts();
    // Of a Helm release that is not called `argocd`, before its Service exists.
    facts.parameters = Some(parameters(&json!({"redis.server": "cd-argocd-redis:6379"})));
    assert_eq!(obstacles(&facts).len(), 1);
    let mut found = facts.clone();
    found.services = vec![
        service("cd-argocd-redis", None),
        service("cd-argocd-server", None),
    ];
    assert_eq!(obstacles(&found), []);
    let address = "--redis-address=cd-argocd-redis.argocd.svc:6379";
    let args = json!(["--redis-proxy-port=6379", address]);
    set_args(facts.manager.as_mut().unwrap(), args);
    assert_eq!(obstacles(&facts), []);
}

#[test]
fn redis_of_an_operator_is_found_with_its_password() {
    let mut facts = operated();
    assert_eq!(obstacles(&facts), []);
    let secret = "openshift-gitops-redis-initial-password";
    assert_eq!(facts.password_secret().as_deref(), Some(secret));
    facts.has_password = false;
    blocked_by(&facts, "redis", "admin.password");
    // An instance of another name: its Secret is not read unless it is named.
    let team = |args: Value| {
        let mut facts = operated();
        let address = "team-redis.argocd.svc:6379";
        set_args(
            &mut facts.server,
            json!(["argocd-server", "--redis", address]),
        );
        facts.services = vec![service("team-redis", Some("team"))];
        set_args(facts.manager.as_mut().unwrap(), args);
        facts
    };
    let unnamed = team(json!(["--redis-proxy-port=6379"]));
    let found = obstacles(&unnamed);
    assert!(
        found[0]
            .1
            .contains("set argocd.redis.secret to team-redis-initial-password"),
        "{found:#?}"
    );
    let named = json!([
        "--redis-proxy-port=6379",
        "--redis-secret=team-redis-initial-password"
    ]);
    assert_eq!(obstacles(&team(named)), []);
}

#[test]
fn redis_with_tls_needs_certificates_to_trust() {
    let server = json!([
        "argocd-server",
        "--redis-use-tls",
        "--redis-ca-certificate=x"
    ]);
    let facts = |more: &[&str]| {
        let mut args = vec!["--redis-proxy-port=6379", "--redis-proxy-tls=true"];
        args.extend_from_slice(more);
        let mut facts = with_manager(&args);
        set_args(&mut facts.server, server.clone());
        facts
    };
    blocked_by(
        &facts(&["--redis-tls=none"]),
        "redis",
        "argocd.redis.tls=Secret/NAME",
    );
    assert_eq!(obstacles(&facts(&["--redis-tls=Secret/redis-ca"])), []);
}

#[test]
fn a_redis_that_is_no_service_is_named_as_it_is() {
    for address in [
        "master.cd.x1.use1.cache.amazonaws.com:6379",
        "10.0.0.5:6379",
        "[fd00::5]:6379",
    ] {
        let mut facts = with_manager(&[
            "--redis-proxy-port=6379",
            "--redis-address=master.cd.svc:6379",
        ]);
        facts.parameters = Some(parameters(&json!({"redis.server": address})));
        let flag = format!("--redis-address={address}");
        let value = format!("argocd.redis.address={address} ");
        blocked_by(&facts, "redis", &value);
        let args = json!(["--redis-proxy-port=6379", flag]);
        set_args(facts.manager.as_mut().unwrap(), args);
        assert_eq!(obstacles(&facts), []);
    }
}
