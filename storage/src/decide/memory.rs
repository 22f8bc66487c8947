//! Updates, deletes and restores memories.

use model::audit::{AuditAction, Fields, short};
use model::bounded::bounded;
use model::details::MetadataEntry;
use model::edge::Suggestion;
use model::id::{MemoryId, Timestamp};
use model::journal::{EventKind, MemoryField};
use model::memory::{Memory, MemoryRecord};
use model::score::rounded;
use model::tenant::Limit;
use model::times::{Times, TimesPatch};
use model::tombstone::ValueHash;
use model::trigger::TriggerEvent;
use model::vector::Vector;
use serde::{Deserialize, Serialize};

use crate::change::Change;
use crate::decide::audit::{AuditedAct, texts};
use crate::decide::bulk::{self, BulkFilter, Outcomes, for_each};
use crate::decide::commit_memory::{MemoryUpdate, commit_update};
use crate::decide::context::{Context, Decided, RESTORED_HEAT, reject_if};
use crate::decide::counted::Counted;
use crate::decide::edit::record_edit;
use crate::decide::rule::{Class, TenantAudit, TenantRule};
use crate::decide::{edge, models, tombstone};
use crate::error::Result;
use crate::etag::Etag;
use crate::new_memory::NewMemory;
use crate::patch::MemoryPatch;
use crate::reply::{BULK_MAX, Rejection, TouchedMemories};
use crate::table::view::View;

/// Characters of a deleted memory's label that the journal keeps.
const DELETED_LABEL_CHARS: usize = 120;

/// Changes a memory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UpdateMemory {
    /// The memory.
    pub id: MemoryId,
    /// What changes.
    pub patch: Box<MemoryPatch>,
}

impl TenantRule for UpdateMemory {
    type Reply = TouchedMemories;
    const CLASS: Class = Class::AddsData;
    /// [`record_edit`] does it, for each memory.
    const AUDIT: TenantAudit<Self> = None;

    fn decide(&self, context: &mut Context<'_>) -> Decided<TouchedMemories> {
        Ok(TouchedMemories::existing([update(context, self.id, &self.patch)?]))
    }

    fn tag(&self, context: &mut Context<'_>) -> Result<Option<Etag>> {
        context.memory_tag(self.id)
    }
}

/// Applies the same patch to several memories.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UpdateMemories {
    /// The memories.
    pub ids: Vec<MemoryId>,
    /// What changes: the same of all, as the rules of the guard for its namespace leave it.
    #[serde(deserialize_with = "bounded::<BULK_MAX, _, _>")]
    pub patches: Vec<MemoryPatch>,
}

impl TenantRule for UpdateMemories {
    type Reply = Outcomes;
    const CLASS: Class = Class::AddsData;
    const AUDIT: TenantAudit<Self> = Some(Self::audit);

    fn decide(&self, context: &mut Context<'_>) -> Decided<Outcomes> {
        for_each(context, &self.ids, |context, id| {
            let namespace = context.existing(id)?.memory.namespace;
            let patch = self.patches.iter().find(|patch| patch.is_for(&namespace));
            update(context, id, patch.ok_or(Rejection::GuardChanged)?).map(drop)
        })
    }
}

impl UpdateMemories {
    fn audit(&self, _context: &Context<'_>, reply: Option<&Outcomes>) -> Result<AuditedAct> {
        let fields = reply.map_or_else(Fields::new, |reply| {
            let mut fields = bulk::audited(&self.ids, reply);
            if !fields.is_empty() {
                fields.extend(self.patches.first().map(patch_fields).into_iter().flatten());
            }
            fields
        });
        Ok(AuditedAct::new(AuditAction::MemoryChangeBulk, "memories", fields))
    }
}

fn update(context: &mut Context<'_>, id: MemoryId, patch: &MemoryPatch) -> Decided<MemoryRecord> {
    let present = context.existing(id)?;
    // The texts were examined for the namespace and the texts that the memory then had.
    let is_elsewhere = !patch.is_for(&present.memory.namespace);
    let differs = patch.moved.is_some_and(|tag| tag != Etag::of(&present.memory));
    reject_if(is_elsewhere || differs, Rejection::GuardChanged)?;
    let clears = patch.is_flagged == Some(false) && present.memory.guard.is_flagged();
    let reviews = patch.is_reviewed || clears;
    reject_if(reviews && !context.is_admin()?, Rejection::NotReviewer)?;
    if let Some(namespace) = &patch.namespace {
        context.check_access(namespace)?;
    }
    if let Some((_, vector)) = &patch.label {
        models::check_vector(context.draft, vector)?;
    }
    let mut memory = patched(&present.memory, patch, reviews, context.now());
    let has_new_text =
        memory.label != present.memory.label || memory.details != present.memory.details;
    if has_new_text && !context.is_admin()? {
        memory.guard = memory.guard.unreviewed();
    }
    let change = MemoryChange {
        memory,
        heat: patch.current_heat,
        vector: patch.label.as_ref().map(|(_, vector)| vector),
        similar: &patch.similar,
    };
    let record = commit(context, present, change)?;
    let mut versions = context.versions(id)?;
    if patch.moved.is_some() && !versions.past.is_empty() {
        versions.past.clear();
        context.push(Change::VersionsPut(context.tenant, id, versions));
    }
    Ok(record)
}

