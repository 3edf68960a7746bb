use serde_json::json;

use super::*;
use crate::{
    output::render,
    status::Tally,
    testing::{application, is_documented, now, place},
};

fn to_paris(name: &str) -> Value {
    application(
        "argocd",
        name,
        &json!({"name": "paris", "namespace": "shop"}),
    )
}

fn refused() -> Value {
    let mut app = to_paris("till");
    app["status"]["conditions"] = json!([
        {"type": "ComparisonError", "message": "not reported: ours is the cause"},
        {"type": "ArgoCDAgentError", "message": "namespaces \"till\" not found",
         "lastTransitionTime": "2026-11-22T10:00:00Z"},
    ]);
    app
}

fn degraded() -> Value {
    let mut app = to_paris("shop");
    app["status"]["health"]["status"] = json!("Degraded");
    app["status"]["resources"] = json!([
        {"kind": "Service", "name": "web", "health": {"status": "Healthy"}},
        {"kind": "Deployment", "name": "web",
         "health": {"status": "Degraded", "message": "exceeded its progress deadline"}},
    ]);
    app
}

fn behind() -> Value {
    let mut app = to_paris("back");
    app["spec"]["source"]["targetRevision"] = json!("v3");
    app["status"]["conditions"] =
        json!([{"type": "ComparisonError", "message": "v3 is not found"}]);
    app
}

fn troubles(all: &[Value]) -> Troubles {
    let found = all
        .iter()
        .filter_map(|it| trouble(it, Some("paris".to_owned()), now()));
    Troubles::new(found.collect(), None)
}

#[test]
fn status_lists_applications_that_need_attention() {
    let troubles = troubles(&[refused(), to_paris("well"), degraded(), behind()]);
    assert!(troubles.is_bad());
    let text = render(&troubles, place(Format::Table, now())).unwrap();
    insta::assert_snapshot!(text);
    is_documented(&text);
    insta::assert_snapshot!(render(&troubles, place(Format::Wide, now())).unwrap());
    insta::assert_snapshot!(render(&troubles, place(Format::Json, now())).unwrap());
    insta::assert_snapshot!(render(&troubles, place(Format::Yaml, now())).unwrap());
}

#[test]
fn application_problem_matches_its_cluster_problem() {
    for app in [refused(), to_paris("well"), degraded(), behind()] {
        let mut tally = Tally::default();
        tally.count(&app);
        let found = trouble(&app, Some("paris".to_owned()), now());
        assert_eq!(tally.needs_a_look(now()), found.is_some(), "{app:#}");
    }
}

#[test]
fn hub_local_applications_are_listed_for_add_on_conditions_only() {
    assert_eq!(trouble(&degraded(), None, now()), None);
    assert_eq!(trouble(&behind(), None, now()), None);
    assert!(trouble(&refused(), None, now()).is_some());
}

#[test]
fn empty_problem_list_is_reported() {
    let text = render(&Troubles::default(), place(Format::Table, now())).unwrap();
    assert_eq!(text, "no Application needs attention\n");
    let silent = Troubles::new(Vec::new(), Some("no Pod runs".to_owned()));
    let text = render(&silent, place(Format::Table, now())).unwrap();
    assert!(
        text.ends_with("\nno Pod runs\n") && silent.is_bad(),
        "{text}"
    );
}
