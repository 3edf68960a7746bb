use diagnosis::testing::at;

use super::*;

#[test]
fn undo_restores_the_values_from_before() {
    for before in [
        json!({"redis.server": "argocd-redis:6379"}),
        json!({"application.namespaces": " team-a, team-b", "server.insecure": "true"}),
        json!({"application.namespaces": "", "redis.server": ""}),
    ] {
        let mut facts = facts();
        facts.parameters = Some(parameters(&before));
        let set_up = written(facts.clone(), &plan(&facts));
        assert_ne!(data(&set_up), before);
        let mut later = set_up;
        later.now = at("2026-11-23T12:00:00Z");
        let plan = undo(&later);
        let actions: Vec<_> = plan.changes.iter().map(|it| it.action).collect();
        let expected = [
            Action::Patch,
            Action::Restart,
            Action::Patch,
            Action::Delete,
            Action::Delete,
        ];
        assert_eq!(actions, expected, "{plan:#?}");
        let undone = written(later.clone(), &plan);
        assert_eq!(data(&undone), before);
        assert_eq!((&undone.role, &undone.binding), (&None, &None));
        let annotations = &undone.parameters.as_ref().unwrap()["metadata"]["annotations"];
        assert_eq!(annotations, &json!({}));
        let again = undo(&undone);
        assert_eq!((again.state, again.is_bad()), (State::Unchanged, false));
    }
}

#[test]
fn undo_restores_values_where_argocd_server_is_gone() {
    let facts = facts();
    let mut set_up = written(facts.clone(), &plan(&facts));
    set_up.server = Value::Null;
    let plan = undo(&set_up);
    let actions: Vec<_> = plan.changes.iter().map(|it| it.action).collect();
    let expected = [Action::Patch, Action::Patch, Action::Delete, Action::Delete];
    assert_eq!(actions, expected, "{plan:#?}");
    let undone = written(set_up, &plan);
    assert_eq!(data(&undone), data(&facts));
}

#[test]
fn undo_of_the_operator_restores_its_resource() {
    let before = operated();
    let plan = plan(&before);
    let kinds: Vec<_> = plan.changes.iter().map(|it| it.kind).collect();
    assert_eq!(kinds, ["ArgoCD"], "{plan:#?}");
    let set_up = written(before.clone(), &plan);
    let spec = &set_up.operated.as_ref().unwrap()["spec"];
    assert_eq!(
        spec["sourceNamespaces"],
        json!(["team-a", "berlin", "paris"])
    );
    let flags = json!(["--rootpath", "/cd", "--redis", OURS]);
    assert_eq!(spec["server"]["extraCommandArgs"], flags);
    assert_eq!(plan.notes.len(), 1, "{plan:#?}");
    let undone = written(set_up.clone(), &undo(&set_up));
    let spec = |facts: &Facts| facts.operated.as_ref().unwrap()["spec"].clone();
    assert_eq!(spec(&undone), spec(&before));
    assert_eq!(undo(&undone).state, State::Unchanged);
}

#[test]
fn a_value_that_another_client_changed_stays() {
    let facts = facts();
    let mut set_up = written(facts.clone(), &plan(&facts));
    set_up.parameters.as_mut().unwrap()["data"]["application.namespaces"] = json!("team-a");
    let plan = undo(&set_up);
    assert!(plan.is_bad() && plan.state == State::Planned, "{plan:#?}");
    let kept: Vec<_> = plan.notes.iter().map(|it| it.cause.as_str()).collect();
    assert!(
        kept.len() == 1 && kept[0].contains("data.application.namespaces"),
        "{kept:?}"
    );
    let done = Plan {
        state: State::Written,
        ..plan.clone()
    };
    let text = render(&done, crate::testing::place(Format::Table, now())).unwrap();
    assert!(
        text.contains("stay as they are") && !text.contains("are restored"),
        "{text}"
    );
    let undone = written(set_up, &plan);
    let expected = json!({"application.namespaces": "team-a", "redis.server": "argocd-redis:6379"});
    assert_eq!(data(&undone), expected);
    let again = undo(&undone);
    assert_eq!((again.state, again.is_bad()), (State::Unchanged, false));
}

#[test]
fn undo_leaves_the_permission_of_another_argo_cd() {
    let facts = facts();
    let mut set_up = written(facts.clone(), &plan(&facts));
    let deleted = |facts: &Facts| {
        let changes = undo(facts).changes.into_iter();
        let deleted = changes.filter(|it| it.action == Action::Delete);
        deleted.map(|it| it.kind).collect::<Vec<_>>()
    };
    assert_eq!(deleted(&set_up), ["ClusterRoleBinding", "ClusterRole"]);
    set_up.binding.as_mut().unwrap()["subjects"][0]["namespace"] = json!("other");
    assert_eq!(deleted(&set_up), Vec::<&str>::new());
    // An earlier undo ended early.
    set_up.binding = None;
    assert_eq!(deleted(&set_up), ["ClusterRole"]);
}

#[test]
fn the_value_before_the_last_setup_is_restored() {
    let facts = facts();
    let mut set_up = written(facts.clone(), &plan(&facts));
    // Such as Helm, with its next upgrade.
    set_up.parameters.as_mut().unwrap()["data"]["redis.server"] =
        json!("argocd-redis.argocd.svc:6379");
    let again = written(set_up.clone(), &plan(&set_up));
    assert_eq!(data(&again)["redis.server"], OURS);
    let undone = written(again.clone(), &undo(&again));
    let expected = json!({"redis.server": "argocd-redis.argocd.svc:6379"});
    assert_eq!(data(&undone), expected);
}

#[test]
fn an_interrupted_run_is_continued() {
    let facts = facts();
    let mut first = plan(&facts);
    let restart = first.changes.pop().unwrap();
    let cut = written(facts.clone(), &first);
    let rest = plan(&cut);
    assert_eq!(titles(&rest), [(Action::Restart, restart.title())]);
    // A restart by someone else is as good.
    let mut restarted = cut.clone();
    put(
        &mut restarted.server,
        RESTARTED,
        json!("2026-11-22T13:00:00+01:00"),
    );
    assert_eq!(plan(&restarted).state, State::Unchanged);

    let set_up = written(cut.clone(), &rest);
    let mut later = set_up;
    later.now = at("2026-11-23T12:00:00Z");
    let mut whole = undo(&later);
    whole.changes.truncate(1);
    let cut = written(later.clone(), &whole);
    let rest = undo(&cut);
    let actions: Vec<_> = rest.changes.iter().map(|it| it.action).collect();
    let expected = [
        Action::Restart,
        Action::Patch,
        Action::Delete,
        Action::Delete,
    ];
    assert_eq!(actions, expected, "{rest:#?}");
}
