//! Commands of the hub on the spoke's own objects. In autonomous mode the agent accepts nothing else from the hub.

use argocd::command::{self, Take};
use argocd::{Application, Meta};
use protocol::{Event, Kind, ObjectKey, Target, Verb, Verdict};
use serde_json::Value;

use super::message::is_name;
use super::plan::{No, Plan, one_patch};
use super::{BUSY_PAUSE, Replica};

impl Replica {
    /// Carries out a command that a user gave on a mirror. Failures become verdicts.
    pub(super) async fn command(&self, event: &Event) -> Verdict {
        let refused = |why: &str| {
            tracing::info!(?event, why, "refused a message");
            Verdict::Refused(why.to_owned())
        };
        let Some(object) = event.object().filter(|it| it.kind == Kind::Application) else {
            return refused("an autonomous cluster takes commands on Applications only");
        };
        if !is_name(&object.name) {
            return refused("invalid name");
        }
        let body: Value = match serde_json::from_slice(&event.payload) {
            Ok(body) => body,
            Err(_error) => return refused("the message is not an object"),
        };
        let key = ObjectKey::new(object.kind, self.argocd_namespace(), object.name);
        let _only_writer = self.lock(&key).await;
        let live = self.store.live(&key);
        match plan(event, &body, live.as_deref()) {
            Ok(plan) => self.apply(&key, plan, None).await,
            Err(No::Refused(reason)) => refused(&reason),
            Err(No::Occupied(reason)) => refused(reason),
            Err(No::NotYet(why)) => {
                tracing::debug!(object = %key, why, "cannot run the command yet; retrying");
                Verdict::Retry { after: BUSY_PAUSE }
            }
        }
    }
}

/// The plan for a command; pure.
///
/// It applies only to the mirrored object: a later object of the same name is another one.
fn plan(event: &Event, body: &Value, live: Option<&Value>) -> Result<Plan, No> {
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
    match (event.target, event.verb) {
        (Target::Object(_), Verb::SpecUpdate) => {
            let patch = command::take_refresh(live, body);
            Ok(patch.map_or(Plan::NOTHING, |patch| one_patch(live, patch)))
        }
        (Target::Object(_), Verb::SetOperation) => {
            let operation = Application::of(body)
                .operation()
                .ok_or_else(|| refused("the message has no operation"))?;
            match command::take(live, &event.event_id, operation) {
                Take::AlreadyTaken => Ok(Plan::NOTHING),
                Take::Busy => Err(No::NotYet("another operation is in progress")),
                Take::Set(patch) => Ok(one_patch(live, patch)),
            }
        }
        (Target::Object(_), Verb::TerminateOperation) => {
            let patch = command::take_termination(live, body);
            Ok(patch.map_or(Plan::NOTHING, |patch| one_patch(live, patch)))
        }
        _ => Err(refused("the spoke owns its objects")),
    }
}

#[cfg(test)]
mod tests {
    use argocd::keys;
    use bytes::Bytes;
    use serde_json::json;

    use super::super::plan::Step;
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
        let key = ObjectKey::new(Kind::Application, "c", "app");
        let event = Event::about(&key, verb, "hub", "9", Bytes::new());
        plan(&event, body, live)
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
