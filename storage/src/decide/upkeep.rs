//! Rules of the leader's own upkeep: forgetting what is past its time, and
//! marking a point for every node to hash its state at.

use crate::change::Change;
use crate::command::{Decision, Reply};
use crate::decide::Draft;
use crate::error::Result;
use crate::model::id::{TenantId, Timestamp};
use crate::model::journal::{Cursor, JOURNAL_DAYS, JOURNAL_EVENTS_MAX};

/// Most events that one run trims from a tenant, so that no batch of upkeep
/// keeps clients waiting.
pub(crate) const TRIM_EVENTS_MAX: usize = 10_000;

/// Drops receipts of the day before yesterday and older, and events that are
/// too old or too many.
pub(super) fn housekeep(draft: &mut Draft<'_>) -> Result<Decision> {
    let yesterday = draft.now().day().saturating_sub(1);
    for tenant in draft.base().tenants() {
        if draft.base().oldest_receipt_day(tenant).is_some_and(|day| day < yesterday) {
            draft.push(Change::ReceiptsDropped(tenant, yesterday));
        }
        if let Some(before) = trim_before(draft, tenant)? {
            draft.push(Change::EventsTrimmed(tenant, before));
        }
    }
    Ok(Ok(Reply::Done))
}

/// The first event that a tenant keeps, if there are older ones.
fn trim_before(draft: &Draft<'_>, tenant: TenantId) -> Result<Option<Cursor>> {
    let oldest_kept = Timestamp(draft.now().0 - JOURNAL_DAYS * Timestamp::DAY_MICROS);
    let too_many = draft.base().counts(tenant).events.saturating_sub(JOURNAL_EVENTS_MAX);
    let mut first_kept = None;
    let events = draft.base().oldest_events(tenant, TRIM_EVENTS_MAX + 1)?;
    for (at, (cursor, event)) in events.iter().enumerate() {
        first_kept = (at > 0).then_some(*cursor);
        if event.at >= oldest_kept && at as u64 >= too_many {
            break;
        }
    }
    Ok(first_kept)
}

pub(super) fn verify(draft: &mut Draft<'_>) -> Reply {
    // The index of the last applied entry is unused as a number so far and alike everywhere.
    draft.push(Change::VerifyMark(draft.index() + 1));
    Reply::Done
}
