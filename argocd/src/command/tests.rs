use proptest::prelude::*;

use serde_json::json;

use super::*;
use crate::patch::Patch;
use crate::projection::status_patch_for_hub;

mod taking;

const ID: &str = "guestbook_u_7_operation";

fn sync(revision: &str) -> Value {
    json!({ "sync": { "revision": revision }, "initiatedBy": { "username": "ann" } })
}

fn app(operation: Option<Value>, state: Option<Value>) -> Value {
    let mut app =
        json!({ "metadata": { "name": "guestbook", "uid": "u", "resourceVersion": "9" } });
    if let Some(operation) = operation {
        app["operation"] = operation;
    }
    if let Some(state) = state {
        app["status"] = json!({ "operationState": state });
    }
    app
}

fn state(phase: &str, operation: &Value, started: &str) -> Value {
    let mut state = json!({ "phase": phase, "operation": operation, "startedAt": started });
    if !matches!(phase, "Running" | "Terminating") {
        state["finishedAt"] = json!(format!("{started}+1"));
    }
    state
}

fn named(mut app: Value, id: &str, operation: &Value) -> Value {
    app["metadata"]["annotations"] = json!({ keys::LAST_COMMAND: record(id, operation) });
    app
}

fn set(take: Take) -> Patch {
    match take {
        Take::Set(patch) => patch,
        other @ (Take::AlreadyTaken | Take::Busy) => panic!("{other:?}"),
    }
}

const OURS: Known<'_> = Known {
    operation: Some(ID),
    refresh: None,
    names_commands: true,
    taken: false,
};
const RESTARTED: Known<'_> = Known {
    operation: None,
    refresh: None,
    names_commands: true,
    taken: false,
};
const GO: Known<'_> = Known {
    operation: Some(ID),
    refresh: None,
    names_commands: false,
    taken: false,
};

fn operation(hub: &Value, report: &Value, known: Known<'_>) -> Operation {
    judge(hub, report, known).operation
}

const CLEAR: Operation = Operation::Follow(None);

fn show(operation: &Value) -> Operation {
    Operation::Follow(Some(operation.clone()))
}

#[test]
fn status_from_before_the_command_keeps_it() {
    let hub = app(Some(sync("2")), None);
    let report = app(None, Some(state("Succeeded", &sync("1"), "t1")));
    assert_eq!(operation(&hub, &report, OURS), Operation::Hold);
    let shown = status_patch_for_hub(hub.clone(), &report, &judge(&hub, &report, OURS));
    assert_eq!(shown, None);
}

#[test]
fn the_hubs_operation_stays_until_the_spokes_has_ended() {
    let hub = app(Some(sync("2")), None);
    let taken = named(app(Some(sync("2")), None), ID, &sync("2"));
    assert_eq!(operation(&hub, &taken, OURS), show(&sync("2")));
    let running = named(
        app(Some(sync("2")), Some(state("Running", &sync("2"), "t2"))),
        ID,
        &sync("2"),
    );
    assert_eq!(operation(&hub, &running, OURS), show(&sync("2")));
    let ended = named(
        app(None, Some(state("Succeeded", &sync("2"), "t2"))),
        ID,
        &sync("2"),
    );
    assert_eq!(operation(&hub, &ended, OURS), CLEAR);
}

#[test]
fn recreated_copy_does_not_repeat_taken_commands() {
    let hub = app(Some(sync("a")), None);
    let again = app(None, None);
    assert_eq!(operation(&hub, &again, OURS), Operation::Hold);
    let taken = Known {
        taken: true,
        ..OURS
    };
    assert_eq!(operation(&hub, &again, taken), Operation::Follow(None));
}

#[test]
fn spoke_operation_is_shown_but_is_no_command() {
    let automated = json!({ "sync": {}, "initiatedBy": { "automated": true } });
    let hub = app(None, None);
    let asked = app(Some(automated.clone()), None);
    assert_eq!(operation(&hub, &asked, RESTARTED), CLEAR);
    let running = app(
        Some(automated.clone()),
        Some(state("Running", &automated, "t1")),
    );
    assert_eq!(operation(&hub, &running, RESTARTED), show(&automated));
    let shown = status_patch_for_hub(hub.clone(), &running, &judge(&hub, &running, RESTARTED))
        .unwrap()
        .applied_to(&hub);
    assert_eq!(introduced(&hub, &shown), Introduced::default());
    // its end clears it, also after a restart of the principal
    let ended = app(None, Some(state("Succeeded", &automated, "t1")));
    assert_eq!(operation(&shown, &ended, RESTARTED), CLEAR);
}

