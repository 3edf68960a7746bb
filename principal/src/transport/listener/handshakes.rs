//! Bounds the connections that have not authenticated, and evicts instead of rejecting.
//!
//! A limit that rejects newcomers lets anybody who keeps idle connections open lock out everybody else. Here the
//! newcomer gets in, and the oldest connection of the heaviest group closes. A group has the connections of one address
//! with the same progress; less progress weighs more. So a flood evicts its own connections, also where honest clients
//! share its address.

use std::{
    collections::{BTreeMap, HashMap},
    hash::Hash,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio_util::sync::CancellationToken;

/// How far a connection has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Progress {
    /// It has sent nothing.
    Silent,
    /// It has sent a part of its hello.
    Partial,
    /// It has sent its hello and waits for us: it is not idle.
    Queued,
    /// We have answered its hello and wait for its certificate.
    Answered,
}

impl Progress {
    /// The weight of one connection when a victim is chosen.
    const fn weight(self) -> usize {
        match self {
            Self::Silent => 8,
            Self::Partial => 4,
            Self::Answered => 2,
            Self::Queued => 1,
        }
    }
}

/// The unauthenticated connections by address and progress.
#[derive(Debug)]
pub(crate) struct Handshakes<K> {
    most: usize,
    open: Arc<Mutex<Open<K>>>,
}

/// Connections with the same address and progress, by the time at which they made that progress.
type Group = BTreeMap<u64, CancellationToken>;

#[derive(Debug)]
struct Open<K> {
    next: u64,
    count: usize,
    /// None of them is empty.
    groups: HashMap<(K, Progress), Group>,
}

/// One unauthenticated connection. Drop it when the peer has authenticated.
#[derive(Debug)]
#[must_use = "dropped, the connection counts as authenticated or closed"]
pub(crate) struct Handshake<K: Hash + Eq + Clone> {
    address: K,
    progress: Progress,
    number: u64,
    evicted: CancellationToken,
    open: Arc<Mutex<Open<K>>>,
}

impl<K: Hash + Eq + Clone> Handshakes<K> {
    /// Allows at most so many, and one at least.
    pub(crate) fn new(most: usize) -> Self {
        let open = Open {
            next: 0,
            count: 0,
            groups: HashMap::new(),
        };
        Self {
            most: most.max(1),
            open: Arc::new(Mutex::new(open)),
        }
    }

    /// Adds a connection, and evicts another one if there are too many. None when too many of this address wait for us:
    /// then no connection is idle, and the newcomer is the last in their queue.
    pub(crate) fn begin(&self, address: K) -> Option<Handshake<K>> {
        let mut open = lock(&self.open);
        if open.count >= self.most && !open.make_room(&address) {
            return None;
        }
        let (progress, evicted) = (Progress::Silent, CancellationToken::new());
        Some(Handshake {
            number: open.add(address.clone(), progress, evicted.clone()),
            address,
            progress,
            evicted,
            open: Arc::clone(&self.open),
        })
    }
}

#[cfg(test)]
impl<K> Handshakes<K> {
    pub(super) fn count(&self) -> usize {
        lock(&self.open).count
    }
}

impl<K: Hash + Eq + Clone> Open<K> {
    fn make_room(&mut self, newcomer: &K) -> bool {
        let heaviest = self.groups.iter().max_by_key(|((_, progress), group)| {
            let weight = progress.weight();
            (group.len().saturating_mul(weight), weight)
        });
        let Some(((address, progress), group)) = heaviest else {
            return true;
        };
        let (address, progress) = (address.clone(), *progress);
        let is_queue = progress == Progress::Queued;
        if is_queue && address == *newcomer {
            return false;
        }
        // The first of a queue has waited longest for us, the first of an idle group has made us wait longest.
        let mut numbers = group.keys();
        let victim = if is_queue {
            numbers.next_back()
        } else {
            numbers.next()
        };
        let evicted = victim.copied();
        let evicted = evicted.and_then(|number| self.remove(address, progress, number));
        if let Some(evicted) = evicted {
            evicted.cancel();
        }
        true
    }

    /// Adds a connection to the end of its group.
    fn add(&mut self, address: K, progress: Progress, evicted: CancellationToken) -> u64 {
        let number = self.next;
        self.next = number.saturating_add(1);
        self.count = self.count.saturating_add(1);
        let group = self.groups.entry((address, progress)).or_default();
        group.insert(number, evicted);
        number
    }

    /// Removes a connection, unless it was evicted before.
    fn remove(&mut self, address: K, progress: Progress, number: u64) -> Option<CancellationToken> {
        let key = (address, progress);
        let group = self.groups.get_mut(&key)?;
        let evicted = group.remove(&number);
        if group.is_empty() {
            self.groups.remove(&key);
        }
        if evicted.is_some() {
            self.count = self.count.saturating_sub(1);
        }
        evicted
    }
}

