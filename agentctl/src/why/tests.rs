use diagnosis::{
    testing::{application, facts, now, to},
    why::why,
};
use serde_json::json;

use crate::{
    output::{Format, render},
    testing::{is_documented, place},
};

#[test]
fn why_lists_the_hops_of_a_delivered_application() {
    let why = why(&facts(application("paris", "shop", &to("paris"))));
    let text = render(&why, place(Format::Table, now())).unwrap();
    insta::assert_snapshot!(text);
    is_documented(&text);
    insta::assert_snapshot!(render(&why, place(Format::Json, now())).unwrap());
}

#[test]
fn contradicting_destination_stops_why_with_the_next_step() {
    let mut app = application("paris", "shop", &to("berlin"));
    app["status"] = json!({});
    let why = why(&facts(app));
    let text = render(&why, place(Format::Table, now())).unwrap();
    insta::assert_snapshot!(text);
    is_documented(&text);
}

#[test]
fn why_shows_refusals_before_stale_status() {
    let mut app = application("paris", "shop", &to("paris"));
    app["status"]["conditions"] = json!([{"type": "ArgoCDAgentError",
        "message": "the namespace shop is terminating", "lastTransitionTime": "2026-11-22T11:59:00Z"}]);
    let why = why(&facts(app));
    let text = render(&why, place(Format::Table, now())).unwrap();
    insta::assert_snapshot!(text);
}
