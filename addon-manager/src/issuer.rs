//! The certificate authority of the add-on, and what is issued from it for the hub itself.
//!
//! Four Secrets in our own namespace, with the names that the Go implementation uses. One that is
//! missing is made; a serving certificate of ours is renewed when a third of its life is left, when
//! a name is missing from it or when the authority changed. What somebody else put there is used and
//! never replaced, and a CA that cannot be read is reported, not remade: a new authority would cut
//! off the fleet. [`rotation`] is how one CA takes over from another.
//!
//! [`mod@plan`] and [`rotation`] decide, [`make`] creates keys and certificates, [`secrets`] reads and
//! writes; [`Issuer`] goes round.

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
    issuer::{
        facts::{Holding, ReadAuthority, ReadLeaf},
        plan::{Plan, Step, Wanted, plan},
        rotation::{Agents, Decision, Move, Progress, Stage, decide},
    },
    metrics::Metrics,
};

pub use argocd::keys::addon::{CA_SECRET, PRINCIPAL_SECRET, RESOURCE_PROXY_SECRET};

/// The key under the tokens that the principal issues.
pub const JWT_SECRET: &str = "argocd-agent-jwt";
/// The key of the PEM text in [`JWT_SECRET`].
pub const JWT_KEY: &str = "jwt.key";

/// How often the Secrets are looked at when nothing else asks for it: soon enough for somebody who
/// deleted one, rare enough to cost nothing.
const LOOK: Duration = Duration::from_mins(1);
/// The pause after a round that failed.
const RETRY: Duration = Duration::from_secs(5);
/// The pause after a round that asks for the next: what it wrote has to be read, and while a CA takes
/// over, every agent that says something asks.
const SOON: Duration = Duration::from_millis(200);

/// Why the Secrets are not as they should be.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The API refused or could not be reached.
    #[error("{verb} Secret {name}")]
    Api {
        verb: &'static str,
        name: String,
        source: Box<kube::Error>,
    },
    /// Something in a Secret that must be there is not what it should be.
    #[error(
        "Secret {name} is not usable ({reason}); repair it, or delete it to let the manager create a new one"
    )]
    Unusable { name: &'static str, reason: String },
    /// Two of us wrote at once; the next round sees what the other made.
    #[error("conflict: another writer changed Secret {name} at the same time")]
    Raced { name: String },
    /// A key or a certificate could not be made.
    #[error("make {what}")]
    Make {
        what: &'static str,
        source: rcgen::Error,
    },
    /// A mistake of ours while making a key.
    #[error("making a key panicked")]
    Panicked,
    /// The clock or a certificate shows a time that cannot be expressed.
    #[error("a time out of range")]
    Time,
}

/// Keeps the four Secrets right.
#[derive(Clone, Debug)]
pub struct Issuer {
    /// Where they are.
    pub secrets: Secrets,
    /// The time.
    pub clock: Clock,
    /// The addresses at which agents dial the principal.
    pub names: watch::Receiver<BTreeSet<String>>,
    /// What the agents trust and show, told while a CA takes over.
    pub agents: watch::Receiver<Option<Arc<Agents>>>,
    /// Told when somebody has written the CA's Secret.
    pub written: watch::Receiver<u64>,
    /// Where the CA is published when it is known for the first time and whenever it changes.
    pub authority: watch::Sender<Option<Arc<Authority>>>,
    /// Where it is published how the certificates stand.
    pub certificates: watch::Sender<Arc<Certificates>>,
    /// Shows when certificates end.
    pub metrics: Metrics,
}

/// How the certificates of the hub stand, for conditions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Certificates {
    /// A CA that takes over.
    pub rotation: Option<Progress>,
    /// What a person has to see to, a sentence each.
    pub troubles: Vec<String>,
    /// Certificates that should have been renewed, a sentence each.
    pub overdue: Vec<String>,
}

/// What a round has come to.
struct Round {
    complaints: Option<String>,
    /// Whether there is more to do at once.
    again: bool,
}

