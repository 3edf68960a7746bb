use diagnosis::{
    status::trouble,
    testing::{behind, degraded, healthy, now, refused},
};
use serde_json::Value;

use super::*;
use crate::{
    output::render,
    testing::{is_documented, place},
};

fn troubles(all: &[Value]) -> Troubles {
    let found = all
        .iter()
        .filter_map(|it| trouble(it, Some("paris".to_owned()), now()));
    Troubles::new(found.collect(), None)
}

#[test]
fn status_lists_applications_that_need_attention() {
    let troubles = troubles(&[refused(), healthy(), degraded(), behind()]);
    assert!(troubles.is_bad());
    let text = render(&troubles, place(Format::Table, now())).unwrap();
    insta::assert_snapshot!(text);
    is_documented(&text);
    insta::assert_snapshot!(render(&troubles, place(Format::Wide, now())).unwrap());
    insta::assert_snapshot!(render(&troubles, place(Format::Json, now())).unwrap());
    insta::assert_snapshot!(render(&troubles, place(Format::Yaml, now())).unwrap());
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
