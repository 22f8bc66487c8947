//! Permits for work that waits for its turn: reads, and texts to embed. A tenant holds a part of
//! them at most, and a key a part of those of its tenant. Each waits for its own permits first, so
//! that the work of one delays the work of another by a few pieces only. A wait has a limit.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use storage::model::id::{KeyId, TenantId};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::admission::budget::KeyOfTenant;

/// Number of holders at which those without work are removed.
const HOLDERS_SWEEP: usize = 1_024;

pub(crate) struct FairPermits {
    all: Arc<Semaphore>,
    tenants: PermitsOf<TenantId>,
    keys: PermitsOf<KeyId>,
    wait_max: Duration,
    overdue: AtomicU64,
}

/// A permit of the key, one of its tenant, and one of all.
pub(crate) struct Permit {
    _of_key: OwnedSemaphorePermit,
    _of_tenant: OwnedSemaphorePermit,
    _of_all: OwnedSemaphorePermit,
}

/// Permits of each holder.
struct PermitsOf<H> {
    holder_max: usize,
    /// An entry without permits or waiters can go at any time.
    holders: Mutex<HashMap<H, Arc<Semaphore>>>,
}

impl FairPermits {
    /// `max` permits, 3 or more: at most three quarters of them for one tenant, and three quarters
    /// of those for one key.
    pub(crate) fn new(max: usize, wait_max: Duration) -> Self {
        let tenant_max = max - max.div_ceil(4);
        Self::with_parts(max, tenant_max, tenant_max - tenant_max.div_ceil(4), wait_max)
    }

    /// `max` permits, at most `tenant_max` of them for one tenant, and `key_max` for one key.
    pub(crate) fn with_parts(
        max: usize,
        tenant_max: usize,
        key_max: usize,
        wait_max: Duration,
    ) -> Self {
        Self {
            all: Arc::new(Semaphore::new(max)),
            tenants: PermitsOf::new(tenant_max),
            keys: PermitsOf::new(key_max),
            wait_max,
            overdue: AtomicU64::new(0),
        }
    }

    /// Waits for a permit. `None` if the wait takes too long.
    pub(crate) async fn acquire(&self, (tenant, key): KeyOfTenant) -> Option<Permit> {
        let acquire = async {
            let of_key = self.keys.of(key).acquire_owned().await.ok()?;
            let of_tenant = self.tenants.of(tenant).acquire_owned().await.ok()?;
            let of_all = Arc::clone(&self.all).acquire_owned().await.ok()?;
            Some(Permit { _of_key: of_key, _of_tenant: of_tenant, _of_all: of_all })
        };
        let permit = timeout(self.wait_max, acquire).await.ok().flatten();
        self.overdue.fetch_add(u64::from(permit.is_none()), Ordering::Relaxed);
        permit
    }

    /// How often a wait took too long.
    pub(crate) fn overdue(&self) -> u64 {
        self.overdue.load(Ordering::Relaxed)
    }
}

impl<H: Copy + Eq + Hash> PermitsOf<H> {
    fn new(holder_max: usize) -> Self {
        Self { holder_max, holders: Mutex::default() }
    }

    fn of(&self, holder: H) -> Arc<Semaphore> {
        let mut holders = self.holders.lock();
        if holders.len() >= HOLDERS_SWEEP {
            // Permits and waiters hold a reference.
            holders.retain(|_, semaphore| Arc::strong_count(semaphore) > 1);
        }
        let permits = || Arc::new(Semaphore::new(self.holder_max));
        Arc::clone(holders.entry(holder).or_insert_with(permits))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(tenant: u32, key: u64) -> KeyOfTenant {
        (TenantId(tenant), KeyId(key.to_be_bytes()))
    }

    #[tokio::test]
    async fn tenants_and_keys_leave_permits_to_others() {
        let permits = FairPermits::new(6, Duration::from_millis(20));
        let one = async || permits.acquire(key(1, 1)).await;
        let held = [one().await, one().await, one().await];
        assert!(held.iter().all(Option::is_some));
        assert!(one().await.is_none(), "the wait has a limit");
        let another = permits.acquire(key(1, 2)).await;
        assert!(another.is_some(), "a key leaves permits of its tenant to other keys");
        assert!(permits.acquire(key(1, 3)).await.is_none(), "the tenant has its part");
        let others = [permits.acquire(key(2, 4)).await, permits.acquire(key(3, 5)).await];
        assert!(others.iter().all(Option::is_some));
        assert!(permits.acquire(key(4, 6)).await.is_none(), "all permits are held");
        assert_eq!(permits.overdue(), 3);
        drop(held);
        assert!(one().await.is_some());
    }

    #[tokio::test]
    async fn holders_without_work_are_removed() {
        let permits = FairPermits::new(3, Duration::ZERO);
        let _held = permits.acquire(key(1, 1)).await.unwrap();
        for at in 0..3 * HOLDERS_SWEEP as u64 {
            permits.acquire(key(at as u32, at)).await;
        }
        assert!(permits.keys.holders.lock().len() <= HOLDERS_SWEEP);
        assert!(permits.tenants.holders.lock().len() <= HOLDERS_SWEEP);
        assert!(permits.keys.holders.lock().contains_key(&key(1, 1).1));
    }
}
