//! Writes what a command or a trigger changes of a memory.

use model::decay::decay_differs;
use model::heat::Anchor;
use model::journal::{EventKind, MemoryField};
use model::memory::{Memory, MemoryRecord};

use crate::change::Change;
use crate::decide::context::Context;
use crate::decide::edge;
use crate::error::Result;

/// An update of a memory: its row, its heat if that is set, and the fields that differ.
pub(super) struct MemoryUpdate {
    pub(super) memory: Memory,
    pub(super) heat: Option<f32>,
    pub(super) fields: Vec<MemoryField>,
}

pub(super) fn commit_update(
    context: &mut Context<'_>,
    present: &MemoryRecord,
    update: MemoryUpdate,
) -> Result<()> {
    let (id, memory) = (present.id, Memory { updated_at: context.now(), ..update.memory });
    context.add_bytes(present.memory.stored_bytes(), memory.stored_bytes());
    if memory.archived_at != present.memory.archived_at {
        context.append(id, &memory, EventKind::Restored);
    }
    // What changes the decay of a memory first anchors it at its present heat.
    let decay_differs = decay_differs(&present.memory, &memory);
    if let Some(heat) = update.heat.or(decay_differs.then_some(present.heat as f32)) {
        context.anchor(present, Anchor { heat, ..present.anchor })?;
    }
    context.append(id, &memory, EventKind::Updated(update.fields));
    // What waited in quarantine is shown to no agent as a past text.
    if memory.label != present.memory.label && !present.memory.guard.is_quarantined() {
        let author = context.actor.map(|key| context.editor(key)).transpose()?.flatten();
        let mut versions = context.versions(id)?;
        let before = &present.memory;
        versions.replace(&before.label, before.created_at, author, context.now());
        context.push(Change::VersionsPut(context.tenant, id, versions));
    }
    let leaves_namespace = memory.namespace != present.memory.namespace;
    context.put_memory(id, memory)?;
    if leaves_namespace {
        edge::end_supersessions(context, id)?;
    }
    Ok(())
}
