//! Plans for the hub's commands on the spoke's own objects. In autonomous mode the agent accepts nothing else.

use argocd::{Meta, command};
use protocol::Verb;
use serde_json::Value;

use super::operation::taken;
use super::step::{No, Plan};

/// Plans a command that a user gave on a mirror.
///
/// It applies only to the mirrored object: a later object of the same name is another one.
pub(in crate::sync::replica) fn of_mirror(
    verb: Verb,
    event_id: &str,
    body: &Value,
    live: Option<&Value>,
) -> Result<Plan, No> {
    let refused = |why: &str| No::Refused(why.to_owned());
    let live = live.ok_or_else(|| refused("the Application does not exist on this cluster"))?;
    if Meta::of(live).is_ignored() {
        return Err(refused("the hub does not mirror this Application"));
    }
    if Meta::of(body).source_uid() != Some(Meta::of(live).uid()) {
        return Err(refused(
            "the Application on this cluster differs from the one on the hub",
        ));
    }
    let patch = if verb == Verb::SpecUpdate {
        command::take_refresh(live, body)
    } else if verb == Verb::TerminateOperation {
        command::take_termination(live, body)
    } else if verb == Verb::SetOperation {
        return taken(event_id, body, live);
    } else {
        return Err(refused("the spoke owns its objects"));
    };
    Ok(patch.map_or(Plan::NOTHING, |patch| Plan::patch(live, patch)))
}

#[cfg(test)]
mod tests {
    use argocd::keys;
    use serde_json::json;

    use super::super::step::Step;
    use super::*;

    fn live() -> Value {
        json!({ "metadata": { "name": "app", "namespace": "argocd", "uid": "u1", "resourceVersion": "3" } })
    }

    fn mirror(source_uid: &str) -> Value {
        json!({
            "metadata": {
                "name": "app", "namespace": "c", "uid": "hub", "resourceVersion": "9",
                "annotations": { keys::SOURCE_UID: source_uid },
            },
            "operation": { "sync": {} },
        })
    }

    fn planned(verb: Verb, body: &Value, live: Option<&Value>) -> Result<Plan, No> {
        of_mirror(verb, "app_hub_9", body, live)
    }

    #[test]
    fn a_sync_command_runs_once_and_only_on_the_mirrored_object() {
        let plan = planned(Verb::SetOperation, &mirror("u1"), Some(&live())).unwrap();
        let [Step::Patch { uid, patch }] = &plan.steps[..] else {
            panic!("{plan:?}");
        };
        assert_eq!(uid, "u1");
        let taken = patch.applied_to(&live());
        assert_eq!(taken["operation"], json!({ "sync": {} }));
        let again = planned(Verb::SetOperation, &mirror("u1"), Some(&taken));
        assert_eq!(again, Ok(Plan::NOTHING));
        for (body, live) in [(mirror("u0"), Some(&live())), (mirror("u1"), None)] {
            let plan = planned(Verb::SetOperation, &body, live);
            assert!(matches!(plan, Err(No::Refused(_))), "{plan:?}");
        }
    }

    #[test]
    fn from_a_state_update_only_the_refresh_is_applied() {
        let mut body = mirror("u1");
        body["spec"] = json!({ "project": "other" });
        assert_eq!(
            planned(Verb::SpecUpdate, &body, Some(&live())),
            Ok(Plan::NOTHING)
        );
        body["metadata"]["annotations"][keys::REFRESH] = "hard".into();
        let plan = planned(Verb::SpecUpdate, &body, Some(&live())).unwrap();
        let [Step::Patch { patch, .. }] = &plan.steps[..] else {
            panic!("{plan:?}");
        };
        let taken = patch.applied_to(&live());
        assert!(taken.get("spec").is_none());
        assert_eq!(Meta::of(&taken).annotation(keys::REFRESH), Some("hard"));
    }

    #[test]
    fn create_and_delete_from_the_hub_are_refused() {
        for verb in [Verb::Create, Verb::Delete, Verb::StatusUpdate] {
            let plan = planned(verb, &mirror("u1"), Some(&live()));
            assert!(matches!(plan, Err(No::Refused(_))), "{verb}: {plan:?}");
        }
    }
}
