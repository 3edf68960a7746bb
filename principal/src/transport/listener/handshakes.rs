//! Bounds the connections that have not authenticated, and evicts instead of rejecting.
//!
//! A limit that rejects newcomers lets anybody who keeps idle connections open lock out everybody else. Here the
//! newcomer always gets in: the oldest connection of the address with the most unauthenticated ones closes.

use std::{
    collections::{BTreeMap, HashMap},
    hash::Hash,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio_util::sync::CancellationToken;

/// The unauthenticated connections by address.
#[derive(Debug)]
pub(crate) struct Handshakes<K> {
    most: usize,
    open: Arc<Mutex<Open<K>>>,
}

#[derive(Debug)]
struct Open<K> {
    next: u64,
    count: usize,
    /// The connections of each address, oldest first. Has an entry only for addresses with connections.
    by_address: HashMap<K, BTreeMap<u64, CancellationToken>>,
}

/// One unauthenticated connection. Drop it when the peer has authenticated.
#[derive(Debug)]
#[must_use = "dropped, the connection counts as authenticated or closed"]
pub(crate) struct Handshake<K: Hash + Eq> {
    address: K,
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
            by_address: HashMap::new(),
        };
        Self {
            most: most.max(1),
            open: Arc::new(Mutex::new(open)),
        }
    }

    /// Adds a connection, and evicts another one if there are too many.
    pub(crate) fn begin(&self, address: K) -> Handshake<K> {
        let mut open = lock(&self.open);
        if open.count >= self.most {
            open.evict();
        }
        let (number, evicted) = (open.next, CancellationToken::new());
        open.next = open.next.saturating_add(1);
        open.count = open.count.saturating_add(1);
        let of_address = open.by_address.entry(address.clone()).or_default();
        of_address.insert(number, evicted.clone());
        Handshake {
            address,
            number,
            evicted,
            open: Arc::clone(&self.open),
        }
    }
}

impl<K: Hash + Eq + Clone> Open<K> {
    fn evict(&mut self) {
        let address = self
            .by_address
            .iter()
            .max_by_key(|(_, connections)| connections.len())
            .map(|(address, _)| address.clone());
        let Some(address) = address else {
            return;
        };
        let of_address = self.by_address.get_mut(&address);
        let oldest = of_address.and_then(BTreeMap::pop_first);
        if let Some((number, evicted)) = oldest {
            evicted.cancel();
            self.ended(&address, number);
            self.count = self.count.saturating_sub(1);
        }
    }
}

impl<K: Hash + Eq> Open<K> {
    /// Removes a connection, and its address with the last one. Reports whether the connection was there.
    fn ended(&mut self, address: &K, number: u64) -> bool {
        let Some(of_address) = self.by_address.get_mut(address) else {
            return false;
        };
        let was_open = of_address.remove(&number).is_some();
        if of_address.is_empty() {
            self.by_address.remove(address);
        }
        was_open
    }
}

impl<K: Hash + Eq> Handshake<K> {
    /// Fires when the connection has to close. Never fires once the handshake is dropped.
    pub(crate) fn evicted(&self) -> CancellationToken {
        self.evicted.clone()
    }
}

impl<K: Hash + Eq> Drop for Handshake<K> {
    fn drop(&mut self) {
        let mut open = lock(&self.open);
        if open.ended(&self.address, self.number) {
            open.count = open.count.saturating_sub(1);
        }
    }
}

fn lock<K>(open: &Mutex<Open<K>>) -> MutexGuard<'_, Open<K>> {
    open.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_evicted(handshake: &Handshake<&'static str>) -> bool {
        handshake.evicted().is_cancelled()
    }

    #[test]
    fn the_address_with_the_most_connections_loses_its_oldest() {
        let handshakes = Handshakes::new(4);
        let honest = handshakes.begin("honest");
        let flood: Vec<_> = (0..3).map(|_| handshakes.begin("flood")).collect();
        assert!(flood.iter().all(|it| !is_evicted(it)));
        let newcomer = handshakes.begin("other");
        let evicted: Vec<bool> = flood.iter().map(is_evicted).collect();
        assert_eq!(evicted, [true, false, false]);
        drop(flood);
        let more: Vec<_> = (0..100).map(|_| handshakes.begin("flood")).collect();
        assert_eq!(more.iter().filter(|it| is_evicted(it)).count(), 98);
        assert!(!is_evicted(&honest) && !is_evicted(&newcomer));
    }

    #[test]
    fn handshake_memory_is_bounded() {
        let handshakes = Handshakes::new(2);
        let ended = handshakes.begin("a");
        let all: Vec<_> = (0..10).map(|_| handshakes.begin("a")).collect();
        assert_eq!(lock(&handshakes.open).count, 2);
        drop(ended);
        assert_eq!(lock(&handshakes.open).count, 2, "it was evicted before");
        drop(all);
        let open = lock(&handshakes.open);
        assert!(open.count == 0 && open.by_address.is_empty());
    }
}
