//! A change of a configuration reaches each cluster when OCM rolls it out there, not before.

use proptest::prelude::*;
use serde_json::Value;

use super::*;
use crate::api::addon::GROUP;
use crate::sdk::hash::{Live, spec_hash};

const RESOURCE: &str = "addondeploymentconfigs";

fn named() -> AddOnConfig {
    AddOnConfig {
        group: GROUP.to_owned(),
        resource: RESOURCE.to_owned(),
        namespace: "s".to_owned(),
        name: "n".to_owned(),
    }
}

fn config(text: &str) -> Value {
    json!({ "spec": { "customizedVariables": [{ "name": "TEXT", "value": text }] } })
}

/// A cluster to which OCM has rolled this content out.
fn rolled_out(content: &Value) -> Observed {
    let mut met = observed();
    let mut addon = (**met.addon.as_ref().unwrap()).clone();
    addon.spec.configs.push(named());
    let reference = json!({
        "group": GROUP, "resource": RESOURCE,
        "desiredConfig": { "namespace": "s", "name": "n", "specHash": spec_hash(content) },
    });
    let status = addon.status.get_or_insert_default();
    status.config_references = vec![serde_json::from_value(reference).unwrap()];
    met.addon = Some(Arc::new(addon));
    met
}

fn decide_with(author: &Author, met: &Observed, content: &Value) -> Plan {
    let name = cluster_name();
    let Stage::Served(target) = stage(author, &name, met) else {
        panic!("not served")
    };
    let input = PlanInput {
        version: Version::V1Beta1,
        cluster: &name,
        observed: met,
        now: Timestamp::UNIX_EPOCH,
    };
    let object = ConfigObject {
        raw: content.clone(),
        live: Live {
            hash: spec_hash(content),
            generation: 1,
        },
    };
    let object = Arc::new(object);
    let configs = |_: &_| Some(Arc::clone(&object));
    plan(author, input, target, None, &Hosting::No, &configs)
}

/// An add-on that renders this content.
fn author_of(text: &str) -> Author {
    author(vec![config_map(text, 1)])
}

#[test]
fn an_edit_in_place_waits_until_it_is_rolled_out_to_the_cluster() {
    let (old, new) = (config("old"), config("new"));
    let met = rolled_out(&old);
    let Works::Change(first) = decide_with(&author_of("old"), &met, &old).works else {
        panic!()
    };
    let met = carry_out(&met, &first);

    // The object is edited; OCM's desired hash is still that of the old content.
    let waiting = decide_with(&author_of("new"), &met, &new);
    assert!(matches!(
        waiting.works,
        Works::Keep(Waiting::NotRolledOut(_))
    ));
    assert_eq!(waiting.finalizers, None);

    // OCM rolls the edit out to this cluster.
    let met = Observed {
        works: met.works,
        ..rolled_out(&new)
    };
    let Works::Change(then) = decide_with(&author_of("new"), &met, &new).works else {
        panic!()
    };
    assert_eq!(names(&then), ["apply addon-a-deploy-0"]);
    let met = carry_out(&met, &then);
    let Works::Change(rest) = decide_with(&author_of("new"), &met, &new).works else {
        panic!()
    };
    assert_eq!(rest, []);
}

proptest! {
    #[test]
    fn only_clusters_in_the_rollout_change(
        staged in prop::collection::vec(any::<bool>(), 1..8)
    ) {
        let (old, new) = (config("old"), config("new"));
        for staged in staged {
            let met = rolled_out(&old);
            let Works::Change(first) = decide_with(&author_of("old"), &met, &old).works else { panic!() };
            let works = carry_out(&met, &first).works;
            let now = if staged { rolled_out(&new) } else { rolled_out(&old) };
            let met = Observed { works, ..now };
            let changes = match decide_with(&author_of("new"), &met, &new).works {
                Works::Change(steps) => steps.len(),
                Works::Keep(_) | Works::Refused(_) => 0,
            };
            prop_assert_eq!(changes, usize::from(staged));
        }
    }
}
