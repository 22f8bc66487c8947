//! Creates what another cluster exported, as it was. What exists stays. No trigger fires: it fired where
//! the memory comes from.

use model::audit::{AuditAction, Fields};
use model::bounded::bounded;
use model::decay::{Decay, heat};
use model::edge::{EDGES_MAX, Edge};
use model::heat::Anchor;
use model::id::TriggerId;
use model::journal::EventKind;
use model::tenant::Limit;
use model::trigger::{Firings, Trigger};
use serde::{Deserialize, Serialize};

use crate::change::Change;
use crate::decide::audit::{AuditedAct, numbers};
use crate::decide::context::{Context, DecideError, Decided, reject_if};
use crate::decide::counted::Counted;
use crate::decide::edge::EdgeRef;
use crate::decide::rule::{Class, TenantAudit, TenantRule};
use crate::decide::{edge, models, tombstone, trigger};
use crate::error::Result;
use crate::new_memory::{CREATE_MAX, IMPORT_MAX, ImportedMemory};
use crate::reply::{Imported, Rejection};
use crate::table::view::View;

/// What one command imports. Each item succeeds or fails by itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Import {
    /// Memories. No trigger fires.
    Memories(#[serde(deserialize_with = "bounded::<CREATE_MAX, _, _>")] Vec<ImportedMemory>),
    /// Edges of memories that exist. No trigger fires.
    Edges(#[serde(deserialize_with = "bounded::<IMPORT_MAX, _, _>")] Vec<Edge>),
    /// Triggers. The key of the command owns them.
    Triggers(
        #[serde(deserialize_with = "bounded::<IMPORT_MAX, _, _>")]
        Vec<(TriggerId, Trigger, Firings)>,
    ),
}

impl TenantRule for Import {
    type Reply = Vec<Imported>;
    const CLASS: Class = Class::AddsData;
    const AUDIT: TenantAudit<Self> = Some(Self::audit);

    fn decide(&self, context: &mut Context<'_>) -> Decided<Vec<Imported>> {
        match self {
            Self::Memories(all) => each(context, all, import_memory),
            Self::Edges(all) => each(context, all, import_edge),
            Self::Triggers(all) => each(context, all, |context, (id, new, firings)| {
                import_trigger(context, *id, new, firings)
            }),
        }
    }
}

impl Import {
    fn audit(&self, _context: &Context<'_>, reply: Option<&Vec<Imported>>) -> Result<AuditedAct> {
        let fields = reply.map_or_else(Fields::new, |reply| {
            let created = reply.iter().filter(|it| **it == Imported::Created).count();
            if created > 0 { numbers(&[("created", created)]) } else { Fields::new() }
        });
        Ok(AuditedAct::new(AuditAction::MemoryImport, "import", fields))
    }
}

/// Imports items one by one, as many as one command may.
fn each<T>(
    context: &mut Context<'_>,
    all: &[T],
    act: impl Fn(&mut Context<'_>, &T) -> Decided<Imported>,
) -> Decided<Vec<Imported>> {
    let mark = context.draft.mark();
    let mut outcomes = Vec::new();
    for one in all {
        outcomes.push(match act(context, one) {
            Ok(imported) => imported,
            // It passes: the caller repeats the rest once texts are embedded with the right model.
            Err(DecideError::Rejected(Rejection::ModelMismatch)) if !outcomes.is_empty() => break,
            Err(fault @ DecideError::Rejected(Rejection::ModelMismatch)) => return Err(fault),
            Err(DecideError::Rejected(rejection)) => Imported::Rejected(rejection),
            Err(fault) => return Err(fault),
        });
        if context.draft.is_past_soft_limit(mark) {
            break;
        }
    }
    Ok(outcomes)
}

fn import_memory(context: &mut Context<'_>, new: &ImportedMemory) -> Decided<Imported> {
    context.check_access(&new.memory.namespace)?;
    if let Some(present) = context.present(new.id)? {
        reject_if(!context.has_access(&present.memory.namespace)?, Rejection::IdTaken)?;
        return Ok(Imported::Present);
    }
    models::check_vector(context.draft, &new.vector)?;
    tombstone::check(context, &new.unless_rejected)?;
    let (tenant, now) = (context.tenant, context.now());
    let memory = &new.memory;
    let bytes = memory.stored_bytes() + new.vector.size_bytes() as u64;
    context.check_limit(Limit::Memories, Counted::Memories, 1)?;
    context.check_limit(Limit::Bytes, Counted::Bytes, bytes)?;
    context.add_bytes(0, bytes);
    let anchor = Anchor { at: new.anchor.at.min(now), ..new.anchor };
    // The next tick finds no crossing of the time before.
    let tick_heat = heat(&anchor, Decay::of(memory, &*context.thermo()?), now) as f32;
    context.push(Change::MemoryPut(tenant, new.id, memory.clone()));
    context.push(Change::AnchorPut(tenant, new.id, Anchor { tick_heat, ..anchor }));
    models::put(context.draft, tenant, new.id, &new.vector)?;
    context.append(new.id, memory, EventKind::Created);
    Ok(Imported::Created)
}

fn import_edge(context: &mut Context<'_>, new: &Edge) -> Decided<Imported> {
    for end in [new.source, new.target] {
        context.existing(end)?;
    }
    let Edge { source, target, relation, .. } = new.clone();
    if edge::stored(context, &EdgeRef { source, target, relation })?.is_some() {
        return Ok(Imported::Present);
    }
    for id in [source, target] {
        reject_if(context.edges(id)?.len() >= EDGES_MAX, Rejection::EdgesFull(id))?;
    }
    if let Some(max) = context.draft.limit(context.tenant, Limit::Edges)? {
        reject_if(!edge::has_room(context)?, Rejection::too_many("edges", max as usize))?;
    }
    // The rows of memories say already which one supersedes them.
    context.push(Change::EdgePut(context.tenant, new.clone()));
    Ok(Imported::Created)
}

fn import_trigger(
    context: &mut Context<'_>,
    id: TriggerId,
    new: &Trigger,
    firings: &Firings,
) -> Decided<Imported> {
    if context.draft.trigger(context.tenant, id)?.is_some() {
        return Ok(Imported::Present);
    }
    let created = trigger::create(context, id, new)?;
    let trigger = Trigger { created_at: new.created_at, updated_at: new.updated_at, ..created };
    context.push(Change::TriggerPut(context.tenant, id, trigger));
    context.push(Change::FiringsPut(context.tenant, id, Firings { pending: 0, ..*firings }));
    Ok(Imported::Created)
}
