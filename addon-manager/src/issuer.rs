//! The certificate authority of the add-on, and what is issued from it for the hub itself.
//!
//! Four Secrets in our own namespace, with the names that the Go implementation uses. We create a missing one. We renew
//! our own serving certificates when a third of their life is left, when a name is missing or when the authority changed.
//! We use certificates of other owners and never replace them. We report a CA that cannot be read and do not replace it:
//! a new authority would disconnect the fleet. [`rotation`] replaces one CA by another.
//!
//! [`mod@plan`] and [`rotation`] decide, [`make`] creates keys and certificates, [`secrets`] reads and writes; [`Issuer`]
//! runs the loop.

pub mod authority;
pub mod expiry;
pub mod facts;
pub mod make;
pub mod plan;
pub mod rotation;
pub mod secrets;
pub mod takeover;

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use jiff::Timestamp;
use runtime::clock::Clock;
use tokio::{sync::watch, time::sleep};
use tracing::{info, warn};

pub use authority::Authority;
pub use secrets::Secrets;

use crate::{
    api::ApiError,
    issuer::{
        facts::{Leaf, ReadAuthority, ReadLeaf, StoredAuthority},
        plan::{Step, Wanted, plan},
        rotation::{Agents, Decision, Move, Progress, Stage, decide},
    },
    metrics::Metrics,
    publish::publish,
};

pub use argocd::keys::addon::{CA_SECRET, PRINCIPAL_SECRET, RESOURCE_PROXY_SECRET};

/// The key that signs the tokens of the principal.
pub const JWT_SECRET: &str = "argocd-agent-jwt";
/// The key of the PEM text in [`JWT_SECRET`].
pub const JWT_KEY: &str = "jwt.key";

/// How often the Secrets are read without a change: soon enough after a user deleted one, rare enough to cost nothing.
const LOOK: Duration = Duration::from_mins(1);
/// The pause after a round that failed.
const RETRY: Duration = Duration::from_secs(5);
/// The minimum pause between rounds: a round must read its own writes, and during a rotation every report of an agent
/// triggers a round.
const SOON: Duration = Duration::from_millis(200);

/// Why a round failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The API rejected the request or was unavailable.
    #[error(transparent)]
    Api(#[from] ApiError),
    /// A required field of the CA's Secret is missing or invalid.
    #[error(
        "Secret {name} is not usable ({reason}); repair it. Do not delete it: with another CA every agent needs a new \
         certificate"
    )]
    Unusable { name: &'static str, reason: String },
    /// Another replica wrote at the same time; the next round reads its result.
    #[error("conflict: another writer changed Secret {name} at the same time")]
    Raced { name: String },
    /// A key or a certificate could not be created.
    #[error("make {what}")]
    Make {
        what: &'static str,
        source: rcgen::Error,
    },
    /// The creation of a key panicked: a programming error.
    #[error("making a key panicked")]
    Panicked,
    /// The time of the clock or of a certificate is out of range.
    #[error("a time out of range")]
    Time,
}

/// Reconciles the four Secrets.
#[derive(Clone, Debug)]
pub struct Issuer {
    /// Reads and writes the Secrets.
    pub secrets: Secrets,
    /// The clock.
    pub clock: Clock,
    /// The addresses at which agents dial the principal.
    pub names: watch::Receiver<BTreeSet<String>>,
    /// The CAs that agents trust and use, during a rotation.
    pub agents: watch::Receiver<Option<Arc<Agents>>>,
    /// Changes with each write to a Secret with a certificate or a key of the hub.
    pub written: watch::Receiver<u64>,
    /// Publishes the CA when it is first known and after each change.
    pub authority: watch::Sender<Option<Arc<Authority>>>,
    /// Publishes the state of the certificates.
    pub certificates: watch::Sender<Arc<Certificates>>,
    /// Exports the expiry of certificates and the stage of a rotation.
    pub metrics: Metrics,
}

/// The state of the hub's certificates, for conditions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Certificates {
    /// A rotation of the CA in progress.
    pub rotation: Option<Progress>,
    /// Problems that need a person, a sentence each.
    pub troubles: Vec<String>,
    /// Certificates whose renewal is overdue, a sentence each.
    pub overdue: Vec<String>,
}

impl Issuer {
    /// Runs rounds forever and retries failed ones. Cancel safe: the next round completes one that was dropped.
    pub async fn run(mut self) {
        // The last logged problem, so that each problem and its end are logged once.
        let mut logged: Option<String> = None;
        loop {
            self.written.mark_unchanged();
            let addresses = self.names.borrow_and_update().clone();
            let agents = self.agents.borrow_and_update().clone();
            let now = self.clock.now();
            let done = self.round(addresses, agents.as_deref(), now).await;
            let (problem, pause) = match done {
                Ok((problems, again)) => (problems, if again { SOON } else { LOOK }),
                Err(error) => (Some(runtime::error::Chain(&error).to_string()), RETRY),
            };
            if problem != logged {
                if let Some(problem) = &problem {
                    warn!(error = problem, "certificate problem");
                } else {
                    info!("certificate problem solved");
                }
                logged = problem;
            }
            sleep(SOON.min(pause)).await;
            tokio::select! {
                () = sleep(pause.saturating_sub(SOON)) => {}
                () = changed(&mut self.names) => {}
                () = changed(&mut self.agents) => {}
                () = changed(&mut self.written) => {}
            }
        }
    }

