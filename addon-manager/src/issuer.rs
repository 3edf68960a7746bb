//! The certificate authority of the add-on, and what is issued from it for the hub itself.
//!
//! Four Secrets in our own namespace, with the names that the Go implementation uses. One that is
//! missing is made; a serving certificate of ours is renewed when a third of its life is left, when
//! a name is missing from it or when the authority changed. What somebody else put there is used and
//! never replaced, and a CA that cannot be read is reported, not remade: a new authority would cut
//! off the fleet.
//!
//! [`plan`] decides, [`make`] creates keys and certificates, [`secrets`] reads and writes; [`run`]
//! goes round.

pub mod authority;
pub mod facts;
pub mod make;
pub mod plan;
pub mod secrets;

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use jiff::Timestamp;
use runtime::clock::Clock;
use tokio::{sync::watch, time::sleep};
use tracing::{info, warn};

pub use authority::Authority;
pub use secrets::Secrets;

use crate::issuer::{
    facts::{ReadAuthority, ReadLeaf},
    plan::{Plan, Step, Wanted, plan},
};

/// The CA: signs the agents' certificates and ours, and is what both ends trust.
pub const CA_SECRET: &str = "argocd-agent-ca";
/// What the principal shows to agents.
pub const PRINCIPAL_SECRET: &str = "argocd-agent-principal-tls";
/// What the resource proxy shows to Argo CD.
pub const RESOURCE_PROXY_SECRET: &str = "argocd-agent-resource-proxy-tls";
/// The key under the tokens that the principal issues.
pub const JWT_SECRET: &str = "argocd-agent-jwt";
/// The key of the PEM text in [`JWT_SECRET`].
pub const JWT_KEY: &str = "jwt.key";

/// How often the Secrets are looked at when nothing else asks for it: soon enough for somebody who
/// deleted one, rare enough to cost nothing.
const LOOK: Duration = Duration::from_mins(1);
/// The pause after a round that failed.
const RETRY: Duration = Duration::from_secs(5);

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
        "Secret {name} is not usable ({reason}); repair it, or delete it to have a new one made"
    )]
    Unusable { name: &'static str, reason: String },
    /// Two of us wrote at once; the next round sees what the other made.
    #[error("Secret {name} was written by somebody else at the same time")]
    Raced { name: String },
    /// A key or a certificate could not be made.
    #[error("make {what}")]
    Make {
        what: &'static str,
        source: rcgen::Error,
    },
    /// The clock or a certificate shows a time that cannot be expressed.
    #[error("a time out of range")]
    Time,
}

/// Keeps the four Secrets right until the process stops; never returns an error, it goes on trying.
///
/// `names` are the addresses at which agents dial the principal. The authority is published when it
/// is known for the first time and whenever it changes.
pub async fn run(
    secrets: Secrets,
    clock: Clock,
    mut names: watch::Receiver<BTreeSet<String>>,
    authority: watch::Sender<Option<Arc<Authority>>>,
) {
    let mut healthy = true;
    loop {
        let addresses = names.borrow_and_update().clone();
        let pause = match round(&secrets, addresses, &authority, clock.now()).await {
            Ok(()) => {
                if !healthy {
                    info!("certificates are in order again");
                }
                healthy = true;
                LOOK
            }
            Err(error) => {
                if healthy {
                    warn!(error = %runtime::error::Chain(&error), "certificates are not in order");
                }
                healthy = false;
                RETRY
            }
        };
        tokio::select! {
            () = sleep(pause) => {}
            changed = names.changed() => if changed.is_err() { sleep(pause).await },
        }
    }
}

/// One pass: read, decide, write, until nothing is left to do.
async fn round(
    secrets: &Secrets,
    addresses: BTreeSet<String>,
    authority: &watch::Sender<Option<Arc<Authority>>>,
    now: Timestamp,
) -> Result<(), Error> {
    let observed = secrets.observe().await?;
    let wanted = Wanted::at(secrets.namespace(), addresses);
    let ca = match &observed.ca {
        ReadAuthority::Missing => secrets.create_authority(now).await?,
        ReadAuthority::Unusable(reason) => {
            return Err(Error::Unusable {
                name: CA_SECRET,
                reason: reason.clone(),
            });
        }
        ReadAuthority::Held(held) => Authority::clone(held),
    };
    publish(authority, &ca);
    let Plan { steps } = plan(&observed, &wanted, now);
    for step in steps {
        carry_out(secrets, &ca, step, now).await?;
    }
    Ok(())
}

async fn carry_out(
    secrets: &Secrets,
    ca: &Authority,
    step: Step,
    now: Timestamp,
) -> Result<(), Error> {
    match step {
        Step::Issue {
            secret,
            names,
            why,
            replaces,
        } => {
            let leaf = make::serving(ca, &names, now)?;
            secrets.write_leaf(secret, ca, &leaf, replaces).await?;
            info!(secret, reason = why, "issued a serving certificate");
        }
        Step::MakeTokenKey => {
            // Finding two primes takes a moment of one core.
            let key = tokio::task::spawn_blocking(make::token_key)
                .await
                .unwrap_or(Err(Error::Make {
                    what: "token key",
                    source: rcgen::Error::RingUnspecified,
                }))?;
            secrets.create_token_key(&key).await?;
            info!(secret = JWT_SECRET, "made the token key");
        }
        Step::Complain { secret, reason } => {
            warn!(
                secret,
                reason, "a certificate that is not ours needs a person"
            );
        }
    }
    Ok(())
}

fn publish(sender: &watch::Sender<Option<Arc<Authority>>>, ca: &Authority) {
    sender.send_if_modified(|held| {
        let changed = held.as_deref() != Some(ca);
        if changed {
            *held = Some(Arc::new(ca.clone()));
        }
        changed
    });
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
