//! Where something stands that was asked for and takes its time: what `--wait` waits for. Pure.

use argocd::keys::addon::{ROTATE, ROTATE_TAKEN, ROTATING_SINCE};
use diagnosis::{
    facts::Addon,
    object::first_names,
    status::{Connection, connected, worst},
};
use serde_json::Value;

use crate::certs::stage;

/// Where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WaitState {
    /// Done, with the message for the user.
    Done(String),
    /// Not done, with the pending step.
    Pending(String),
    /// It cannot succeed, with the cause.
    Impossible(String),
}

/// Of another key and certificate for one agent.
pub fn rekeyed(before: &Addon, now: &Addon) -> WaitState {
    let cluster = &now.cluster;
    if now.revoked.is_some() {
        return WaitState::Impossible(format!(
            "the agent of {cluster} was revoked in the meantime"
        ));
    }
    let issued = now.certificate();
    if issued.is_none() || issued == before.certificate() {
        let reason = "OCM's registration agent on the cluster to get its new certificate";
        return WaitState::Pending(reason.to_owned());
    }
    if connected(now).state != Connection::Yes {
        return WaitState::Pending("the agent to connect with its new certificate".to_owned());
    }
    WaitState::Done(format!(
        "the agent of {cluster} has a new key and certificate, and is connected"
    ))
}

/// Of another certificate authority, which was asked for with this value.
pub fn replaced(asked: &str, secret: &Value, addons: &[Addon]) -> WaitState {
    let meta = argocd::Meta::of(secret);
    if meta.annotation(ROTATE) != Some(asked) {
        return WaitState::Impossible(
            "another user requested a further rotation in the meantime".to_owned(),
        );
    }
    let taken = meta.annotation(ROTATE_TAKEN) == Some(asked);
    if meta.annotation(ROTATING_SINCE).is_none() {
        if !taken {
            return WaitState::Pending("the hub program to start it".to_owned());
        }
        return WaitState::Done(
            "the new certificate authority is in use, and the old one is no longer trusted"
                .to_owned(),
        );
    }
    let is_admitted = |addon: &&Addon| addon.is_in_force() && addon.revoked.is_none();
    let blocking = addons.iter().filter(is_admitted);
    let blocking = blocking.filter(|addon| connected(addon).state == Connection::No);
    let blocking: Vec<_> = blocking.map(|addon| addon.cluster.as_str()).collect();
    let names = match blocking.as_slice() {
        [] => String::new(),
        all => format!("; not connected: {}", first_names(all)),
    };
    WaitState::Pending(format!("{}{names}", stage(secret)))
}

/// Of clusters that were opted in.
pub fn enrolled(clusters: &[String], addons: &[Addon]) -> WaitState {
    let waits_for = |cluster: &String| {
        let Some(addon) = addons.iter().find(|addon| addon.cluster == *cluster) else {
            return Some(format!("{cluster} (no add-on yet)"));
        };
        if connected(addon).state == Connection::Yes {
            return None;
        }
        let error = worst(addon).map(|error| format!("{cluster} ({})", error.reason));
        Some(error.unwrap_or_else(|| cluster.clone()))
    };
    let waiting: Vec<_> = clusters.iter().filter_map(waits_for).collect();
    let all = clusters.len();
    if waiting.is_empty() {
        return WaitState::Done(format!("connected: {all}"));
    }
    let (done, names) = (all.saturating_sub(waiting.len()), first_names(&waiting));
    WaitState::Pending(format!("{done} of {all} connected; waiting for {names}"))
}

#[cfg(test)]
mod tests {
    use diagnosis::testing::{ConditionFields, addon, fleet, well};
    use serde_json::json;

    use super::*;

