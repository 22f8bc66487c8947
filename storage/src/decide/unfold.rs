//! Undoing a [fold](super::fold).

use serde::{Deserialize, Serialize};

use crate::decide::audit_entry::Entry;
use crate::decide::bulk::BulkFilter;
use crate::decide::context::{Context, Decided, reject_if};
use crate::decide::memory;
use crate::decide::rule::{Class, TenantAudit, TenantRule};
use crate::error::Result;
use crate::reply::{Rejection, TouchedMemories};
use model::audit::AuditAction;
use model::id::MemoryId;

/// Deletes a memory, and restores those that it was folded from, as they were. At least one must
/// exist: otherwise its text would be lost.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Unfold(pub MemoryId);

impl TenantRule for Unfold {
    /// Those that are restored.
    type Reply = TouchedMemories;
    const CLASS: Class = Class::AddsData;
    const AUDIT: TenantAudit<Self> = Some(Self::audit);

    fn decide(&self, context: &mut Context<'_>) -> Decided<TouchedMemories> {
        let id = self.0;
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
            let present = context.written(source)?;
            // What was in the cold tier before stays there, and so does what another one supersedes.
            let was_hot = present.memory.archived_at >= Some(folded.created_at);
            if present.memory.superseded_by.is_none() && was_hot {
                let now = context.now();
                context.move_to_hot_tier(&present, now, 0.0)?;
            }
            restored.push(context.written(source)?);
        }
        Ok(TouchedMemories::existing(restored))
    }
}

impl Unfold {
    fn audit(&self, context: &Context<'_>, _reply: Option<&TouchedMemories>) -> Result<Entry> {
        let fields = memory::deleted_row(context, self.0)?;
        Ok(Entry::new(AuditAction::MemoryDelete, format!("memory {}", self.0), fields))
    }
}
