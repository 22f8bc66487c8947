//! Rules of the leader's own upkeep: forgetting what is past its time, and
//! marking a point for every node to hash its state at.

use crate::change::Change;
use crate::command::{Decision, Reply};
use crate::decide::Draft;
use crate::error::Result;
use crate::model::id::Timestamp;
use crate::model::journal::{JOURNAL_DAYS, JOURNAL_EVENTS_MAX};

/// Most events that one run trims from a tenant, so that no batch of upkeep
/// keeps clients waiting.
const TRIM_EVENTS_MAX: u64 = 10_000;

/// Drops receipts of the day before yesterday and older, and events that are too
/// old or too many. Answers `Unfinished` when more is left than one run trims.
pub(super) fn expire(draft: &mut Draft<'_>) -> Result<Decision> {
    let now = draft.now();
    let yesterday = now.day().saturating_sub(1);
    let oldest_kept = Timestamp(now.0 - JOURNAL_DAYS * Timestamp::DAY_MICROS);
    let mut reply = Reply::Done;
    for tenant in draft.base().tenants() {
        // Another run in this batch has seen the same state.
        if draft.trims(tenant) {
            continue;
        }
        if draft.base().oldest_receipt_day(tenant).is_some_and(|day| day < yesterday) {
            draft.push(Change::ReceiptsDropped(tenant, yesterday));
        }
        let too_many = draft.base().counts(tenant).events.saturating_sub(events_max());
        let base = draft.base();
        let first_kept = base.first_kept_event(tenant, oldest_kept, too_many, TRIM_EVENTS_MAX)?;
        if let Some(before) = first_kept {
            draft.push(Change::EventsTrimmed(tenant, before));
            if too_many > TRIM_EVENTS_MAX {
                reply = Reply::Partial;
            }
        }
    }
    Ok(Ok(reply))
}

/// How many events a tenant keeps; fewer in tests of what is gone only.
fn events_max() -> u64 {
    fail::fail_point!("journal-events-max", |max| {
        max.and_then(|max| max.parse().ok()).unwrap_or(JOURNAL_EVENTS_MAX)
    });
    JOURNAL_EVENTS_MAX
}

pub(super) fn verify(draft: &mut Draft<'_>) -> Reply {
    // Unused as a number so far: no other batch is decided on this index and applied.
    let number = draft.index() + 1;
    if !draft.marks() {
        draft.push(Change::VerifyMark(number));
    }
    Reply::VerifyMark(number)
}
