//! Removes what is too old: entries of audit logs, receipts, and events of journals.

use index::counts::PartCounts;
use model::id::{TenantId, Timestamp};
use model::journal::{JOURNAL_DAYS, JournalPart};
use serde::{Deserialize, Serialize};

use crate::change::Change;
use crate::decide::context::Decided;
use crate::decide::draft::Draft;
use crate::decide::rule::{Class, ClusterAudit, ClusterRule};
use crate::decide::{audit, idempotency};
use crate::journal::Excess;
use crate::reply::Expired;

/// Most events that one run trims per tenant, so that no batch delays clients.
const TRIM_EVENTS_MAX: u64 = 10_000;
/// Most tenants that one run looks at, and most of which it reads rows.
const EXAMINED_TENANTS_MAX: usize = 2_000;
const EXPIRED_TENANTS_MAX: usize = 200;
/// Most receipts that one run removes.
const EXPIRED_RECEIPTS_MAX: usize = 5_000;

/// Removes old entries of audit logs, receipts whose retention has passed, and events that are too
/// old or too many, of some tenants from this one on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Expire(pub TenantId);

impl ClusterRule for Expire {
    type Reply = Expired;
    const CLASS: Class = Class::Background;
    const AUDIT: ClusterAudit<Self> = None;

    fn decide(&self, draft: &mut Draft) -> Decided<Expired> {
        Ok(Expired { next: expire(draft, self.0)? })
    }
}

fn expire(draft: &mut Draft, first: TenantId) -> Decided<Option<TenantId>> {
    audit::expire(draft)?;
    let (mut receipts, mut tenants) = (EXPIRED_RECEIPTS_MAX, EXPIRED_TENANTS_MAX);
    let all = draft.base.tenants().into_iter().filter(|tenant| *tenant >= first);
    for (examined, tenant) in all.enumerate() {
        if examined == EXAMINED_TENANTS_MAX || tenants == 0 {
            return Ok(Some(tenant));
        }
        // It may have been deleted in the same batch.
        if !may_expire(draft, tenant) || draft.tenant_row(tenant)?.is_none() {
            continue;
        }
        tenants -= 1;
        receipts -= idempotency::expire(draft, tenant, receipts)?;
        let mut is_incomplete = receipts == 0;
        for part in JournalPart::ALL {
            is_incomplete |= expire_events(draft, tenant, part)?;
        }
        if is_incomplete {
            return Ok(Some(tenant));
        }
    }
    Ok(None)
}

/// Whether a tenant may have receipts or events to remove, as far as its index says.
fn may_expire(draft: &Draft, tenant: TenantId) -> bool {
    let Some(index) = draft.base.index(tenant) else { return false };
    let data = index.read();
    let may_trim = |part| {
        let counts = data.journal.part(part);
        let is_old = counts.events() > 0 && counts.first_at() < oldest_kept(draft);
        is_old || excess(counts, part) != Excess::default()
    };
    data.receipts.may_expire(draft.now) || JournalPart::ALL.into_iter().any(may_trim)
}

/// Time of the oldest events that are kept.
fn oldest_kept(draft: &Draft) -> Timestamp {
    Timestamp(draft.now.0 - JOURNAL_DAYS * Timestamp::DAY_MICROS)
}

/// Removes events of a part of a tenant's journal that are too old or too many. Returns whether more
/// remain than one run removes.
fn expire_events(draft: &mut Draft, tenant: TenantId, part: JournalPart) -> Decided<bool> {
    // Another run in this batch has read the same state.
    let is_same = |of: TenantId, other: JournalPart| (of, other) == (tenant, part);
    let is_trim = |change: &Change| matches!(change, Change::EventsTrimmed(of, other, _) if is_same(*of, *other));
    let Some(index) = draft.base.index(tenant) else { return Ok(false) };
    if draft.count(is_trim) > 0 {
        return Ok(false);
    }
    let excess = excess(index.read().journal.part(part), part);
    let kept = oldest_kept(draft);
    let first = draft.base.first_kept_event(tenant, part, kept, excess, TRIM_EVENTS_MAX)?;
    let Some(first) = first else { return Ok(false) };
    draft.push(Change::EventsTrimmed(tenant, part, first));
    Ok(excess.events > TRIM_EVENTS_MAX)
}

/// What a part has above its limits.
fn excess(counts: &PartCounts, part: JournalPart) -> Excess {
    Excess {
        events: counts.events().saturating_sub(events_max(part)),
        bytes: counts.bytes().saturating_sub(bytes_max(part)),
    }
}

/// Events that a part keeps; fewer in tests of trimming only.
fn events_max(part: JournalPart) -> u64 {
    fail::fail_point!("journal-events-max", |max| {
        max.and_then(|max| max.parse().ok()).unwrap_or(part.events_max())
    });
    part.events_max()
}

/// Bytes that a part keeps; fewer in tests of trimming only.
fn bytes_max(part: JournalPart) -> u64 {
    fail::fail_point!("journal-bytes-max", |max| {
        max.and_then(|max| max.parse().ok()).unwrap_or(part.bytes_max())
    });
    part.bytes_max()
}
