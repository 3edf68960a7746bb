//! Locks a mutex whose value stays valid when a holder panics.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks it, also after a panic of another holder.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