/// What a memory becomes.
struct MemoryChange<'a> {
    memory: Memory,
    heat: Option<f32>,
    /// Of its text, if that may differ.
    vector: Option<&'a Vector>,
    /// Memories with a similar text.
    similar: &'a [Suggestion],
}

/// A new memory with the id of one that exists, since its client has given both the same id: what it says
/// replaces that one.
pub(super) fn replace(
    context: &mut Context<'_>,
    present: MemoryRecord,
    new: &NewMemory,
) -> Decided<MemoryRecord> {
    let before = &present.memory;
    let is_new_text = before.label != new.label
        || before.key_points != new.key_points
        || before.details != new.details;
    // Nothing is left of the text that waits. A flag stays until an admin clears it.
    let guard = match before.guard.is_quarantined() {
        true => new.guard,
        false if is_new_text && !context.is_admin()? => before.guard.unreviewed().and(new.guard),
        false => before.guard.and(new.guard),
    };
    let memory = Memory {
        label: new.label.clone(),
        memory_type: new.memory_type,
        key_points: new.key_points.clone(),
        details: new.details.clone(),
        times: before.times_with(|times| {
            let superseded_at = times.superseded_at;
            *times = Times { superseded_at, ..new.times.kept_from(context.now()) };
        }),
        echo_of: before.echo_of.filter(|_| new.label == before.label),
        is_flagged: guard.is_flagged() || (before.is_flagged && !before.guard.is_flagged()),
        guard,
        archived_at: None,
        ..before.clone()
    };
    let (vector, similar) = (Some(&new.vector), &new.suggestions[..]);
    commit(context, present, MemoryChange { memory, heat: None, vector, similar })
}

fn commit(
    context: &mut Context<'_>,
    present: MemoryRecord,
    change: MemoryChange<'_>,
) -> Decided<MemoryRecord> {
    let MemoryChange { mut memory, heat, vector, similar } = change;
    let id = present.id;
    let moves_named = memory.namespace != present.memory.namespace && memory.external_id.is_some();
    let reason = "a memory with an external_id stays in its namespace";
    reject_if(moves_named, Rejection::WrongState(reason.into()))?;
    let added = memory.stored_bytes().saturating_sub(present.memory.stored_bytes());
    if added > 0 {
        context.check_limit(Limit::Bytes, Counted::Bytes, added)?;
    }
    let fields = changed_fields(&present.memory, &memory, heat);
    if fields.is_empty() {
        return Ok(present);
    }
    check_lock(context, &present.memory, &fields)?;
    if memory.is_locked != present.memory.is_locked {
        memory.locked_by = context.actor.filter(|_| memory.is_locked);
    }
    if heat.is_some_and(|heat| rounded(heat.into()) > rounded(present.heat)) {
        context.emit(TriggerEvent::Boost, id);
    }
    if record_edit(context, context.actor, id, [&present.memory, &memory])?
        && let Some(key) = context.actor
    {
        memory.changed_by = context.editor(key)?;
    }
    let has_text = memory.label != present.memory.label;
    commit_update(context, &present, MemoryUpdate { memory, heat, fields })?;
    if let Some(vector) = vector.filter(|_| has_text) {
        models::put(context.draft, context.tenant, id, vector)?;
        edge::renew_similar(context, id, similar)?;
    }
    context.written(id)
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

/// Deletes a memory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DeleteMemory {
    /// The memory.
    pub id: MemoryId,
    /// Hash of its value, if that is rejected: it leaves a tombstone.
    pub rejects: Option<ValueHash>,
}

impl TenantRule for DeleteMemory {
    type Reply = TouchedMemories;
    const CLASS: Class = Class::OnlyRemoves;
    const AUDIT: TenantAudit<Self> = Some(Self::audit);

    fn decide(&self, context: &mut Context<'_>) -> Decided<TouchedMemories> {
        delete(context, self.id, &BulkFilter::default(), self.rejects)?;
        Ok(TouchedMemories::deleted(self.id))
    }

    fn tag(&self, context: &mut Context<'_>) -> Result<Option<Etag>> {
        context.memory_tag(self.id)
    }
}

