//! Rules for the cluster as a whole: its identity and members, expiry of receipts and events, and
//! the mark at which every node hashes its state.

use std::sync::Arc;

use crate::change::Change;
use crate::decide::audit;
use crate::decide::context::{Decided, reject_if};
use crate::decide::draft::Draft;
use crate::decide::idempotency;
use crate::model::api_key::NewApiKey;
use crate::model::cluster::{Cluster, Incarnation, Member};
use crate::model::id::{KeyId, TenantId, Timestamp};
use crate::model::journal::{JOURNAL_DAYS, JOURNAL_EVENTS_MAX};
use crate::model::limits::Tenancy;
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
        let events = draft.base.counts(tenant).events;
        if expire_events(draft, tenant, events)? || receipts == 0 {
            return Ok(Reply::Expired(Some(tenant)));
        }
    }
    Ok(Reply::Expired(None))
}

/// Whether a tenant may have receipts or events to remove, as far as its index says.
fn may_expire(draft: &Draft, tenant: TenantId) -> bool {
    let Some(index) = draft.base.index(tenant) else { return false };
    let data = index.read();
    let receipts = data.receipts.may_expire(draft.now);
    let events = data.events();
    receipts || events > events_max() || events > 0 && data.first_event_at() < oldest_kept(draft)
}

/// Time of the oldest events that are kept.
fn oldest_kept(draft: &Draft) -> Timestamp {
    Timestamp(draft.now.0 - JOURNAL_DAYS * Timestamp::DAY_MICROS)
}

/// Removes events of a tenant that are too old or too many. Returns whether more remain than one
/// run removes.
fn expire_events(draft: &mut Draft, tenant: TenantId, events: u64) -> Decided<bool> {
    // Another run in this batch has read the same state.
    let is_trim = |change: &Change| matches!(change, Change::EventsTrimmed(of, _) if *of == tenant);
    if draft.count(is_trim) > 0 {
        return Ok(false);
    }
    let excess = events.saturating_sub(events_max());
    let first = draft.base.first_kept_event(tenant, oldest_kept(draft), excess, TRIM_EVENTS_MAX)?;
    let Some(first) = first else { return Ok(false) };
    draft.push(Change::EventsTrimmed(tenant, first));
    Ok(excess > TRIM_EVENTS_MAX)
}

/// Events that a tenant keeps; fewer in tests of trimming only.
fn events_max() -> u64 {
    fail::fail_point!("journal-events-max", |max| {
        max.and_then(|max| max.parse().ok()).unwrap_or(JOURNAL_EVENTS_MAX)
    });
    JOURNAL_EVENTS_MAX
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