impl Issuer {
    /// Goes round for ever; what fails is tried again. Cancel safe: a round that is dropped half-way
    /// is made up for by the next.
    pub async fn run(mut self) {
        // What was said already, so that a trouble is told once, and its end too.
        let mut trouble: Option<String> = None;
        loop {
            self.written.mark_unchanged();
            let addresses = self.names.borrow_and_update().clone();
            let agents = self.agents.borrow_and_update().clone();
            let now = self.clock.now();
            let done = self.round(addresses, agents.as_deref(), now).await;
            let (now_trouble, pause) = match done {
                Ok(Round { complaints, again }) => (complaints, if again { SOON } else { LOOK }),
                Err(error) => (Some(runtime::error::Chain(&error).to_string()), RETRY),
            };
            if now_trouble != trouble {
                if let Some(trouble) = &now_trouble {
                    warn!(error = trouble, "certificate problem");
                } else {
                    info!("certificate problem solved");
                }
                trouble = now_trouble;
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

    /// One pass: read, decide, write. Says what a person has to look at.
    async fn round(
        &self,
        addresses: BTreeSet<String>,
        agents: Option<&Agents>,
        now: Timestamp,
    ) -> Result<Round, Error> {
        let observed = self.secrets.observe().await?;
        let wanted = Wanted::at(self.secrets.namespace(), addresses);
        let stored = match &observed.ca {
            ReadAuthority::Missing => {
                self.secrets.create_authority(now).await?;
                return Ok(Round {
                    complaints: None,
                    again: true,
                });
            }
            ReadAuthority::Unusable(reason) => {
                return Err(Error::Unusable {
                    name: CA_SECRET,
                    reason: reason.clone(),
                });
            }
            ReadAuthority::Held(stored) => stored,
        };
        self.show(&observed, stored);
        self.publish(&stored.ca);
        let Plan { steps } = plan(&observed, &wanted, now);
        let mut troubles = Vec::new();
        for step in steps {
            if let Step::Complain { secret, reason } = step {
                troubles.push(format!("Secret {secret} was not created by this add-on, which cannot renew it: {reason}"));
            } else {
                self.carry_out(&stored.ca, step, now).await?;
            }
        }
        let decision = decide(stored, agents, &behind(&observed), now);
        troubles.extend(decision.complaint.map(str::to_owned));
        let complaints = (!troubles.is_empty()).then(|| troubles.join("; "));
        self.log_problem(stored, &decision, troubles, expiry::overdue(&observed, now));
        let again = decision.step != Move::Stay;
        if again {
            self.secrets.step(stored, decision.step, now).await?;
            let (step, stage) = (decision.step, stored.stage().as_str());
            info!(?step, from = stage, "rotated the certificate authority");
        }
        Ok(Round { complaints, again })
    }

    fn log_problem(
        &self,
        stored: &Holding,
        decision: &Decision,
        troubles: Vec<String>,
        overdue: Vec<String>,
    ) {
        let stage = stored.stage();
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
        self.certificates.send_if_modified(|known| {
            let changed = **known != now;
            if changed {
                *known = Arc::new(now);
            }
            changed
        });
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
                // Finding two primes takes a moment of one core.
                let made = tokio::task::spawn_blocking(make::token_key).await;
                self.secrets
                    .create_token_key(&made.map_err(|_panicked| Error::Panicked)??)
                    .await?;
                info!(secret = JWT_SECRET, "created the token key");
            }
            Step::Complain { .. } => {}
        }
        Ok(())
    }

    fn show(&self, observed: &Observed, stored: &Holding) {
        self.metrics.expires(CA_SECRET, stored.ca.not_after());
        for (secret, leaf) in [
            (PRINCIPAL_SECRET, &observed.principal),
            (RESOURCE_PROXY_SECRET, &observed.resource_proxy),
        ] {
            if let ReadLeaf::Held(stored) = leaf
                && let Ok(facts) = &stored.facts
            {
                self.metrics.expires(secret, facts.not_after);
            }
        }
    }

    fn publish(&self, ca: &Authority) {
        self.authority.send_if_modified(|stored| {
            let changed = stored.as_deref() != Some(ca);
            if changed {
                *stored = Some(Arc::new(ca.clone()));
            }
            changed
        });
    }
}

/// Resolves at the next change; never when there will be none. Cancel safe.
async fn changed<T>(source: &mut watch::Receiver<T>) {
    if source.changed().await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// The Secrets whose certificate is another CA's, so that the old CA is still needed.
fn behind(observed: &Observed) -> Vec<&'static str> {
    let leaves = [
        (PRINCIPAL_SECRET, &observed.principal),
        (RESOURCE_PROXY_SECRET, &observed.resource_proxy),
    ];
    let behind = leaves.into_iter().filter(|(_, leaf)| match leaf {
        ReadLeaf::Missing => true,
        ReadLeaf::Held(stored) => !stored.facts.as_ref().is_ok_and(|facts| facts.issued_by_ca),
    });
    behind.map(|(secret, _)| secret).collect()
}

/// What [`Secrets::observe`] found.
#[derive(Clone, Debug)]
pub struct Observed {
    /// The CA.
    pub ca: ReadAuthority,
    /// The principal's certificate.
    pub principal: ReadLeaf,
    /// The resource proxy's certificate.
    pub resource_proxy: ReadLeaf,
    /// Whether there is a token key.
    pub token_key: bool,
}
