//! Rules of background maintenance: expiry of receipts and events, and the mark at which every
//! node hashes its state.

use crate::change::Change;
use crate::decide::draft::Draft;
use crate::decide::error::Decided;
use crate::model::id::Timestamp;
use crate::model::journal::{JOURNAL_DAYS, JOURNAL_EVENTS_MAX};
use crate::reply::Reply;

/// Most events that one run trims per tenant, so that no batch delays clients.
const TRIM_EVENTS_MAX: u64 = 10_000;

/// Drops receipts of the day before yesterday and older, and events that are too old or too
/// many. Replies `Partial` when more remains than one run trims.
pub(super) fn expire(draft: &mut Draft<'_>) -> Decided<Reply> {
    let now = draft.now();
    let yesterday = now.day().saturating_sub(1);
    let oldest_kept = Timestamp(now.0 - JOURNAL_DAYS * Timestamp::DAY_MICROS);
    let mut reply = Reply::Done;
    for tenant in draft.base().tenants() {
        // Another run in this batch has read the same state.
        if draft.has_expired(tenant) {
            continue;
        }
        let index = draft.base().index(tenant);
        let oldest_day = index.and_then(|index| index.read().receipts.keys().next().copied());
        if oldest_day.is_some_and(|day| day < yesterday) {
            draft.push(Change::ReceiptsDropped(tenant, yesterday));
        }
        let excess = draft.base().counts(tenant).events.saturating_sub(events_max());
        let base = draft.base();
        let first_kept = base.first_kept_event(tenant, oldest_kept, excess, TRIM_EVENTS_MAX)?;
        if let Some(before) = first_kept {
            draft.push(Change::EventsTrimmed(tenant, before));
            if excess > TRIM_EVENTS_MAX {
                reply = Reply::Partial;
            }
        }
    }
    Ok(reply)
}

/// Events that a tenant keeps; fewer in tests of trimming only.
fn events_max() -> u64 {
    fail::fail_point!("journal-events-max", |max| {
        max.and_then(|max| max.parse().ok()).unwrap_or(JOURNAL_EVENTS_MAX)
    });
    JOURNAL_EVENTS_MAX
}

/// Makes every node hash its state at this entry.
pub(super) fn mark_verification(draft: &mut Draft<'_>) -> Reply {
    // Unique: no other batch is decided on this index and applied.
    let number = draft.index() + 1;
    if !draft.has_verify_mark() {
        draft.push(Change::VerifyMark(number));
    }
    Reply::VerifyMark(number)
}