    /// Another one than that of a cluster that is [`well`].
    const CERTIFICATE: ConditionFields<'_> = (
        "ClusterCertificateRotated",
        "True",
        "ClientCertificateUpdated",
        "client certificate rotated starting from 2026-11-22 12:00:00 +0000 UTC to 2026-12-22 12:00:00 +0000 UTC",
        "2026-11-22T12:00:00Z",
    );

    fn waits(state: &WaitState) -> &str {
        match state {
            WaitState::Pending(reason) => reason,
            WaitState::Done(_) | WaitState::Impossible(_) => panic!("{state:?}"),
        }
    }

    #[test]
    fn an_agent_is_rekeyed_when_it_has_another_certificate_and_is_connected() {
        let before = well("paris");
        assert!(waits(&rekeyed(&before, &well("paris"))).contains("its new certificate"));
        let away = addon("paris", "managed", &[CERTIFICATE]);
        assert_eq!(
            waits(&rekeyed(&before, &away)),
            "the agent to connect with its new certificate"
        );
        let connected: ConditionFields<'_> = (
            "Available",
            "True",
            "AgentConnected",
            "works",
            "2026-11-22T12:00:00Z",
        );
        let there = addon("paris", "managed", &[CERTIFICATE, connected]);
        assert!(matches!(rekeyed(&before, &there), WaitState::Done(_)));
        let mut revoked = there;
        revoked.revoked = Some("stolen".to_owned());
        assert!(matches!(
            rekeyed(&before, &revoked),
            WaitState::Impossible(_)
        ));
    }

    #[test]
    fn an_agent_that_was_revoked_is_there_when_it_came_with_another_key() {
        let mut before = well("paris");
        before.revoked = Some("stolen".to_owned());
        // `Available` lags a minute behind a disconnect.
        assert!(waits(&rekeyed(&before, &well("paris"))).contains("its new certificate"));
        let away: ConditionFields<'_> = (
            "Available",
            "False",
            "AgentDisconnected",
            "last seen at 2026-11-22T11:54:00Z",
            "2026-11-22T11:55:00Z",
        );
        let now = addon("paris", "managed", &[CERTIFICATE, away]);
        assert_eq!(
            waits(&rekeyed(&before, &now)),
            "the agent to connect with its new certificate"
        );
    }

    #[test]
    fn an_authority_has_taken_over_when_this_request_is_settled() {
        let secret = |annotations: Value, next: bool| {
            let data = if next {
                json!({"next.crt": "x"})
            } else {
                json!({})
            };
            json!({"metadata": {"annotations": annotations}, "data": data})
        };
        let of = |taken: &str, since: Option<&str>, next| {
            let mut annotations = json!({ROTATE: "now", ROTATE_TAKEN: taken});
            if let Some(since) = since {
                annotations[ROTATING_SINCE] = json!(since);
            }
            replaced("now", &secret(annotations, next), &fleet())
        };
        let since = Some("2026-11-22T12:00:00Z");
        assert!(waits(&of("earlier", None, false)).contains("to start it"));
        // One that was under way before comes to its end first.
        assert!(waits(&of("earlier", since, false)).starts_with("retiring since"));
        // Revoked ones are not waited for.
        let introduced = of("now", since, true);
        assert!(waits(&introduced).starts_with("introduced since 2026-11-22T12:00:00Z"));
        assert!(waits(&introduced).ends_with("; not connected: oslo"));
        assert!(matches!(of("now", None, false), WaitState::Done(_)));
        let other = secret(json!({ROTATE: "later"}), false);
        assert!(matches!(
            replaced("now", &other, &[]),
            WaitState::Impossible(_)
        ));
    }

    #[test]
    fn clusters_are_enrolled_when_the_last_is_connected() {
        let clusters = ["berlin", "oslo", "rome", "paris", "lima", "tokyo"].map(str::to_owned);
        let state = enrolled(&clusters, &fleet());
        assert_eq!(
            waits(&state),
            "2 of 6 connected; waiting for oslo (AgentDisconnected), rome (no add-on yet), lima (Revoked) and 1 more"
        );
        assert_eq!(
            enrolled(&clusters[..1], &fleet()),
            WaitState::Done("connected: 1".to_owned())
        );
    }
}
