//! Rules for creating, changing and deleting memories.

use crate::change::Change;
use crate::command::{Decision, MemoryPatch, NewMemory, Refusal, Reply};
use crate::decide::Draft;
use crate::error::Result;
use crate::model::heat::{Anchor, cools_differently};
use crate::model::id::{MemoryId, TenantId};
use crate::model::journal::{Event, EventKind};
use crate::model::memory::{Memory, MemoryRecord};
use crate::model::tenant::KeyId;
use crate::model::vector::Vector;
use crate::table::view::View;

pub(super) fn create(
    draft: &mut Draft<'_>,
    tenant: TenantId,
    actor: Option<KeyId>,
    memories: &[NewMemory],
) -> Result<Decision> {
    let limit = draft.tenant(tenant)?.and_then(|row| row.memories_max);
    if let Some(max) = limit
        && draft.memories(tenant) + memories.len() as u64 > max
    {
        return Ok(Err(Refusal::StorageLimitReached { max }));
    }
    let mut created = Vec::with_capacity(memories.len());
    for new in memories {
        if draft.memory(tenant, new.id)?.is_some() {
            return Ok(Err(Refusal::IdTaken));
        }
        if !of_this_model(draft, &new.vector)? {
            return Ok(Err(Refusal::ModelMismatch));
        }
        created.push(create_one(draft, tenant, actor, new)?);
    }
    Ok(Ok(Reply::Memories(created)))
}

fn create_one(
    draft: &mut Draft<'_>,
    tenant: TenantId,
    actor: Option<KeyId>,
    new: &NewMemory,
) -> Result<MemoryRecord> {
    let now = draft.now();
    let memory = Memory {
        label: new.label.clone(),
        memory_type: new.memory_type,
        namespace: new.namespace.clone(),
        decay_class: new.decay_class,
        is_pinned: new.is_pinned,
        is_locked: false,
        is_flagged: false,
        min_heat: new.min_heat,
        key_points: new.key_points.clone(),
        created_at: now,
        updated_at: now,
        archived_at: None,
    };
    let anchor = Anchor::fresh(new.initial_heat, now);
    draft.push(Change::MemoryPut(tenant, new.id, memory.clone()));
    draft.push(Change::AnchorPut(tenant, new.id, anchor));
    draft.push(Change::VectorPut(tenant, new.id, new.vector.clone()));
    append(draft, tenant, actor, new.id, EventKind::Created, Vec::new());
    Ok(MemoryRecord { id: new.id, memory, anchor, heat: f64::from(anchor.heat) })
}

pub(super) fn update(
    draft: &mut Draft<'_>,
    tenant: TenantId,
    actor: Option<KeyId>,
    id: MemoryId,
    patch: &MemoryPatch,
) -> Result<Decision> {
    let Some(present) = draft.present(tenant, id)? else {
        return Ok(Err(Refusal::NotFound));
    };
    if let Some((_, vector)) = &patch.label
        && !of_this_model(draft, vector)?
    {
        return Ok(Err(Refusal::ModelMismatch));
    }
    let changed = patched(&present.memory, patch);
    let fields = changed_fields(&present.memory, &changed, patch);
    if fields.is_empty() {
        return Ok(Ok(Reply::Memories(vec![present])));
    }
    let now = draft.now();
    let memory = Memory { updated_at: now, ..changed };
    // Whatever changes how a memory cools first anchors it at its present heat.
    let heat = match patch.current_heat {
        Some(heat) => Some(heat),
        None if cools_differently(&present.memory, &memory) => Some(present.heat as f32),
        None => None,
    };
    draft.push(Change::MemoryPut(tenant, id, memory));
    if let Some(heat) = heat {
        draft.push(Change::AnchorPut(tenant, id, present.anchor.moved(heat, now)));
    }
    if let Some((_, vector)) = &patch.label {
        draft.push(Change::VectorPut(tenant, id, vector.clone()));
    }
    append(draft, tenant, actor, id, EventKind::Updated, fields);
    Ok(Ok(Reply::Memories(draft.present(tenant, id)?.into_iter().collect())))
}

pub(super) fn delete(
    draft: &mut Draft<'_>,
    tenant: TenantId,
    actor: Option<KeyId>,
    id: MemoryId,
) -> Result<Decision> {
    match draft.memory(tenant, id)? {
        None => Ok(Err(Refusal::NotFound)),
        Some(memory) if memory.is_locked => Ok(Err(Refusal::Locked)),
        Some(_) => {
            draft.push(Change::MemoryRemoved(tenant, id));
            append(draft, tenant, actor, id, EventKind::Deleted, Vec::new());
            Ok(Ok(Reply::Deleted(id)))
        }
    }
}

fn patched(memory: &Memory, patch: &MemoryPatch) -> Memory {
    let label = patch.label.as_ref().map_or(&memory.label, |(label, _)| label);
    Memory {
        label: label.clone(),
        memory_type: patch.memory_type.unwrap_or(memory.memory_type),
        namespace: patch.namespace.clone().unwrap_or_else(|| memory.namespace.clone()),
        decay_class: patch.decay_class.unwrap_or(memory.decay_class),
        is_pinned: patch.is_pinned.unwrap_or(memory.is_pinned),
        is_locked: patch.is_locked.unwrap_or(memory.is_locked),
        min_heat: patch.min_heat.unwrap_or(memory.min_heat),
        ..memory.clone()
    }
}

/// Names of the fields that a patch really changes. Setting heat always counts:
/// it anchors, even at the same value.
fn changed_fields(before: &Memory, after: &Memory, patch: &MemoryPatch) -> Vec<String> {
    [
        ("label", before.label != after.label),
        ("memory_type", before.memory_type != after.memory_type),
        ("namespace", before.namespace != after.namespace),
        ("decay_class", before.decay_class != after.decay_class),
        ("is_pinned", before.is_pinned != after.is_pinned),
        ("is_locked", before.is_locked != after.is_locked),
        ("min_heat", before.min_heat != after.min_heat),
        ("current_heat", patch.current_heat.is_some()),
    ]
    .into_iter()
    .filter(|(_, changed)| *changed)
    .map(|(name, _)| name.to_owned())
    .collect()
}

/// Vectors of another model or dimension have no place beside those stored:
/// their distances would mean nothing.
fn of_this_model(draft: &Draft<'_>, vector: &Vector) -> Result<bool> {
    Ok(draft.cluster()?.is_some_and(|cluster| {
        cluster.model.id == vector.model && cluster.model.dimension as usize == vector.dimension()
    }))
}

fn append(
    draft: &mut Draft<'_>,
    tenant: TenantId,
    actor: Option<KeyId>,
    subject: MemoryId,
    kind: EventKind,
    details: Vec<String>,
) {
    let event = Event { at: draft.now(), kind, actor, subject, details };
    draft.push(Change::EventAppended(tenant, event));
}
