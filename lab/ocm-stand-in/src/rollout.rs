//! The progress of an add-on towards its configuration on a cluster. Pure.
//!
//! Not implemented: the times (`minSuccessTime`, `progressDeadline`), `maxFailures` and mandatory groups.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

mod wanted;

pub(crate) use self::wanted::{Config, defaults, of_add_on, of_placement};
use self::wanted::{entries, override_by_kind};

/// The progress of one add-on towards its desired configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Its status does not name the desired configuration yet.
    ToApply,
    /// The status names it; the manager and the work agent have not finished.
    Progressing,
    /// The add-on reported a failure.
    Failed,
    /// The desired configuration was applied last.
    Succeeded,
}

/// Compares the applied with the desired configuration of an add-on.
pub(crate) fn state(add_on: &Value, wanted: &[Config]) -> State {
    let has = entries(&add_on["status"]["configReferences"]);
    if has.len() != wanted.len() {
        return State::ToApply;
    }
    for entry in has {
        let desired = Config::of_status(entry);
        let is_wanted = desired
            .as_ref()
            .is_some_and(|desired| wanted.contains(desired));
        if !is_wanted {
            return State::ToApply;
        }
        if Config::read(entry, &entry["lastAppliedConfig"]) != desired {
            let progressing = crate::condition::find(add_on, "Progressing");
            let failed = progressing.is_some_and(|condition| condition["reason"] == "Failed");
            return if failed {
                State::Failed
            } else {
                State::Progressing
            };
        }
    }
    State::Succeeded
}

/// One add-on in a rollout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Member {
    pub(crate) cluster: String,
    /// The decision group of its cluster.
    pub(crate) group: u64,
    pub(crate) state: State,
}

/// The add-ons that may get their desired configuration now; the others keep their current one. All of them, or with
/// `Progressive` those that have it already and as many more as may progress at a time, or with `ProgressivePerGroup`
/// also those of the first group that is not done.
pub(crate) fn batch(strategy: &Value, members: &[Member]) -> BTreeSet<String> {
    let begun = members.iter().filter(|it| it.state != State::ToApply);
    let waiting = members.iter().filter(|it| it.state == State::ToApply);
    let name = |it: &Member| it.cluster.clone();
    if strategy["type"] == "Progressive" {
        let busy = |it: &&Member| matches!(it.state, State::Progressing | State::Failed);
        let under_way = members.iter().filter(busy).count();
        let most = most(&strategy["progressive"]["maxConcurrency"], members.len());
        let next = waiting.take(most.saturating_sub(under_way));
        return begun.chain(next).map(name).collect();
    }
    if strategy["type"] == "ProgressivePerGroup" {
        let undone = members.iter().filter(|it| it.state != State::Succeeded);
        let first = undone.map(|it| it.group).min();
        let next = waiting.filter(|it| Some(it.group) == first);
        return begun.chain(next).map(name).collect();
    }
    members.iter().map(name).collect()
}

/// A number, or so many per cent of all, rounded up.
pub(crate) fn most(value: &Value, all: usize) -> usize {
    let number = value
        .as_u64()
        .and_then(|number| usize::try_from(number).ok());
    let percent = value
        .as_str()
        .and_then(|text| text.strip_suffix('%')?.parse::<usize>().ok());
    let share = percent.map(|percent| all.saturating_mul(percent).div_ceil(100));
    number.or(share).unwrap_or(all)
}

/// The `configReferences` that set `wanted` and keep the observed values of the same objects.
pub(crate) fn references(add_on: &Value, wanted: &[Config]) -> Value {
    let has = entries(&add_on["status"]["configReferences"]);
    let mut result: Vec<Value> = wanted
        .iter()
        .map(|config| {
            let same = |entry: &&Value| {
                Config::of_status(entry).is_some_and(|desired| desired.is_object_of(config))
            };
            let mut entry = has.iter().find(same).cloned().unwrap_or_else(|| json!({}));
            merge_into(&mut entry, config.to_status());
            entry
        })
        .collect();
    result.sort_by_key(|entry| (entry["group"].to_string(), entry["resource"].to_string()));
    Value::Array(result)
}

/// The skeleton of a ClusterManagementAddOn's `status.defaultConfigReferences`.
pub(crate) fn default_references(management: &Value) -> Value {
    defaults(management).iter().map(Config::to_status).collect()
}

