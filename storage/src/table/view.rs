//! Typed reading of rows, from wherever the bytes come: the state itself, or
//! the state as an undecided batch would leave it. Nothing here writes.

use crate::codec::{self, Record};
use crate::error::Result;
use crate::model::cluster::Cluster;
use crate::model::heat::{Anchor, Cooling, heat};
use crate::model::id::{MemoryId, TenantId, Timestamp};
use crate::model::memory::{Memory, MemoryRecord};
use crate::model::receipt::{Receipt, ReceiptKey};
use crate::model::tenant::Tenant;
use crate::model::thermo::Thermo;
use crate::table::key::Key;

/// A consistent set of rows.
pub trait View {
    /// The bytes under `key`, if there are any.
    ///
    /// # Errors
    /// When the engine fails.
    fn bytes(&self, key: &Key) -> Result<Option<Vec<u8>>>;

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
