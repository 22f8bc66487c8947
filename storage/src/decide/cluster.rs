//! Rules for the cluster as a whole: its identity and members, expiry of receipts and events, and
//! the mark at which every node hashes its state.

use std::sync::Arc;

use crate::change::Change;
use crate::decide::audit;
use crate::decide::context::{Decided, reject_if};
use crate::decide::draft::Draft;
use crate::decide::idempotency;
use crate::index::journal::PartCounts;
use crate::journal::Excess;
use crate::model::api_key::NewApiKey;
use crate::model::cluster::{Cluster, Incarnation, Member};
use crate::model::id::{KeyId, TenantId, Timestamp};
use crate::model::journal::{JOURNAL_DAYS, JournalPart};
use crate::model::limits::Tenancy;
use crate::model::release::Release;
use crate::model::tenant::Tenant;
use crate::reply::{Rejection, Reply};
use crate::table::view::View;

const FIRST_TENANT: TenantId = TenantId(1);
/// Most events that one run trims per tenant, so that no batch delays clients.
const TRIM_EVENTS_MAX: u64 = 10_000;
/// Most tenants that one run looks at, and most of which it reads rows.
const EXAMINED_TENANTS_MAX: usize = 2_000;
const EXPIRED_TENANTS_MAX: usize = 200;
/// Most receipts that one run removes.
const EXPIRED_RECEIPTS_MAX: usize = 5_000;

/// The first batch of a cluster: its identity, its first tenant, and that tenant's key.
pub(super) fn bootstrap(
    draft: &mut Draft,
    cluster: &Cluster,
    tenant: &str,
    key_id: KeyId,
    key: &NewApiKey,
) -> Decided<Reply> {
    reject_if(
        draft.cluster()?.is_some(),
        Rejection::WrongState("the cluster is bootstrapped already".into()),
    )?;
    let now = draft.now;
    let row = Tenant { name: tenant.to_owned(), created_at: now, ..Tenant::default() };
    // The identity goes first: it holds the dimension that the tenant's index needs.
    draft.push(Change::ClusterPut(cluster.clone()));
    draft.push(Change::TenancyPut(Tenancy { last: FIRST_TENANT, ..Tenancy::default() }));
    draft.push(Change::TenantPut(FIRST_TENANT, row));
    let key = key.clone().row(now);
    draft.push(Change::ApiKeyPut(FIRST_TENANT, key_id, key));
    Ok(Reply::Done)
}

/// Adds a member under an id that was never used. Raft's membership changes afterwards: peers
/// reject a node that this rule did not add.
pub(super) fn add_member(draft: &mut Draft, node: u64, incarnation: Incarnation) -> Decided<Reply> {
    let mut cluster = existing(draft)?;
    match cluster.members.iter().find(|member| member.node == node) {
        Some(member) if member.incarnation == incarnation && !member.removed => Ok(Reply::Done),
        Some(_) => {
            let next = cluster.members.iter().map(|member| member.node).max().unwrap_or(0) + 1;
            let reason = format!("id {node} was used before; the next free one is {next}");
            Err(Rejection::WrongState(reason).into())
        }
        None => {
            cluster.members.push(Member::new(node, incarnation));
            draft.push(Change::ClusterPut(cluster));
            Ok(Reply::Done)
        }
    }
}

/// Marks a member as removed: peers reject it from here on. Raft's membership changed before.
pub(super) fn remove_member(draft: &mut Draft, node: u64) -> Decided<Reply> {
    let mut cluster = existing(draft)?;
    let member = cluster.members.iter_mut().find(|member| member.node == node);
    let member =
        member.ok_or_else(|| Rejection::WrongState(format!("node {node} was never a member")))?;
    if !member.removed {
        member.removed = true;
        draft.push(Change::ClusterPut(cluster));
    }
    Ok(Reply::Done)
}

/// Raises the feature level to the lowest release of all members, as the leader knows it.
pub(super) fn raise_level(draft: &mut Draft, release: Release) -> Decided<Reply> {
    let mut cluster = existing(draft)?;
    if release.level > cluster.release.level {
        cluster.release = release;
        draft.push(Change::ClusterPut(cluster));
    }
    Ok(Reply::Done)
}

/// Lets the deliveries of a restored cluster go out.
pub(super) fn release_webhooks(draft: &mut Draft) -> Decided<Reply> {
    let mut cluster = existing(draft)?;
    if let Some(restored) = cluster.restored.as_mut().filter(|restored| restored.webhooks_held) {
        restored.webhooks_held = false;
        draft.push(Change::ClusterPut(cluster));
    }
    Ok(Reply::Done)
}

fn existing(draft: &Draft) -> Decided<Cluster> {
    let cluster = draft.cluster()?;
    let cluster = cluster
        .ok_or_else(|| Rejection::WrongState("the cluster is not bootstrapped yet".into()))?;
    Ok(Arc::unwrap_or_clone(cluster))
}

/// Removes old entries of audit logs, receipts whose retention has passed, and events that are too
/// old or too many, of some tenants from `first` on. Replies the tenant at which the next run begins.
pub(super) fn expire(draft: &mut Draft, first: TenantId) -> Decided<Reply> {
    audit::expire(draft)?;
    let (mut receipts, mut tenants) = (EXPIRED_RECEIPTS_MAX, EXPIRED_TENANTS_MAX);
    let all = draft.base.tenants().into_iter().filter(|tenant| *tenant >= first);
    for (examined, tenant) in all.enumerate() {
        if examined == EXAMINED_TENANTS_MAX || tenants == 0 {
            return Ok(Reply::Expired(Some(tenant)));
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
            return Ok(Reply::Expired(Some(tenant)));
        }
    }
    Ok(Reply::Expired(None))
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
    let (of, kept) = ((tenant, part), oldest_kept(draft));
    let first = draft.base.first_kept_event(of, kept, excess, TRIM_EVENTS_MAX)?;
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

/// Makes every node hash its state at this entry.
pub(super) fn mark_verification(draft: &mut Draft) -> Reply {
    // Unique: no other batch is decided on this index and applied.
    let number = draft.position.index + 1;
    if draft.count(|change| matches!(change, Change::VerifyMark(_))) == 0 {
        draft.push(Change::VerifyMark(number));
    }
    Reply::VerifyMark(number)
}
