//! Rules of a purge: memories are deleted for good, with what the state tells of them.

use crate::change::Change;
use crate::command::TraceRows;
use crate::decide::context::{Context, Decided};
use crate::decide::{memory, outbox};
use crate::model::id::MemoryId;
use crate::model::journal::{Event, JournalPart};
use crate::model::receipt::{Receipt, WriteEffect};
use crate::reply::Reply;
use crate::table::key::Key;
use crate::table::view::View;

/// Deletes a memory, also a locked one. The journal keeps no text of it.
pub(super) fn purge(context: &mut Context<'_>, id: MemoryId) -> Decided<Reply> {
    let present = context.existing(id)?;
    memory::remove(context, &present, String::new())
}

/// Removes deliveries and texts of events, and empties receipts: a repetition of their writes is
/// rejected, so it does not bring a memory back.
pub(super) fn remove_traces(context: &mut Context<'_>, rows: &TraceRows) -> Decided<Reply> {
    let tenant = context.tenant;
    for cursor in &rows.events {
        for part in JournalPart::ALL {
            let key = Key::event(tenant, part, *cursor);
            if let Some(mut event) = context.draft.record::<Event>(&key)?
                && event.remove_texts()
            {
                context.push(Change::EventReplaced(tenant, *cursor, event));
            }
        }
    }
    for id in &rows.deliveries {
        if let Some(delivery) = context.draft.delivery(tenant, *id)? {
            outbox::put(context, *id, delivery.stage, None)?;
        }
    }
    for (owner, key) in &rows.receipts {
        if let Some(receipt) = context.draft.receipt(tenant, *owner, *key)? {
            let effect = WriteEffect::Memories(Vec::new());
            let receipt = Receipt { body_hash: [0; 32], effect, ..receipt };
            context.push(Change::ReceiptReplaced(tenant, *owner, *key, receipt));
        }
    }
    Ok(Reply::Done)
}
