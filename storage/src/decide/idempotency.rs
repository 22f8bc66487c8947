//! Idempotent writes: a command with a receipt request is decided once per API key and idempotency
//! key, and its repetition returns what the first one did.
//!
//! The keys of a tenant share [`RECEIPTS_MAX`] receipts. One key has half of them at most, and may
//! always have a thousandth. At a limit, the oldest receipts make room: those of the writing key,
//! or of the key with the most receipts of those that have old ones.

use index::changed;
use model::id::{KeyId, TenantId, Timestamp};
use model::receipt::{
    RECEIPT_AGE_MIN_MICROS, RECEIPT_IDS_MAX, RECEIPT_REPLY_BYTES_MAX, RECEIPTS_MAX, Receipt,
    ReceiptRequest, Retention, TouchedId, WriteEffect,
};

use crate::change::Change;
use crate::codec;
use crate::decide::context::{Context, DecideError, Decided, reject_if};
use crate::decide::draft::Draft;
use crate::decide::trigger;
use crate::error::Result;
use crate::new_memory::{CREATE_MAX, CREATE_TEXT_BYTES_MAX};
use crate::reply::{EdgeReply, Rejection, Reply, Touched, TouchedMemories, TouchedMemory};
use crate::search::filter::TextRoom;
use crate::table::key::Key;
use crate::table::view::View;

const _: () = assert!(CREATE_MAX <= RECEIPT_IDS_MAX, "a receipt holds all that a command creates");

/// Receipts that make room at once, so that the next writes remove none.
const REMOVED_AT_ONCE: usize = 64;
/// Keys whose receipts one command examines to make room.
const OWNERS_EXAMINED_MAX: usize = 16;
/// Owner of the receipts of commands without an API key.
const SERVICE: KeyId = KeyId([0; 8]);

/// Returns what the first request with this key did, as it is now; `None` if this is the first.
pub(super) fn replay(
    context: &mut Context<'_>,
    request: &ReceiptRequest,
) -> Decided<Option<Reply>> {
    let owner = context.actor.unwrap_or(SERVICE);
    let Some(receipt) = context.draft.receipt(context.tenant, owner, request.key)? else {
        make_room(context.draft, context.tenant, owner)?;
        return Ok(None);
    };
    reject_if(receipt.body_hash != request.body_hash, Rejection::KeyReused)?;
    let reply = match receipt.effect {
        WriteEffect::Trigger(id) => trigger::reply_to_repetition(context, id).map(Reply::Trigger),
        WriteEffect::Memories(touched) => {
            replay_memories(context, receipt.at, touched).map(Reply::Memories)
        }
        WriteEffect::Reply(_, reply) if reply.is_empty() => Err(Rejection::AlreadyDone.into()),
        WriteEffect::Reply(_, reply) => Ok(codec::decode(&reply)?),
    };
    reply.map(Some)
}

/// Keeps the receipt of a decided command. A rejected command keeps none: it may be repeated
/// once the reason of its rejection is gone.
pub(super) fn keep_receipt(
    context: &mut Context<'_>,
    request: &ReceiptRequest,
    retention: Retention,
    reply: &Reply,
) {
    let effect = match reply {
        Reply::Memories(TouchedMemories { memories, .. }) => {
            let touched = memories.iter();
            let touched = touched
                .map(|&TouchedMemory { id, is_duplicate, .. }| TouchedId { id, is_duplicate });
            WriteEffect::Memories(touched.collect())
        }
        Reply::Trigger(trigger) => WriteEffect::Trigger(trigger.id),
        other => {
            let ids = match other {
                Reply::Feedback(feedback) => vec![feedback.id],
                Reply::Edge(EdgeReply { edge, .. }) => vec![edge.source, edge.target],
                _ => Vec::new(),
            };
            let mut encoded = codec::encode(other);
            if encoded.len() > RECEIPT_REPLY_BYTES_MAX {
                encoded.clear();
            }
            WriteEffect::Reply(ids, encoded)
        }
    };
    let (at, owner) = (context.now(), context.actor.unwrap_or(SERVICE));
    let receipt = Receipt { at, retention, body_hash: request.body_hash, effect };
    context.push(Change::ReceiptPut(context.tenant, owner, request.key, receipt));
}

