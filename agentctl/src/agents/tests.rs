use diagnosis::testing::{self, now};

use super::*;
use crate::{
    output::{Format, render},
    testing::{is_documented, place},
};

#[test]
fn empty_agent_list_explains_how_to_opt_in() {
    let text = render(&Agents::default(), place(Format::Table, now())).unwrap();
    assert!(text.contains("kubectl label managedcluster"), "{text}");
}

#[test]
fn agent_list_shows_revoked_agents_with_reason() {
    let agents = agents(&testing::fleet());
    let text = render(&agents, place(Format::Table, now())).unwrap();
    insta::assert_snapshot!(text);
    is_documented(&text);
    insta::assert_snapshot!(render(&agents, place(Format::Json, now())).unwrap());
}
