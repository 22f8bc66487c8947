//! Reading the outbox: due deliveries for the sender, and pages of a tenant's deliveries.

use model::delivery::{DeadLetterCursor, Delivery, DeliveryId};
use model::id::{KeyId, TenantId, Timestamp};
use model::memory::Memory;

use crate::change::all_of;
use crate::codec;
use crate::error::Result;
use crate::reader::Reader;
use crate::table::key::{Key, Kind, delivery_of, timed_delivery_of};
use crate::table::view::View;

/// Most deliveries that one page reads: as many as a tenant may have.
const PAGE_ROWS_MAX: usize = 20_000;

/// A page of an outbox.
#[derive(Debug, Clone, Default)]
pub struct Deliveries {
    /// The deliveries, ordered by trigger and firing.
    pub deliveries: Vec<(DeliveryId, Delivery)>,
    /// Last delivery of this page, if there are further pages.
    pub next: Option<DeliveryId>,
}

impl Reader {
    /// Whether a delivery may be sent now: the key that owns its trigger exists, and may access the
    /// namespaces that its memory had and has. As for firings, a trigger without an owner is the
    /// service's, which may know all.
    ///
    /// # Errors
    /// When the state cannot be read.
    pub fn may_deliver(
        &self,
        tenant: TenantId,
        owner: Option<KeyId>,
        delivery: &Delivery,
    ) -> Result<bool> {
        let Some(owner) = owner else { return Ok(true) };
        let Some(access) = self.access(tenant, owner, self.engine().clock())? else {
            return Ok(false);
        };
        let present = self.memory(tenant, delivery.memory)?;
        let is_open = |memory: Memory| access.allows(&memory.namespace);
        Ok(access.allows(&delivery.namespace) && present.is_none_or(is_open))
    }

    /// At most `most` deliveries of a tenant that are due at `now`, in the order of their times.
    pub fn due(&self, tenant: TenantId, now: Timestamp, most: usize) -> Result<Vec<DeliveryId>> {
        let (start, _) = all_of(Kind::Due, tenant);
        let end = [&start[..], &now.0.saturating_add(1).to_be_bytes()].concat();
        let engine = self.engine();
        let rows = engine.state.range(&start, &end).take(most);
        rows.map(|row| row.and_then(|(key, _)| delivery_of(&key))).collect()
    }

    /// At most `most` dead letters of a tenant after `after`, the oldest first.
    pub(crate) fn dead_letters(
        &self,
        tenant: TenantId,
        after: Option<DeadLetterCursor>,
        most: usize,
    ) -> Result<Vec<DeadLetterCursor>> {
        let (start, end) = all_of(Kind::DeadLetter, tenant);
        let start = match after {
            Some((at, id)) => [&Key::DeadLetter(tenant, at, id).bytes()[..], &[0]].concat(),
            None => start,
        };
        let engine = self.engine();
        let rows = engine.state.range(&start, &end).take(most);
        rows.map(|row| row.and_then(|(key, _)| timed_delivery_of(&key))).collect()
    }

    /// At most `limit` deliveries of a tenant after `after` that pass `filter`.
    pub fn deliveries(
        &self,
        tenant: TenantId,
        after: Option<DeliveryId>,
        limit: usize,
        filter: impl Fn(DeliveryId, &Delivery) -> Result<bool>,
    ) -> Result<Deliveries> {
        let (start, end) = all_of(Kind::Delivery, tenant);
        let start = match after {
            Some(id) => [&Key::Delivery(tenant, id).bytes()[..], &[0]].concat(),
            None => start,
        };
        let engine = self.engine();
        let mut page = Deliveries::default();
        for row in engine.state.range(&start, &end).take(PAGE_ROWS_MAX) {
            let (key, value) = row?;
            let (id, delivery) = (delivery_of(&key)?, codec::decode(&value)?);
            if !filter(id, &delivery)? {
                continue;
            }
            if page.deliveries.len() == limit {
                page.next = page.deliveries.last().map(|(id, _)| *id);
                break;
            }
            page.deliveries.push((id, delivery));
        }
        Ok(page)
    }
}
