//! Reading the outbox: what is due, for whoever sends it, and what a tenant has in it, in pages.

use crate::change::all_of;
use crate::codec;
use crate::engine::Reader;
use crate::error::Result;
use crate::model::delivery::{Delivery, DeliveryId};
use crate::model::id::{TenantId, Timestamp};
use crate::table::key::{Key, Kind, delivery_of};

/// Deliveries that one look at an outbox reads: as many as a tenant may have.
const LOOKED_AT: usize = 20_000;

/// A page of an outbox.
#[derive(Debug, Clone, Default)]
pub struct Deliveries {
    /// What was wanted, in the order of triggers and their firings.
    pub deliveries: Vec<(DeliveryId, Delivery)>,
    /// After what the next page begins, unless this is the last one.
    pub next: Option<DeliveryId>,
}

impl Reader {
    /// Deliveries of a tenant that are due at `now`, the longest due first, `most` at most.
    ///
    /// # Errors
    /// When the state cannot be read.
    pub fn due(&self, tenant: TenantId, now: Timestamp, most: usize) -> Result<Vec<DeliveryId>> {
        let (start, _) = all_of(Kind::Due, tenant);
        let end = [&start[..], &now.0.saturating_add(1).to_be_bytes()].concat();
        let engine = self.engine();
        let rows = engine.state.range(&start, &end).take(most);
        rows.map(|row| row.and_then(|(key, _)| delivery_of(&key))).collect()
    }

    /// Deliveries of a tenant after `after`, `limit` at most, of those that `wanted` takes.
    ///
    /// # Errors
    /// When the state cannot be read.
    pub fn deliveries(
        &self,
        tenant: TenantId,
        after: Option<DeliveryId>,
        limit: usize,
        wanted: impl Fn(&Delivery) -> bool,
    ) -> Result<Deliveries> {
        let (start, end) = all_of(Kind::Delivery, tenant);
        let start = match after {
            Some(id) => [&Key::Delivery(tenant, id).bytes()[..], &[0]].concat(),
            None => start,
        };
        let engine = self.engine();
        let mut page = Deliveries::default();
        for row in engine.state.range(&start, &end).take(LOOKED_AT) {
            let (key, value) = row?;
            let delivery: Delivery = codec::decode(&value)?;
            if !wanted(&delivery) {
                continue;
            }
            if page.deliveries.len() == limit {
                page.next = page.deliveries.last().map(|(id, _)| *id);
                break;
            }
            page.deliveries.push((delivery_of(&key)?, delivery));
        }
        Ok(page)
    }
}