/// The skeleton of `status.installProgressions`: hashes and conditions of known entries stay.
pub(crate) fn progressions(management: &Value) -> Value {
    let strategy = &management["spec"]["installStrategy"];
    if strategy["type"] != "Placements" {
        return json!([]);
    }
    let unhashed: Vec<Config> = defaults(management)
        .into_iter()
        .map(|c| Config {
            hash: String::new(),
            ..c
        })
        .collect();
    let known = entries(&management["status"]["installProgressions"]);
    entries(&strategy["placements"])
        .iter()
        .map(|placement| {
            let own: Vec<Config> = entries(&placement["configs"])
                .iter()
                .filter_map(Config::of_spec)
                .collect();
            let wanted = override_by_kind(&unhashed, &own);
            let place = (&placement["namespace"], &placement["name"]);
            let before = known
                .iter()
                .find(|one| (&one["namespace"], &one["name"]) == place);
            progression(placement, &wanted, before)
        })
        .collect()
}

fn progression(placement: &Value, wanted: &[Config], before: Option<&Value>) -> Value {
    let mut result = Map::new();
    for key in ["namespace", "name"] {
        result.insert(key.to_owned(), placement[key].clone());
    }
    let before = before.cloned().unwrap_or_else(|| json!({}));
    let known = entries(&before["configReferences"]);
    let mut references: Vec<Value> = wanted
        .iter()
        .map(|config| {
            let same = |entry: &&Value| {
                Config::of_status(entry).is_some_and(|desired| desired.is_object_of(config))
            };
            known
                .iter()
                .find(same)
                .cloned()
                .unwrap_or_else(|| config.to_status())
        })
        .collect();
    references.sort_by_key(|entry| (entry["group"].to_string(), entry["resource"].to_string()));
    result.insert("configReferences".to_owned(), Value::Array(references));
    if let Some(conditions) = before.get("conditions") {
        result.insert("conditions".to_owned(), conditions.clone());
    }
    Value::Object(result)
}

fn merge_into(into: &mut Value, from: Value) {
    if let (Some(into), Value::Object(from)) = (into.as_object_mut(), from) {
        into.extend(from);
    }
}

/// Sets `lastAppliedConfig` (and for a progression `lastKnownGoodConfig`) to the desired configuration.
pub(crate) fn mark_applied(references: &mut Value, keys: &[&str]) {
    for entry in references.as_array_mut().into_iter().flatten() {
        let desired = entry["desiredConfig"].clone();
        for key in keys {
            entry[*key] = desired.clone();
        }
    }
}

