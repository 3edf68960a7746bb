//! A hostile agent with the credentials of one cluster tries all of the threat model, over the wire.

pub(crate) mod klusterlet;

use std::{sync::Arc, time::Duration};

use anyhow::{Result, ensure};
use lab::{
    Lab,
    bench::hostile::{ATTACKS, Attack, Target},
};

/// How long one attack may run.
const TIME: Duration = Duration::from_secs(5);
/// Honest clusters: one that changes beside each attack, and one that must not change.
const HONEST: usize = 2;

/// Each attack has the result of its row in docs/security.md. Meanwhile the principal is the same process, objects of other
/// clusters keep their versions, and a change of another cluster arrives.
pub(crate) async fn every_attack_is_refused_or_bounded(lab: Arc<Lab>) -> Result<()> {
    let attacks: Vec<&Attack> = ATTACKS.iter().collect();
    let mut target = Target::start(&lab, HONEST, &attacks).await?;
    let mut lines = Vec::new();
    let mut failed = 0;
    for (number, attack) in attacks.iter().enumerate() {
        let judged = target.judge(number, attack, TIME).await;
        failed += usize::from(judged.is_err());
        let line = judged.unwrap_or_else(|error| format!("FAILED: {error:#}"));
        lines.push(format!("{}: {line}", attack.name));
    }
    target.stop().await;
    let of = attacks.len();
    ensure!(
        failed == 0,
        "{failed} of {of} attacks:\n{}",
        lines.join("\n")
    );
    Ok(())
}
