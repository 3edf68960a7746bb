use argocd::keys;
use argocd::projection::{SpokeContext, desired_on_spoke};
use proptest::prelude::*;

use super::*;

mod deletion;
mod provisions;

const POLICY: Policy = Policy {
    mismatch: Mismatch::Upsert,
    adoption: Adoption::Always,
    recreated: Recreated::Ignore,
};
const PRINCIPAL: &str = "principal-1";

fn hub_app(uid: &str, revision: &str) -> Value {
    json!({
        "metadata": {
            "name": "app", "namespace": "spoke1", "uid": uid, "resourceVersion": "5",
            "labels": { "team": "a" },
            "finalizers": [keys::RESOURCES_FINALIZER],
        },
        "spec": {
            "project": "default",
            "source": { "repoURL": "git://repo", "targetRevision": revision },
            "destination": { "name": "spoke1", "namespace": "guestbook" },
        },
    })
}

fn delete(uid: &str, same_name: bool, principal_uid: Option<&str>, live: Option<&Value>) -> Plan {
    let deleted = Deleted {
        uid,
        same_name,
        principal_uid,
    };
    super::delete(deleted, live)
}

fn deleting(mut app: Value) -> Value {
    app["metadata"]["deletionTimestamp"] = "2026-11-20T10:00:00Z".into();
    app
}

fn desired(message: &Value) -> Value {
    let context = SpokeContext {
        argocd_namespace: "argocd",
        principal_namespace: "argocd",
        principal_uid: Some(PRINCIPAL),
        cluster: "spoke1",
    };
    desired_on_spoke(message, &context).unwrap()
}

/// The object after the API server carried out a step.
fn carried_out(live: Option<Value>, step: &Step) -> Option<Value> {
    match (step, live) {
        (Step::Create(object), None) => {
            let mut object = object.clone();
            object["metadata"]["uid"] = "local-1".into();
            object["metadata"]["resourceVersion"] = "1".into();
            Some(object)
        }
        (Step::Converge { patch, .. } | Step::Patch { patch, .. }, Some(live)) => {
            Some(patch.applied_to(&live))
        }
        (Step::Delete { .. }, Some(live)) => {
            let stays = !Meta::of(&live).finalizers().is_empty();
            stays.then(|| deleting(live))
        }
        (step, live) => panic!("{step:?} does not fit {live:?}"),
    }
}

fn executed(live: Option<Value>, message: &Value) -> (Option<Value>, Plan) {
    let desired = desired(message);
    let incoming = Incoming {
        message,
        desired: &desired,
        same_name: true,
    };
    let plan = state(incoming, live.as_ref(), None, POLICY).unwrap();
    let world = plan.steps.iter().fold(live, carried_out);
    (world, plan)
}

#[test]
fn a_new_application_is_created_and_the_next_plan_is_empty() {
    let message = hub_app("u1", "main");
    let (world, first) = executed(None, &message);
    assert!(matches!(first.steps.as_slice(), [Step::Create(_)]));
    let live = world.unwrap();
    assert_eq!(Meta::of(&live).source_uid(), Some("u1"));
    assert_eq!(Meta::of(&live).principal_uid(), Some(PRINCIPAL));
    let (_, second) = executed(Some(live), &message);
    assert_eq!(second, Plan::steps(vec![], Memory::Want));
}

#[test]
fn source_uid_mismatch_adopts_in_place_by_default() {
    let (world, _) = executed(None, &hub_app("u1", "main"));
    let (after, plan) = executed(world.clone(), &hub_app("u2", "main"));
    assert!(matches!(plan.steps.as_slice(), [Step::Converge { .. }]));
    let after = after.unwrap();
    assert_eq!(Meta::of(&after).source_uid(), Some("u2"));
    assert_eq!(Meta::of(&after).uid(), "local-1");

    let mut message = hub_app("u2", "main");
    message["metadata"]["annotations"] = json!({ keys::SOURCE_UID_MISMATCH_POLICY: "recreate" });
    let (_, plan) = executed(world, &message);
    assert!(matches!(plan.steps.as_slice(), [Step::Delete { .. }]));
}

#[test]
fn unmanaged_application_follows_the_adoption_policy() {
    let mut local = json!({
        "metadata": { "name": "app", "namespace": "argocd", "uid": "local-9" },
        "spec": { "project": "default" },
    });
    let message = hub_app("u1", "main");
    let (after, _) = executed(Some(local.clone()), &message);
    assert_eq!(Meta::of(&after.unwrap()).source_uid(), Some("u1"));

    local["metadata"]["annotations"] = json!({ keys::ADOPTION_POLICY: "never" });
    let desired = desired(&message);
    let incoming = Incoming {
        message: &message,
        desired: &desired,
        same_name: true,
    };
    let refused = state(incoming, Some(&local), None, POLICY);
    assert!(matches!(refused, Err(No::Refused(why)) if why.contains("set to never")));
}

