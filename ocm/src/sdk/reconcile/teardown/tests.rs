use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use proptest::prelude::*;
use serde_json::Value;

use super::*;
use crate::{
    api::addon::Version,
    condition::Status,
    sdk::{
        Hosts,
        object_cache::Observed,
        reconcile::samples::{
            Author, author, carry_out, cluster_name, config_map, names, observed,
        },
    },
};

const HOOK: &str = "addon-a-pre-delete";

fn job(name: &str) -> Value {
    json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": { "namespace": "n", "name": name, "annotations": { (keys::PRE_DELETE): "" } },
    })
}

fn hooked_author() -> Author {
    author(vec![config_map("x", 1), job("one"), job("two")])
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

/// A cluster with a work, whose add-on was deleted at second 0, when its hooks were reported as pending.
fn deleting(finalizers: &[&str]) -> Observed {
    let mut met = observed();
    let mut addon = (**met.addon.as_ref().unwrap()).clone();
    addon.metadata.deletion_timestamp = Some(Time(at(0)));
    addon.metadata.finalizers = Some(finalizers.iter().map(|&name| name.to_owned()).collect());
    let waits = Verdict::new(condition::addon::HOOK_MANIFEST_COMPLETED, false, "R", "");
    let status = addon.status.get_or_insert_default();
    status.conditions.push(waits.onto(&[], at(0)));
    met.addon = Some(Arc::new(addon));
    let mut work = Work::default();
    work.report.name = "addon-a-deploy-0".to_owned();
    work.report.namespace = "c".to_owned();
    met.works = vec![Arc::new(work)];
    met
}

fn decide(author: &Author, met: &Observed, now: i64) -> Teardown {
    let input = PlanInput {
        version: Version::V1Beta1,
        cluster: &cluster_name(),
        observed: met,
        now: at(now),
    };
    tear_down(author, input, &|_| None)
}

/// The state after the cluster reports the hooks' Jobs.
fn reported(met: &Observed, jobs: &[(&str, &str)]) -> Observed {
    let manifests = jobs.iter().map(|(name, complete)| {
        let value = json!({ "type": "String", "string": complete });
        json!({
            "resourceMeta": { "kind": "Job", "namespace": "n", "name": name },
            "statusFeedback": { "values": [{ "name": "JobComplete", "fieldValue": value }] },
        })
    });
    let available = json!([{
        "type": "Available", "status": "True", "reason": "R", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": 0,
    }]);
    let manifests: Vec<_> = manifests.collect();
    let status = json!({ "conditions": available, "resourceStatus": { "manifests": manifests } });
    let with_status = |work: &Arc<Work>| {
        let mut work = (**work).clone();
        if work.report.name.contains("pre-delete") {
            work.report.status = serde_json::from_value(status.clone()).unwrap();
        }
        Arc::new(work)
    };
    Observed {
        works: met.works.iter().map(with_status).collect(),
        ..met.clone()
    }
}

#[test]
fn hooks_run_before_removal_of_works_and_finalizer() {
    let (author, met) = (hooked_author(), deleting(&[keys::PRE_DELETE_FINALIZER]));
    let first = decide(&author, &met, 1);
    assert_eq!(names(&first.steps), [format!("apply {HOOK}")]);
    assert_eq!(first.finalizers, None);
    assert_eq!(first.recheck, Some(Duration::from_secs(599)));

    let met = carry_out(&met, &first.steps);
    assert_eq!(decide(&author, &met, 1).steps, [], "sent once");

    let half = reported(&met, &[("one", "True"), ("two", "False")]);
    let waiting = decide(&author, &half, 2);
    assert_eq!(waiting.finalizers, None);
    assert!(waiting.hooks.unwrap().message.ends_with("Job n/two: False"));

    let done = decide(
        &author,
        &reported(&met, &[("one", "True"), ("two", "True")]),
        3,
    );
    assert_eq!(done.hooks.unwrap().status, Status::True);
    assert_eq!(done.finalizers, Some(vec![]));
    assert_eq!(done.given_up, None);
    assert_eq!(
        names(&done.steps),
        ["delete addon-a-deploy-0", "delete addon-a-pre-delete"]
    );
}

#[test]
fn hooks_time_out_at_their_deadline() {
    let (author, met) = (hooked_author(), deleting(&[keys::PRE_DELETE_FINALIZER]));
    let met = carry_out(&met, &decide(&author, &met, 1).steps);
    let late = decide(&author, &met, 600);
    assert_eq!(late.hooks.unwrap().status, Status::False);
    assert!(late.given_up.unwrap().contains("not started"));
    assert_eq!(late.finalizers, Some(vec![]));
    assert_eq!(late.steps.len(), 2);
}

/// The deletion time is of the hub's clock, and the condition of the hooks of the manager's.
#[test]
fn clocks_that_disagree_neither_cut_hooks_short_nor_keep_an_add_on() {
    let deleted_at = |deleted: i64, started: Option<i64>| {
        let mut met = deleting(&[keys::PRE_DELETE_FINALIZER]);
        let mut addon = (**met.addon.as_ref().unwrap()).clone();
        addon.metadata.deletion_timestamp = Some(Time(at(deleted)));
        let conditions = &mut addon.status.as_mut().unwrap().conditions;
        let kind = condition::addon::HOOK_MANIFEST_COMPLETED;
        conditions.retain(|it| it.type_ != kind);
        let waits = Verdict::new(kind, false, "R", "");
        conditions.extend(started.map(|started| waits.onto(&[], at(started))));
        met.addon = Some(Arc::new(addon));
        met
    };
    let hooks = hooked_author();
    let minutes = |count: i64| 60 * count;
    let goes = |met: &Observed, now: i64| decide(&hooks, met, now).finalizers.is_some();
    // The manager's clock is four minutes ahead, or an hour behind: the hooks have their full time.
    assert!(!goes(&deleted_at(0, None), minutes(4)));
    assert!(!goes(&deleted_at(minutes(60), None), 0));
    let first = decide(&hooks, &deleted_at(minutes(60), None), 0);
    assert_eq!(first.recheck, Some(Duration::from_mins(10)));
    // After that time by the manager's clock they time out, regardless of the hub's clock.
    assert!(goes(&deleted_at(minutes(60), Some(0)), minutes(10)));
    // A cluster that keeps rewriting the condition of its hooks cannot delay the removal for ever.
    assert!(!goes(&deleted_at(0, Some(minutes(14))), minutes(14)));
    assert!(goes(&deleted_at(0, Some(minutes(15))), minutes(15)));
}

#[test]
fn hooks_that_cannot_be_rendered_delay_the_removal_until_the_deadline() {
    let met = deleting(&[keys::PRE_DELETE_FINALIZER]);
    let mut author = hooked_author();
    author.error = Some(crate::sdk::RenderError {
        message: "no address".to_owned(),
    });
    let waiting = decide(&author, &met, 1);
    assert_eq!((waiting.steps.len(), waiting.finalizers), (0, None));
    assert_eq!(
        decide(&author, &met, 601).given_up.as_deref(),
        Some("no address")
    );
}

#[test]
fn removal_does_not_wait_for_a_cluster_that_is_gone() {
    let mut met = deleting(&[keys::PRE_DELETE_FINALIZER, "other.io/x"]);
    met.cluster = None;
    met.abandoned = ["c".to_owned()].into();
    let first = decide(&hooked_author(), &met, 1);
    assert_eq!(first.hooks, None);
    assert_eq!(names(&first.steps), ["delete addon-a-deploy-0"]);
    assert_eq!(first.finalizers, Some(vec!["other.io/x".to_owned()]));
    assert_eq!(first.abandoned, [], "the deletion may suffice");

    let mut work = (*met.works[0]).clone();
    work.deleting = true;
    work.finalizers = vec![keys::WORK_FINALIZER.to_owned()];
    met.works = vec![Arc::new(work)];
    let second = decide(&hooked_author(), &met, 2);
    assert_eq!((second.steps.len(), second.abandoned.len()), (0, 1));
    met.abandoned.clear();
    assert_eq!(
        decide(&hooked_author(), &met, 2).abandoned,
        [],
        "its work agent removes it"
    );
}

#[test]
fn removal_does_not_wait_without_hooks_or_without_works() {
    let plain = author(vec![config_map("x", 1)]);
    let removal = decide(&plain, &deleting(&[]), 1);
    assert_eq!(names(&removal.steps), ["delete addon-a-deploy-0"]);
    assert_eq!((removal.hooks, removal.finalizers), (None, None));
    let mut met = deleting(&[keys::PRE_DELETE_FINALIZER]);
    met.works.clear();
    assert_eq!(decide(&hooked_author(), &met, 1).finalizers, Some(vec![]));
}

#[test]
fn hooks_of_a_host_run_there_before_its_works_are_deleted() {
    let mut met = deleting(&[
        keys::HOSTING_PRE_DELETE_FINALIZER,
        keys::HOSTING_CLEANUP_FINALIZER,
    ]);
    let mut addon = (**met.addon.as_ref().unwrap()).clone();
    addon.metadata.annotations = Some([(keys::HOSTING_CLUSTER.to_owned(), "h".to_owned())].into());
    met.addon = Some(Arc::new(addon));
    met.host.clone_from(&met.cluster);
    let mut hook = job("one");
    hook["metadata"]["annotations"][keys::HOSTED_LOCATION] = json!("hosting");
    let author = Author {
        hosts: Hosts::Any,
        ..author(vec![hook])
    };
    let first = decide(&author, &met, 1);
    assert_eq!(names(&first.steps), ["apply addon-a-pre-delete-hosting-c"]);
    let met = carry_out(&met, &first.steps);
    let done = decide(&author, &reported(&met, &[("one", "True")]), 2);
    assert_eq!(done.finalizers, Some(vec![]));
    assert_eq!(
        done.steps.len(),
        2,
        "no other component deletes it on the host"
    );

    let hostless = Observed { host: None, ..met };
    assert_eq!(decide(&author, &hostless, 2).finalizers, Some(vec![]));
}

#[test]
fn ocms_template_controller_is_not_disturbed() {
    let mut met = deleting(&[keys::PRE_DELETE_FINALIZER]);
    let mut addon = (**met.addon.as_ref().unwrap()).clone();
    addon.spec.configs.push(AddOnConfig {
        group: crate::api::addon::GROUP.to_owned(),
        resource: "addontemplates".to_owned(),
        namespace: String::new(),
        name: "t".to_owned(),
    });
    met.addon = Some(Arc::new(addon));
    assert_eq!(decide(&hooked_author(), &met, 601), Teardown::default());
}

proptest! {
    #[test]
    fn removal_ends_by_the_deadline_for_any_report(
        jobs in prop::collection::vec(("one|two|other", "True|False|"), 0..4), now in 0i64..1200
    ) {
        let (author, met) = (hooked_author(), deleting(&[keys::PRE_DELETE_FINALIZER]));
        let met = carry_out(&met, &decide(&author, &met, 0).steps);
        let jobs: Vec<_> = jobs.iter().map(|(name, state)| (name.as_str(), state.as_str())).collect();
        let teardown = decide(&author, &reported(&met, &jobs), now);
        let complete = |name| jobs.iter().find(|(job, _)| *job == name).is_some_and(|(_, it)| *it == "True");
        let done = complete("one") && complete("two");
        prop_assert_eq!(teardown.finalizers.is_some(), done || now >= 600);
        prop_assert_eq!(teardown.given_up.is_some(), !done && now >= 600);
        // A removal that waits has the time of its next reconcile.
        prop_assert_eq!(teardown.recheck.is_some(), teardown.finalizers.is_none());
    }
}
