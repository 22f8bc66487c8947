//! Reading the receipts of writes by age, to remove them.

use crate::error::Result;
use crate::reader::Reader;
use crate::table::key::{Key, receipt_of};
use model::id::{KeyId, TenantId, Timestamp};
use model::receipt::{ReceiptKey, Retention};

impl Reader {
    /// The first `limit` receipts of an API key at or before `until` that pass `filter`, the
    /// oldest first. Removed receipts before them cost nothing.
    pub(crate) fn old_receipts(
        &self,
        (tenant, owner, retention): (TenantId, KeyId, Retention),
        until: Timestamp,
        limit: usize,
        filter: impl Fn(&ReceiptKey) -> bool,
    ) -> Result<Vec<(Timestamp, ReceiptKey)>> {
        let index = self.index(tenant);
        let oldest = index.and_then(|index| index.read().receipts.oldest(owner, retention));
        let Some(oldest) = oldest.filter(|oldest| *oldest <= until) else { return Ok(Vec::new()) };
        let key = |at| Key::ReceiptAge(tenant, owner, retention, at, [0; 32]).bytes();
        let engine = self.engine();
        let rows = engine.state.range(&key(oldest), &key(Timestamp(until.0.saturating_add(1))));
        let receipts = rows.map(|row| receipt_of(&row?.0).map(|(_, _, at, hash)| (at, hash)));
        let passes = |receipt: &Result<(Timestamp, ReceiptKey)>| {
            receipt.as_ref().map_or(true, |(_, hash)| filter(hash))
        };
        receipts.filter(passes).take(limit).collect()
    }
}
