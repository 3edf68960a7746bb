//! Plans for the deletion of a replica.

use super::*;

#[test]
fn a_deleting_hub_object_takes_its_replica_with_it_and_nothing_else() {
    let (world, _) = executed(None, &hub_app("u1", "main"));
    let (after, plan) = executed(world.clone(), &deleting(hub_app("u1", "main")));
    assert_eq!(plan.memory, Memory::Leaving);
    assert!(Meta::of(&after.clone().unwrap()).is_deleting());
    let (_, again) = executed(after, &deleting(hub_app("u1", "main")));
    assert_eq!(again.steps, []);
}

#[test]
fn deletion_of_successor_deletes_the_predecessors_copy() {
    let (world, _) = executed(None, &hub_app("u1", "main"));
    let (after, plan) = executed(world, &deleting(hub_app("u2", "main")));
    assert_eq!((plan.memory, plan.gone), (Memory::Leaving, None));
    let after = after.unwrap();
    assert!(Meta::of(&after).is_deleting());
    // The agent will report its end for the hub object that waits for it.
    assert_eq!(Meta::of(&after).source_uid(), Some("u2"));
}

#[test]
fn deletion_of_another_uid_is_a_no_op() {
    let (world, _) = executed(None, &hub_app("u1", "main"));
    let mut nameless = world.clone().unwrap();
    nameless["metadata"]["annotations"]
        .as_object_mut()
        .unwrap()
        .remove(keys::PRINCIPAL_UID);
    let message = deleting(hub_app("u2", "main"));
    for (live, same_name) in [(world, false), (Some(nameless), true)] {
        let incoming = Incoming {
            message: &message,
            desired: &desired(&message),
            same_name,
        };
        let plan = state(incoming, live.as_ref(), None, POLICY).unwrap();
        assert_eq!((plan.steps, plan.gone.as_deref()), (vec![], Some("u2")));
        // The desired state of the other object stays.
        assert_eq!(plan.memory, Memory::Keep);
    }
}

#[test]
fn a_deleting_hub_object_without_a_replica_is_released_at_once() {
    let (_, plan) = executed(None, &deleting(hub_app("u1", "main")));
    assert_eq!(plan.gone.as_deref(), Some("u1"));
    assert_eq!(plan.steps, []);
}

#[test]
fn finalizers_that_the_hub_removed_are_removed_before_the_deletion() {
    let (world, _) = executed(None, &hub_app("u1", "main"));
    let mut message = deleting(hub_app("u1", "main"));
    message["metadata"]["finalizers"] = json!([]);
    let (after, plan) = executed(world, &message);
    assert!(matches!(
        plan.steps.as_slice(),
        [Step::Converge { .. }, Step::Delete { .. }]
    ));
    assert_eq!(after, None);
}

#[test]
fn a_delete_of_another_object_is_a_no_op() {
    let (world, _) = executed(None, &hub_app("u1", "main"));
    let live = world.as_ref();
    for (source, same_name, principal) in [
        ("u2", false, PRINCIPAL),
        ("", false, PRINCIPAL),
        ("u1", true, "principal-2"),
        ("u2", true, "principal-2"),
    ] {
        assert_eq!(
            delete(source, same_name, Some(principal), live),
            Plan::NOTHING,
            "{source} {principal}"
        );
    }
    let unmanaged = json!({ "metadata": { "name": "app", "uid": "l" } });
    assert_eq!(
        delete("u1", true, Some(PRINCIPAL), Some(&unmanaged)),
        Plan::NOTHING
    );
    assert_eq!(delete("u1", true, Some(PRINCIPAL), None).steps, []);
}

#[test]
fn a_delete_of_a_successor_deletes_its_predecessor_only_if_stamped() {
    let (world, _) = executed(None, &hub_app("u1", "main"));
    let plan = delete("u2", true, Some(PRINCIPAL), world.as_ref());
    assert_eq!(plan.memory, Memory::Leaving);
    assert!(matches!(plan.steps.last(), Some(Step::Delete { .. })));

    let mut nameless = world.unwrap();
    nameless["metadata"]["annotations"]
        .as_object_mut()
        .unwrap()
        .remove(keys::PRINCIPAL_UID);
    for principal in [Some(PRINCIPAL), None] {
        assert_eq!(
            delete("u2", true, principal, Some(&nameless)),
            Plan::NOTHING
        );
    }
}

#[test]
fn a_delete_without_cascade_leaves_the_workload() {
    let (world, _) = executed(None, &hub_app("u1", "main"));
    let plan = delete("u1", true, Some(PRINCIPAL), world.as_ref());
    let after = plan.steps.iter().fold(world, carried_out);
    assert_eq!(after, None, "no finalizer may block it");
}
