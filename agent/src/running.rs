//! Whether an Argo CD runs in its namespace on this cluster, and whether the add-on has brought it.
//!
//! Where none does, the hub has one brought; so this is looked at again and again, and said when it changes. The link
//! tells the hub.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use argocd::keys::addon::BROUGHT;
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use kube::api::{Api, ListParams, PartialObjectMeta};
use kube::{Client, Resource};
use protocol::payload::Runs;
use runtime::error::Chain;
use runtime::parts::Spawner;
use tokio::time::sleep;

use crate::replica::Replica;

/// Somebody installs an Argo CD, or takes one away: rarely, and nobody waits for it but at the very first. Seldom enough, too,
/// that an agent whose rights are being taken away does not ask once more before it ends.
const AGAIN: Duration = Duration::from_mins(5);
/// The pause after a look that failed.
const RETRY: Duration = Duration::from_secs(15);
/// What all of Argo CD's programs are labelled with, however they were installed.
const PART_OF: (&str, &str) = ("app.kubernetes.io/part-of", "argocd");
/// Names that ours would have.
const NAMES: [&str; 3] = [
    "argocd-application-controller",
    "argocd-redis",
    "argocd-repo-server",
];

/// Looks until the process ends, and tells the replica; without a client nobody wants to know.
pub fn watch(client: Option<Client>, replica: &Arc<Replica>, spawner: &Spawner) {
    let Some(client) = client else { return };
    let (token, replica) = (spawner.token().clone(), Arc::clone(replica));
    spawner.spawn("what runs of Argo CD", async move {
        token.run_until_cancelled(follow(&client, &replica)).await;
    });
}

async fn follow(client: &Client, replica: &Replica) {
    loop {
        let pause = match look(client, replica.argocd_namespace()).await {
            Ok(runs) => {
                replica.saw_running(runs);
                AGAIN
            }
            Err(error) => {
                tracing::debug!(error = %Chain(&error), "whether an Argo CD runs here cannot be seen");
                RETRY
            }
        };
        sleep(pause).await;
    }
}

async fn look(client: &Client, namespace: &str) -> Result<Runs, kube::Error> {
    // What the API server has at hand is new enough.
    let all = ListParams::default().match_any();
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), namespace);
    let deployments = deployments.list_metadata(&all).await?;
    let sets: Api<StatefulSet> = Api::namespaced(client.clone(), namespace);
    let sets = sets.list_metadata(&all).await?;
    let found = deployments.items.iter().map(marks);
    Ok(judge(found.chain(sets.items.iter().map(marks))))
}

/// Name and labels of a program.
type Marks<'a> = (&'a str, Option<&'a BTreeMap<String, String>>);

fn marks<K: Resource>(object: &PartialObjectMeta<K>) -> Marks<'_> {
    let metadata = &object.metadata;
    let name = metadata.name.as_deref().unwrap_or_default();
    (name, metadata.labels.as_ref())
}

/// What is ours says so. Of what is not, anything of an Argo CD counts, whatever it is: nothing of ours may come over it.
fn judge<'a>(programs: impl Iterator<Item = Marks<'a>>) -> Runs {
    let mut runs = Runs::Nothing;
    for (name, labels) in programs {
        let label = |key: &str| {
            labels
                .and_then(|labels| labels.get(key))
                .map(String::as_str)
        };
        if label(BROUGHT).is_some() {
            return Runs::Ours;
        }
        if label(PART_OF.0) == Some(PART_OF.1) || NAMES.contains(&name) {
            runs = Runs::Foreign;
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(programs: &[(&str, &[(&str, &str)])]) -> Runs {
        let label = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        let programs: Vec<(&str, BTreeMap<String, String>)> = programs
            .iter()
            .map(|(name, labels)| (*name, labels.iter().map(label).collect()))
            .collect();
        judge(programs.iter().map(|(name, labels)| (*name, Some(labels))))
    }

    #[test]
    fn an_argo_cd_is_known_by_its_label_or_its_names_and_ours_by_our_mark() {
        const OF_ARGO: (&str, &str) = PART_OF;
        const OURS: (&str, &str) = (BROUGHT, "true");
        let repo_server = "argocd-repo-server";
        assert_eq!(seen(&[]), Runs::Nothing);
        assert_eq!(seen(&[("shop", &[("app", "shop")])]), Runs::Nothing);
        assert_eq!(seen(&[("gitops-server", &[OF_ARGO])]), Runs::Foreign);
        assert_eq!(seen(&[(repo_server, &[])]), Runs::Foreign);
        assert_eq!(seen(&[(repo_server, &[OF_ARGO, OURS])]), Runs::Ours);
        // Somebody has put notifications beside ours.
        let beside: (&str, &[_]) = ("argocd-notifications-controller", &[OF_ARGO]);
        assert_eq!(seen(&[beside, (repo_server, &[OURS])]), Runs::Ours);
        assert_eq!(judge([("x", None)].into_iter()), Runs::Nothing);
    }
}