#[test]
fn after_a_restart_a_command_that_runs_or_ran_is_not_sent_again() {
    let hub = app(Some(sync("2")), None);
    for report in [
        named(app(Some(sync("2")), None), ID, &sync("2")),
        named(
            app(None, Some(state("Succeeded", &sync("2"), "t2"))),
            ID,
            &sync("2"),
        ),
        // it ended, and automated sync has run since
        named(
            app(None, Some(state("Succeeded", &json!({}), "t3"))),
            ID,
            &sync("2"),
        ),
    ] {
        assert!(
            operation(&hub, &report, RESTARTED) != Operation::Hold,
            "{report}"
        );
    }
}

#[test]
fn after_a_restart_a_command_that_was_never_taken_is_sent() {
    let hub = app(Some(sync("2")), None);
    for report in [
        app(None, None),
        app(None, Some(state("Succeeded", &sync("1"), "t1"))),
        named(
            app(None, Some(state("Succeeded", &sync("1"), "t1"))),
            "older",
            &sync("1"),
        ),
    ] {
        assert_eq!(
            operation(&hub, &report, RESTARTED),
            Operation::Hold,
            "{report}"
        );
    }
}

#[test]
fn repeated_command_after_restart_is_new() {
    let ended = named(
        app(None, Some(state("Succeeded", &sync("2"), "t2"))),
        "older",
        &sync("2"),
    );
    // kubectl leaves the old result in place
    let by_kubectl = app(Some(sync("2")), Some(state("Succeeded", &sync("2"), "t2")));
    assert_eq!(operation(&by_kubectl, &ended, RESTARTED), Operation::Hold);
    // argocd-server removes the old result only
    let mut by_server = app(Some(sync("2")), None);
    by_server["status"] = json!({ "reconciledAt": "t2+2" });
    assert_eq!(operation(&by_server, &ended, RESTARTED), Operation::Hold);
    by_server["status"] = json!({ "history": [{ "deployStartedAt": "t2" }] });
    assert_eq!(operation(&by_server, &ended, RESTARTED), Operation::Hold);
    // the hub has not shown its end: it is the same command
    by_server["status"] = json!({ "reconciledAt": "t1" });
    assert_eq!(operation(&by_server, &ended, RESTARTED), CLEAR);
}

#[test]
fn a_go_agent_names_no_commands_so_their_content_decides() {
    let hub = app(Some(sync("2")), None);
    assert_eq!(
        operation(
            &hub,
            &app(None, Some(state("Succeeded", &sync("1"), "t1"))),
            GO
        ),
        Operation::Hold
    );
    assert!(operation(&hub, &app(Some(sync("2")), None), GO) != Operation::Hold);
    assert_eq!(
        operation(
            &hub,
            &app(None, Some(state("Failed", &sync("2"), "t2"))),
            GO
        ),
        CLEAR
    );
}

#[test]
fn a_termination_is_repeated_until_the_spoke_knows() {
    let hub = app(
        Some(sync("2")),
        Some(state("Terminating", &sync("2"), "t2")),
    );
    let running = named(
        app(Some(sync("2")), Some(state("Running", &sync("2"), "t2"))),
        ID,
        &sync("2"),
    );
    let judgement = judge(&hub, &running, OURS);
    assert!(judgement.terminate);
    // the hub continues to show the termination
    assert_eq!(
        status_patch_for_hub(hub.clone(), &running, &judgement),
        None
    );
    let ended = named(
        app(None, Some(state("Failed", &sync("2"), "t2"))),
        ID,
        &sync("2"),
    );
    assert!(!judge(&hub, &ended, OURS).terminate);
    let next = named(
        app(Some(sync("2")), Some(state("Running", &sync("2"), "t3"))),
        ID,
        &sync("2"),
    );
    assert!(!judge(&hub, &next, OURS).terminate);
}

#[test]
fn changes_on_the_hub_introduce_commands() {
    let idle = app(None, None);
    let asked = app(Some(sync("2")), None);
    assert!(introduced(&idle, &asked).operation);
    assert!(!introduced(&asked, &asked).operation);
    assert!(introduced(&asked, &app(Some(sync("3")), None)).operation);
    let running = app(Some(sync("2")), Some(state("Running", &sync("2"), "t2")));
    let terminating = app(
        Some(sync("2")),
        Some(state("Terminating", &sync("2"), "t2")),
    );
    assert!(introduced(&running, &terminating).termination);
    assert!(!introduced(&terminating, &terminating).termination);
    let mut refresh = idle.clone();
    refresh["metadata"]["annotations"] = json!({ keys::REFRESH: "normal" });
    assert!(introduced(&idle, &refresh).refresh);
    assert!(!introduced(&refresh, &refresh).refresh);
}

