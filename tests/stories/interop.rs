//! Each of our programs with its counterpart, ours and that of the Go argocd-agent, on the same wire.
//!
//! Every case is told for all pairings with a program of ours. What Argo CD would do on the spoke, the stories do by
//! hand.

mod alone;
mod autonomous;
pub(crate) mod commands;
mod deletion;
pub(crate) mod delivery;
mod projects;
mod repositories;
pub(crate) mod restarts;

use std::time::Duration;

use anyhow::{Result, anyhow};
use lab::{
    Options,
    peers::{Make, Mapping, Pair, Pairing, allow, further_namespace},
    steps::At,
    story::{Chapter, Story},
};
use serde_json::{Value, json};

/// The Go writer sends every 100 ms and sends again after 5 to 10 s; more than two losses are no accident.
pub(crate) const SOON: Duration = Duration::from_secs(30);
/// The project of a pair's Applications.
const PROJECT: &str = "everything";
/// Stamped by the agent on every replica: the UID of the hub object.
const SOURCE_UID: &str = "argocd.argoproj.io/source-uid";

/// One case for one pairing: told on a pair of its own.
macro_rules! case {
    ($title:literal, $principal:ident, $agent:ident, $mapping:ident, $short:literal, $group:ident::$case:ident) => {{
        const PAIRING: Pairing = Pairing {
            principal: Make::$principal,
            agent: Make::$agent,
        };
        Story {
            name: concat!("interop::", $title, "::", stringify!($case)),
            needs: PAIRING.needs(),
            tell: |lab| {
                Box::pin(async move {
                    let name = short_name(PAIRING, $short);
                    let mut pair = Pair::start(&lab, &name, PAIRING, Mapping::$mapping).await?;
                    let told = $group::$case(&mut pair).await;
                    finish(pair, told).await
                })
            },
        }
    }};
}

/// All cases for one pairing.
macro_rules! cases {
    ($title:literal, $principal:ident, $agent:ident) => {
        [
            case!(
                $title,
                $principal,
                $agent,
                Namespace,
                "status",
                delivery::an_application_arrives_and_its_status_comes_back
            ),
            case!(
                $title,
                $principal,
                $agent,
                Namespace,
                "drift",
                delivery::an_edit_and_a_deletion_on_the_spoke_are_undone
            ),
            case!(
                $title,
                $principal,
                $agent,
                Destination,
                "dest",
                delivery::a_destination_names_the_agent
            ),
            case!(
                $title,
                $principal,
                $agent,
                Destination,
                "made",
                delivery::a_missing_namespace_is_made
            ),
            case!(
                $title,
                $principal,
                $agent,
                Namespace,
                "sync",
                commands::a_sync_runs_once_and_its_result_comes_back
            ),
            case!(
                $title,
                $principal,
                $agent,
                Namespace,
                "end",
                commands::a_running_sync_is_terminated
            ),
            case!(
                $title,
                $principal,
                $agent,
                Namespace,
                "refresh",
                commands::a_refresh_is_asked_for_and_done
            ),
            case!(
                $title,
                $principal,
                $agent,
                Namespace,
                "delete",
                deletion::an_application_without_finalizers_goes
            ),
            case!(
                $title,
                $principal,
                $agent,
                Namespace,
                "cascade",
                deletion::an_application_with_a_finalizer_goes_after_its_workload
            ),
            case!(
                $title,
                $principal,
                $agent,
                Namespace,
                "project",
                projects::a_project_follows_and_goes
            ),
            case!(
                $title,
                $principal,
                $agent,
                Namespace,
                "repo",
                repositories::a_repository_follows_its_project_and_goes
            ),
            case!(
                $title,
                $principal,
                $agent,
                Namespace,
                "repodown",
                repositories::a_repository_that_changes_while_nobody_listens_follows
            ),
            case!(
                $title,
                $principal,
                $agent,
                Namespace,
                "gpg",
                repositories::gpg_keys_follow_and_go
            ),
            case!(
                $title,
                $principal,
                $agent,
                Namespace,
                "hubdown",
                restarts::what_happens_without_a_principal_is_made_up_for
            ),
            case!(
                $title,
                $principal,
                $agent,
                Namespace,
                "spokedown",
                restarts::what_happens_without_an_agent_is_made_up_for
            ),
            case!(
                $title,
                $principal,
                $agent,
                Autonomous,
                "shown",
                autonomous::what_the_spoke_owns_is_shown_and_follows
            ),
            case!(
                $title,
                $principal,
                $agent,
                Autonomous,
                "mheld",
                autonomous::a_mirror_is_held_against_edits_and_deletion
            ),
            case!(
                $title,
                $principal,
                $agent,
                Autonomous,
                "msync",
                autonomous::a_sync_asked_for_at_a_mirror_runs_once
            ),
            case!(
                $title,
                $principal,
                $agent,
                Autonomous,
                "mend",
                autonomous::a_running_sync_is_terminated_at_a_mirror
            ),
            case!(
                $title,
                $principal,
                $agent,
                Autonomous,
                "mrefresh",
                autonomous::a_refresh_asked_for_at_a_mirror_is_done
            ),
            case!(
                $title,
                $principal,
                $agent,
                Autonomous,
                "mproject",
                autonomous::a_project_of_the_spoke_is_shown_and_goes
            ),
            case!(
                $title,
                $principal,
                $agent,
                Autonomous,
                "mhubdown",
                autonomous::a_restarted_principal_shows_what_the_spoke_has
            ),
            case!(
                $title,
                $principal,
                $agent,
                Autonomous,
                "mspokedown",
                autonomous::a_restarted_agent_says_what_the_spoke_has
            ),
        ]
    };
}