/// The map that a ManifestWork's hash annotation must equal: `resource.group/namespace/name` to hash.
///
/// None while a hash is still missing.
pub(crate) fn hash_map(add_on: &Value) -> Option<Map<String, Value>> {
    let mut map = Map::new();
    for entry in entries(&add_on["status"]["configReferences"]) {
        let config = Config::of_status(entry).filter(|config| !config.hash.is_empty())?;
        let kind = if config.group.is_empty() {
            config.resource
        } else {
            format!("{}.{}", config.resource, config.group)
        };
        map.insert(
            format!("{kind}/{}/{}", config.namespace, config.name),
            json!(config.hash),
        );
    }
    Some(map)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::words::NO_DEFAULT;

    fn management() -> Value {
        json!({
            "spec": {
                "defaultConfigs": [
                    { "group": "g", "resource": "r", "namespace": "ns", "name": "default" },
                    { "group": "g", "resource": "none", "name": NO_DEFAULT },
                ],
                "installStrategy": { "type": "Placements", "placements": [
                    { "namespace": "p", "name": "plain" },
                    { "namespace": "p", "name": "special", "configs": [
                        { "group": "g", "resource": "r", "namespace": "ns", "name": "special" },
                    ]},
                ]},
            },
            "status": { "defaultConfigReferences": [{
                "group": "g", "resource": "r",
                "desiredConfig": { "namespace": "ns", "name": "default", "specHash": "h1" },
            }]},
        })
    }

    #[test]
    fn the_most_particular_place_wins_kind_by_kind() {
        let management = management();
        let defaults = defaults(&management);
        assert_eq!(
            defaults.iter().map(|c| c.name.as_str()).collect::<Vec<_>>(),
            ["default"]
        );
        assert_eq!(defaults[0].hash, "h1");

        let progressions = progressions(&management);
        assert_eq!(
            progressions[0]["configReferences"][0]["desiredConfig"]["name"],
            "default"
        );
        let special = of_placement(&defaults, &progressions[1]);
        assert_eq!(special[0].name, "special");

        let add_on = json!({
            "spec": { "configs": [{ "group": "g", "resource": "r", "namespace": "x", "name": "own" }] },
            "status": { "configReferences": [{
                "group": "g", "resource": "r",
                "desiredConfig": { "namespace": "x", "name": "own", "specHash": "h2" },
            }]},
        });
        let own = of_add_on(&special, &add_on);
        assert_eq!((own[0].name.as_str(), own[0].hash.as_str()), ("own", "h2"));
    }

    #[test]
    fn an_add_on_goes_from_to_apply_over_progressing_to_succeeded() {
        let wanted = defaults(&management());
        let mut add_on = json!({ "status": {} });
        assert_eq!(state(&add_on, &wanted), State::ToApply);

        add_on["status"]["configReferences"] = references(&add_on, &wanted);
        assert_eq!(state(&add_on, &wanted), State::Progressing);

        mark_applied(
            &mut add_on["status"]["configReferences"],
            &["lastAppliedConfig"],
        );
        assert_eq!(state(&add_on, &wanted), State::Succeeded);
        assert_eq!(
            references(&add_on, &wanted),
            add_on["status"]["configReferences"]
        );
    }

    /// Clusters `0`, `1` and so on, two in each group.
    fn members(states: &[State]) -> Vec<Member> {
        let named = (0..).zip(states);
        named
            .map(|(index, state): (u64, _)| Member {
                cluster: index.to_string(),
                group: index / 2,
                state: *state,
            })
            .collect()
    }

    #[test]
    fn a_rollout_by_groups_begins_with_the_next_when_one_is_done() {
        use State::{Progressing, Succeeded, ToApply};
        let strategy = json!({ "type": "ProgressivePerGroup" });
        let cases: [(&[State], &[&str]); 4] = [
            (&[ToApply, ToApply, ToApply], &["0", "1"]),
            (&[Succeeded, ToApply, ToApply], &["0", "1"]),
            (&[Succeeded, Progressing, ToApply], &["0", "1"]),
            (&[Succeeded, Succeeded, ToApply], &["0", "1", "2"]),
        ];
        for (now, wanted) in cases {
            let batch = batch(&strategy, &members(now));
            assert_eq!(batch.iter().collect::<Vec<_>>(), wanted, "{now:?}");
        }
    }

    #[test]
    fn a_progressive_rollout_has_so_many_under_way_and_no_more() {
        use State::{Progressing, Succeeded, ToApply};
        let one = json!({ "type": "Progressive", "progressive": { "maxConcurrency": 1 } });
        let half = json!({ "type": "Progressive", "progressive": { "maxConcurrency": "50%" } });
        let cases: [(&Value, &[State], &[&str]); 5] = [
            (&json!(null), &[ToApply, ToApply], &["0", "1"]),
            (&one, &[ToApply, ToApply, ToApply], &["0"]),
            (&one, &[Succeeded, Progressing, ToApply], &["0", "1"]),
            (&one, &[Succeeded, Succeeded, ToApply], &["0", "1", "2"]),
            (&half, &[ToApply, ToApply, ToApply], &["0", "1"]),
        ];
        for (strategy, now, wanted) in cases {
            let batch = batch(strategy, &members(now));
            assert_eq!(
                batch.iter().collect::<Vec<_>>(),
                wanted,
                "{strategy} {now:?}"
            );
        }
    }

    #[test]
    fn a_missing_hash_makes_no_map() {
        let mut add_on = json!({ "status": { "configReferences": [{
            "group": "g", "resource": "r",
            "desiredConfig": { "namespace": "ns", "name": "n", "specHash": "" },
        }]}});
        assert_eq!(hash_map(&add_on), None);
        add_on["status"]["configReferences"][0]["desiredConfig"]["specHash"] = json!("h");
        assert_eq!(hash_map(&add_on).unwrap()["r.g/ns/n"], "h");
    }

    #[test]
    fn a_progression_keeps_its_hashes_while_the_objects_stay() {
        let mut management = management();
        let mut first = progressions(&management);
        first[0]["configReferences"][0]["desiredConfig"]["specHash"] = json!("h9");
        management["status"]["installProgressions"] = first.clone();
        assert_eq!(progressions(&management), first);
    }
}