#[test]
fn an_operation_within_a_go_state_runs_only_on_its_replica() {
    let mut message = hub_app("u1", "main");
    message["operation"] = json!({ "sync": {} });
    let planned = |live: Option<&Value>, before| {
        let (_, plan) = executed(live.cloned(), &message);
        along(plan, "app_u1_5", &message, live, before)
    };
    let operation = |plan: &Plan| match &plan.steps[..] {
        [Step::Create(object)] => object["operation"].clone(),
        [.., Step::Patch { patch, .. }] => patch.applied_to(&json!({}))["operation"].clone(),
        _ => Value::Null,
    };
    let made = planned(None, None);
    assert_eq!(operation(&made), json!({ "sync": {} }));
    let [Step::Create(object)] = &made.steps[..] else {
        panic!("{made:?}");
    };
    let record = Meta::of(object).annotation(keys::LAST_COMMAND);
    assert_eq!(operation(&planned(None, record)), Value::Null);

    let (replica, _) = executed(None, &hub_app("u1", "main"));
    let mut replica = replica.unwrap();
    assert_eq!(
        operation(&planned(Some(&replica), None)),
        json!({ "sync": {} })
    );
    replica["metadata"]["annotations"][keys::SOURCE_UID] = "u0".into();
    assert_eq!(operation(&planned(Some(&replica), None)), Value::Null);
    let plan = along(Plan::NOTHING, "app_u1_5", &message, None, None);
    assert_eq!(plan, Plan::NOTHING);
}

#[test]
fn ignore_sync_label_prevents_writes() {
    let (world, _) = executed(None, &hub_app("u1", "main"));
    let mut live = world.unwrap();
    live["metadata"]["labels"][keys::IGNORE_SYNC] = "true".into();
    let going = deleting(hub_app("u1", "main"));
    assert_eq!(executed(Some(live.clone()), &going).1, Plan::NOTHING);
    let another = hub_app("u2", "other");
    assert_eq!(executed(Some(live.clone()), &another).1, Plan::NOTHING);
    // The agent remembers the state for when the label is removed.
    let (left, plan) = executed(Some(live.clone()), &hub_app("u1", "other"));
    assert_eq!(
        (left.as_ref(), plan),
        (Some(&live), Plan::steps(vec![], Memory::Want))
    );
    assert_eq!(
        delete("u1", true, Some(PRINCIPAL), Some(&live)),
        Plan::NOTHING
    );
}

#[test]
fn a_local_edit_is_reverted_and_a_local_deletion_is_undone() {
    let message = hub_app("u1", "main");
    let desired = desired(&message);
    let (world, _) = executed(None, &message);
    let mut live = world.unwrap();
    assert_eq!(drift(&desired, Some(&live), None, POLICY).steps, []);
    live["spec"]["source"]["targetRevision"] = "hacked".into();
    let plan = drift(&desired, Some(&live), None, POLICY);
    assert!(matches!(plan.steps.as_slice(), [Step::Converge { .. }]));
    let plan = drift(&desired, None, None, POLICY);
    assert!(matches!(plan.steps.as_slice(), [Step::Create(_)]));
    assert_eq!(
        drift(&desired, Some(&deleting(live)), None, POLICY).steps,
        []
    );
}

#[test]
fn the_normal_form_of_the_api_server_is_not_patched_again() {
    let mut message = hub_app("u1", "main");
    message["spec"]["fieldOfTheFuture"] = "x".into();
    let desired = desired(&message);
    let (world, _) = executed(None, &message);
    let mut pruned = world.unwrap();
    pruned["spec"]
        .as_object_mut()
        .unwrap()
        .remove("fieldOfTheFuture");
    let written = Written::new(&desired, &pruned);
    assert_eq!(
        drift(&desired, Some(&pruned), Some(&written), POLICY).steps,
        []
    );
    pruned["spec"]["source"]["targetRevision"] = "hacked".into();
    assert_eq!(
        drift(&desired, Some(&pruned), Some(&written), POLICY)
            .steps
            .len(),
        1
    );
}

#[test]
fn a_sync_runs_once_and_only_on_the_replica_of_its_object() {
    let (world, _) = executed(None, &hub_app("u1", "main"));
    let mut message = hub_app("u1", "main");
    message["operation"] = json!({ "sync": { "revision": "main" } });
    let plan = sync("app_u1_5_operation", &message, world.as_ref(), POLICY).unwrap();
    let live = plan.steps.iter().fold(world, carried_out);
    assert_eq!(live.as_ref().unwrap()["operation"], message["operation"]);
    let again = sync("app_u1_5_operation", &message, live.as_ref(), POLICY).unwrap();
    assert_eq!(again.steps, []);
}

