//! The work of the leader, while it leads.

use std::{sync::Arc, time::Duration};

use jiff::SignedDuration;
use kube::runtime::events::{Recorder, Reporter};
use ocm::{
    api::addon::Version,
    name::{AddonName, ClusterName},
    sdk::{self, View},
};
use runtime::{clock::Clock, error::Chain};
use tokio::{
    sync::watch,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use super::manager::HubContext;
use crate::{
    addon::{
        self, ArgocdAgent,
        argocd_install::{self, follow::Hub},
    },
    channels::Channels,
    decisions::store::Store,
    fleet::{self, projects::Projects, secrets::ClusterSecrets},
    hub::Own,
    keys,
    optin::{self, OptIn},
    requeue::{self, Requeue},
};

/// The pause before the SDK is restarted, if the hub does not serve the add-on API (yet).
const RETRY: Duration = Duration::from_secs(5);
/// How long a term waits for the CA and the address: a few attempts to read them.
const TIME_LIMIT: Duration = Duration::from_secs(10);
/// Concurrent reconciles: enough for throughput, few enough not to overload the hub's API server.
const CONCURRENCY: usize = 16;

/// The dependencies of a term.
pub(super) struct LeaderRun {
    pub(super) context: HubContext,
    pub(super) own: Own,
    pub(super) counters: sdk::Metrics,
}

/// Runs `work` while leading, with a token that is cancelled at the end of each term. The next term begins after the
/// work of the last one has ended.
pub(super) async fn while_leading<F>(
    mut leading: watch::Receiver<bool>,
    token: CancellationToken,
    mut work: impl FnMut(CancellationToken) -> F + Send,
) where
    F: Future<Output = ()> + Send,
{
    loop {
        let ours = leading.wait_for(|leads| *leads);
        if !matches!(token.run_until_cancelled(ours).await, Some(Ok(_))) {
            return token.cancelled().await;
        }
        let term = token.child_token();
        let mut watched = leading.clone();
        let working = async {
            work(term.clone()).await;
            term.cancel();
        };
        let losing = async {
            tokio::select! {
                // An error means that the process stops, and the token reports that, too.
                _ = watched.wait_for(|leads| !*leads) => term.cancel(),
                () = term.cancelled() => {}
            }
        };
        tokio::join!(working, losing);
    }
}

/// Runs the work of the leader in each of our terms, until the token is cancelled.
pub(super) async fn run(term: LeaderRun, leading: watch::Receiver<bool>, token: CancellationToken) {
    let term = Arc::new(term);
    while_leading(leading, token, move |token| {
        let term = Arc::clone(&term);
        async move {
            term.context.metrics.leads(true);
            let leading = async {
                while !token.is_cancelled() {
                    if let Err(error) = Box::pin(lead(&term, token.child_token())).await {
                        tracing::warn!(error = %Chain(&*error), "the leader run failed; retrying");
                        token.run_until_cancelled(sleep(RETRY)).await;
                    }
                }
            };
            // Immediately, not after the last write: the next leader does not wait for that.
            let ceasing = async {
                token.cancelled().await;
                term.context.channels.serving.send_replace(false);
                term.context.metrics.leads(false);
            };
            tokio::join!(leading, ceasing);
        }
    })
    .await;
}

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Leads until the token is cancelled.
async fn lead(term: &LeaderRun, token: CancellationToken) -> Result<(), Failure> {
    let (context, own) = (&term.context, &term.own);
    let (config, client, channels) = (&context.config, &context.writer, &context.channels);
    let Some(version) = token.run_until_cancelled(sdk::discover(client)).await else {
        return Ok(());
    };
    let version = version?;
    let name = AddonName::new(keys::ADDON)?;
    let (view, wakes) = (View::new(), Requeue::default());
    let secrets = ClusterSecrets::new(client.clone(), &own.argocd_namespace);
    // Dropped with this term, so that the UI shows no stale view.
    let _shown = Shown::new(&channels.view, &view);
    let addon = Arc::new(ArgocdAgent::new(addon_parts(term, &view, &secrets))?);
    let setup = sdk::Setup {
        client: client.clone(),
        version,
        view: view.clone(),
        wake: wakes.stream(),
        token: token.clone(),
        metrics: term.counters.clone(),
        concurrency: CONCURRENCY,
    };
    // Another replica may have led meanwhile.
    channels.decisions.send_replace(None);
    let publisher = fleet::Publisher {
        view: view.clone(),
        addon: name.clone(),
        own: own.clone(),
        resource_proxy: config.shared.resource_proxy.clone(),
        channels: channels.clone(),
    };
    let changed = wakes.clone();
    let following = secrets.follow(token.clone(), move |cluster| changed.wake(cluster));
    let publishing = publisher.run(token.clone());
    let opting_in = OptIn {
        view: view.clone(),
        addon: name,
        own: own.clone(),
        writer: writer(term, version),
        store: Store::new(client.clone(), &config.args.own_namespace),
        keep: keep(config.args.certificate_life),
        channels: channels.clone(),
    };
    let opting_in = opting_in.run(token.clone());
    let waking = wake_all(view, wakes, channels, token.clone());
    let install = installation(term, version, token.clone());
    let serving = async {
        let known = known(channels, &secrets);
        if token.run_until_cancelled(known).await.is_none() {
            return Ok(());
        }
        let ended = sdk::run(addon, setup).await;
        token.cancel();
        ended
    };
    let (served, (), (), (), (), ()) =
        tokio::join!(serving, publishing, following, opting_in, waking, install);
    served.map_err(Into::into)
}

/// Publishes the view until it is dropped.
struct Shown<'a>(&'a watch::Sender<Option<View>>);

