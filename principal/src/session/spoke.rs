//! What an agent says of its cluster as a whole.

use argocd::{claim, cluster_info::Census};
use protocol::{
    Event,
    payload::{self, SpokeInfo},
};

use crate::registry::Seat;

/// Notes what is said. Whoever says something else or nothing has no say in this.
pub(super) fn hear(seat: &Seat, event: &Event) {
    let said = payload::decode::<SpokeInfo>("spoke", &event.payload).unwrap_or_default();
    if let Some(census) = counted(&said) {
        seat.report_census(census);
    }
    seat.report_spoke(said.argo_cd, said.argo_cd_runs, said.trusts);
}

/// What has been counted, in the words of our agent or of Go's; none when it does not say.
fn counted(said: &SpokeInfo) -> Option<Census> {
    let version = said.server_version.as_deref().and_then(claim::version);
    Some(Census {
        applications: said.applications_count?,
        apis: said.apis_count?,
        resources: said.resources_count?,
        server_version: version.map(str::to_owned),
    })
}
