//! Plans for Secrets of repositories, and for `ConfigMap`s that hub and spoke share.

use argocd::entries::{Shared, desired_on_spoke};
use argocd::repository::desired_secret_on_spoke;

use super::*;

fn context() -> SpokeContext<'static> {
    SpokeContext {
        argocd_namespace: "argocd",
        principal_namespace: "argocd",
        principal_uid: Some(PRINCIPAL),
        cluster: "spoke1",
    }
}

fn hub_secret(uid: &str, password: &str) -> Value {
    json!({
        "metadata": {
            "name": "repo", "namespace": "argocd", "uid": uid, "resourceVersion": "5",
            "labels": { keys::SECRET_TYPE: keys::REPOSITORY },
        },
        "data": { "password": password },
    })
}

fn local_secret() -> Value {
    json!({
        "metadata": { "name": "repo", "namespace": "argocd", "uid": "l1", "resourceVersion": "1" },
        "data": { "password": "bWluZQ==" },
    })
}

fn hub_keys(data: &Value) -> Value {
    let name = Shared::GpgKeys.name();
    json!({ "metadata": { "name": name, "namespace": "argocd", "uid": "g1" }, "data": data })
}

fn local_keys(data: &Value) -> Value {
    let name = Shared::GpgKeys.name();
    json!({ "metadata": { "name": name, "namespace": "argocd", "uid": "l1" }, "data": data })
}

/// The plan for a message, and its result.
fn stated(
    live: Option<Value>,
    message: &Value,
    desired: &Value,
) -> Result<(Option<Value>, Plan), No> {
    let incoming = Incoming {
        message,
        desired,
        same_name: true,
    };
    let plan = state(incoming, live.as_ref(), None, POLICY)?;
    let mut after = live;
    for step in &plan.steps {
        after = carried_out(after, step);
    }
    Ok((after, plan))
}

#[test]
fn a_secret_of_the_spokes_own_is_neither_overwritten_nor_deleted() {
    let message = hub_secret("u1", "aHVi");
    let desired = desired_secret_on_spoke(&message, &context()).unwrap();
    let live = local_secret();
    let never = Policy {
        adoption: Adoption::Always,
        mismatch: Mismatch::Recreate,
        ..POLICY
    };
    let incoming = Incoming {
        message: &message,
        desired: &desired,
        same_name: true,
    };
    assert_eq!(
        state(incoming, Some(&live), None, never),
        Err(No::Occupied(TAKEN))
    );
    assert_eq!(drift(&desired, Some(&live), None, never), Plan::NOTHING);
    assert_eq!(
        delete("u1", true, Some(PRINCIPAL), Some(&live)),
        Plan::NOTHING
    );
    // When the local Secret is gone, the agent creates the hub's.
    assert_eq!(
        drift(&desired, None, None, never).steps,
        [Step::Create(desired.clone())]
    );
    // Unless the hub has removed its own meanwhile.
    let taken_back = Plan::NOTHING.forgetting("u1", Some(&desired));
    assert_eq!(taken_back.memory, Memory::Forget);
    assert_eq!(
        Plan::NOTHING.forgetting("u2", Some(&desired)),
        Plan::NOTHING
    );
}

#[test]
fn a_secret_is_made_changed_and_taken_back() {
    let message = hub_secret("u1", "b2xk");
    let desired = desired_secret_on_spoke(&message, &context()).unwrap();
    let (live, _) = stated(None, &message, &desired).unwrap();
    let rotated = hub_secret("u1", "bmV3");
    let desired = desired_secret_on_spoke(&rotated, &context()).unwrap();
    let (live, plan) = stated(live, &rotated, &desired).unwrap();
    assert_eq!(
        (
            live.as_ref().unwrap()["data"]["password"].as_str(),
            plan.memory
        ),
        (Some("bmV3"), Memory::Want)
    );
    let (live, plan) = stated(live, &rotated, &desired).unwrap();
    assert_eq!(plan.steps, []);
    let plan = delete("u1", true, Some(PRINCIPAL), live.as_ref());
    assert_eq!(
        plan.steps,
        [Step::Delete {
            uid: "local-1".to_owned()
        }]
    );
    assert_eq!(
        delete("u1", true, Some("another"), live.as_ref()),
        Plan::NOTHING
    );
}

#[test]
fn keys_are_put_beside_those_of_the_spoke_and_taken_back_alone() {
    let message = hub_keys(&json!({ "hub": "H" }));
    let desired = desired_on_spoke(&message, &context()).unwrap();
    let local = local_keys(&json!({ "mine": "L" }));
    let (live, plan) = stated(Some(local.clone()), &message, &desired).unwrap();
    assert_eq!(plan.memory, Memory::Want);
    let live = live.unwrap();
    assert_eq!(live["data"], json!({ "mine": "L", "hub": "H" }));
    assert_eq!(drift(&desired, Some(&live), None, POLICY), Plan::NOTHING);
    let withdrawn = |principal_uid| {
        let deleted = Deleted {
            uid: "g1",
            same_name: true,
            principal_uid: Some(principal_uid),
        };
        withdraw(deleted, Some(&live))
    };
    assert_eq!(withdrawn("another"), Plan::NOTHING);

    let plan = withdrawn(PRINCIPAL);
    assert_eq!(plan.memory, Memory::Forget);
    let mut after = Some(live);
    for step in &plan.steps {
        after = carried_out(after, step);
    }
    assert_eq!(after.unwrap()["data"], local["data"]);
}

#[test]
fn the_map_of_keys_is_never_deleted_and_made_only_for_something() {
    let message = hub_keys(&json!({ "hub": "H" }));
    let desired = desired_on_spoke(&message, &context()).unwrap();
    let (live, _) = stated(None, &message, &desired).unwrap();
    let (live, plan) = stated(live, &deleting(message), &desired).unwrap();
    assert!(
        plan.steps
            .iter()
            .all(|step| matches!(step, Step::Patch { .. }))
    );
    assert_eq!(live.unwrap()["data"], json!({}));
    let nothing = hub_keys(&json!({}));
    let desired = desired_on_spoke(&nothing, &context()).unwrap();
    let (live, plan) = stated(None, &nothing, &desired).unwrap();
    assert_eq!((live, plan.memory), (None, Memory::Want));
    assert_eq!(drift(&desired, None, None, POLICY), Plan::NOTHING);
}

#[test]
fn plan_debug_output_hides_secret_values() {
    let message = hub_secret("u1", "Y29ycmVjdC1ob3JzZQ==");
    let desired = desired_secret_on_spoke(&message, &context()).unwrap();
    let (live, plan) = stated(None, &message, &desired).unwrap();
    let (store, key) = (
        crate::sync::cache::Store::default(),
        protocol::ObjectKey::new(protocol::Kind::Repository, "argocd", "repo"),
    );
    let live = std::sync::Arc::new(live.unwrap());
    let written = Written::new(&desired, &live);
    store.seen(key.clone(), live);
    let wanted = crate::sync::cache::Wanted {
        desired,
        digest: String::new(),
        written: Some(written),
        leaving: false,
    };
    store.remember(key, wanted);
    let printed = format!("{plan:?} {store:?}");
    assert!(printed.contains("password"));
    assert!(!printed.contains("Y29ycmVjdC1ob3JzZQ"), "{printed}");
}
