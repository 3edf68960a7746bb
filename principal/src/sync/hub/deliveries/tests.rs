use super::*;
use serde_json::json;

fn compares(hub: &Value, report: &Value) -> bool {
    let (hub, report) = (
        json!({ "spec": hub }),
        json!({ "status": { "sync": { "comparedTo": report } } }),
    );
    compares_sources(Application::of(&hub), Application::of(&report))
}

#[test]
fn report_of_other_sources_shows_no_change() {
    let source =
        |revision: &str| json!({ "repoURL": "u", "path": "p", "targetRevision": revision });
    let one = |revision: &str| json!({ "source": source(revision) });
    assert!(compares(&one("v2"), &one("v2")));
    assert!(!compares(&one("v2"), &one("v1")));
    let several = json!({ "sources": [source("v1"), source("v2")], "source": source("v0") });
    assert!(compares(
        &several,
        &json!({ "sources": [source("v1"), source("v2")] })
    ));
    assert!(!compares(
        &several,
        &json!({ "sources": [source("v2"), source("v1")] })
    ));
    assert!(!compares(&one("v2"), &several));
}

#[test]
fn fields_that_argo_cd_may_add_or_drop_do_not_count() {
    let hub = json!({ "source": { "repoURL": "u", "path": "", "directory": {} } });
    assert!(compares(
        &hub,
        &json!({ "source": { "repoURL": "u" }, "destination": { "name": "x" } })
    ));
}

#[test]
fn report_without_a_comparison_counts() {
    let hub = json!({ "source": { "repoURL": "u" } });
    for report in [
        Value::Null,
        json!({}),
        json!({ "source": null }),
        json!("text"),
    ] {
        assert!(compares(&hub, &report), "{report}");
    }
    assert!(compares(&Value::Null, &hub));
    let plain = json!({ "spec": hub });
    assert!(compares_sources(
        Application::of(&plain),
        Application::of(&json!({}))
    ));
}
