//! Who changed the text, the lock or the namespace of a memory, or what replaces a locked one: an entry of
//! the audit log for each memory.

use model::audit::{AuditAction, AuditActor, Fields, short};
use model::id::{KeyId, MemoryId};
use model::memory::Memory;

use crate::decide::audit::{self, AuditedAct, digest, texts};
use crate::decide::context::Context;
use crate::error::Result;

/// Records in the audit log what differs between two rows of a memory, before and after. Returns whether
/// something does.
pub(super) fn record_edit(
    context: &mut Context<'_>,
    editor: Option<KeyId>,
    id: MemoryId,
    rows: [&Memory; 2],
) -> Result<bool> {
    let [before, after] = rows;
    let keeps_text = before.label == after.label;
    let [before, after] = rows.map(|row| audited(id, row, keeps_text));
    let entry = AuditedAct::new(AuditAction::MemoryChange, format!("memory {id}"), after);
    let Some((before, entry)) = audit::differing(before, entry) else { return Ok(false) };
    let actor = match editor {
        Some(key) => audit::actor(context.draft, context.tenant, key)?,
        None => AuditActor::Service,
    };
    let tenant = context.tenant;
    audit::record(context.draft, actor, before, &entry, [tenant])?;
    Ok(true)
}

/// The values of a memory that its edits change. The id is part of the digest, so that the log does not
/// tell which memories have equal texts.
fn audited(id: MemoryId, memory: &Memory, keeps_text: bool) -> Fields {
    let text = || digest(&[&id.0, memory.label.as_bytes()].concat());
    texts([
        ("label", (!keeps_text).then(text)),
        ("is_locked", Some(memory.is_locked.to_string())),
        ("namespace", Some(short(&memory.namespace))),
        ("superseded_by", memory.superseded_by.map(|by| by.to_string())),
    ])
}
