//! Whether several tenants use something at the same time, from the order of their uses. Without a
//! lock: every request records its use.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use storage::model::id::TenantId;
use tokio::time::Instant;

/// How long tenants share a thing after one followed another.
const SHARED_TIME: Duration = Duration::from_secs(1);
/// No tenant has this number.
const NONE: u64 = u64::MAX;

/// The tenant of the last use, and until when tenants share it.
#[derive(Debug)]
pub(crate) struct SharedUse {
    began_at: Instant,
    last: AtomicU64,
    /// Microseconds after `began_at`.
    shared_until: AtomicU64,
}

impl Default for SharedUse {
    fn default() -> Self {
        let (last, shared_until) = (AtomicU64::new(NONE), AtomicU64::new(0));
        Self { began_at: Instant::now(), last, shared_until }
    }
}

impl SharedUse {
    /// Records a use at `now`.
    pub(crate) fn record(&self, tenant: TenantId, now: Instant) {
        let tenant = u64::from(tenant.0);
        let last = self.last.load(Ordering::Relaxed);
        // Mostly the same one: then nothing is written that other processors read.
        if last != tenant {
            self.last.store(tenant, Ordering::Relaxed);
            if last != NONE {
                self.record_shared(now);
            }
        }
    }

    /// Records that several tenants use it at `now`.
    pub(crate) fn record_shared(&self, now: Instant) {
        self.shared_until.store(self.micros(now + SHARED_TIME), Ordering::Relaxed);
    }

    /// Whether several tenants use it at `now`.
    pub(crate) fn is_shared(&self, now: Instant) -> bool {
        self.micros(now) < self.shared_until.load(Ordering::Relaxed)
    }

    fn micros(&self, at: Instant) -> u64 {
        at.saturating_duration_since(self.began_at).as_micros() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tenants_share_for_a_while() {
        let (used, start) = (SharedUse::default(), Instant::now());
        used.record(TenantId(1), start);
        used.record(TenantId(1), start);
        assert!(!used.is_shared(start));
        used.record(TenantId(2), start);
        used.record(TenantId(2), start);
        assert!(used.is_shared(start));
        assert!(!used.is_shared(start + SHARED_TIME));
        used.record_shared(start + SHARED_TIME);
        assert!(used.is_shared(start + SHARED_TIME));
    }
}
