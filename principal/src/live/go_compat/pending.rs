//! Requests that wait for their agent.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crate::live::tunnel::NotAnswered;

/// By id; none when the session is over.
type Waiting<T> = Mutex<Option<BTreeMap<String, T>>>;

/// The waiting requests of one kind.
#[derive(Debug)]
pub(super) struct Pending<T> {
    most: usize,
    waiting: Arc<Waiting<T>>,
}

/// Removes a request when dropped.
#[derive(Debug)]
#[must_use = "dropped, the request is cancelled"]
pub(super) struct PendingGuard<T> {
    id: String,
    waiting: Arc<Waiting<T>>,
}

impl<T> Pending<T> {
    /// Room for so many.
    pub(super) fn new(most: usize) -> Self {
        Self {
            most,
            waiting: Arc::new(Mutex::new(Some(BTreeMap::new()))),
        }
    }

    /// Adds a request.
    pub(super) fn add(&self, id: &str, waiter: T) -> Result<PendingGuard<T>, NotAnswered> {
        let mut waiting = lock(&self.waiting);
        let all = waiting.as_mut().ok_or(NotAnswered::Ended)?;
        if all.len() >= self.most {
            return Err(NotAnswered::Busy);
        }
        all.insert(id.to_owned(), waiter);
        drop(waiting);
        Ok(PendingGuard {
            id: id.to_owned(),
            waiting: Arc::clone(&self.waiting),
        })
    }

    /// Removes a request, to answer it.
    pub(super) fn take(&self, id: &str) -> Option<T> {
        lock(&self.waiting).as_mut()?.remove(id)
    }

    /// A request that continues to wait.
    pub(super) fn get(&self, id: &str) -> Option<T>
    where
        T: Clone,
    {
        lock(&self.waiting).as_ref()?.get(id).cloned()
    }

    pub(super) fn contains(&self, id: &str) -> bool {
        let waiting = lock(&self.waiting);
        waiting.as_ref().is_some_and(|all| all.contains_key(id))
    }

    /// Drops all requests and accepts no further ones.
    pub(super) fn end(&self) {
        *lock(&self.waiting) = None;
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        lock(&self.waiting).as_ref().unwrap().is_empty()
    }
}

impl<T> Drop for PendingGuard<T> {
    fn drop(&mut self) {
        if let Some(all) = lock(&self.waiting).as_mut() {
            all.remove(&self.id);
        }
    }
}

fn lock<T>(waiting: &Waiting<T>) -> MutexGuard<'_, Option<BTreeMap<String, T>>> {
    waiting.lock().unwrap_or_else(PoisonError::into_inner)
}
