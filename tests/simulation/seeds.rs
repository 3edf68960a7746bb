//! The seeds of a run: earlier failures, a fixed set, and new ones.

/// Seeds that once failed, one on each line after the kind of its histories.
const REGRESSIONS: &str = include_str!("regressions.txt");
/// New seeds begin above the fixed ones.
const FIRST_BASE: u64 = 1_000_000;

/// The seeds of one run.
#[derive(Debug)]
pub(crate) struct Seeds {
    /// The first of the new ones.
    pub(crate) base: u64,
    pub(crate) all: Vec<u64>,
}

impl Seeds {
    /// Half of so many histories of a kind have fixed seeds, the others new ones from this base, or from a random one.
    pub(crate) fn of(kind: &str, histories: u64, base: Option<u64>) -> Self {
        let base = base.unwrap_or_else(|| FIRST_BASE + u64::from(rand::random::<u32>()));
        let fixed = histories.div_ceil(2);
        let mut all = regressions(REGRESSIONS, kind);
        all.extend(0..fixed);
        all.extend(base..base.saturating_add(histories.saturating_sub(fixed)));
        Self { base, all }
    }
}

fn regressions(list: &str, kind: &str) -> Vec<u64> {
    let lines = list.lines().filter_map(|line| line.split('#').next());
    let seeds = lines.filter_map(|line| {
        let mut words = line.split_whitespace();
        (words.next()? == kind).then(|| {
            let seed = words.next().expect("a seed after the kind");
            seed.parse().expect("a seed is a number")
        })
    });
    seeds.collect()
}

#[test]
fn half_of_the_seeds_are_new_and_a_base_repeats_them() {
    let seeds = Seeds::of("managed", 5, Some(70));
    assert!(seeds.all.ends_with(&[0, 1, 2, 70, 71]), "{seeds:?}");
    let drawn = Seeds::of("managed", 4, None);
    assert!(drawn.base >= FIRST_BASE, "{drawn:?}");
    assert!(drawn.all.ends_with(&[0, 1, drawn.base, drawn.base + 1]));
}

#[test]
fn seeds_of_earlier_failures_are_listed_by_kind() {
    let list = "# why\nmanaged 7 # a lost update\nautonomous 8\n\nmanaged 9\n";
    assert_eq!(regressions(list, "managed"), [7, 9]);
    assert_eq!(regressions(list, "autonomous"), [8]);
}
