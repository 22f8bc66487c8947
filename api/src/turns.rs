//! Turns of writes: while several tenants use a node or the leader, each has a few writes in work
//! at once on a node, from their submission until their outcome. Its others wait. So a write
//! waits for few of other tenants, however many they send. A tenant alone has no such limit:
//! its writes share batches.

use parking_lot::Mutex;
use raft::SharedUse;
use storage::model::id::TenantId;
use tokio::time::Instant;

use crate::budget::KeyOfTenant;
use crate::fair::{FairPermits, Permit};
use crate::limits::{KEY_TURNS_MAX, REQUESTS_MAX, TENANT_TURNS_MAX, TURN_WAIT};

pub(crate) struct Turns {
    permits: FairPermits,
    used: Mutex<SharedUse>,
}

impl Default for Turns {
    fn default() -> Self {
        let permits =
            FairPermits::with_parts(REQUESTS_MAX, TENANT_TURNS_MAX, KEY_TURNS_MAX, TURN_WAIT);
        Self { permits, used: Mutex::default() }
    }
}

impl Turns {
    /// Records a request of a tenant.
    pub(crate) fn record(&self, tenant: TenantId) {
        self.used.lock().record(tenant, Instant::now());
    }

    /// Whether several tenants use this node.
    pub(crate) fn are_shared(&self) -> bool {
        self.used.lock().is_shared(Instant::now())
    }

    /// Waits for the turn of a write. `None` if the wait takes too long.
    pub(crate) async fn acquire(&self, key: KeyOfTenant) -> Option<Permit> {
        self.permits.acquire(key).await
    }

    /// How often a wait took too long.
    pub(crate) fn overdue(&self) -> u64 {
        self.permits.overdue()
    }
}
