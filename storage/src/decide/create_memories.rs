//! Creates memories.

use model::bounded::bounded;
use model::duplicate::OnDuplicate;
use model::guard::GuardMark;
use model::heat::Anchor;
use model::journal::EventKind;
use model::memory::{Memory, MemoryRecord};
use model::tenant::Limit;
use model::trigger::TriggerEvent;
use serde::{Deserialize, Serialize};

use crate::change::Change;
use crate::decide::context::{Context, Decided, reject_if};
use crate::decide::counted::Counted;
use crate::decide::reinforce::reinforce;
use crate::decide::rule::{Class, TenantAudit, TenantRule};
use crate::decide::{duplicate, edge, fold, memory, models, tombstone};
use crate::error::Result;
use crate::etag::Etag;
use crate::new_memory::{CREATE_MAX, NewMemory};
use crate::reply::{Rejection, Touched, TouchedMemories, TouchedMemory};

/// Creates memories, all or none.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CreateMemories(
    #[serde(deserialize_with = "bounded::<CREATE_MAX, _, _>")] pub Vec<NewMemory>,
);

impl TenantRule for CreateMemories {
    type Reply = TouchedMemories;
    const CLASS: Class = Class::AddsData;
    const AUDIT: TenantAudit<Self> = None;

    fn decide(&self, context: &mut Context<'_>) -> Decided<TouchedMemories> {
        let mut memories = Vec::with_capacity(self.0.len());
        for (at, new) in self.0.iter().enumerate() {
            let at = (self.0.len() > 1).then_some(at);
            memories.push(create(context, new, at)?);
        }
        Ok(TouchedMemories { replay_of: None, memories })
    }

    /// That of a memory whose id its client has given: there may be one.
    fn tag(&self, context: &mut Context<'_>) -> Result<Option<Etag>> {
        match &self.0[..] {
            [one] if one.external_id.is_some() => context.memory_tag(one.id),
            _ => Ok(None),
        }
    }

    fn may_require_absence(&self) -> bool {
        matches!(&self.0[..], [one] if one.external_id.is_some())
    }
}

/// Creates a memory, the one `at` this place of the request, unless it repeats another one.
fn create(context: &mut Context<'_>, new: &NewMemory, at: Option<usize>) -> Decided<TouchedMemory> {
    context.check_access(&new.namespace)?;
    models::check_vector(context.draft, &new.vector)?;
    let folds = new.guard.is_quarantined() && !new.folds.is_empty();
    reject_if(folds, Rejection::WrongState("the guard quarantines the text of the fold".into()))?;
    if let Some(present) = context.present(new.id)? {
        let is_same = new.external_id.is_some() && present.memory.external_id == new.external_id;
        let is_here = present.memory.namespace == new.namespace;
        reject_if(!is_same || !is_here, Rejection::IdTaken)?;
        // No agent would see what the memory says now.
        let waits = Rejection::WrongState("what waits in quarantine replaces no memory".into());
        let is_known = is_reviewed_text(&present.memory, new);
        reject_if(new.guard.is_quarantined() && !is_known, waits)?;
        let id = present.id;
        let record = match is_known {
            true => {
                let known = NewMemory { guard: GuardMark::default(), ..new.clone() };
                memory::replace(context, present, &known)?
            }
            false => memory::replace(context, present, new)?,
        };
        return Ok(TouchedMemory {
            id,
            is_duplicate: true,
            now: Touched::Memory(Box::new(record)),
        });
    }
    let duplicate = present_duplicate(context, new, at)?;
    let is_duplicate = duplicate.is_some();
    let record = match duplicate {
        Some(present) => present,
        None => create_one(context, new)?,
    };
    // It may be wrong on purpose: until it is reviewed, nothing else changes for it.
    if new.guard.is_quarantined() {
        return Ok(TouchedMemory {
            id: record.id,
            is_duplicate,
            now: Touched::Memory(Box::new(record)),
        });
    }
    if let Some(old) = new.supersedes.filter(|old| *old != record.id) {
        edge::supersede(context, old, record.id)?;
    }
    let record = match &new.folds[..] {
        [] => record,
        sources => fold::fold(context, &record, sources)?,
    };
    Ok(TouchedMemory { id: record.id, is_duplicate, now: Touched::Memory(Box::new(record)) })
}

/// Whether an admin has reviewed a memory with exactly these texts.
fn is_reviewed_text(present: &Memory, new: &NewMemory) -> bool {
    present.guard.is_reviewed()
        && present.label == new.label
        && present.key_points == new.key_points
        && present.details == new.details
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
    // One with an id of its client is the client's own.
    if action == OnDuplicate::Allow || new.external_id.is_some() {
        return Ok(None);
    }
    let Some(present) = duplicate::find(context, new)? else { return Ok(None) };
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
    tombstone::check(context, &new.unless_rejected)?;
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
    context.check_limit(Limit::Memories, Counted::Memories, 1)?;
    context.check_limit(Limit::Bytes, Counted::Bytes, bytes)?;
    context.add_bytes(0, bytes);
    let anchor = Anchor::fresh(new.initial_heat, now);
    context.push(Change::MemoryPut(tenant, new.id, memory.clone()));
    context.push(Change::AnchorPut(tenant, new.id, anchor));
    models::put(context.draft, tenant, new.id, &new.vector)?;
    context.append(new.id, &memory, EventKind::Created);
    if !new.guard.is_quarantined() {
        context.emit(TriggerEvent::Store, new.id);
        edge::create_suggested(context, new.id, &new.suggestions)?;
    }
    Ok(MemoryRecord { id: new.id, memory, anchor, heat: f64::from(anchor.heat) })
}
