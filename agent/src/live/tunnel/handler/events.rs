//! Removes from a list of Events those about objects of no Application.

use std::collections::BTreeMap;

use http::Response;
use kube::client::Body as KubeBody;
use live::belonging::Owner;
use live::request::Request as Asked;
use serde_json::Value;

use super::api::{self, Failed};
use super::belongs::Search;

/// The list with the Events of Applications only. The search bounds the work: after it, further Events are removed, too.
pub(super) async fn of_applications(
    mut search: Search<'_>,
    answered: Response<KubeBody>,
    asked: &Asked,
) -> Result<Response<KubeBody>, Failed> {
    let status = answered.status();
    if !status.is_success() {
        return Ok(answered);
    }
    let list_name = asked.subject.to_string();
    let mut list = api::read(answered, list_name.clone()).await?;
    let Some(events) = list.get_mut("items").and_then(Value::as_array_mut) else {
        return Err(Failed::Unreadable(list_name));
    };
    let mut judged = BTreeMap::new();
    let mut verdicts = Vec::with_capacity(events.len());
    for event in &*events {
        let Some(involved) = Owner::involved_in(event) else {
            verdicts.push(false);
            continue;
        };
        let shown = match judged.get(&involved) {
            Some(shown) => *shown,
            None => search.shows(&involved.0, involved.1).await?,
        };
        judged.insert(involved, shown);
        verdicts.push(shown);
    }
    let mut verdicts = verdicts.into_iter();
    events.retain(|_| verdicts.next() == Some(true));
    Ok(api::json(status, &list))
}
