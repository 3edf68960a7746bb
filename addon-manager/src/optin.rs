//! Opting in by label, and the mode of every cluster.
//!
//! [`mod@plan`] decides from the [`World`](crate::hub::World), [`apply`] writes. The controller looks at
//! everything whenever something changed; changes that come together are looked at once.

pub mod apply;
pub mod plan;

use std::{collections::BTreeSet, time::Duration};

use ocm::{name::AddonName, sdk::View};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

pub use apply::Writer;
use plan::{Step, plan};

use crate::hub::{self, Memory, Own};

/// Changes within this time are looked at together.
const GATHER: Duration = Duration::from_millis(50);
/// The pause before what failed is tried again.
const RETRY: Duration = Duration::from_secs(5);

/// Runs until the token is cancelled.
pub async fn run(view: View, addon: AddonName, own: Own, writer: Writer, token: CancellationToken) {
    let mut revision = view.revision();
    let mut memory = Memory::default();
    let mut told = BTreeSet::new();
    loop {
        revision.mark_unchanged();
        let mut failed = false;
        if let Some(mut world) = hub::read(&view, &addon) {
            memory.recall(&mut world);
            let steps = plan(&world, &own);
            told.retain(|step| steps.contains(step));
            for step in steps {
                // Telling is done once, until the reason is gone.
                if matches!(step, Step::Refuse { .. }) && !told.insert(step.clone()) {
                    continue;
                }
                failed |= !carry_out(&writer, &step).await;
            }
        }
        let next = async {
            tokio::select! {
                changed = revision.changed() => changed.is_ok(),
                () = sleep(RETRY), if failed => true,
            }
        };
        match token.run_until_cancelled(next).await {
            Some(true) => sleep(GATHER).await,
            Some(false) => token.cancelled().await,
            None => return,
        }
    }
}

/// Does one step and says whether it is done.
async fn carry_out(writer: &Writer, step: &Step) -> bool {
    match writer.apply(step).await {
        Ok(()) => {
            info!(?step, "opting in");
            true
        }
        Err(error) => {
            warn!(?step, error = %runtime::error::Chain(&error), "opting in failed; trying again");
            false
        }
    }
}
