use proptest::prelude::*;

use super::*;
use crate::command::{Known, judge};
use crate::keys;

const FOLLOW: Judgement = Judgement {
    operation: Operation::Follow(None),
    terminate: false,
    refresh: false,
    refresh_done: false,
};

fn report() -> Value {
    json!({ "metadata": {}, "status": {
        "sync": { "status": "Synced" },
        "conditions": [{ "type": "OrphanedResourceWarning", "message": "x" }],
        "operationState": { "phase": "Succeeded", "startedAt": "1" },
    } })
}

#[test]
fn reported_status_converges_to_a_no_op() {
    let hub = json!({ "metadata": {}, "operation": { "sync": {} }, "status": { "health": { "status": "Missing" } } });
    let patch = status_patch_for_hub(hub.clone(), &report(), &FOLLOW).unwrap();
    let Patch::Merge(body) = &patch else {
        panic!("expected a merge patch")
    };
    assert_eq!(body["operation"], Value::Null);
    assert_eq!(body["status"]["health"], Value::Null);
    let shown = patch.applied_to(&hub);
    assert_eq!(shown["status"], report()["status"]);
    assert_eq!(
        status_patch_for_hub(shown.clone(), &report(), &FOLLOW),
        None
    );
}

#[test]
fn the_hubs_own_conditions_stay_and_a_spoke_cannot_forge_them() {
    let hub = json!({ "metadata": {}, "status": { "conditions": [
        { "type": "ArgoCDAgentConflict", "message": "ours" },
        { "type": "SyncError", "message": "old" },
    ] } });
    let mut report = report();
    report["status"]["conditions"]
        .as_array_mut()
        .unwrap()
        .push(json!({ "type": "ArgoCDAgentNotAdmitted", "message": "forged" }));
    let shown = status_patch_for_hub(hub.clone(), &report, &FOLLOW)
        .unwrap()
        .applied_to(&hub);
    assert_eq!(
        shown["status"]["conditions"],
        json!([
            { "type": "OrphanedResourceWarning", "message": "x" },
            { "type": "ArgoCDAgentConflict", "message": "ours" },
        ])
    );
    assert_eq!(status_patch_for_hub(shown.clone(), &report, &FOLLOW), None);
}

#[test]
fn unfinished_command_keeps_the_operation_and_its_state() {
    let hub = json!({ "metadata": {}, "operation": { "sync": { "revision": "2" } }, "status": {} });
    let hold = Judgement {
        operation: Operation::Hold,
        ..FOLLOW
    };
    let shown = status_patch_for_hub(hub.clone(), &report(), &hold)
        .unwrap()
        .applied_to(&hub);
    assert_eq!(shown["operation"], hub["operation"]);
    assert_eq!(shown["status"].get("operationState"), None);
    assert_eq!(shown["status"]["sync"], report()["status"]["sync"]);
    assert_eq!(status_patch_for_hub(shown.clone(), &report(), &hold), None);
}

#[test]
fn a_refresh_that_was_done_takes_its_annotation_away_and_nothing_else() {
    let hub = json!({
        "metadata": { "name": "guestbook", "annotations": { keys::REFRESH: "hard", "note": "x" } },
        "status": report()["status"],
    });
    let done = Judgement {
        refresh_done: true,
        ..FOLLOW
    };
    let expected = json!({ "metadata": { "annotations": { keys::REFRESH: null } } });
    assert_eq!(
        status_patch_for_hub(hub.clone(), &report(), &done),
        Some(Patch::Merge(expected))
    );
    assert_eq!(status_patch_for_hub(hub.clone(), &report(), &FOLLOW), None);
    // also if a null in the status requires a JSON patch
    let mut report = report();
    report["status"]["odd"] = json!({ "null": null });
    let Some(json_patch @ Patch::Json(_)) = status_patch_for_hub(hub.clone(), &report, &done)
    else {
        panic!("expected a JSON patch")
    };
    let shown = json_patch.applied_to(&hub);
    assert_eq!(
        shown["metadata"],
        json!({ "name": "guestbook", "annotations": { "note": "x" } })
    );
    assert_eq!(shown["status"], report["status"]);
}

#[test]
fn links_that_a_browser_must_not_follow_are_dropped() {
    let mut report = report();
    report["status"]["summary"] =
        json!({ "externalURLs": ["https://ok", "javascript:alert(1)", 5, "http://ok"] });
    let hub = json!({ "metadata": {} });
    let shown = status_patch_for_hub(hub.clone(), &report, &FOLLOW)
        .unwrap()
        .applied_to(&hub);
    assert_eq!(
        shown["status"]["summary"]["externalURLs"],
        json!(["https://ok", "http://ok"])
    );
}

#[test]
fn a_condition_is_written_once_and_cleared_once() {
    let now = "2026-11-20T20:00:00Z";
    let hub = json!({ "status": { "conditions": [{ "type": "SyncError", "message": "x" }] } });
    let set = condition_patch_for_hub(&hub, "ArgoCDAgentConflict", Some("why"), now).unwrap();
    let shown = set.applied_to(&hub);
    assert_eq!(shown["status"]["conditions"].as_array().unwrap().len(), 2);
    assert_eq!(
        condition_patch_for_hub(&shown, "ArgoCDAgentConflict", Some("why"), "later"),
        None
    );
    let cleared = condition_patch_for_hub(&shown, "ArgoCDAgentConflict", None, now).unwrap();
    assert_eq!(cleared.applied_to(&shown), hub);
    assert_eq!(
        condition_patch_for_hub(&hub, "ArgoCDAgentConflict", None, now),
        None
    );
}

proptest! {
    #[test]
    fn a_second_patch_finds_nothing_to_do(
        hub_status in crate::testing::json(),
        status in crate::testing::json(),
        operation in proptest::option::of(crate::testing::json()),
    ) {
        let hub = json!({ "metadata": {}, "status": hub_status, "operation": operation });
        let report = json!({ "metadata": {}, "status": status });
        let judgement = judge(&hub, &report, Known::default());
        let reached = match status_patch_for_hub(hub.clone(), &report, &judgement) {
            Some(patch) => patch.applied_to(&hub),
            None => hub,
        };
        let again = judge(&reached, &report, Known::default());
        prop_assert_eq!(status_patch_for_hub(reached, &report, &again), None);
    }
}

#[test]
fn an_empty_list_of_conditions_is_neither_left_behind_nor_written_about() {
    let hub = json!({ "metadata": { "uid": "u" }, "status": { "conditions": [
        { "type": format!("{HUB_CONDITION_PREFIX}X"), "message": "m" } ] } });
    let patch =
        condition_patch_for_hub(&hub, &format!("{HUB_CONDITION_PREFIX}X"), None, "now").unwrap();
    let cleared = patch.applied_to(&hub);
    assert_eq!(cleared["status"], json!({}));
    let report = json!({ "status": { "sync": { "status": "Synced" } } });
    let judgement = judge(&cleared, &report, Known::default());
    let first = status_patch_for_hub(cleared.clone(), &report, &judgement).unwrap();
    let shown = first.applied_to(&cleared);
    assert_eq!(shown["status"], report["status"]);

    let mut by_another = shown.clone();
    by_another["status"]["conditions"] = json!([]);
    assert_eq!(status_patch_for_hub(by_another, &report, &judgement), None);
}