impl<'a> Shown<'a> {
    fn new(channel: &'a watch::Sender<Option<View>>, view: &View) -> Self {
        channel.send_replace(Some(view.clone()));
        Self(channel)
    }
}

impl Drop for Shown<'_> {
    fn drop(&mut self) {
        self.0.send_replace(None);
    }
}

/// Watches the hub's own Argo CD, and records the decisions about those of clusters.
async fn installation(term: &LeaderRun, version: Version, token: CancellationToken) {
    let (client, channels) = (&term.context.writer, &term.context.channels);
    let namespace = term.own.argocd_namespace.clone();
    let pattern = channels.pattern.clone();
    let following =
        argocd_install::follow::follow(client.clone(), namespace, pattern, token.clone());
    let records = channels.records.subscribe();
    let recording = argocd_install::record::run(client.clone(), version, records, token);
    tokio::join!(following, recording);
}

/// Waits for the facts that every reconcile needs, so that a start causes no intermediate writes.
///
/// The cluster Secrets must be listed before we create one. The wait for the rest is limited: conditions report the
/// missing facts then.
async fn known(channels: &Channels, secrets: &ClusterSecrets) {
    let (mut authority, mut looked) = (channels.authority.subscribe(), channels.looked.subscribe());
    let mut pattern = channels.pattern.subscribe();
    let both = async {
        // An error means that the sender is dropped, and we keep it.
        drop(authority.wait_for(Option::is_some).await);
        drop(looked.wait_for(|looked| *looked).await);
        drop(pattern.wait_for(Hub::is_listed).await);
    };
    if timeout(TIME_LIMIT, both).await.is_err() {
        tracing::warn!(
            "starting without the CA, the principal's address or facts about the hub's Argo CD"
        );
    }
    let mut decisions = channels.decisions.subscribe();
    drop(decisions.wait_for(Option::is_some).await);
    secrets.listed().await;
}

/// A certificate that was signed just before the removal of its cluster ends within this time.
fn keep(certificate_life: Duration) -> SignedDuration {
    let life = SignedDuration::try_from(certificate_life).unwrap_or(SignedDuration::MAX);
    life.saturating_add(SignedDuration::from_hours(24))
}