impl DeleteMemory {
    fn audit(&self, context: &Context<'_>, _reply: Option<&TouchedMemories>) -> Result<AuditedAct> {
        let fields = deleted_row(context, self.id)?;
        Ok(AuditedAct::new(AuditAction::MemoryDelete, format!("memory {}", self.id), fields))
    }
}

/// The values of a memory that the audit log shows of its deletion.
pub(super) fn deleted_row(context: &Context<'_>, id: MemoryId) -> Result<Fields> {
    let Some(memory) = context.memory(id)? else { return Ok(Fields::new()) };
    Ok(texts([
        ("namespace", Some(short(&memory.namespace))),
        ("memory_type", Some(memory.memory_type.name().to_owned())),
        ("created_at", Some(memory.created_at.to_string())),
    ]))
}

/// Deletes several memories.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DeleteMemories {
    /// The memories.
    pub ids: Vec<MemoryId>,
    /// Others stay.
    pub filter: BulkFilter,
    /// Hashes of the values of those that are rejected.
    #[serde(deserialize_with = "bounded::<BULK_MAX, _, _>")]
    pub rejects: Vec<(MemoryId, ValueHash)>,
}

impl TenantRule for DeleteMemories {
    type Reply = Outcomes;
    const CLASS: Class = Class::OnlyRemoves;
    const AUDIT: TenantAudit<Self> = Some(Self::audit);

    fn decide(&self, context: &mut Context<'_>) -> Decided<Outcomes> {
        for_each(context, &self.ids, |context, id| {
            let rejects = self.rejects.iter().find(|(of, _)| *of == id).map(|(_, value)| *value);
            delete(context, id, &self.filter, rejects)
        })
    }
}

impl DeleteMemories {
    fn audit(&self, _context: &Context<'_>, reply: Option<&Outcomes>) -> Result<AuditedAct> {
        let fields = reply.map_or_else(Fields::new, |reply| bulk::audited(&self.ids, reply));
        Ok(AuditedAct::new(AuditAction::MemoryDeleteBulk, "memories", fields))
    }
}

/// Deletes a memory and its edges, unless it is locked or does not match the filter.
pub(super) fn delete(
    context: &mut Context<'_>,
    id: MemoryId,
    filter: &BulkFilter,
    rejects: Option<ValueHash>,
) -> Decided<()> {
    let present = context.existing(id)?;
    reject_if(!filter.matches(&present.memory), Rejection::FilterMismatch)?;
    reject_if(present.memory.is_locked, Rejection::Locked)?;
    if let Some(value) = rejects {
        tombstone::leave(context, &present.memory, value)?;
    }
    // The journal shows it to agents.
    let shown = if present.memory.guard.is_quarantined() { 0 } else { DELETED_LABEL_CHARS };
    let label = present.memory.label.chars().take(shown).collect();
    remove(context, &present, label)
}

/// Removes a memory and its edges. The journal keeps `label`.
pub(super) fn remove(
    context: &mut Context<'_>,
    present: &MemoryRecord,
    label: String,
) -> Decided<()> {
    let id = present.id;
    for edge in context.edges(id)? {
        edge::remove(context, &edge)?;
    }
    let vector_bytes = context.draft.cluster()?.map_or(0, |cluster| 2 * cluster.model.dimension);
    context.add_bytes(present.memory.stored_bytes() + u64::from(vector_bytes), 0);
    context.append(id, &present.memory, EventKind::Deleted(label));
    context.push(Change::MemoryRemoved(context.tenant, id));
    Ok(())
}

/// Returns several memories from the cold tier. Those of the hot tier stay as they are.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RestoreMemories(pub Vec<MemoryId>);

impl TenantRule for RestoreMemories {
    type Reply = Outcomes;
    const CLASS: Class = Class::AddsData;
    const AUDIT: TenantAudit<Self> = Some(Self::audit);

    fn decide(&self, context: &mut Context<'_>) -> Decided<Outcomes> {
        for_each(context, &self.0, |context, id| {
            let present = context.existing(id)?;
            let waits = "it waits in quarantine until an admin has reviewed it";
            let is_quarantined = present.memory.guard.is_quarantined();
            reject_if(is_quarantined, Rejection::WrongState(waits.into()))?;
            if present.memory.archived_at.is_some() {
                let now = context.now();
                context.move_to_hot_tier(&present, now, RESTORED_HEAT)?;
            }
            Ok(())
        })
    }
}

impl RestoreMemories {
    fn audit(&self, _context: &Context<'_>, reply: Option<&Outcomes>) -> Result<AuditedAct> {
        let fields = reply.map_or_else(Fields::new, |reply| bulk::audited(&self.0, reply));
        Ok(AuditedAct::new(AuditAction::MemoryRestoreBulk, "memories", fields))
    }
}

