//! Idempotent writes: a command with a receipt request is decided once per key, and its
//! repetition returns what the first one did.

use crate::change::Change;
use crate::command::CREATE_MAX;
use crate::decide::context::{Context, DecideError, Decided, reject_if};
use crate::decide::draft::Draft;
use crate::decide::trigger;
use crate::model::id::{MemoryId, TenantId};
use crate::model::receipt::{RECEIPT_IDS_MAX, RECEIPTS_MAX, Receipt, ReceiptRequest, WriteEffect};
use crate::reply::{Rejection, Reply};
use crate::table::view::View;

const _: () = assert!(CREATE_MAX <= RECEIPT_IDS_MAX, "a receipt holds all that a command creates");

/// Returns what the first request with this key did, as it is now; `None` if this is the first.
pub(super) fn replay(
    context: &mut Context<'_>,
    request: &ReceiptRequest,
) -> Decided<Option<Reply>> {
    let (tenant, now) = (context.tenant, context.now());
    let Some(receipt) = context.draft.receipt(tenant, request.key, now)? else {
        let is_receipt =
            |change: &Change| matches!(change, Change::ReceiptPut(of, ..) if *of == tenant);
        let drafted = context.draft.count(is_receipt);
        return match context.draft.base.counts(tenant).receipts + drafted >= RECEIPTS_MAX {
            true => Err(Rejection::ReceiptsFull.into()),
            false => Ok(None),
        };
    };
    reject_if(receipt.body_hash != request.body_hash, Rejection::KeyReused)?;
    let reply = match receipt.effect {
        WriteEffect::Trigger(id) => match trigger::reply(context, id) {
            Err(DecideError::Rejected(Rejection::NoSuch(_))) => Ok(Reply::ReplayedTriggerGone(id)),
            found => found,
        },
        WriteEffect::Memories(ids) => replay_memories(context, ids),
    };
    reply.map(Some)
}

/// Keeps the receipt of a decided command. A rejected command keeps none: it may be repeated
/// once the reason of its rejection is gone.
pub(super) fn keep_receipt(
    draft: &mut Draft,
    tenant: TenantId,
    request: &ReceiptRequest,
    reply: &Reply,
) {
    let effect = match reply {
        Reply::Memories(memories) => {
            WriteEffect::Memories(memories.iter().map(|memory| memory.id).collect())
        }
        Reply::Deleted(id) => WriteEffect::Memories(vec![*id]),
        Reply::Feedback(feedback) => WriteEffect::Memories(vec![feedback.id]),
        Reply::Trigger(id, ..) => WriteEffect::Trigger(*id),
        _ => WriteEffect::Memories(Vec::new()),
    };
    let receipt = Receipt { body_hash: request.body_hash, effect };
    draft.push(Change::ReceiptPut(tenant, draft.now.day(), request.key, receipt));
}

/// The memories that the first request touched, as far as the caller has access.
fn replay_memories(context: &mut Context<'_>, ids: Vec<MemoryId>) -> Decided<Reply> {
    let mut memories = Vec::with_capacity(ids.len());
    for id in ids {
        let present = context.present(id)?;
        if let Some(record) = &present {
            context.check_access(&record.memory.namespace)?;
        }
        memories.push((id, present));
    }
    Ok(Reply::Replayed(memories))
}
