//! Folding: one memory replaces several. They stay in the cold tier, superseded by it, so that it can
//! be undone: unfolding returns them, and deletes the one.

use model::audit::AuditAction;
use model::edge::{EDGES_MAX, Edge, SUPERSEDES};
use model::heat::Anchor;
use model::id::MemoryId;
use model::memory::{Memory, MemoryRecord, Tier};
use serde::{Deserialize, Serialize};

use crate::decide::audit::AuditedAct;
use crate::decide::bulk::BulkFilter;
use crate::decide::context::{Context, Decided, reject_if};
use crate::decide::rule::{Class, TenantAudit, TenantRule};
use crate::decide::{edge, memory};
use crate::error::Result;
use crate::reply::{Rejection, TouchedMemories};

/// Most edges that a memory takes over from those that it replaces.
const EDGES_TAKEN_MAX: usize = 64;

/// Replaces `sources` by the new memory `into`, which takes over their strength, lock and edges.
pub(super) fn fold(
    context: &mut Context<'_>,
    into: &MemoryRecord,
    sources: &[MemoryId],
) -> Decided<MemoryRecord> {
    let (mut anchor, mut locked_source) = (into.anchor, None);
    let mut edges = Vec::new();
    for id in sources {
        let present = context.existing(*id)?;
        let reason = "memories of different namespaces cannot be folded into one";
        let is_elsewhere = present.memory.namespace != into.memory.namespace;
        reject_if(is_elsewhere, Rejection::WrongState(reason.into()))?;
        let of = present.anchor;
        anchor = Anchor {
            heat: anchor.heat.max(present.heat as f32),
            stability: anchor.stability.max(of.stability),
            recall_count: anchor.recall_count.saturating_add(of.recall_count),
            last_recall: anchor.last_recall.max(of.last_recall),
            ..anchor
        };
        if present.memory.is_locked {
            locked_source = Some(present.memory.locked_by);
        }
        edges.extend(context.edges(*id)?.into_iter().map(|edge| (*id, edge)));
        if present.memory.tier() == Tier::Hot {
            context.move_to_cold_tier(&present)?;
        }
        edge::supersede(context, *id, into.id)?;
    }
    let mut taken = 0;
    edges.sort_by(|(_, left), (_, right)| right.weight.total_cmp(&left.weight));
    for (id, edge) in edges {
        let other = edge.other(id);
        if taken < EDGES_TAKEN_MAX && edge.relation != SUPERSEDES && !sources.contains(&other) {
            taken += usize::from(take_over(context, into.id, id, edge)?);
        }
    }
    context.anchor(into, anchor)?;
    if let Some(locked_by) = locked_source {
        let memory = Memory { is_locked: true, locked_by, ..into.memory.clone() };
        context.put_memory(into.id, memory)?;
    }
    context.existing(into.id)
}

/// Creates an edge of `source` for `id` too, if there is room. Returns whether it did.
fn take_over(
    context: &mut Context<'_>,
    id: MemoryId,
    source: MemoryId,
    edge: Edge,
) -> Decided<bool> {
    let other = edge.other(source);
    let Some(memory) = context.memory(other)? else { return Ok(false) };
    // An edge reveals both its ends.
    let fits = edge::has_room(context)?
        && context.has_access(&memory.namespace)?
        && context.edges(other)?.len() < EDGES_MAX;
    if !fits {
        return Ok(false);
    }
    let (source, target) = if edge.source == source { (id, other) } else { (other, id) };
    let edge = Edge { source, target, created_at: context.now(), ..edge };
    Ok(edge::put_new(context, &edge)?)
}

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
        memory::delete(context, id, &BulkFilter::default(), None)?;
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
    fn audit(&self, context: &Context<'_>, _reply: Option<&TouchedMemories>) -> Result<AuditedAct> {
        let fields = memory::deleted_row(context, self.0)?;
        Ok(AuditedAct::new(AuditAction::MemoryDelete, format!("memory {}", self.0), fields))
    }
}
