//! Locks for short accesses, never held over an await.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks the value, also after a panic of an earlier holder: each change of these values is complete.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
