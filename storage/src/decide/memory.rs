//! Rules for creating, updating, deleting and restoring memories.

use crate::change::Change;
use crate::command::BulkFilter;
use crate::decide::context::{Context, Decided, RESTORED_HEAT, reject_if};
use crate::decide::counted::Counted;
use crate::decide::models;
use crate::decide::reinforce::reinforce;
use crate::decide::{duplicate, edge, fold};
use crate::error::Result;
use crate::model::decay::decay_differs;
use crate::model::details::MetadataEntry;
use crate::model::duplicate::OnDuplicate;
use crate::model::heat::Anchor;
use crate::model::id::MemoryId;
use crate::model::journal::{EventKind, MemoryField};
use crate::model::limits::Limit;
use crate::model::memory::{Memory, MemoryRecord};
use crate::model::score::rounded;
use crate::model::trigger::TriggerEvent;
use crate::new_memory::NewMemory;
use crate::patch::MemoryPatch;
use crate::reply::{Rejection, Reply};
use crate::table::view::View;

/// Characters of a deleted memory's label that the journal keeps.
const DELETED_LABEL_CHARS: usize = 120;

/// Creates memories, all or none.
pub(super) fn create(context: &mut Context<'_>, memories: &[NewMemory]) -> Decided<Reply> {
    let mut created = Vec::with_capacity(memories.len());
    for (at, new) in memories.iter().enumerate() {
        context.check_access(&new.namespace)?;
        reject_if(context.memory(new.id)?.is_some(), Rejection::IdTaken)?;
        models::check_vector(context.draft, &new.vector)?;
        let at = (memories.len() > 1).then_some(at);
        let record = match present_duplicate(context, new, at)? {
            Some(present) => present,
            None => create_one(context, new)?,
        };
        if let Some(old) = new.supersedes.filter(|old| *old != record.id) {
            edge::supersede(context, old, record.id)?;
        }
        let record = match &new.folds[..] {
            [] => record,
            sources => fold::fold(context, &record, sources)?,
        };
        created.push(record);
    }
    Ok(Reply::Memories(created))
}

/// The memory that a new one, the one `at` this place of the request, repeats: recalled, if it is not
/// to be created a second time.
fn present_duplicate(
    context: &mut Context<'_>,
    new: &NewMemory,
    at: Option<usize>,
) -> Decided<Option<MemoryRecord>> {
    let duplicates = context.thermo()?.duplicates;
    let action = new.on_duplicate.unwrap_or(duplicates.on_duplicate);
    if action == OnDuplicate::Allow {
        return Ok(None);
    }
    let Some(present) = duplicate::find(context, new, &duplicates)? else { return Ok(None) };
    reject_if(action == OnDuplicate::Reject, Rejection::Duplicate { present: present.id, at })?;
    let id = present.id;
    if duplicate::is_echo(&present, &duplicates, context.now()) {
        context.count_echo(present.memory.memory_type)?;
    } else {
        reinforce(context, present, 1)?;
    }
    Ok(context.present(id)?)
}

fn create_one(context: &mut Context<'_>, new: &NewMemory) -> Decided<MemoryRecord> {
    let (tenant, now) = (context.tenant, context.now());
    let duplicates = context.thermo()?.duplicates;
    let echo_of = match &new.folds[..] {
        [] => duplicate::echoed(context, new, &duplicates)?,
        _ => None,
    };
    if echo_of.is_some() {
        context.count_echo(new.memory_type)?;
    }
    let memory = Memory { echo_of, ..new.memory(now) };
    let bytes = memory.stored_bytes() + new.vector.size_bytes() as u64;
    context.check_limit((Limit::Memories, Counted::Memories), 1)?;
    context.check_limit((Limit::Bytes, Counted::Bytes), bytes)?;
    context.add_bytes(0, bytes);
    let anchor = Anchor::fresh(new.initial_heat, now);
    context.push(Change::MemoryPut(tenant, new.id, memory.clone()));
    context.push(Change::AnchorPut(tenant, new.id, anchor));
    models::put(context.draft, tenant, new.id, &new.vector)?;
    context.append(new.id, &memory, EventKind::Created);
    context.emit(TriggerEvent::Store, new.id);
    edge::create_suggested(context, new)?;
    Ok(MemoryRecord { id: new.id, memory, anchor, heat: f64::from(anchor.heat) })
}

pub(super) fn update(
    context: &mut Context<'_>,
    id: MemoryId,
    patch: &MemoryPatch,
) -> Decided<Reply> {
    let present = context.existing(id)?;
    if let Some(namespace) = &patch.namespace {
        context.check_access(namespace)?;
    }
    if let Some((_, vector)) = &patch.label {
        models::check_vector(context.draft, vector)?;
    }
    let mut memory = patched(&present.memory, patch);
    let added = memory.stored_bytes().saturating_sub(present.memory.stored_bytes());
    if added > 0 {
        context.check_limit((Limit::Bytes, Counted::Bytes), added)?;
    }
    let fields = changed_fields(&present.memory, &memory, patch);
    if fields.is_empty() {
        return Ok(Reply::Memories(vec![present]));
    }
    check_lock(context, &present.memory, &fields)?;
    record_editor(context, &present.memory, &mut memory)?;
    if patch.current_heat.is_some_and(|heat| rounded(heat.into()) > rounded(present.heat)) {
        context.emit(TriggerEvent::Boost, id);
    }
    let update = MemoryUpdate { memory, heat: patch.current_heat, fields };
    commit_update(context, &present, update)?;
    if let Some((_, vector)) = &patch.label {
        models::put(context.draft, context.tenant, id, vector)?;
    }
    Ok(Reply::Memories(context.present(id)?.into_iter().collect()))
}

