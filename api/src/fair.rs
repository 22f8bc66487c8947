//! Permits for work that waits for its turn: reads, and texts to embed. A key holds a part of them
//! at most and waits for its own permits first, so that the work of one key delays the work of
//! another by a few pieces only. A wait has a limit.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use storage::model::id::KeyId;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

/// Number of keys at which those without work are removed.
const KEYS_SWEEP: usize = 1_024;

pub(crate) struct FairPermits {
    all: Arc<Semaphore>,
    key_max: usize,
    wait_max: Duration,
    /// The permits of each key. An entry without permits or waiters can go at any time.
    keys: Mutex<HashMap<KeyId, Arc<Semaphore>>>,
    overdue: AtomicU64,
}

/// A permit of the key, and one of all.
pub(crate) struct Permit {
    _of_key: OwnedSemaphorePermit,
    _of_all: OwnedSemaphorePermit,
}

impl FairPermits {
    /// `max` permits, 2 or more, at most three quarters of them for one key.
    pub(crate) fn new(max: usize, wait_max: Duration) -> Self {
        Self::with_key_max(max, max - max.div_ceil(4), wait_max)
    }

    /// `max` permits, at most `key_max` of them for one key.
    pub(crate) fn with_key_max(max: usize, key_max: usize, wait_max: Duration) -> Self {
        let all = Arc::new(Semaphore::new(max));
        Self { all, key_max, wait_max, keys: Mutex::default(), overdue: AtomicU64::new(0) }
    }

    /// Waits for a permit. `None` if the wait takes too long.
    pub(crate) async fn acquire(&self, key: KeyId) -> Option<Permit> {
        let acquire = async {
            let of_key = self.of_key(key).acquire_owned().await.ok()?;
            let of_all = Arc::clone(&self.all).acquire_owned().await.ok()?;
            Some(Permit { _of_key: of_key, _of_all: of_all })
        };
        let permit = timeout(self.wait_max, acquire).await.ok().flatten();
        self.overdue.fetch_add(u64::from(permit.is_none()), Ordering::Relaxed);
        permit
    }

    /// How often a wait took too long.
    pub(crate) fn overdue(&self) -> u64 {
        self.overdue.load(Ordering::Relaxed)
    }

    fn of_key(&self, key: KeyId) -> Arc<Semaphore> {
        let mut keys = self.keys.lock();
        if keys.len() >= KEYS_SWEEP {
            // Permits and waiters hold a reference.
            keys.retain(|_, semaphore| Arc::strong_count(semaphore) > 1);
        }
        let semaphore = keys.entry(key).or_insert_with(|| Arc::new(Semaphore::new(self.key_max)));
        Arc::clone(semaphore)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: KeyId = KeyId([1; 8]);
    const TWO: KeyId = KeyId([2; 8]);

    #[tokio::test]
    async fn one_key_leaves_a_quarter_of_the_permits() {
        let permits = FairPermits::new(4, Duration::from_millis(20));
        let one = async || permits.acquire(ONE).await;
        let held = [one().await, one().await, one().await];
        assert!(held.iter().all(Option::is_some));
        assert!(permits.acquire(ONE).await.is_none(), "the wait has a limit");
        assert!(permits.acquire(TWO).await.is_some());
        drop(held);
        assert!(permits.acquire(ONE).await.is_some());
        let two = FairPermits::new(2, Duration::ZERO);
        let _held = two.acquire(ONE).await.unwrap();
        assert!(two.acquire(ONE).await.is_none());
    }

    #[tokio::test]
    async fn keys_without_work_are_removed() {
        let permits = FairPermits::new(2, Duration::ZERO);
        let _held = permits.acquire(ONE).await.unwrap();
        for at in 0..3 * KEYS_SWEEP as u64 {
            permits.acquire(KeyId(at.to_be_bytes())).await;
        }
        assert!(permits.keys.lock().len() <= KEYS_SWEEP);
        assert!(permits.keys.lock().contains_key(&ONE));
    }
}
