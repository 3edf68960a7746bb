//! Where something stands that was asked for and takes its time: what `--wait` waits for. Pure.

use argocd::keys::addon::{ROTATE, ROTATE_TAKEN, ROTATING_SINCE};
use serde_json::Value;

use crate::{
    certs::stage,
    facts::{Addon, CERTIFICATE_ROTATED},
    status::{Connection, connected, worst},
};

/// So many clusters are named.
const NAMED: usize = 3;

/// Where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It is done; what to tell.
    Done(String),
    /// It is not; what it waits for.
    Waits(String),
    /// It will not be done; why.
    Never(String),
}

/// Of another key and certificate for one agent.
pub fn rekeyed(before: &Addon, now: &Addon) -> Standing {
    let cluster = &now.cluster;
    if now.revoked.is_some() {
        return Standing::Never(format!("the agent of {cluster} was revoked meanwhile"));
    }
    let certificate = |addon: &Addon| {
        let said = addon.condition(CERTIFICATE_ROTATED)?;
        (said.status == "True").then(|| said.message.clone())
    };
    let held = certificate(now);
    if held.is_none() || held == certificate(before) {
        let what = "OCM's registration agent on the cluster to have another certificate for it";
        return Standing::Waits(what.to_owned());
    }
    match connected(now).state {
        Connection::Yes => Standing::Done(format!(
            "the agent of {cluster} has another key and certificate, and is connected"
        )),
        Connection::No | Connection::NotYet | Connection::Unknown | Connection::Leaving => {
            Standing::Waits("it to connect with its new certificate".to_owned())
        }
    }
}

/// Of another certificate authority, which was asked for with this value.
pub fn replaced(asked: &str, secret: &Value, addons: &[Addon]) -> Standing {
    let meta = argocd::Meta::of(secret);
    if meta.annotation(ROTATE) != Some(asked) {
        return Standing::Never("somebody else has asked for another one meanwhile".to_owned());
    }
    let taken = meta.annotation(ROTATE_TAKEN) == Some(asked);
    if taken && meta.annotation(ROTATING_SINCE).is_none() {
        return Standing::Done(
            "another certificate authority has taken over, and the old one is not trusted any more"
                .to_owned(),
        );
    }
    if !taken && meta.annotation(ROTATING_SINCE).is_none() {
        return Standing::Waits("the hub program to take it up".to_owned());
    }
    let held_up = addons
        .iter()
        .filter(|addon| addon.is_in_force() && addon.revoked.is_none());
    let held_up = held_up.filter(|addon| connected(addon).state == Connection::No);
    let held_up: Vec<_> = held_up.map(|addon| addon.cluster.as_str()).collect();
    let whom = match held_up.as_slice() {
        [] => String::new(),
        all => format!("; not connected: {}", named(all)),
    };
    Standing::Waits(format!("{}{whom}", stage(secret)))
}

/// Of clusters that were opted in.
pub fn enrolled(clusters: &[String], addons: &[Addon]) -> Standing {
    let addon = |cluster: &String| addons.iter().find(|addon| addon.cluster == *cluster);
    let is_up = |cluster: &&String| {
        addon(cluster).is_some_and(|addon| connected(addon).state == Connection::Yes)
    };
    let waiting: Vec<_> = clusters.iter().filter(|cluster| !is_up(cluster)).collect();
    if waiting.is_empty() {
        return Standing::Done(format!("connected: {}", clusters.len()));
    }
    let why = |cluster: &&String| match addon(cluster) {
        None => format!("{cluster} (no add-on yet)"),
        Some(addon) => match worst(addon) {
            Some(error) => format!("{cluster} ({})", error.reason),
            None => (*cluster).clone(),
        },
    };
    let names: Vec<_> = waiting.iter().map(why).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    let done = clusters.len().saturating_sub(waiting.len());
    Standing::Waits(format!(
        "{done} of {} connected; waiting for {}",
        clusters.len(),
        named(&names)
    ))
}

fn named(all: &[&str]) -> String {
    let first: Vec<_> = all.iter().take(NAMED).copied().collect();
    match all.len().saturating_sub(NAMED) {
        0 => first.join(", "),
        more => format!("{} and {more} more", first.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::{Said, addon, fleet, well};

    /// Another one than that of a cluster that is [`well`].
    const CERTIFICATE: Said<'_> = (
        "ClusterCertificateRotated",
        "True",
        "ClientCertificateUpdated",
        "client certificate rotated starting from 2026-11-22 12:00:00 +0000 UTC to 2026-12-22 12:00:00 +0000 UTC",
        "2026-11-22T12:00:00Z",
    );

    fn waits(standing: &Standing) -> &str {
        match standing {
            Standing::Waits(what) => what,
            Standing::Done(_) | Standing::Never(_) => panic!("{standing:?}"),
        }
    }

    #[test]
    fn an_agent_is_rekeyed_when_it_has_another_certificate_and_is_connected() {
        let before = well("paris");
        assert!(waits(&rekeyed(&before, &well("paris"))).contains("another certificate"));
        let away = addon("paris", "managed", &[CERTIFICATE]);
        assert_eq!(
            waits(&rekeyed(&before, &away)),
            "it to connect with its new certificate"
        );
        let connected: Said<'_> = (
            "Available",
            "True",
            "AgentConnected",
            "works",
            "2026-11-22T12:00:00Z",
        );
        let there = addon("paris", "managed", &[CERTIFICATE, connected]);
        assert!(matches!(rekeyed(&before, &there), Standing::Done(_)));
        let mut revoked = there;
        revoked.revoked = Some("stolen".to_owned());
        assert!(matches!(rekeyed(&before, &revoked), Standing::Never(_)));
    }

    #[test]
    fn an_agent_that_was_revoked_is_there_when_it_came_with_another_key() {
        let mut before = well("paris");
        before.revoked = Some("stolen".to_owned());
        // Available is said for a minute of one that was thrown out.
        assert!(waits(&rekeyed(&before, &well("paris"))).contains("another certificate"));
        let away: Said<'_> = (
            "Available",
            "False",
            "AgentDisconnected",
            "last seen at 2026-11-22T11:54:00Z",
            "2026-11-22T11:55:00Z",
        );
        let now = addon("paris", "managed", &[CERTIFICATE, away]);
        assert_eq!(
            waits(&rekeyed(&before, &now)),
            "it to connect with its new certificate"
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
        assert!(waits(&of("earlier", None, false)).contains("to take it up"));
        // One that was under way before comes to its end first.
        assert!(waits(&of("earlier", since, false)).starts_with("retiring since"));
        // Revoked ones are not waited for.
        let introduced = of("now", since, true);
        assert!(waits(&introduced).starts_with("introduced since 2026-11-22T12:00:00Z"));
        assert!(waits(&introduced).ends_with("; not connected: oslo"));
        assert!(matches!(of("now", None, false), Standing::Done(_)));
        let other = secret(json!({ROTATE: "later"}), false);
        assert!(matches!(replaced("now", &other, &[]), Standing::Never(_)));
    }

    #[test]
    fn clusters_are_enrolled_when_the_last_is_connected() {
        let clusters = ["berlin", "oslo", "rome", "paris", "lima", "tokyo"].map(str::to_owned);
        let standing = enrolled(&clusters, &fleet());
        assert_eq!(
            waits(&standing),
            "2 of 6 connected; waiting for oslo (AgentDisconnected), rome (no add-on yet), lima (Revoked) and 1 more"
        );
        assert_eq!(
            enrolled(&clusters[..1], &fleet()),
            Standing::Done("connected: 1".to_owned())
        );
    }
}