impl<K: Hash + Eq + Clone> Handshake<K> {
    /// Fires when the connection has to close. Never fires once the handshake is dropped.
    pub(crate) fn evicted(&self) -> CancellationToken {
        self.evicted.clone()
    }

    pub(crate) const fn address(&self) -> &K {
        &self.address
    }

    /// Moves the connection to the youngest of those with this progress.
    pub(crate) fn advance(&mut self, progress: Progress) {
        if self.progress == progress {
            return;
        }
        let mut open = lock(&self.open);
        if let Some(evicted) = open.remove(self.address.clone(), self.progress, self.number) {
            self.number = open.add(self.address.clone(), progress, evicted);
            self.progress = progress;
        }
    }
}

impl<K: Hash + Eq + Clone> Drop for Handshake<K> {
    fn drop(&mut self) {
        let mut open = lock(&self.open);
        open.remove(self.address.clone(), self.progress, self.number);
    }
}

fn lock<K>(open: &Mutex<Open<K>>) -> MutexGuard<'_, Open<K>> {
    open.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    type Named = Handshake<&'static str>;

    fn is_evicted(handshake: &Named) -> bool {
        handshake.evicted().is_cancelled()
    }

    fn begin(handshakes: &Handshakes<&'static str>, address: &'static str) -> Named {
        handshakes.begin(address).unwrap()
    }

    fn with(
        handshakes: &Handshakes<&'static str>,
        address: &'static str,
        progress: Progress,
    ) -> Named {
        let mut handshake = begin(handshakes, address);
        handshake.advance(progress);
        handshake
    }

    #[test]
    fn the_address_with_the_most_connections_loses_its_oldest() {
        let handshakes = Handshakes::new(4);
        let honest = begin(&handshakes, "honest");
        let flood: Vec<_> = (0..3).map(|_| begin(&handshakes, "flood")).collect();
        assert!(flood.iter().all(|it| !is_evicted(it)));
        let newcomer = begin(&handshakes, "other");
        let evicted: Vec<bool> = flood.iter().map(is_evicted).collect();
        assert_eq!(evicted, [true, false, false]);
        drop(flood);
        let more: Vec<_> = (0..100).map(|_| begin(&handshakes, "flood")).collect();
        assert_eq!(more.iter().filter(|it| is_evicted(it)).count(), 98);
        assert!(!is_evicted(&honest) && !is_evicted(&newcomer));
    }

    #[test]
    fn handshakes_with_progress_survive_a_flood_from_their_address() {
        use Progress::{Answered, Partial, Queued, Silent};
        for flood in [Silent, Partial, Answered] {
            let handshakes = Handshakes::new(32);
            let honest =
                [Partial, Queued, Answered].map(|progress| with(&handshakes, "shared", progress));
            let mut open = Vec::new();
            for _ in 0..29 {
                open.push(with(&handshakes, "shared", flood));
            }
            assert!(!open.iter().any(is_evicted), "{flood:?}");
            let newcomer = begin(&handshakes, "shared");
            // One rotation: in its own group, an honest connection is the oldest at last.
            for _ in 0..25 {
                open.push(with(&handshakes, "shared", flood));
            }
            let lost = honest.iter().filter(|it| is_evicted(it)).count();
            assert_eq!(lost, usize::from(flood != Silent), "{flood:?}");
            assert!(flood == Silent || !is_evicted(&newcomer), "{flood:?}");
            assert_eq!(open.iter().filter(|it| is_evicted(it)).count() + lost, 26);
        }
    }

    #[test]
    fn connections_that_wait_for_us_are_evicted_last() {
        let handshakes = Handshakes::new(10);
        let queued = |_| with(&handshakes, "storm", Progress::Queued);
        let mut queue: Vec<_> = (0..7).map(queued).collect();
        let silent = [(); 4].map(|()| begin(&handshakes, "storm"));
        assert_eq!(
            silent.each_ref().map(is_evicted),
            [true, false, false, false]
        );
        drop(silent);
        queue.extend((0..3).map(queued));
        assert!(handshakes.begin("storm").is_none(), "its queue is full");
        let other = begin(&handshakes, "other");
        let lost = queue.iter().position(is_evicted);
        assert_eq!(lost, Some(9), "the last in the queue");
        assert!(!is_evicted(&other));
    }

    #[test]
    fn handshake_memory_is_bounded() {
        let handshakes = Handshakes::new(2);
        let mut ended = begin(&handshakes, "a");
        let all: Vec<_> = (0..10).map(|_| begin(&handshakes, "a")).collect();
        assert_eq!(lock(&handshakes.open).count, 2);
        ended.advance(Progress::Partial);
        drop(ended);
        assert_eq!(lock(&handshakes.open).count, 2, "it was evicted before");
        drop(all);
        let open = lock(&handshakes.open);
        assert!(open.count == 0 && open.groups.is_empty());
    }
}