/// Rejects what rewrites or unlocks a memory that another key has locked, if the tenant says so.
fn check_lock(context: &Context<'_>, present: &Memory, fields: &[MemoryField]) -> Decided<()> {
    let keeps_text = |field: &MemoryField| {
        matches!(
            field,
            MemoryField::IsPinned
                | MemoryField::MinHeat
                | MemoryField::CurrentHeat
                | MemoryField::DecayClass
                | MemoryField::FlaggedForReview
        )
    };
    let may = fields.iter().all(keeps_text) || context.may_rewrite(present, context.actor)?;
    reject_if(!may, Rejection::LockedByOther)
}

/// Notes who changes the text, the lock or the namespace of a memory.
fn record_editor(context: &Context<'_>, present: &Memory, memory: &mut Memory) -> Decided<()> {
    if memory.is_locked != present.is_locked {
        memory.locked_by = context.actor.filter(|_| memory.is_locked);
    } else if memory.label == present.label && memory.namespace == present.namespace {
        return Ok(());
    }
    if let Some(key) = context.actor {
        memory.changed_by = context.editor(key)?;
    }
    Ok(())
}

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
    let leaves_namespace = memory.namespace != present.memory.namespace;
    context.put_memory(id, memory)?;
    if leaves_namespace {
        edge::end_supersessions(context, id)?;
    }
    Ok(())
}

/// Deletes a memory and its edges, unless it is locked or does not match the filter.
pub(super) fn delete(
    context: &mut Context<'_>,
    id: MemoryId,
    filter: &BulkFilter,
) -> Decided<Reply> {
    let present = context.existing(id)?;
    reject_if(!filter.matches(&present.memory), Rejection::FilterMismatch)?;
    reject_if(present.memory.is_locked, Rejection::Locked)?;
    let label = present.memory.label.chars().take(DELETED_LABEL_CHARS).collect();
    remove(context, &present, label)
}

/// Removes a memory and its edges. The journal keeps `label`.
pub(super) fn remove(
    context: &mut Context<'_>,
    present: &MemoryRecord,
    label: String,
) -> Decided<Reply> {
    let id = present.id;
    for edge in context.edges(id)? {
        edge::remove(context, &edge)?;
    }
    let vector_bytes = context.draft.cluster()?.map_or(0, |cluster| 2 * cluster.model.dimension);
    context.add_bytes(present.memory.stored_bytes() + u64::from(vector_bytes), 0);
    context.append(id, &present.memory, EventKind::Deleted(label));
    context.push(Change::MemoryRemoved(context.tenant, id));
    Ok(Reply::Deleted(id))
}

/// Moves a memory to the hot tier, unless it is there.
pub(super) fn restore(context: &mut Context<'_>, id: MemoryId) -> Decided<Reply> {
    let present = context.existing(id)?;
    if present.memory.archived_at.is_some() {
        let now = context.now();
        context.move_to_hot_tier(&present, now, RESTORED_HEAT)?;
    }
    Ok(Reply::Done)
}

fn patched(memory: &Memory, patch: &MemoryPatch) -> Memory {
    let label = patch.label.as_ref().map_or(&memory.label, |(label, _)| label);
    Memory {
        label: label.clone(),
        // A new text is an echo no more.
        echo_of: memory.echo_of.filter(|_| *label == memory.label),
        memory_type: patch.memory_type.unwrap_or(memory.memory_type),
        namespace: patch.namespace.clone().unwrap_or_else(|| memory.namespace.clone()),
        decay_class: patch.decay_class.unwrap_or(memory.decay_class),
        is_pinned: patch.is_pinned.unwrap_or(memory.is_pinned),
        is_locked: patch.is_locked.unwrap_or(memory.is_locked),
        is_flagged: patch.is_flagged.unwrap_or(memory.is_flagged),
        min_heat: patch.min_heat.unwrap_or(memory.min_heat),
        // Setting the heat of a memory, or pinning it, restores it to the hot tier.
        archived_at: match (patch.current_heat, patch.is_pinned) {
            (Some(_), _) | (_, Some(true)) => None,
            _ => memory.archived_at,
        },
        details: patch.details.applied_to(memory.details.as_deref()),
        ..memory.clone()
    }
}

fn tags(memory: &Memory) -> &[String] {
    memory.details.as_ref().map_or(&[], |details| &details.tags)
}

fn metadata(memory: &Memory) -> &[MetadataEntry] {
    memory.details.as_ref().map_or(&[], |details| &details.metadata)
}

/// The fields that a patch changes. Setting heat always counts: it anchors the memory.
fn changed_fields(before: &Memory, after: &Memory, patch: &MemoryPatch) -> Vec<MemoryField> {
    [
        (MemoryField::Label, before.label != after.label),
        (MemoryField::MemoryType, before.memory_type != after.memory_type),
        (MemoryField::Namespace, before.namespace != after.namespace),
        (MemoryField::DecayClass, before.decay_class != after.decay_class),
        (MemoryField::IsPinned, before.is_pinned != after.is_pinned),
        (MemoryField::IsLocked, before.is_locked != after.is_locked),
        (MemoryField::FlaggedForReview, before.is_flagged != after.is_flagged),
        (MemoryField::MinHeat, before.min_heat != after.min_heat),
        (MemoryField::CurrentHeat, patch.current_heat.is_some()),
        (MemoryField::Tags, tags(before) != tags(after)),
        (MemoryField::Metadata, metadata(before) != metadata(after)),
    ]
    .into_iter()
    .filter_map(|(field, is_changed)| is_changed.then_some(field))
    .collect()
}