fn addon_parts(term: &LeaderRun, view: &View, secrets: &ClusterSecrets) -> addon::Parts {
    let (context, own) = (&term.context, &term.own);
    let (config, client, channels) = (&context.config, &context.writer, &context.channels);
    addon::Parts {
        client: client.clone(),
        view: view.clone(),
        own: own.clone(),
        image: config.args.agent_image.clone(),
        certificate_life: config.args.certificate_life,
        accepts_awsirsa: config.args.accept_awsirsa,
        shares_unscoped: config.shared.args.share_unscoped_repositories,
        serving_since: Clock::system().now(),
        secrets: secrets.clone(),
        projects: config
            .args
            .cluster_projects
            .then(|| Projects::new(client.clone(), &own.argocd_namespace)),
        resource_proxy: config.shared.resource_proxy.clone(),
        channels: channels.clone(),
    }
}

fn writer(term: &LeaderRun, version: Version) -> optin::Writer {
    let LeaderRun { context, own, .. } = term;
    let reporter = Reporter {
        controller: keys::FIELD_MANAGER.to_owned(),
        instance: context.config.args.pod_name.0.clone(),
    };
    let recorder = Recorder::new(context.writer.clone(), reporter);
    optin::Writer {
        client: context.writer.clone(),
        version,
        events: recorder,
        own: own.clone(),
        resource_proxy: context.config.shared.resource_proxy.clone(),
    }
}

/// Changes within this time after a first one are handled together: sessions change as often as agents reconnect, and
/// each change may cost a write. The first one is handled at once.
const GATHER: Duration = Duration::from_millis(500);

/// Requeues clusters whose conditions may change, and all clusters after a change that affects all.
async fn wake_all(view: View, wakes: Requeue, channels: &Channels, token: CancellationToken) {
    let mut sessions = channels.sessions.subscribe();
    let mut blocked_modes = channels.blocked_modes.subscribe();
    let mut authority = channels.authority.subscribe();
    let mut address = channels.address.subscribe();
    let mut certificates = channels.certificates.subscribe();
    let mut pattern = channels.pattern.subscribe();
    let mut seen = Arc::clone(&sessions.borrow_and_update());
    let mut seen_blocked = Arc::clone(&blocked_modes.borrow_and_update());
    let mut seen_certificates = Arc::clone(&certificates.borrow_and_update());
    loop {
        // No error: `channels` has the senders.
        let next = async {
            tokio::select! {
                _ = sessions.changed() => false,
                _ = blocked_modes.changed() => false,
                _ = certificates.changed() => false,
                _ = authority.changed() => true,
                _ = address.changed() => true,
                _ = pattern.changed() => true,
            }
        };
        let Some(mut affects_all) = token.run_until_cancelled(next).await else {
            return;
        };
        let now = Arc::clone(&sessions.borrow_and_update());
        let blocked = Arc::clone(&blocked_modes.borrow_and_update());
        let certified = Arc::clone(&certificates.borrow_and_update());
        let mut names = requeue::changed(&seen, &now);
        names.extend(requeue::differing(&seen_blocked, &blocked));
        match requeue::waited_for(&seen_certificates, &certified) {
            Some(waited) => names.extend(waited),
            None => affects_all = true,
        }
        (seen, seen_blocked, seen_certificates) = (now, blocked, certified);
        if affects_all {
            names.extend(view.addons().into_iter().map(|(name, _)| name.to_string()));
        }
        let names = names.into_iter();
        names
            .filter_map(|name| ClusterName::new(name).ok())
            .for_each(|name| wakes.wake(name));
        token.run_until_cancelled(sleep(GATHER)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reconciles_of_a_leader_end_before_another_may_lead() {
        assert!(sdk::DRAIN < runtime::lease::GRACE);
    }
}
