//! Typed reads of rows. The trait [`View`] has two sources: the state itself, or a draft, the
//! state plus the changes of a batch that is not committed yet.

use std::sync::Arc;

use model::access::{Access, Rules};
use model::analytics::{RecallStats, Usage};
use model::api_key::{ApiKey, KEYS_MAX};
use model::audit::{AuditChain, AuditEnds};
use model::cluster::Cluster;
use model::cluster::Models;
use model::decay::{Decay, heat};
use model::edge::{EDGES_MAX, Edge};
use model::heat::Anchor;
use model::id::{KeyId, MemoryId, TenantId, Timestamp, TriggerId};
use model::memory::{Memory, MemoryRecord, MemoryState};
use model::receipt::{Receipt, ReceiptKey};
use model::tenant::{Tenancy, Tenant};
use model::thermo::Thermo;
use model::tick::Tick;
use model::tombstone::{Tombstones, ValueHash};
use model::trigger::Trigger;
use model::trigger::{Delivery, DeliveryId, Outbox};

use crate::codec::{self, Record};
use crate::error::{Error, Result};
use crate::table::key::{Key, Kind, edges_of, fixed, prefix, split};

/// Key and value of a row.
pub type Row = (Box<[u8]>, Box<[u8]>);

/// Read access to rows.
///
/// # Errors
/// All methods fail when the engine fails or bytes are corrupt.
pub trait View {
    /// The value of `key`, if the row exists.
    fn bytes(&self, key: &Key) -> Result<Option<Vec<u8>>>;

    /// The first `limit` rows whose keys begin with `prefix`, in key order.
    fn rows(&self, prefix: &[u8], limit: usize) -> Result<Vec<Row>>;

    /// The decoded record of `key`.
    fn record<R: Record>(&self, key: &Key) -> Result<Option<R>> {
        self.bytes(key)?.map(|bytes| codec::decode(&bytes)).transpose()
    }

    /// The cluster, once it is bootstrapped.
    fn cluster(&self) -> Result<Option<Arc<Cluster>>> {
        Ok(self.record(&Key::Cluster)?.map(Arc::new))
    }

    /// Which vectors are in use, and which are to come.
    fn models(&self) -> Result<Models> {
        Ok(self.record(&Key::Models)?.unwrap_or_default())
    }

