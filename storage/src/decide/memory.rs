//! Rules for creating, changing and deleting memories.

use crate::change::Change;
use crate::command::{Decision, MemoryPatch, NewMemory, Rejection, Reply};
use crate::decide::fire::emit;
use crate::decide::tenant::check_access;
use crate::decide::{Draft, edge};
use crate::error::Result;
use crate::model::heat::{Anchor, cools_differently};
use crate::model::id::{MemoryId, TenantId};
use crate::model::journal::EventKind;
use crate::model::memory::{Memory, MemoryRecord};
use crate::model::score::rounded;
use crate::model::tenant::KeyId;
use crate::model::trigger::TriggerEvent;
use crate::model::vector::Vector;
use crate::table::view::View;

/// Heat that a memory has at least when it is brought back from the cold tier.
const RESTORED_HEAT: f64 = 0.3;
/// Characters of a deleted memory's label that the journal keeps.
const DELETED_LABEL_CHARS: usize = 120;

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
        return Ok(Err(Rejection::StorageLimitReached { max }));
    }
    let mut created = Vec::with_capacity(memories.len());
    for new in memories {
        if let Err(rejection) = check_access(draft, tenant, actor, &new.namespace)? {
            return Ok(Err(rejection));
        }
        if draft.memory(tenant, new.id)?.is_some() {
            return Ok(Err(Rejection::IdTaken));
        }
        if !is_current_model(draft, &new.vector)? {
            return Ok(Err(Rejection::ModelMismatch));
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
    draft.append(tenant, actor, EventKind::Created, (new.id, &memory), Vec::new());
    emit(draft, tenant, TriggerEvent::Store, new.id);
    edge::suggested(draft, tenant, actor, new)?;
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
        return Ok(Err(Rejection::NotFound));
    };
    let moved = patch.namespace.as_ref();
    for namespace in [Some(&present.memory.namespace), moved].into_iter().flatten() {
        if let Err(rejection) = check_access(draft, tenant, actor, namespace)? {
            return Ok(Err(rejection));
        }
    }
    if let Some((_, vector)) = &patch.label
        && !is_current_model(draft, vector)?
    {
        return Ok(Err(Rejection::ModelMismatch));
    }
    let changed = patched(&present.memory, patch);
    let fields = changed_fields(&present.memory, &changed, patch);
    if fields.is_empty() {
        return Ok(Ok(Reply::Memories(vec![present])));
    }
    if patch.current_heat.is_some_and(|heat| rounded(heat.into()) > rounded(present.heat)) {
        emit(draft, tenant, TriggerEvent::Boost, id);
    }
    settle(draft, tenant, actor, &present, changed, patch.current_heat, fields)?;
    if let Some((_, vector)) = &patch.label {
        draft.push(Change::VectorPut(tenant, id, vector.clone()));
    }
    Ok(Ok(Reply::Memories(draft.present(tenant, id)?.into_iter().collect())))
}

/// Writes what became of a memory: its text row, and its heat if that is set.
pub(super) fn settle(
    draft: &mut Draft<'_>,
    tenant: TenantId,
    actor: Option<KeyId>,
    present: &MemoryRecord,
    changed: Memory,
    heat: Option<f32>,
    fields: Vec<String>,
) -> Result<()> {
    let (id, memory) = (present.id, Memory { updated_at: draft.now(), ..changed });
    if memory.archived_at != present.memory.archived_at {
        draft.append(tenant, actor, EventKind::Restored, (id, &memory), Vec::new());
    }
    // Whatever changes how a memory cools first anchors it at its present heat.
    let differently = cools_differently(&present.memory, &memory);
    if let Some(heat) = heat.or(differently.then_some(present.heat as f32)) {
        draft.anchor(tenant, present, present.anchor.with_heat(heat))?;
    }
    draft.append(tenant, actor, EventKind::Updated, (id, &memory), fields);
    draft.push(Change::MemoryPut(tenant, id, memory));
    Ok(())
}

pub(super) fn delete(
    draft: &mut Draft<'_>,
    tenant: TenantId,
    actor: Option<KeyId>,
    id: MemoryId,
) -> Result<Decision> {
    match draft.memory(tenant, id)? {
        None => Ok(Err(Rejection::NotFound)),
        Some(memory) if memory.is_locked => Ok(Err(Rejection::Locked)),
        Some(memory) => {
            if let Err(rejection) = check_access(draft, tenant, actor, &memory.namespace)? {
                return Ok(Err(rejection));
            }
            edge::forget(draft, tenant, id)?;
            let said = vec![memory.label.chars().take(DELETED_LABEL_CHARS).collect()];
            draft.append(tenant, actor, EventKind::Deleted, (id, &memory), said);
            draft.push(Change::MemoryRemoved(tenant, id));
            Ok(Ok(Reply::Deleted(id)))
        }
    }
}

/// Brings a memory back from the cold tier, warm enough to be found; one of the hot tier
/// stays as it is.
pub(super) fn restore(
    draft: &mut Draft<'_>,
    tenant: TenantId,
    actor: Option<KeyId>,
    id: MemoryId,
) -> Result<Decision> {
    let Some(present) = draft.present(tenant, id)? else { return Ok(Err(Rejection::NotFound)) };
    if let Err(rejection) = check_access(draft, tenant, actor, &present.memory.namespace)? {
        return Ok(Err(rejection));
    }
    if present.memory.archived_at.is_none() {
        return Ok(Ok(Reply::Done));
    }
    let memory = Memory { archived_at: None, updated_at: draft.now(), ..present.memory.clone() };
    let heat = present.heat.max(RESTORED_HEAT) as f32;
    draft.anchor(tenant, &present, present.anchor.with_heat(heat))?;
    draft.append(tenant, actor, EventKind::Restored, (id, &memory), Vec::new());
    draft.push(Change::MemoryPut(tenant, id, memory));
    Ok(Ok(Reply::Done))
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
        is_flagged: patch.is_flagged.unwrap_or(memory.is_flagged),
        min_heat: patch.min_heat.unwrap_or(memory.min_heat),
        // Whoever sets its heat or pins it wants it at hand.
        archived_at: match (patch.current_heat, patch.is_pinned) {
            (Some(_), _) | (_, Some(true)) => None,
            _ => memory.archived_at,
        },
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
        ("flagged_for_review", before.is_flagged != after.is_flagged),
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
fn is_current_model(draft: &Draft<'_>, vector: &Vector) -> Result<bool> {
    Ok(draft.cluster()?.is_some_and(|cluster| {
        cluster.model.id == vector.model && cluster.model.dimension as usize == vector.dimension()
    }))
}