#[test]
fn a_command_waits_until_its_replica_exists() {
    let (world, _) = executed(None, &hub_app("u1", "main"));
    let mut message = hub_app("u2", "main");
    message["operation"] = json!({ "sync": {} });
    let asked = |live: Option<&Value>| sync("app_u2_5_operation", &message, live, POLICY);
    let unmanaged = json!({ "metadata": { "name": "app", "uid": "l" } });
    for live in [None, world.as_ref(), Some(&unmanaged)] {
        assert!(matches!(asked(live), Err(No::NotYet(_))), "{live:?}");
        let terminated = terminate(&message, live, POLICY);
        assert!(matches!(terminated, Err(No::NotYet(_))), "{live:?}");
    }
    let (world, _) = executed(world, &hub_app("u2", "main"));
    assert_eq!(asked(world.as_ref()).unwrap().steps.len(), 1);
}

#[test]
fn a_command_for_a_non_replica_is_refused() {
    let mut message = hub_app("u1", "main");
    message["operation"] = json!({ "sync": {} });
    for metadata in [
        json!({ "annotations": { keys::ADOPTION_POLICY: "never" } }),
        json!({ "labels": { keys::IGNORE_SYNC: "true" } }),
    ] {
        let live = json!({ "metadata": metadata });
        let asked = sync("app_u1_5_operation", &message, Some(&live), POLICY);
        assert!(matches!(asked, Err(No::Refused(_))), "{live}");
    }
}

fn any_live() -> impl Strategy<Value = Option<Value>> {
    let stamp = prop::option::of("u[1-2]");
    let principal = prop::option::of("principal-[1-2]");
    let labels = prop::collection::btree_map("[a-c]", "[x-z]", 0..3);
    let fields = (
        stamp,
        principal,
        labels,
        "main|dev",
        any::<bool>(),
        any::<bool>(),
    );
    prop::option::of(
        fields.prop_map(|(stamp, principal, labels, revision, retained, going)| {
            let mut annotations = serde_json::Map::new();
            annotations.insert("local".to_owned(), "kept".into());
            if let Some(uid) = stamp {
                annotations.insert(keys::SOURCE_UID.to_owned(), uid.into());
            }
            if let Some(uid) = principal {
                annotations.insert(keys::PRINCIPAL_UID.to_owned(), uid.into());
            }
            let finalizers = if retained || going {
                vec![keys::RESOURCES_FINALIZER]
            } else {
                vec![]
            };
            let live = json!({
                "metadata": {
                    "name": "app", "namespace": "argocd", "uid": "local-1", "resourceVersion": "3",
                    "labels": labels, "annotations": annotations, "finalizers": finalizers,
                },
                "spec": { "source": { "targetRevision": revision } },
            });
            if going { deleting(live) } else { live }
        }),
    )
}

proptest! {
    #[test]
    fn a_second_plan_is_empty(live in any_live(), uid in "u[1-2]", going in any::<bool>()) {
        let message = hub_app(&uid, "main");
        let message = if going { deleting(message) } else { message };
        let (world, _) = executed(live, &message);
        let (_, second) = executed(world, &message);
        prop_assert_eq!(second.steps, vec![]);
    }

    #[test]
    fn deletion_requires_a_matching_source_uid(
        live in any_live(), uid in "u[1-2]?", same_name: bool,
    ) {
        let stamped = live.as_ref().is_some_and(|live| {
            let meta = Meta::of(live);
            let ours = meta.principal_uid() == Some(PRINCIPAL);
            let unstamped = meta.principal_uid().is_none();
            meta.source_uid().is_some_and(|source| {
                (source == uid && (ours || unstamped)) || (same_name && ours)
            })
        });
        let plan = delete(&uid, same_name, Some(PRINCIPAL), live.as_ref());
        let deletes = plan.steps.iter().any(|step| matches!(step, Step::Delete { .. }));
        prop_assert!(!deletes || stamped);
    }

    #[test]
    fn local_labels_and_annotations_survive(live in any_live(), uid in "u[1-2]") {
        let was_there = live.as_ref().is_some_and(|live| !Meta::of(live).is_deleting());
        let (world, _) = executed(live, &hub_app(&uid, "main"));
        if let (true, Some(world)) = (was_there, world) {
            prop_assert_eq!(Meta::of(&world).annotation("local"), Some("kept"));
        }
    }
}
