//! Finds certificates whose renewal is overdue. Pure.

use jiff::Timestamp;

use super::{CA_SECRET, Observed};

/// Whether the renewal of a certificate is overdue: less than 15 % of its life is left.
///
/// OCM renews an agent's certificate when between 20 and 25 % are left; we renew ours when a third is left.
pub fn is_overdue(not_before: Timestamp, not_after: Timestamp, now: Timestamp) -> bool {
    let left = not_after.duration_since(now).checked_mul(20);
    let life = not_after.duration_since(not_before).checked_mul(3);
    left.zip(life).is_some_and(|(left, life)| left < life)
}

/// Describes the certificates of the hub whose renewal is overdue.
pub fn overdue(observed: &Observed, now: Timestamp) -> Vec<String> {
    let mut lives = Vec::new();
    if let Some(Ok(stored)) = &observed.ca {
        lives.push((CA_SECRET, stored.ca.not_before, stored.ca.not_after));
    }
    for (secret, leaf) in observed.leaves() {
        lives.extend(leaf.map(|leaf| (secret, leaf.not_before, leaf.not_after)));
    }
    let overdue = lives
        .into_iter()
        .filter(|(_, from, to)| is_overdue(*from, *to, now));
    overdue
        .map(|(secret, _, end)| {
            format!("the certificate in the Secret {secret} expires at {end:.0}")
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use jiff::ToSpan as _;
    use proptest::prelude::*;

    use super::*;

    fn begin() -> Timestamp {
        "2026-11-20T12:00:00Z".parse().unwrap()
    }

    #[test]
    fn a_certificate_is_overdue_in_the_last_fifteen_hundredths_of_its_life() {
        let end = begin() + 100.hours();
        for (hours, overdue) in [
            (0, false),
            (80, false),
            (85, false),
            (86, true),
            (101, true),
        ] {
            assert_eq!(
                is_overdue(begin(), end, begin() + hours.hours()),
                overdue,
                "after {hours} hours"
            );
        }
    }

    proptest! {
        #[test]
        fn an_overdue_certificate_stays_overdue(life in 1i64..10_000, at in 0i64..10_000, later in 0i64..100) {
            let end = begin() + life.hours();
            let first = is_overdue(begin(), end, begin() + at.hours());
            let then = is_overdue(begin(), end, begin() + (at + later).hours());
            prop_assert!(!first || then);
        }
    }
}
