//! Undoing a [fold](super::fold).

use crate::command::BulkFilter;
use crate::decide::context::{Context, Decided, reject_if};
use crate::decide::memory;
use crate::model::id::MemoryId;
use crate::model::memory::Tier;
use crate::reply::{Rejection, Reply};

/// Deletes a memory, and restores those that it was folded from.
pub(super) fn unfold(context: &mut Context<'_>, id: MemoryId) -> Decided<Reply> {
    let folded = context.existing(id)?.memory;
    let reason = "the memory was not folded from others".to_owned();
    reject_if(folded.folded_from.is_empty(), Rejection::WrongState(reason))?;
    let mut sources = Vec::new();
    for source in &folded.folded_from {
        let present = context.present(*source)?;
        sources.extend(present.filter(|it| it.memory.superseded_by == Some(id)));
    }
    memory::delete(context, id, &BulkFilter::default())?;
    let mut restored = Vec::new();
    for source in sources {
        // Without the edge, it may be superseded by another one.
        let Some(present) = context.present(source.id)? else { continue };
        if present.memory.superseded_by.is_none() && present.memory.tier() == Tier::Cold {
            let now = context.now();
            context.move_to_hot_tier(&present, now)?;
        }
        restored.extend(context.present(source.id)?);
    }
    Ok(Reply::Memories(restored))
}
