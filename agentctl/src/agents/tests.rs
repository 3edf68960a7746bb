use super::*;
use crate::{
    output::{Format, render},
    testing::{self, is_documented, now, place},
};

#[test]
fn nobody_says_how_to_begin() {
    let text = render(&Agents::default(), place(Format::Table, now())).unwrap();
    assert!(text.contains("kubectl label managedcluster"), "{text}");
}

#[test]
fn every_agent_has_its_line_and_who_is_out_says_why() {
    let agents = agents(&testing::fleet());
    let text = render(&agents, place(Format::Table, now())).unwrap();
    insta::assert_snapshot!(text);
    is_documented(&text);
    insta::assert_snapshot!(render(&agents, place(Format::Json, now())).unwrap());
}
