//! Typed reading of rows, from wherever the bytes come: the state itself, or
//! the state as an undecided batch would leave it. Nothing here writes.

use crate::codec::{self, Record};
use crate::error::Result;
use crate::model::access::Rules;
use crate::model::analytics::{RecallStats, Usage};
use crate::model::cluster::Cluster;
use crate::model::delivery::{Delivery, DeliveryId, Outbox};
use crate::model::edge::{EDGES_MAX, Edge};
use crate::model::heat::{Anchor, Cooling, heat};
use crate::model::id::{MemoryId, TenantId, Timestamp, TriggerId};
use crate::model::memory::{Memory, MemoryRecord};
use crate::model::receipt::{Receipt, ReceiptKey};
use crate::model::tenant::{ApiKey, KEYS_MAX, KeyId, Tenant};
use crate::model::thermo::Thermo;
use crate::model::tick::Tick;
use crate::model::trigger::Trigger;
use crate::table::key::{Key, Kind, edges_of, fixed, prefix, split};

/// A consistent set of rows.
pub trait View {
    /// The bytes under `key`, if there are any.
    ///
    /// # Errors
    /// When the engine fails.
    fn bytes(&self, key: &Key) -> Result<Option<Vec<u8>>>;

    /// Rows whose keys begin with `prefix`, in key order, `most` of them at most.
    ///
    /// # Errors
    /// When the engine fails.
    fn rows(&self, prefix: &[u8], most: usize) -> Result<Vec<(Vec<u8>, Vec<u8>)>>;

    /// The record under `key`.
    ///
    /// # Errors
    /// When the engine fails or the bytes are corrupt; so for every method below.
    fn record<R: Record>(&self, key: &Key) -> Result<Option<R>> {
        self.bytes(key)?.map(|bytes| codec::decode(&bytes)).transpose()
    }

    /// The cluster's identity, once it has formed.
    fn cluster(&self) -> Result<Option<Cluster>> {
        self.record(&Key::Cluster)
    }

    /// A tenant.
    fn tenant(&self, tenant: TenantId) -> Result<Option<Tenant>> {
        self.record(&Key::Tenant(tenant))
    }

    /// A memory's text row.
    fn memory(&self, tenant: TenantId, id: MemoryId) -> Result<Option<Memory>> {
        self.record(&Key::Memory(tenant, id))
    }

    /// A memory's anchor.
    fn anchor(&self, tenant: TenantId, id: MemoryId) -> Result<Option<Anchor>> {
        self.record(&Key::Anchor(tenant, id))
    }

    /// A tenant's last tick, as of its present configuration if there was none yet.
    fn tick(&self, id: TenantId) -> Result<Option<Tick>> {
        if let Some(tick) = self.record(&Key::Tick(id))? {
            return Ok(Some(tick));
        }
        let tenant = self.tenant(id)?;
        Ok(tenant.map(|tenant| Tick::none(tenant.created_at, &tenant.thermo)))
    }

    /// What is known of a tenant's recalls.
    fn recall_stats(&self, tenant: TenantId) -> Result<RecallStats> {
        Ok(self.record(&Key::RecallStats(tenant))?.unwrap_or_default())
    }

    /// What a tenant used in a month.
    fn usage(&self, tenant: TenantId, month: u32) -> Result<Usage> {
        Ok(self.record(&Key::Usage(tenant, month))?.unwrap_or_default())
    }

    /// A tenant's access rules.
    fn access_rules(&self, tenant: TenantId) -> Result<Rules> {
        Ok(self.record(&Key::Rules(tenant))?.unwrap_or_default())
    }

    /// A trigger.
    fn trigger(&self, tenant: TenantId, id: TriggerId) -> Result<Option<Trigger>> {
        self.record(&Key::Trigger(tenant, id))
    }

    /// How many deliveries a tenant has.
    fn outbox(&self, tenant: TenantId) -> Result<Outbox> {
        Ok(self.record(&Key::Outbox(tenant))?.unwrap_or_default())
    }

    /// A delivery.
    fn delivery(&self, tenant: TenantId, id: DeliveryId) -> Result<Option<Delivery>> {
        self.record(&Key::Delivery(tenant, id))
    }

    /// A tenant's keys in order of their ids.
    fn api_keys(&self, tenant: TenantId) -> Result<Vec<(KeyId, ApiKey)>> {
        let rows = self.rows(&prefix(Kind::ApiKey, tenant), KEYS_MAX)?;
        let key = |(key, row): &(Vec<u8>, Vec<u8>)| {
            Ok((KeyId(fixed(split(key)?.1)?), codec::decode(row)?))
        };
        rows.iter().map(key).collect()
    }

    /// The edges of a memory, the strongest first.
    fn edges(&self, tenant: TenantId, id: MemoryId) -> Result<Vec<Edge>> {
        let rows = self.rows(&edges_of(tenant, id), EDGES_MAX)?;
        let edges = rows.iter().map(|(_, row)| codec::decode(row));
        let mut edges = edges.collect::<Result<Vec<Edge>>>()?;
        // A stable sort of rows in key order: the same everywhere.
        edges.sort_by(|left, right| right.weight.total_cmp(&left.weight));
        Ok(edges)
    }

    /// The receipt of a key hash: today's generation or yesterday's.
    fn receipt(
        &self,
        tenant: TenantId,
        key: ReceiptKey,
        now: Timestamp,
    ) -> Result<Option<Receipt>> {
        let today = now.day();
        match self.record(&Key::Receipt(tenant, today, key))? {
            Some(receipt) => Ok(Some(receipt)),
            None => self.record(&Key::Receipt(tenant, today.saturating_sub(1), key)),
        }
    }

    /// A memory with its heat at `now`.
    fn memory_record(
        &self,
        tenant: TenantId,
        id: MemoryId,
        thermo: &Thermo,
        now: Timestamp,
    ) -> Result<Option<MemoryRecord>> {
        let Some(memory) = self.memory(tenant, id)? else { return Ok(None) };
        let Some(anchor) = self.anchor(tenant, id)? else { return Ok(None) };
        let heat = heat(&anchor, Cooling::of(&memory, thermo), now);
        Ok(Some(MemoryRecord { id, memory, anchor, heat }))
    }
}