/// Removes receipts whose retention has passed, at most `limit`. Returns how many.
pub(super) fn expire(draft: &mut Draft, tenant: TenantId, limit: usize) -> Result<usize> {
    let index = draft.base.index(tenant);
    let keys = index.map(|index| index.read().receipts.keys()).unwrap_or_default();
    let mut removed = 0;
    for (owner, retention) in keys {
        let until = Timestamp(draft.now.0 - retention.micros());
        removed += remove_old(draft, tenant, owner, retention, until, limit - removed)?;
    }
    Ok(removed)
}

/// Makes room for a receipt of `owner`, if a limit is reached.
fn make_room(draft: &mut Draft, tenant: TenantId, owner: KeyId) -> Decided<()> {
    let max = receipts_max();
    let (of_key, of_tenant) = numbers(draft, tenant, owner);
    if of_key < max / 1_000 || (of_key < max / 2 && of_tenant < max) {
        return Ok(());
    }
    let until = Timestamp(draft.now.0 - age_min());
    let index = draft.base.index(tenant).filter(|_| of_key < max / 2);
    let owners = index.map(|index| index.read().receipts.owners(until, OWNERS_EXAMINED_MAX));
    for owner in owners.into_iter().flatten().chain([owner]) {
        for retention in Retention::ALL {
            if remove_old(draft, tenant, owner, retention, until, REMOVED_AT_ONCE)? > 0 {
                return Ok(());
            }
        }
    }
    Err(Rejection::ReceiptsFull.into())
}

/// Numbers of receipts of a key and of its tenant, earlier commands included.
fn numbers(draft: &Draft, tenant: TenantId, owner: KeyId) -> (u64, u64) {
    let Some(index) = draft.base.index(tenant) else { return (0, 0) };
    let index = index.read();
    let (of_key, of_tenant) = draft.added_receipts(tenant, owner);
    (changed(index.receipts.of_key(owner), of_key), changed(index.receipts.total(), of_tenant))
}

/// Removes at most `limit` receipts of a key that were written until `until`, the oldest first.
/// Returns how many.
fn remove_old(
    draft: &mut Draft,
    tenant: TenantId,
    owner: KeyId,
    retention: Retention,
    until: Timestamp,
    limit: usize,
) -> Result<usize> {
    // An earlier command of this batch may have removed some.
    let is_stored = |key: &_| !draft.has_removed(&Key::Receipt(tenant, owner, *key));
    let old = draft.base.old_receipts(tenant, owner, retention, until, limit, is_stored)?;
    let count = old.len();
    if count > 0 {
        draft.push(Change::ReceiptsRemoved(tenant, owner, retention, old));
    }
    Ok(count)
}

/// Receipts per tenant; fewer in tests only.
fn receipts_max() -> u64 {
    fail::fail_point!("receipts-max", |max| {
        max.and_then(|max| max.parse().ok()).unwrap_or(RECEIPTS_MAX)
    });
    RECEIPTS_MAX
}

/// Age from which receipts make room, in microseconds; less in tests only.
fn age_min() -> i64 {
    fail::fail_point!("receipt-age-min", |micros| {
        micros.and_then(|micros| micros.parse().ok()).unwrap_or(RECEIPT_AGE_MIN_MICROS)
    });
    RECEIPT_AGE_MIN_MICROS
}

/// The memories that the first request touched, as far as their texts fit. Those that moved to a
/// namespace that is closed to the acting key are deleted for it.
fn replay_memories(
    context: &mut Context<'_>,
    at: Timestamp,
    touched: Vec<TouchedId>,
) -> Decided<TouchedMemories> {
    let (mut memories, mut room) =
        (Vec::with_capacity(touched.len()), TextRoom(CREATE_TEXT_BYTES_MAX));
    for TouchedId { id, is_duplicate } in touched {
        let now = match context.existing(id) {
            Ok(record) if room.take(&record.memory) => Touched::Memory(Box::new(record)),
            Ok(_) => Touched::TooLong,
            Err(DecideError::Rejected(_)) => Touched::Deleted,
            Err(fault) => return Err(fault),
        };
        memories.push(TouchedMemory { id, is_duplicate, now });
    }
    Ok(TouchedMemories { replay_of: Some(at), memories })
}
