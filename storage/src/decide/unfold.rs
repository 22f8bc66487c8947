//! Undoing a [fold](super::fold).

use crate::command::BulkFilter;
use crate::decide::context::{Context, Decided, reject_if};
use crate::decide::memory;
use crate::model::id::MemoryId;
use crate::reply::{Rejection, Reply};

/// Deletes a memory, and restores those that it was folded from, as they were. At least one must
/// exist: otherwise its text would be lost.
pub(super) fn unfold(context: &mut Context<'_>, id: MemoryId) -> Decided<Reply> {
    let folded = context.existing(id)?.memory;
    let reason = "the memory was not folded from others".to_owned();
    reject_if(folded.folded_from.is_empty(), Rejection::WrongState(reason))?;
    let mut sources = Vec::new();
    for source in &folded.folded_from {
        let memory = context.memory(*source)?;
        if memory.is_some_and(|memory| memory.namespace == folded.namespace) {
            sources.push(*source);
        }
    }
    let reason = "none of the memories that it was folded from is in its namespace".to_owned();
    reject_if(sources.is_empty(), Rejection::WrongState(reason))?;
    memory::delete(context, id, &BulkFilter::default())?;
    let mut restored = Vec::new();
    for source in sources {
        let Some(present) = context.present(source)? else { continue };
        // What was in the cold tier before stays there, and so does what another one supersedes.
        let was_hot = present.memory.archived_at >= Some(folded.created_at);
        if present.memory.superseded_by.is_none() && was_hot {
            let now = context.now();
            context.move_to_hot_tier(&present, now, 0.0)?;
        }
        restored.extend(context.present(source)?);
    }
    Ok(Reply::Memories(restored))
}
