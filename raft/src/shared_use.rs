//! Whether several tenants use something at the same time, from the order of their uses.

use std::time::Duration;

use storage::model::id::TenantId;
use tokio::time::Instant;

/// How long tenants share a thing after one followed another.
const SHARED_TIME: Duration = Duration::from_secs(1);

/// The tenant of the last use, and when one last followed another.
#[derive(Debug, Default)]
pub(crate) struct SharedUse {
    last: Option<TenantId>,
    shared_at: Option<Instant>,
}

impl SharedUse {
    /// Records a use at `now`.
    pub(crate) fn record(&mut self, tenant: TenantId, now: Instant) {
        if self.last.is_some_and(|last| last != tenant) {
            self.shared_at = Some(now);
        }
        self.last = Some(tenant);
    }

    /// Records that several tenants use it at `now`.
    pub(crate) fn record_shared(&mut self, now: Instant) {
        self.shared_at = Some(now);
    }

    /// Whether several tenants use it at `now`.
    pub(crate) fn is_shared(&self, now: Instant) -> bool {
        self.shared_at.is_some_and(|at| now.saturating_duration_since(at) < SHARED_TIME)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tenants_share_for_a_while() {
        let (mut used, start) = (SharedUse::default(), Instant::now());
        used.record(TenantId(1), start);
        used.record(TenantId(1), start);
        assert!(!used.is_shared(start));
        used.record(TenantId(2), start);
        assert!(used.is_shared(start));
        assert!(!used.is_shared(start + SHARED_TIME));
    }
}
