//! Rules for the cluster as a whole: its identity and members, expiry of receipts and events, and
//! the mark at which every node hashes its state.

use crate::change::Change;
use crate::decide::context::{Decided, reject_if};
use crate::decide::draft::Draft;
use crate::decide::idempotency;
use crate::model::cluster::{Cluster, Incarnation, Member};
use crate::model::id::{KeyId, TenantId, Timestamp};
use crate::model::journal::{JOURNAL_DAYS, JOURNAL_EVENTS_MAX};
use crate::model::tenant::{ApiKey, Tenant};
use crate::reply::{Rejection, Reply};
use crate::table::view::View;

const FIRST_TENANT: TenantId = TenantId(1);
/// Most events that one run trims per tenant, so that no batch delays clients.
const TRIM_EVENTS_MAX: u64 = 10_000;
/// Most receipts that one run removes.
const EXPIRED_RECEIPTS_MAX: usize = 5_000;

/// The first batch of a cluster: its identity, its first tenant, and that tenant's key.
pub(super) fn bootstrap(
    draft: &mut Draft,
    cluster: &Cluster,
    tenant: &str,
    key_id: KeyId,
    key: &ApiKey,
) -> Decided<Reply> {
    reject_if(
        draft.cluster()?.is_some(),
        Rejection::WrongState("the cluster is bootstrapped already".into()),
    )?;
    let now = draft.now;
    let row = Tenant { name: tenant.to_owned(), created_at: now, ..Tenant::default() };
    // The identity goes first: it holds the dimension that the tenant's index needs.
    draft.push(Change::ClusterPut(cluster.clone()));
    draft.push(Change::TenantPut(FIRST_TENANT, row));
    let key = ApiKey { created_at: now, ..key.clone() };
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

fn existing(draft: &Draft) -> Decided<Cluster> {
    let cluster = draft.cluster()?;
    Ok(cluster
        .ok_or_else(|| Rejection::WrongState("the cluster is not bootstrapped yet".into()))?)
}

/// Removes receipts whose retention has passed, and events that are too old or too many. Replies
/// `Partial` when more remains than one run removes.
pub(super) fn expire(draft: &mut Draft) -> Decided<Reply> {
    let now = draft.now;
    let oldest_kept = Timestamp(now.0 - JOURNAL_DAYS * Timestamp::DAY_MICROS);
    let (mut reply, mut receipts) = (Reply::Done, EXPIRED_RECEIPTS_MAX);
    for tenant in draft.base.tenants() {
        receipts -= idempotency::expire(draft, tenant, receipts)?;
        if receipts == 0 {
            reply = Reply::Partial;
        }
        // Another run in this batch has read the same state.
        let is_trim =
            |change: &Change| matches!(change, Change::EventsTrimmed(of, _) if *of == tenant);
        if draft.count(is_trim) > 0 {
            continue;
        }
        let excess = draft.base.counts(tenant).events.saturating_sub(events_max());
        let first_kept =
            draft.base.first_kept_event(tenant, oldest_kept, excess, TRIM_EVENTS_MAX)?;
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
pub(super) fn mark_verification(draft: &mut Draft) -> Reply {
    // Unique: no other batch is decided on this index and applied.
    let number = draft.position.index + 1;
    if draft.count(|change| matches!(change, Change::VerifyMark(_))) == 0 {
        draft.push(Change::VerifyMark(number));
    }
    Reply::VerifyMark(number)
}