proptest! {
    #[test]
    fn any_json_is_judged_without_a_panic(
        hub in crate::testing::json(),
        report in crate::testing::json(),
        operation in crate::testing::json(),
    ) {
        let _ = judge(&hub, &report, RESTARTED);
        let _ = (introduced(&hub, &report), take_termination(&hub, &report), take_refresh(&hub, &report));
        let _ = take(&hub, ID, &operation);
    }

    #[test]
    fn command_is_taken_once_and_changes_no_other_field(
        live in crate::testing::application(),
        operation in crate::testing::json(),
    ) {
        let patch = set(take(&live, ID, &operation));
        let taken = patch.applied_to(&live);
        prop_assert_eq!(take(&taken, ID, &operation), Take::AlreadyTaken);
        prop_assert_eq!(Application::of(&taken).operation(), Some(&operation).filter(|o| !o.is_null()));
        prop_assert_eq!(&taken["spec"], &live["spec"]);
        prop_assert_eq!(&taken["metadata"]["labels"], &live["metadata"]["labels"]);
        prop_assert_eq!(&taken["metadata"]["uid"], &live["metadata"]["uid"]);
    }
}

#[test]
fn an_operation_as_a_go_agent_writes_it_is_still_the_same() {
    let asked =
        json!({ "sync": { "revision": "2", "prune": false, "syncStrategy": { "hook": {} } } });
    let written =
        json!({ "sync": { "revision": "2", "syncStrategy": { "hook": {} } }, "retry": {} });
    let hub = app(Some(asked.clone()), None);
    // running on the spoke: the hub keeps its own spelling, which is no new command
    let waiting = app(Some(written.clone()), None);
    assert_eq!(operation(&hub, &waiting, GO), show(&asked));
    let running = app(None, Some(state("Running", &written, "t1")));
    assert_eq!(operation(&hub, &running, GO), CLEAR);
    let mirrored = app(Some(written.clone()), Some(state("Running", &asked, "t1")));
    assert!(!introduced(&hub, &mirrored).operation);
    let other = json!({ "sync": { "revision": "3" } });
    assert_eq!(
        operation(&app(Some(other), None), &running, GO),
        Operation::Hold
    );
}

#[test]
fn commands_of_a_predecessor_are_not_shown_on_its_successor() {
    let follow = |report: &Value| {
        let judgement = Judgement::of_successor(report);
        assert!(judgement.refresh_done && !judgement.refresh && !judgement.terminate);
        match judgement.operation {
            Operation::Follow(operation) => operation,
            Operation::Hold => panic!("expected no hold"),
        }
    };
    assert_eq!(follow(&app(None, None)), None);
    assert_eq!(follow(&app(Some(sync("r")), None)), None, "not begun there");
    let running = app(Some(sync("r")), Some(state("Running", &sync("r"), "t")));
    assert_eq!(follow(&running), Some(sync("r")));
}

#[test]
fn ended_operation_of_a_spoke_leaves_the_hub() {
    let (running, ended) = (
        state("Running", &sync("2"), "t2"),
        state("Succeeded", &sync("2"), "t2"),
    );
    let hub = app(Some(sync("2")), Some(running.clone()));
    let left = app(Some(sync("2")), Some(ended.clone()));
    for known in [RESTARTED, GO] {
        assert_eq!(operation(&hub, &left, known), CLEAR, "{known:?}");
        let other = app(Some(sync("2")), Some(state("Running", &sync("3"), "t3")));
        assert_eq!(operation(&hub, &other, known), CLEAR, "{known:?}");
    }
    // a Go agent sets a repeated operation beside the result of the earlier one
    let repeated = app(Some(sync("2")), None);
    assert_eq!(operation(&repeated, &left, GO), show(&sync("2")));
    assert_eq!(operation(&repeated, &left, RESTARTED), CLEAR);
}

#[test]
fn operation_of_another_cluster_is_no_command() {
    for (phase, started) in [("Running", "t2"), ("Succeeded", "t2"), ("Failed", "")] {
        let hub = app(Some(sync("2")), Some(state(phase, &sync("2"), started)));
        assert!(is_spent(&hub));
        for report in [
            app(None, None),
            app(None, Some(state("Succeeded", &sync("1"), "t1"))),
        ] {
            assert_eq!(operation(&hub, &report, RESTARTED), CLEAR, "{phase}");
        }
    }
    let asked = app(Some(sync("2")), Some(state("Succeeded", &sync("1"), "t1")));
    assert!(!is_spent(&asked));
}
