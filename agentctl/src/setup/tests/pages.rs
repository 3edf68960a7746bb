use argocd::keys::addon::UI_EXTENSION;
use diagnosis::testing::at;

use super::*;
use crate::{
    testing,
    ui::{POLICY, config, is_mounted},
};

/// A hub on which the chart has the pages on, beside the redis proxy.
fn both() -> Facts {
    let mut facts = facts();
    let args = json!(["--redis-proxy-port=6379", "--ui-api-port=8081"]);
    set_args(facts.manager.as_mut().unwrap(), args);
    let spec = &mut facts.server["spec"]["template"]["spec"];
    spec["containers"][0]["name"] = json!("argocd-server");
    let theirs = json!({"name": "theirs", "mountPath": "/tmp"});
    spec["containers"][0]["volumeMounts"] = json!([theirs]);
    spec["volumes"] = json!([{"name": "theirs", "emptyDir": {}}]);
    facts.settings = Some(config_map(
        "argocd-cm",
        &json!({"url": "https://cd.example.com"}),
    ));
    // As a ConfigMap without content is stored.
    facts
        .policies
        .as_mut()
        .unwrap()
        .as_object_mut()
        .unwrap()
        .remove("data");
    facts.token = Some(at("2026-11-21T08:00:00Z"));
    facts
}

/// The same with the pages alone.
fn alone() -> Facts {
    let mut facts = both();
    set_args(
        facts.manager.as_mut().unwrap(),
        json!(["--ui-api-port=8081"]),
    );
    facts
}

/// The same where Argo CD's operator deploys argocd-server.
fn operated_pages() -> Facts {
    let mut facts = operated();
    let args = json!(["--redis-proxy-port=6379", "--ui-api-port=8081"]);
    set_args(facts.manager.as_mut().unwrap(), args);
    facts.token = both().token;
    let object = facts.operated.as_mut().unwrap();
    object["spec"]["extraConfig"] = json!({"own": "value"});
    object["spec"]["server"]["volumes"] = json!([{"name": "theirs", "emptyDir": {}}]);
    facts
}

#[test]
fn pages_alone_need_neither_redis_nor_rights() {
    let plan = plan(&alone());
    let expected = [
        (Action::Patch, "ConfigMap argocd/argocd-cmd-params-cm"),
        (Action::Patch, "ConfigMap argocd/argocd-cm"),
        (Action::Patch, "ConfigMap argocd/argocd-rbac-cm"),
        (Action::Patch, "Deployment argocd/argocd-server"),
    ];
    assert_eq!(
        titles(&plan),
        expected.map(|(action, title)| (action, title.to_owned()))
    );
    let fields = plan.changes.iter().flat_map(|it| &it.fields);
    let fields: Vec<_> = fields.map(|it| it.field.as_str()).collect();
    assert!(!fields.contains(&"data.redis.server"), "{fields:?}");
    let set_up = written(alone(), &plan);
    assert_eq!(data(&set_up)["server.enable.proxy.extension"], "true");
    let settings = &set_up.settings.as_ref().unwrap()["data"];
    for key in crate::ui::CONFIG_KEYS {
        assert_eq!(settings[key], config("argocd-agent-addon"));
    }
    assert_eq!(settings["url"], "https://cd.example.com");
    let policies = &set_up.policies.as_ref().unwrap()["data"];
    assert_eq!(policies, &json!({"policy.argocd-agent.csv": POLICY}));
    assert!(is_mounted(&set_up.server));
    let volumes = &set_up.server["spec"]["template"]["spec"]["volumes"];
    assert_eq!(
        (&volumes[0]["name"], &volumes[1]["configMap"]["name"]),
        (&json!("theirs"), &json!(UI_EXTENSION))
    );
    // argocd-server starts without it, too.
    assert_eq!(volumes[1]["configMap"]["optional"], true);
    let text = render(&plan, testing::place(Format::Table, now())).unwrap();
    is_documented(&text);
}

#[test]
fn second_run_for_the_pages_changes_nothing() {
    for facts in [alone(), both(), operated_pages()] {
        let facts = written(facts.clone(), &plan(&facts));
        let again = plan(&facts);
        assert_eq!(
            (again.state, titles(&again)),
            (State::Unchanged, Vec::new())
        );
    }
    let facts = written(alone(), &plan(&alone()));
    let text = render(&plan(&facts), testing::place(Format::Table, now())).unwrap();
    assert!(text.contains("is set up for the pages in the UI"), "{text}");
}