    /// One round: read, decide, write. Returns problems that need a person, and whether the next round is due at once.
    async fn round(
        &self,
        addresses: BTreeSet<String>,
        agents: Option<&Agents>,
        now: Timestamp,
    ) -> Result<(Option<String>, bool), Error> {
        let observed = self.secrets.observe().await?;
        let wanted = Wanted::at(&self.secrets.namespace, addresses);
        let stored = match &observed.ca {
            None => {
                self.secrets.create_authority(now).await?;
                return Ok((None, true));
            }
            Some(Err(reason)) => {
                let error = Error::Unusable {
                    name: CA_SECRET,
                    reason: reason.clone(),
                };
                self.publish_trouble(&error);
                return Err(error);
            }
            Some(Ok(stored)) => stored,
        };
        self.export_expiry(&observed, stored);
        publish(&self.authority, Some(Arc::new(stored.ca.clone())));
        let mut troubles = Vec::new();
        for step in plan(&observed, &wanted, now) {
            if let Some(trouble) = trouble(&step) {
                troubles.push(trouble);
            } else {
                self.carry_out(&stored.ca, step, now).await?;
            }
        }
        let decision = decide(stored, agents, &behind(&observed), now);
        troubles.extend(decision.problem.map(str::to_owned));
        let problems = (!troubles.is_empty()).then(|| troubles.join("; "));
        self.publish_state(stored, &decision, troubles, expiry::overdue(&observed, now));
        let again = decision.step != Move::Stay;
        if again {
            self.secrets.step(stored, decision.step, now).await?;
            let (step, stage) = (decision.step, Stage::of(stored).as_str());
            info!(?step, from = stage, "rotated the certificate authority");
        }
        Ok((problems, again))
    }

    /// Publishes why the CA cannot be used. Everything else stays as it was known last.
    fn publish_trouble(&self, error: &Error) {
        let mut now = Certificates::clone(&self.certificates.borrow());
        now.troubles = vec![error.to_string()];
        publish(&self.certificates, Arc::new(now));
    }

    fn publish_state(
        &self,
        stored: &StoredAuthority,
        decision: &Decision,
        troubles: Vec<String>,
        overdue: Vec<String>,
    ) {
        let stage = Stage::of(stored);
        self.metrics.rotation(stage, decision.waits_for.len());
        let rotation = (stage != Stage::Settled).then(|| Progress {
            stage,
            since: stored.since.unwrap_or(Timestamp::UNIX_EPOCH),
            waits_for: decision.waits_for.clone(),
        });
        let now = Certificates {
            rotation,
            troubles,
            overdue,
        };
        publish(&self.certificates, Arc::new(now));
    }

    async fn carry_out(&self, ca: &Authority, step: Step, now: Timestamp) -> Result<(), Error> {
        match step {
            Step::Issue {
                secret,
                names,
                why,
                replaces,
            } => {
                let leaf = make::serving(ca, &names, now)?;
                self.secrets.write_leaf(secret, ca, &leaf, replaces).await?;
                info!(secret, reason = why, "issued a serving certificate");
            }
            Step::MakeTokenKey => {
                // Finding two primes keeps a core busy for a moment.
                let made = tokio::task::spawn_blocking(make::token_key).await;
                self.secrets
                    .create_token_key(&made.map_err(|_panicked| Error::Panicked)??)
                    .await?;
                info!(secret = JWT_SECRET, "created the token key");
            }
            Step::ReportForeign { .. } | Step::ReportTokenKey => {}
        }
        Ok(())
    }

    fn export_expiry(&self, observed: &Observed, stored: &StoredAuthority) {
        self.metrics.expires(CA_SECRET, stored.ca.not_after);
        for (secret, leaf) in observed.leaves() {
            if let Some(leaf) = leaf {
                self.metrics.expires(secret, leaf.not_after);
            }
        }
    }
}

/// The problem that a person must solve; none if the step is a write.
fn trouble(step: &Step) -> Option<String> {
    match step {
        Step::ReportForeign { secret, reason } => Some(format!(
            "Secret {secret} was not created by this add-on, which cannot renew it: {reason}"
        )),
        Step::ReportTokenKey => Some(format!(
            "Secret {JWT_SECRET} has no RSA key in PEM in {JWT_KEY}, and the next process of the hub program needs \
            one; delete the Secret, and the add-on creates another key"
        )),
        Step::Issue { .. } | Step::MakeTokenKey => None,
    }
}

/// Resolves at the next change; never if the sender is dropped. Cancel safe.
async fn changed<T>(source: &mut watch::Receiver<T>) {
    if source.changed().await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// The Secrets whose certificate the current CA did not issue, so that the old CA is still needed.
fn behind(observed: &Observed) -> Vec<&'static str> {
    let leaves = observed.leaves().into_iter();
    let behind = leaves.filter(|(_, leaf)| !leaf.is_some_and(|leaf| leaf.issued_by_ca));
    behind.map(|(secret, _)| secret).collect()
}

/// The result of [`Secrets::observe`].
#[derive(Clone, Debug)]
pub struct Observed {
    /// The CA.
    pub ca: ReadAuthority,
    /// The principal's certificate.
    pub principal: ReadLeaf,
    /// The resource proxy's certificate.
    pub resource_proxy: ReadLeaf,
    /// The token key.
    pub token_key: TokenKey,
}

/// The stored token key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenKey {
    /// There is none.
    Missing,
    /// Its Secret has no key that can sign. The running process keeps the last one; the next would start without.
    Unusable,
    /// It can sign tokens.
    Usable,
}

impl Observed {
    /// The Secrets of the serving certificates, with those that can be read.
    fn leaves(&self) -> [(&'static str, Option<&Leaf>); 2] {
        fn facts(read: &ReadLeaf) -> Option<&Leaf> {
            read.as_ref()?.facts.as_ref().ok()
        }
        [
            (PRINCIPAL_SECRET, facts(&self.principal)),
            (RESOURCE_PROXY_SECRET, facts(&self.resource_proxy)),
        ]
    }
}

#[cfg(test)]
mod tests;
