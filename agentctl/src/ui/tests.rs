use argocd::keys::addon::{APPLICATION_EXTENSION, FLEET_GUARD};
use serde_json::json;

use super::*;

const OWN: &str = "argocd-agent-addon";

fn server(container: &Value) -> Value {
    json!({"spec": {"template": {"spec": {"containers": [container]}}}})
}

#[test]
fn extension_keys_are_the_names_behind_the_list() {
    let keys = EXTENSIONS.map(|it| format!("{LIST_KEY}.{it}"));
    assert_eq!(keys, CONFIG_KEYS.map(str::to_owned));
}

#[test]
fn pages_are_on_where_the_hub_program_has_their_port() {
    let on = |args: Value| is_on(Some(&server(&json!({ "args": args }))));
    assert!(on(json!(["--ui-api-port=8081"])));
    assert!(!on(json!(["--ui-api-port=0"])) && !on(json!([])) && !is_on(None));
}

#[test]
fn own_flag_of_argocd_server_wins_over_parameters() {
    let parameters = json!({"data": {FORWARDING_KEY: "true"}});
    let is_forwarding = |container: Value| {
        let server = server(&container);
        [Some(&parameters), None].map(|it| is_forwarding(it, Some(&server)))
    };
    assert_eq!(is_forwarding(json!({})), [true, false]);
    let flag = |word: &str| json!({"args": ["argocd-server", word]});
    assert_eq!(is_forwarding(flag("--enable-proxy-extension")), [true; 2]);
    assert_eq!(
        is_forwarding(flag("--enable-proxy-extension=false")),
        [false; 2]
    );
    let (_, name) = FORWARDING;
    let variable = |value: &str| json!({"env": [{"name": name, "value": value}]});
    assert_eq!(is_forwarding(variable("true")), [true; 2]);
    assert_eq!(is_forwarding(variable("false")), [false; 2]);
    // Argo CD reads exactly this text of its parameters.
    let other = json!({"data": {FORWARDING_KEY: "yes"}});
    assert!(!super::is_forwarding(Some(&other), None));
}

#[test]
fn mount_of_our_config_map_counts_below_the_directory_only() {
    let mounted = |volume: Value, path: &str| {
        let mount = json!({"name": "pages", "mountPath": path});
        let mut server = server(&json!({ "volumeMounts": [mount] }));
        server["spec"]["template"]["spec"]["volumes"] = json!([volume]);
        is_mounted(&server)
    };
    let named = |name: &str| json!({"name": "pages", "configMap": {"name": name}});
    assert!(mounted(named(UI_EXTENSION), "/tmp/extensions/mine"));
    assert!(!mounted(named(UI_EXTENSION), "/tmp"));
    assert!(!mounted(named(UI_EXTENSION), "/tmp/extensions-of-others"));
    assert!(!mounted(named("another"), "/tmp/extensions/mine"));
    let sources = json!([{"configMap": {"name": UI_EXTENSION}}]);
    let projected = json!({"name": "pages", "projected": {"sources": sources}});
    assert!(mounted(projected, "/tmp/extensions"));
    assert!(!is_mounted(&json!({})));
}

#[test]
fn extension_is_right_with_our_address_and_token_only() {
    let of = |backend: &str| {
        let data = json!({"extension.config.argocd-agent": backend});
        configured(Some(&data), APPLICATION_EXTENSION, OWN)
    };
    let right = config(OWN);
    assert_eq!(of(&right), Configured::Right);
    let longer = right.replace(".svc:", ".svc.cluster.local:");
    assert_eq!(of(&longer), Configured::Right);
    for wrong in [
        "",
        ": [",
        "services: []",
        &right.replace(OWN, "elsewhere"),
        &right.replace(".svc:8081", ".svc@evil.example:8081"),
        &right.replace("8081", "8082"),
        &right.replace("$argocd-agent-addon-ui:token", "guessed"),
        &format!("{right}- url: http://second.example\n"),
    ] {
        assert_eq!(of(wrong), Configured::Wrong, "{wrong}");
    }
    assert_eq!(configured(None, FLEET_GUARD, OWN), Configured::Absent);
}

#[test]
fn list_of_a_user_counts_beside_our_keys() {
    let listed = |backend: &Value| {
        let extensions = json!([{"name": "theirs"}, {"name": FLEET_GUARD, "backend": backend}]);
        json!({ "extensions": extensions }).to_string()
    };
    let ours: Value = serde_saphyr::from_str(&config(OWN)).unwrap();
    let of = |data: Value| configured(Some(&data), FLEET_GUARD, OWN);
    assert_eq!(of(json!({LIST_KEY: listed(&ours)})), Configured::Right);
    let wrong = listed(&json!({"services": []}));
    assert_eq!(of(json!({ LIST_KEY: wrong })), Configured::WrongInList);
    let twice =
        json!({LIST_KEY: listed(&ours), "extension.config.argocd-agent-fleet": config(OWN)});
    assert_eq!(of(twice), Configured::Twice);
    let broken = of(json!({LIST_KEY: "extensions: ["}));
    assert!(matches!(broken, Configured::Unreadable(_)), "{broken:?}");
    assert_eq!(of(json!({LIST_KEY: "extensions: []"})), Configured::Absent);
}

#[test]
fn our_policy_lets_roles_call_both_extensions() {
    let of = |data: Value| {
        let policies = json!({ "data": data });
        EXTENSIONS.map(|it| may_invoke(Some(&policies), it))
    };
    assert_eq!(of(json!({ POLICY_KEY: POLICY })), [true; 2]);
    assert_eq!(of(json!({ "policy.other.txt": POLICY })), [false; 2]);
    assert_eq!(of(json!({})), [false; 2]);
    for (line, expected) in [
        (
            "p, role:team, extensions, invoke, argocd-agent, allow",
            [true, false],
        ),
        (
            "p,role:team,extensions,invoke,argocd-agent*,allow",
            [true, true],
        ),
        ("p, role:team, *, *, *, allow", [true, true]),
        (
            "p, role:team, extensions, invoke, other, allow",
            [false, false],
        ),
        (
            "p, role:team, extensions, invoke, argocd-agent, deny",
            [false, false],
        ),
        (
            "p, role:team, applications, get, */*, allow",
            [false, false],
        ),
        (
            "# p, role:team, extensions, invoke, *, allow",
            [false, false],
        ),
        ("g, team, role:admin", [false, false]),
    ] {
        assert_eq!(of(json!({ "policy.csv": line })), expected, "{line}");
    }
    let regex = "p, role:team, ext.*, invoke, ^argocd-agent$, allow";
    let data = json!({"policy.csv": regex, "policy.matchMode": "regex"});
    assert_eq!(of(data), [true, false]);
    assert_eq!(
        [may_invoke(None, "argocd-agent"), is_decided(None)],
        [false; 2]
    );
}