#[test]
fn undo_of_the_pages_restores_every_object_exactly() {
    for before in [alone(), both(), operated_pages()] {
        let set_up = written(before.clone(), &plan(&before));
        let plan = undo(&set_up);
        assert!(!plan.is_bad(), "{plan:#?}");
        let undone = written(set_up, &plan);
        let content = |facts: &Facts| {
            let data = [&facts.parameters, &facts.settings, &facts.policies];
            let data = data.map(|it| it.as_ref().map(|it| it["data"].clone()));
            let mut spec = facts.server["spec"].clone();
            spec["template"]["metadata"].take();
            (
                data,
                spec,
                facts.operated.as_ref().map(|it| it["spec"].clone()),
            )
        };
        let (mut expected, mut found) = (content(&before), content(&undone));
        // A ConfigMap without content, and one whose content is empty, are the same to Argo CD.
        for (data, ..) in [&mut expected, &mut found] {
            for data in data.iter_mut().flatten().filter(|it| **it == json!({})) {
                data.take();
            }
        }
        assert_eq!(found, expected);
        assert_eq!(undo(&undone).state, State::Unchanged);
    }
}

#[test]
fn argocd_server_restarts_once_for_the_pages() {
    let plan = plan(&both());
    let restarts = plan.changes.iter().filter(|it| it.kind == "Deployment");
    let fields: Vec<_> = restarts
        .map(|it| it.fields.last().unwrap().field.as_str())
        .collect();
    assert_eq!(fields, [RESTARTED.join(".")]);
    let undo = undo(&written(both(), &plan));
    let restarts = undo.changes.iter().filter(|it| it.kind == "Deployment");
    assert_eq!(restarts.count(), 1, "{undo:#?}");
}

#[test]
fn argocd_server_restarts_for_a_younger_token() {
    let mut facts = written(alone(), &plan(&alone()));
    facts.token = Some(at("2026-11-22T12:00:01Z"));
    facts.now = at("2026-11-22T13:00:00Z");
    let plan = plan(&facts);
    let server = "Deployment argocd/argocd-server".to_owned();
    assert_eq!(titles(&plan), [(Action::Restart, server)]);
    let facts = written(facts, &plan);
    assert_eq!(super::plan(&facts).state, State::Unchanged);
}

/// A hub that is set up for both, where the chart has the pages off now.
fn off() -> Facts {
    let mut facts = written(both(), &plan(&both()));
    set_args(
        facts.manager.as_mut().unwrap(),
        json!(["--redis-proxy-port=6379"]),
    );
    facts.token = None;
    facts
}

#[test]
fn pages_that_are_turned_off_are_withdrawn_and_live_views_stay() {
    let off = off();
    let plan = plan(&off);
    let withdrawn = written(off, &plan);
    let expected = json!({"application.namespaces": "*", "redis.server": OURS});
    assert_eq!(data(&withdrawn), expected);
    let settings = &withdrawn.settings.as_ref().unwrap();
    assert_eq!(settings["data"], json!({"url": "https://cd.example.com"}));
    assert_eq!(settings["metadata"]["annotations"], json!({}));
    assert!(!is_mounted(&withdrawn.server));
    assert_eq!(super::plan(&withdrawn).state, State::Unchanged);
    // What is left is undone as ever.
    let undone = written(withdrawn.clone(), &undo(&withdrawn));
    assert_eq!(data(&undone), json!({"redis.server": "argocd-redis:6379"}));
}

#[test]
fn value_that_another_client_changed_is_named_when_the_pages_go() {
    let mut off = off();
    off.policies.as_mut().unwrap()["data"]["policy.argocd-agent.csv"] = json!("");
    let plan = plan(&off);
    let mut kept = plan.notes.iter().filter(|it| it.check == "kept");
    let is_named = kept
        .next()
        .is_some_and(|it| it.cause.contains("policy.argocd-agent.csv"));
    assert!(is_named && kept.next().is_none(), "{plan:#?}");
    let policies = written(off, &plan).policies.unwrap();
    assert_eq!(policies["data"], json!({"policy.argocd-agent.csv": ""}));
}

#[test]
fn policies_of_a_user_are_left_as_they_are() {
    for theirs in [
        json!({"policy.csv": "p, role:team, extensions, invoke, argocd-agent, allow"}),
        json!({"policy.argocd-agent.csv": ""}),
    ] {
        let mut facts = alone();
        facts.policies = Some(config_map("argocd-rbac-cm", &theirs));
        let set_up = written(facts.clone(), &plan(&facts));
        assert_eq!(set_up.policies.as_ref().unwrap()["data"], theirs);
    }
}

#[test]
fn list_of_extensions_of_a_user_is_left_as_it_is() {
    let theirs = "extensions:\n- name: metrics\n  backend: {services: [{url: http://metrics}]}\n";
    let mut facts = alone();
    facts.settings = Some(config_map(
        "argocd-cm",
        &json!({"extension.config": theirs}),
    ));
    let set_up = written(facts.clone(), &plan(&facts));
    let settings = &set_up.settings.as_ref().unwrap()["data"];
    assert_eq!(settings["extension.config"], theirs);
    assert_eq!(settings.as_object().unwrap().len(), 3);
}