/// All cases for all pairings.
pub(crate) fn chapter() -> Chapter {
    let mut stories = vec![Story {
        name: "interop::alone::everything_can_be_in_files_on_other_ports_and_in_variables",
        needs: None,
        tell: |lab| {
            Box::pin(alone::everything_can_be_in_files_on_other_ports_and_in_variables(lab))
        },
    }];
    stories.extend(cases!("our_principal_and_our_agent", Ours, Ours));
    stories.extend(cases!("our_principal_and_a_go_agent", Ours, Go));
    stories.extend(cases!("a_go_principal_and_our_agent", Go, Ours));
    Chapter::shared(Options::control_planes(1), stories)
}

/// The name of a pair, short enough for a namespace.
fn short_name(Pairing { principal, agent }: Pairing, case: &str) -> String {
    let word = |make| match make {
        Make::Ours => "o",
        Make::Go => "g",
    };
    format!("{}{}-{case}", word(principal), word(agent))
}

/// Ends a pair; a failure gets the ends of its logs.
pub(crate) async fn finish(mut pair: Pair, told: Result<()>) -> Result<()> {
    let told = told
        .and_then(|()| pair.check())
        .map_err(|error| anyhow!("{error:#}\n{}", pair.logs()));
    pair.stop().await;
    told
}

/// An Application of a pair.
#[derive(Debug)]
pub(crate) struct Replicated {
    /// On the hub.
    pub(crate) hub: At,
    /// Its replica.
    pub(crate) spoke: At,
}

impl Replicated {
    /// In the agent's namespace on the hub.
    pub(crate) fn new(pair: &Pair, name: &str) -> Self {
        Self {
            hub: At::application(&pair.names.agent, name),
            spoke: At::application(&pair.names.spoke, name),
        }
    }

    /// Makes it on the hub, in a project that admits it, and waits for the replica; returns hub object and replica.
    pub(crate) async fn deliver(&self, pair: &Pair, finalizers: &[&str]) -> Result<(Value, Value)> {
        allow(pair, PROJECT).await?;
        let body = body(&pair.names.agent, finalizers);
        let hub = pair.hub.apply(&self.hub, body).await?;
        let replica = self.until_revision(pair, "v1").await?;
        Ok((hub, replica))
    }

    /// Changes what the hub wants deployed.
    pub(crate) async fn set_revision(&self, pair: &Pair, revision: &str) -> Result<()> {
        let patch = json!({"spec": {"source": {"targetRevision": revision}}});
        pair.hub.merge(&self.hub, patch).await.map(drop)
    }

    /// Waits until the replica wants this deployed.
    pub(crate) async fn until_revision(&self, pair: &Pair, revision: &str) -> Result<Value> {
        let what = format!("wants {revision}");
        let fits = |app: &Value| app["spec"]["source"]["targetRevision"] == revision;
        pair.spoke.until(&self.spoke, &what, SOON, fits).await
    }

    /// Writes a status on the spoke, as the application controller would.
    pub(crate) async fn set_status(&self, pair: &Pair, sync: &str, health: &str) -> Result<()> {
        let patch = json!({"status": {"sync": {"status": sync}, "health": {"status": health}}});
        pair.spoke.merge(&self.spoke, patch).await.map(drop)
    }

    /// Waits until the hub shows this status.
    pub(crate) async fn until_status(
        &self,
        pair: &Pair,
        sync: &str,
        health: &str,
    ) -> Result<Value> {
        let what = format!("reads {sync} and {health}");
        let fits = |app: &Value| {
            app["status"]["sync"]["status"] == sync && app["status"]["health"]["status"] == health
        };
        pair.hub.until(&self.hub, &what, SOON, fits).await
    }
}

/// An Application for the agent, of which nothing is really deployed.
fn body(agent: &str, finalizers: &[&str]) -> Value {
    json!({
        "metadata": {"finalizers": finalizers, "labels": {"team": "a"}},
        "spec": {
            "project": PROJECT,
            "source": {
                "repoURL": "https://git.example/r.git",
                "path": "a&b<c>",
                "targetRevision": "v1",
            },
            "destination": {"name": agent, "namespace": "guestbook"},
            "syncPolicy": {"syncOptions": ["CreateNamespace=true"]},
        },
    })
}