    /// Whether a client has rejected one of these values.
    fn has_tombstone(&self, tenant: TenantId, values: &[ValueHash]) -> Result<bool> {
        for value in values {
            let all: Option<Tombstones> = self.record(&Key::Tombstones(tenant, value[0]))?;
            if all.is_some_and(|all| all.has(value)) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// What all tenants share.
    fn tenancy(&self) -> Result<Tenancy> {
        Ok(self.record(&Key::Tenancy)?.unwrap_or_default())
    }

    /// The ends of a chain of the audit log.
    fn audit_ends(&self, tenant: TenantId, chain: AuditChain) -> Result<AuditEnds> {
        Ok(self.record(&Key::AuditEnds(tenant, chain))?.unwrap_or_default())
    }

    /// A tenant.
    fn tenant(&self, tenant: TenantId) -> Result<Option<Tenant>> {
        self.record(&Key::Tenant(tenant))
    }

    /// A memory.
    fn memory(&self, tenant: TenantId, id: MemoryId) -> Result<Option<Memory>> {
        let Some(memory) = self.record::<Memory>(&Key::Memory(tenant, id))? else {
            return Ok(None);
        };
        let state: Option<MemoryState> = self.record(&Key::MemoryState(tenant, id))?;
        Ok(Some(match state {
            Some(state) => memory.with(&state),
            None => memory,
        }))
    }

    /// The anchor of a memory.
    fn anchor(&self, tenant: TenantId, id: MemoryId) -> Result<Option<Anchor>> {
        self.record(&Key::Anchor(tenant, id))
    }

    /// A tenant's last tick, or the state before its first tick. `None` for unknown tenants.
    fn tick(&self, id: TenantId) -> Result<Option<Tick>> {
        if let Some(tick) = self.record(&Key::Tick(id))? {
            return Ok(Some(tick));
        }
        let tenant = self.tenant(id)?;
        Ok(tenant.map(|tenant| Tick::none(tenant.created_at, &tenant.thermo)))
    }

    /// Recall statistics of a tenant.
    fn recall_stats(&self, tenant: TenantId) -> Result<RecallStats> {
        Ok(self.record(&Key::RecallStats(tenant))?.unwrap_or_default())
    }

    /// Usage of a tenant in one month.
    fn usage(&self, tenant: TenantId, month: u32) -> Result<Usage> {
        Ok(self.record(&Key::Usage(tenant, month))?.unwrap_or_default())
    }

    /// Access rules of a tenant.
    fn access_rules(&self, tenant: TenantId) -> Result<Rules> {
        Ok(self.record(&Key::Rules(tenant))?.unwrap_or_default())
    }

    /// A key, which may have ended.
    fn api_key(&self, tenant: TenantId, id: KeyId) -> Result<Option<ApiKey>> {
        self.record(&Key::ApiKey(tenant, id))
    }

    /// A key that is valid at `now`.
    fn valid_key(&self, tenant: TenantId, id: KeyId, now: Timestamp) -> Result<Option<ApiKey>> {
        Ok(self.api_key(tenant, id)?.filter(|key| key.is_valid_at(now)))
    }

    /// The namespaces that a key may use. `None` if no such key is valid at `now`.
    fn access(&self, tenant: TenantId, id: KeyId, now: Timestamp) -> Result<Option<Access>> {
        let Some(key) = self.valid_key(tenant, id, now)? else { return Ok(None) };
        Ok(Some(self.access_rules(tenant)?.access_of(id, &key)))
    }

    /// A trigger.
    fn trigger(&self, tenant: TenantId, id: TriggerId) -> Result<Option<Trigger>> {
        self.record(&Key::Trigger(tenant, id))
    }

    /// Delivery counts of a tenant.
    fn outbox(&self, tenant: TenantId) -> Result<Outbox> {
        Ok(self.record(&Key::Outbox(tenant))?.unwrap_or_default())
    }

    /// A delivery.
    fn delivery(&self, tenant: TenantId, id: DeliveryId) -> Result<Option<Delivery>> {
        self.record(&Key::Delivery(tenant, id))
    }

    /// A tenant's API keys in order of their ids.
    fn api_keys(&self, tenant: TenantId) -> Result<Vec<(KeyId, ApiKey)>> {
        let rows = self.rows(&prefix(Kind::ApiKey, tenant), KEYS_MAX)?;
        let key = |(key, row): &Row| Ok((KeyId(fixed(split(key)?.1)?), codec::decode(row)?));
        rows.iter().map(key).collect()
    }

    /// The edges of a memory by descending weight, ties in key order.
    fn edges(&self, tenant: TenantId, id: MemoryId) -> Result<Vec<Edge>> {
        let rows = self.rows(&edges_of(tenant, id), EDGES_MAX)?;
        let edges = rows.iter().map(|(_, row)| codec::decode(row));
        let mut edges = edges.collect::<Result<Vec<Edge>>>()?;
        // A stable sort of rows in key order gives the same order on every node.
        edges.sort_by(|left, right| right.weight.total_cmp(&left.weight));
        Ok(edges)
    }

    /// The receipt of an API key for an idempotency key.
    fn receipt(&self, tenant: TenantId, owner: KeyId, key: ReceiptKey) -> Result<Option<Receipt>> {
        self.record(&Key::Receipt(tenant, owner, key))
    }

    /// A memory with its heat at `now`.
    fn memory_record(
        &self,
        tenant: TenantId,
        id: MemoryId,
        thermo: &Thermo,
        now: Timestamp,
    ) -> Result<Option<MemoryRecord>> {
        // Without a snapshot, the memory may be deleted after its first row is read.
        for _ in 0..2 {
            let Some(memory) = self.memory(tenant, id)? else { return Ok(None) };
            if let Some(anchor) = self.anchor(tenant, id)? {
                let heat = heat(&anchor, Decay::of(&memory, thermo), now);
                return Ok(Some(MemoryRecord { id, memory, anchor, heat }));
            }
        }
        Err(Error::missing("anchor", tenant, id))
    }
}