#[test]
fn mount_of_a_user_counts_and_stays() {
    let mut facts = alone();
    let spec = &mut facts.server["spec"]["template"]["spec"];
    spec["volumes"] = json!([{"name": "own", "configMap": {"name": UI_EXTENSION}}]);
    let mount = json!({"name": "own", "mountPath": "/tmp/extensions/own"});
    spec["containers"][0]["volumeMounts"] = json!([mount]);
    let before = facts.server["spec"]["template"]["spec"].clone();
    let set_up = written(facts.clone(), &plan(&facts));
    let undone = written(set_up.clone(), &undo(&set_up));
    for facts in [set_up, undone] {
        assert_eq!(facts.server["spec"]["template"]["spec"], before);
    }
}

#[test]
fn defaults_of_the_api_do_not_keep_undo_from_the_mount() {
    let mut set_up = written(alone(), &plan(&alone()));
    set_up.server["spec"]["template"]["spec"]["volumes"][1]["configMap"]["defaultMode"] =
        json!(420);
    let plan = undo(&set_up);
    assert!(
        !plan.is_bad() && !is_mounted(&written(set_up.clone(), &plan).server),
        "{plan:#?}"
    );
    // Another client uses the name for something else.
    set_up.server["spec"]["template"]["spec"]["volumes"][1] =
        json!({"name": "argocd-agent-ui", "emptyDir": {}});
    let plan = undo(&set_up);
    assert!(plan.is_bad(), "{plan:#?}");
    let volumes = &written(set_up, &plan).server["spec"]["template"]["spec"]["volumes"];
    assert_eq!(volumes.as_array().unwrap().len(), 2);
}

/// A change of the hub after which the pages cannot be set up; the check that names it, and a part of the cause.
type Case = (fn(&mut Facts), &'static str, &'static str);

const PREREQUISITES: [Case; 8] = [
    (
        |it| it.token = None,
        "ui",
        "Secret argocd/argocd-agent-addon-ui",
    ),
    (
        |it| it.settings = None,
        "argo cd",
        "ConfigMap argocd/argocd-cm not found",
    ),
    (
        |it| it.policies = None,
        "argo cd",
        "ConfigMap argocd/argocd-rbac-cm not found",
    ),
    (
        |it| it.parameters = None,
        "argo cd",
        "ConfigMap argocd/argocd-cmd-params-cm not found",
    ),
    (
        |it| {
            let list = "extensions: [{name: argocd-agent, backend: {}}]";
            it.settings.as_mut().unwrap()["data"]["extension.config"] = json!(list);
        },
        "ui",
        "with another backend",
    ),
    (
        |it| it.settings.as_mut().unwrap()["data"]["extension.config"] = json!("["),
        "ui",
        "cannot be read",
    ),
    (
        |it| set_args(&mut it.server, json!(["--enable-proxy-extension=false"])),
        "flags",
        "--enable-proxy-extension",
    ),
    (
        |it| {
            let volumes = &mut it.server["spec"]["template"]["spec"]["volumes"];
            *volumes = json!([{"name": "argocd-agent-ui", "emptyDir": {}}]);
        },
        "ui",
        "another volume argocd-agent-ui",
    ),
];

#[test]
fn missing_prerequisites_of_the_pages_block_setup() {
    for (change, check, part) in PREREQUISITES {
        let mut facts = alone();
        change(&mut facts);
        let plan = plan(&facts);
        assert_eq!(plan.state, State::Blocked, "{part}");
        let found: Vec<_> = plan
            .obstacles
            .iter()
            .map(|it| (it.check, &it.cause))
            .collect();
        let is_found = found.len() == 1 && found[0].0 == check && found[0].1.contains(part);
        assert!(
            is_found && plan.obstacles[0].next.is_some(),
            "{part}: {found:?}"
        );
    }
}

#[test]
fn operator_gets_the_pages_in_its_resource() {
    let plan = plan(&operated_pages());
    let kinds: Vec<_> = plan.changes.iter().map(ObjectChange::title).collect();
    assert_eq!(
        kinds,
        [
            "ArgoCD argocd/openshift-gitops",
            "ConfigMap argocd/argocd-rbac-cm"
        ]
    );
    let set_up = written(operated_pages(), &plan);
    let spec = &set_up.operated.as_ref().unwrap()["spec"];
    let flags = json!([
        "--rootpath",
        "/cd",
        "--redis",
        OURS,
        "--enable-proxy-extension"
    ]);
    assert_eq!(spec["server"]["extraCommandArgs"], flags);
    assert_eq!(spec["extraConfig"]["own"], "value");
    assert_eq!(
        spec["extraConfig"]["extension.config.argocd-agent"],
        config("argocd-agent-addon")
    );
    assert_eq!(spec["server"]["volumes"][0]["name"], "theirs");
    assert_eq!(
        spec["server"]["volumes"][1]["configMap"]["name"],
        UI_EXTENSION
    );
    assert_eq!(
        spec["server"]["volumeMounts"][0]["mountPath"],
        "/tmp/extensions/argocd-agent"
    );
}
