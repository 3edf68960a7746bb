use super::*;

#[test]
fn a_command_is_taken_once() {
    let live = app(None, Some(state("Succeeded", &sync("1"), "t1")));
    let patch = set(take(&live, ID, &sync("2")));
    assert_eq!(
        patch,
        Patch::Merge(json!({
            "metadata": {
                "resourceVersion": "9",
                "annotations": { keys::LAST_COMMAND: record(ID, &sync("2")) },
            },
            "operation": sync("2"),
            "status": { "operationState": null },
        }))
    );
    let taken = patch.applied_to(&live);
    assert_eq!(take(&taken, ID, &sync("2")), Take::AlreadyTaken);
    // not again after its end
    let ended = named(
        app(None, Some(state("Succeeded", &sync("2"), "t2"))),
        ID,
        &sync("2"),
    );
    assert_eq!(take(&ended, ID, &sync("2")), Take::AlreadyTaken);
    // a repeated request is another command
    assert!(matches!(
        take(&ended, "guestbook_u_8_operation", &sync("2")),
        Take::Set(_)
    ));
}

#[test]
fn a_command_waits_while_another_operation_runs() {
    let automated = json!({ "sync": {}, "initiatedBy": { "automated": true } });
    assert_eq!(
        take(&app(Some(automated.clone()), None), ID, &sync("2")),
        Take::Busy
    );
    let running = app(None, Some(state("Running", &automated, "t1")));
    assert_eq!(take(&running, ID, &sync("2")), Take::Busy);
}

#[test]
fn an_operation_that_a_go_agent_has_set_already_is_only_given_its_name() {
    let live = app(Some(sync("2")), Some(state("Running", &sync("2"), "t1")));
    let taken = set(take(&live, ID, &sync("2"))).applied_to(&live);
    assert_eq!(taken["status"], live["status"]);
    assert_eq!(take(&taken, ID, &sync("2")), Take::AlreadyTaken);
}

#[test]
fn a_termination_hits_only_the_operation_it_means() {
    let live = app(Some(sync("2")), Some(state("Running", &sync("2"), "t2")));
    let meant = app(None, Some(state("Terminating", &sync("2"), "t2")));
    let terminated = take_termination(&live, &meant).unwrap().applied_to(&live);
    assert_eq!(
        terminated["status"]["operationState"]["phase"],
        "Terminating"
    );
    assert_eq!(take_termination(&terminated, &meant), None);
    let older = app(None, Some(state("Terminating", &sync("1"), "t1")));
    assert_eq!(take_termination(&live, &older), None);
    assert_eq!(take_termination(&app(None, None), &meant), None);
}

#[test]
fn a_refresh_is_done_once_for_each_time_it_is_asked_for() {
    let mut hub = app(None, None);
    hub["metadata"]["annotations"] = json!({ keys::REFRESH: "hard" });
    let incoming = with_refresh_id(hub.clone(), &refresh_id(&hub));
    let live = json!({ "metadata": {} });
    let asked = take_refresh(&live, &incoming).unwrap().applied_to(&live);
    assert_eq!(Meta::of(&asked).annotation(keys::REFRESH), Some("hard"));
    // Argo CD has refreshed and removed its annotation
    let mut done = asked;
    done["metadata"]["annotations"]
        .as_object_mut()
        .unwrap()
        .remove(keys::REFRESH);
    assert_eq!(take_refresh(&done, &incoming), None);
    // the hub removes its annotation only for that very refresh
    let id = refresh_id(&hub);
    let known = Known {
        refresh: Some(&id),
        ..OURS
    };
    assert!(judge(&hub, &done, known).refresh_done);
    assert!(!judge(&hub, &done, known).refresh);
    let not_taken = judge(&hub, &live, known);
    assert!(!not_taken.refresh_done && not_taken.refresh);
    assert!(
        !judge(
            &hub,
            &done,
            Known {
                refresh: Some("u_10"),
                ..OURS
            }
        )
        .refresh_done
    );
}

#[test]
fn operation_in_a_state_is_taken_once() {
    let operation = json!({ "sync": { "revision": "abc" } });
    let hub = app(Some(operation.clone()), None);
    let live = app(None, None);
    let taken = take_along(&live, "app_u_9", &hub)
        .unwrap()
        .applied_to(&live);
    assert_eq!(taken["operation"], operation);
    assert_eq!(take_along(&taken, "app_u_10", &hub), None);
    // it has ended, and the hub has no report of that yet
    let mut ended = taken;
    ended.as_object_mut().unwrap().remove("operation");
    assert_eq!(take_along(&ended, "app_u_11", &hub), None);

    let made = made_with(json!({ "metadata": {} }), "app_u_9", &hub, None);
    assert_eq!(made["operation"], operation);
    assert_eq!(take_along(&made, "app_u_10", &hub), None);
    let before = Meta::of(&made).annotation(keys::LAST_COMMAND);
    let again = made_with(json!({ "metadata": {} }), "app_u_10", &hub, before);
    assert_eq!(again, json!({ "metadata": {} }), "an earlier copy took it");
}

#[test]
fn a_hydration_goes_with_its_refresh() {
    let mut hub = app(None, None);
    hub["metadata"]["annotations"] = json!({ keys::REFRESH: "normal", keys::HYDRATE: "normal" });
    let live = json!({ "metadata": {} });
    let asked = take_refresh(&live, &hub).unwrap().applied_to(&live);
    let annotation = |object: &Value, key| Meta::of(object).annotation(key).map(str::to_owned);
    assert_eq!(
        keys::REQUESTS.map(|key| annotation(&asked, key)),
        [Some("normal".to_owned()), Some("normal".to_owned())]
    );
    // Argo CD has refreshed and not yet hydrated
    let mut done = asked;
    let annotations = done["metadata"]["annotations"].as_object_mut().unwrap();
    annotations.remove(keys::REFRESH);
    assert_eq!(take_refresh(&done, &hub), None);
    let id = refresh_id(&hub);
    let known = |names_commands| Known {
        refresh: Some(&id),
        names_commands,
        ..OURS
    };
    let judgement = judge(&hub, &done, known(true));
    assert!(judgement.refresh_done);
    // a Go agent would remove it from its copy as soon as the hub removes it
    assert!(!judge(&hub, &done, known(false)).refresh_done);
    let patch = status_patch_for_hub(hub.clone(), &done, &judgement).unwrap();
    let shown = patch.applied_to(&hub);
    assert_eq!(
        keys::REQUESTS.map(|key| annotation(&shown, key)),
        [None, None]
    );
    // a hydration annotation without a refresh is an old request
    hub["metadata"]["annotations"] = json!({ keys::HYDRATE: "normal" });
    assert_eq!(
        take_refresh(&live, &hub),
        None,
        "a Go principal leaves it for ever"
    );
    assert!(take_refresh(&live, &with_refresh_id(hub.clone(), "u_11")).is_some());
    assert!(introduced(&app(None, None), &hub).refresh);
    let mut before = hub.clone();
    before["metadata"]["annotations"][keys::REFRESH] = "normal".into();
    assert!(!introduced(&before, &hub).refresh);
}