/// The memory after a patch. If an admin `reviews` it, what the guard found before counts no more.
fn patched(memory: &Memory, patch: &MemoryPatch, reviews: bool, now: Timestamp) -> Memory {
    let label = patch.label.as_ref().map_or(&memory.label, |(label, _)| label);
    let guard = match reviews {
        true => memory.guard.reviewed(),
        false => memory.guard,
    };
    let guard = guard.and(patch.guard);
    let is_released = memory.guard.is_quarantined() && !guard.is_quarantined();
    Memory {
        label: label.clone(),
        // A new text is an echo no more.
        echo_of: memory.echo_of.filter(|_| *label == memory.label),
        memory_type: patch.memory_type.unwrap_or(memory.memory_type),
        namespace: patch.namespace.clone().unwrap_or_else(|| memory.namespace.clone()),
        decay_class: patch.decay_class.unwrap_or(memory.decay_class),
        is_pinned: patch.is_pinned.unwrap_or(memory.is_pinned),
        is_locked: patch.is_locked.unwrap_or(memory.is_locked),
        is_flagged: guard.is_flagged()
            || (!reviews && patch.is_flagged.unwrap_or(memory.is_flagged)),
        guard,
        min_heat: patch.min_heat.unwrap_or(memory.min_heat),
        // Setting the heat of a memory, or pinning it, restores it to the hot tier.
        archived_at: match (patch.current_heat, patch.is_pinned) {
            _ if guard.is_quarantined() => memory.archived_at,
            (Some(_), _) | (_, Some(true)) => None,
            _ if is_released => None,
            _ => memory.archived_at,
        },
        details: patch.details.applied_to(memory.details.as_deref()),
        times: memory.times_with(|times| patch.times.apply_to(times, now)),
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
fn changed_fields(before: &Memory, after: &Memory, heat: Option<f32>) -> Vec<MemoryField> {
    let times = |memory: &Memory| memory.times.as_deref().copied().unwrap_or_default();
    let (old, new) = (times(before), times(after));
    [
        (MemoryField::Label, before.label != after.label),
        (MemoryField::MemoryType, before.memory_type != after.memory_type),
        (MemoryField::Namespace, before.namespace != after.namespace),
        (MemoryField::DecayClass, before.decay_class != after.decay_class),
        (MemoryField::IsPinned, before.is_pinned != after.is_pinned),
        (MemoryField::IsLocked, before.is_locked != after.is_locked),
        (MemoryField::FlaggedForReview, before.is_flagged != after.is_flagged),
        (MemoryField::Reviewed, before.guard.is_reviewed() != after.guard.is_reviewed()),
        (MemoryField::MinHeat, before.min_heat != after.min_heat),
        (MemoryField::CurrentHeat, heat.is_some()),
        (MemoryField::Tags, tags(before) != tags(after)),
        (MemoryField::Metadata, metadata(before) != metadata(after)),
        (MemoryField::KeyPoints, before.key_points != after.key_points),
        (MemoryField::OccurredAt, old.occurred_at != new.occurred_at),
        (MemoryField::ValidFrom, old.valid_from != new.valid_from),
        (MemoryField::ValidUntil, old.valid_until != new.valid_until),
        (
            MemoryField::ExpiresAt,
            (old.expires_at, old.ttl_seconds, old.refresh_on_read)
                != (new.expires_at, new.ttl_seconds, new.refresh_on_read),
        ),
    ]
    .into_iter()
    .filter_map(|(field, is_changed)| is_changed.then_some(field))
    .collect()
}

/// What a bulk change sets. Texts show that they are set.
fn patch_fields(patch: &MemoryPatch) -> Fields {
    let MemoryPatch { label, memory_type, namespace, decay_class, .. } = patch;
    let flag = |flag: Option<bool>| flag.map(|on| on.to_string());
    let heat = |heat: Option<f32>| heat.map(|heat| heat.to_string());
    texts([
        ("set.label", label.as_ref().map(|_| "changed".to_owned())),
        ("set.memory_type", memory_type.map(|memory_type| memory_type.name().to_owned())),
        ("set.namespace", namespace.as_deref().map(short)),
        ("set.decay_class", decay_class.map(|class| class.name().to_owned())),
        ("set.is_pinned", flag(patch.is_pinned)),
        ("set.is_locked", flag(patch.is_locked)),
        ("set.is_flagged", flag(patch.is_flagged)),
        ("set.min_heat", heat(patch.min_heat)),
        ("set.current_heat", heat(patch.current_heat)),
        ("set.tags", patch.details.changes_tags().then(|| "changed".to_owned())),
        ("set.times", (patch.times != TimesPatch::default()).then(|| "changed".to_owned())),
        ("set.metadata", patch.details.metadata.as_ref().map(|_| "changed".to_owned())),
    ])
}
