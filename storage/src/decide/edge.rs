//! Commands for edges, and their rules: those that callers create, and those that a new memory gets.

use std::collections::BTreeSet;

use model::audit::{AuditAction, Fields};
use model::edge::{
    EDGES_MAX, Edge, SIMILAR_TO, SUGGESTIONS_MAX, SUPERSEDED_MAX, SUPERSEDES, Suggestion,
    relation_key,
};
use model::heat::Anchor;
use model::id::MemoryId;
use model::journal::EventKind;
use model::memory::{Memory, Tier};
use model::tenant::Limit;
use model::trigger::TriggerEvent;
use serde::{Deserialize, Serialize};

use crate::change::Change;
use crate::decide::audit::{AuditedAct, digest, texts};
use crate::decide::context::{Context, Decided, reject_if};
use crate::decide::counted::Counted;
use crate::decide::draft::MemoryEvent;
use crate::decide::edit::record_edit;
use crate::decide::reinforce::outdated_heat;
use crate::decide::rule::{Class, TenantAudit, TenantRule};
use crate::error::{Error, Result};
use crate::reply::{EdgeReply, Rejection, TouchedMemories};
use crate::table::key::Key;
use crate::table::view::View;

/// Edges that are followed to find a circle.
const CHAIN_MAX: usize = 1_000;

/// Identifies an edge: at most one per pair of memories and relation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EdgeRef {
    /// The memory that the edge starts from.
    pub source: MemoryId,
    /// The memory at which it ends.
    pub target: MemoryId,
    /// Its relation.
    pub relation: String,
}

/// Creates an edge; one that exists already is returned as it is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CreateEdge(pub EdgeRef);

impl TenantRule for CreateEdge {
    type Reply = EdgeReply;
    const CLASS: Class = Class::AddsData;
    const AUDIT: TenantAudit<Self> = None;

    fn decide(&self, context: &mut Context<'_>) -> Decided<EdgeReply> {
        create(context, &self.0)
    }
}

fn create(context: &mut Context<'_>, new: &EdgeRef) -> Decided<EdgeReply> {
    for end in [new.source, new.target] {
        context.existing(end)?;
    }
    if let Some(edge) = stored(context, new)? {
        return Ok(EdgeReply { edge, is_new: false });
    }
    for id in [new.source, new.target] {
        reject_if(context.edges(id)?.len() >= EDGES_MAX, Rejection::EdgesFull(id))?;
    }
    if let Some(max) = context.draft.limit(context.tenant, Limit::Edges)? {
        reject_if(!has_room(context)?, Rejection::too_many("edges", max as usize))?;
    }
    if new.relation == SUPERSEDES {
        check_supersedes(context, new)?;
    }
    let EdgeRef { source, target, relation } = new.clone();
    let edge = Edge { source, target, relation, weight: 1.0, created_at: context.now() };
    put(context, &edge)?;
    Ok(EdgeReply { edge, is_new: true })
}

/// Deletes an edge, in either direction.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DeleteEdge(pub EdgeRef);

impl TenantRule for DeleteEdge {
    type Reply = EdgeReply;
    const CLASS: Class = Class::OnlyRemoves;
    const AUDIT: TenantAudit<Self> = Some(Self::audit);

    fn decide(&self, context: &mut Context<'_>) -> Decided<EdgeReply> {
        let edge = stored(context, &self.0)?.ok_or(Rejection::NoEdge)?;
        for end in [edge.source, edge.target] {
            // An edge of a memory that the key may not access does not exist for it.
            if let Some(memory) = context.memory(end)? {
                reject_if(!context.has_access(&memory.namespace)?, Rejection::NoEdge)?;
            }
        }
        remove(context, &edge)?;
        if let Some(memory) = context.memory(edge.source)? {
            let (other, relation) = (edge.target, edge.relation.clone());
            context.append(edge.source, &memory, EventKind::EdgeDeleted { other, relation });
        }
        Ok(EdgeReply { edge, is_new: false })
    }
}

impl DeleteEdge {
    fn audit(&self, context: &Context<'_>, _reply: Option<&EdgeReply>) -> Result<AuditedAct> {
        let fields = self.audited_row(context)?;
        Ok(AuditedAct::new(
            AuditAction::EdgeDelete,
            format!("edge from {} to {}", self.0.source, self.0.target),
            fields,
        ))
    }

    fn audited_row(&self, context: &Context<'_>) -> Result<Fields> {
        let edge = stored(context, &self.0)?;
        Ok(texts([("relation", edge.map(|edge| digest(edge.relation.as_bytes())))]))
    }
}

/// Replaces a memory by another one, which both stay.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Supersede {
    /// The memory that is replaced.
    pub old: MemoryId,
    /// The memory that replaces it.
    pub by: MemoryId,
}

impl TenantRule for Supersede {
    /// The one that is replaced.
    type Reply = TouchedMemories;
    const CLASS: Class = Class::AddsData;
    const AUDIT: TenantAudit<Self> = None;

    fn decide(&self, context: &mut Context<'_>) -> Decided<TouchedMemories> {
        supersede(context, self.old, self.by)?;
        Ok(TouchedMemories::existing([context.existing(self.old)?]))
    }
}

/// Replaces `old` by the memory `by`.
pub(super) fn supersede(context: &mut Context<'_>, old: MemoryId, by: MemoryId) -> Decided<()> {
    let new = EdgeRef { source: by, target: old, relation: SUPERSEDES.to_owned() };
    // The edge may exist in the other direction.
    if let Some(edge) = stored(context, &new)?
        && edge.source == old
    {
        return Err(circle().into());
    }
    create(context, &new)?;
    Ok(())
}

fn circle() -> Rejection {
    Rejection::WrongState(
        "a memory cannot supersede itself, nor one that supersedes it, directly or over others"
            .into(),
    )
}

/// Rejects a memory that would supersede itself over others. Both ends have one namespace: a memory
/// shows by which one it is superseded.
fn check_supersedes(context: &Context<'_>, new: &EdgeRef) -> Decided<()> {
    let namespace = |id| Ok::<_, Error>(context.memory(id)?.map(|memory| memory.namespace));
    let is_one = namespace(new.source)? == namespace(new.target)?;
    let reason = "a memory supersedes only memories of its namespace";
    reject_if(!is_one, Rejection::WrongState(reason.into()))?;
    if let Some(target) = context.memory(new.target)? {
        reject_if(!context.may_rewrite(&target, context.actor)?, Rejection::LockedByOther)?;
    }
    let of_source = context.edges(new.source)?.into_iter();
    let superseded = of_source.filter(|it| it.relation == SUPERSEDES && it.source == new.source);
    let reason = format!("a memory supersedes {SUPERSEDED_MAX} others at most");
    reject_if(superseded.count() >= SUPERSEDED_MAX, Rejection::WrongState(reason))?;
    let (mut later, mut seen) = (vec![new.source], BTreeSet::new());
    while let Some(id) = later.pop() {
        reject_if(id == new.target || seen.len() > CHAIN_MAX, circle())?;
        if seen.insert(id) {
            later.extend(superseding(context, id)?.map(|edge| edge.source));
        }
    }
    Ok(())
}

/// The edges from memories that supersede this one.
fn superseding(context: &Context<'_>, id: MemoryId) -> Result<impl Iterator<Item = Edge>> {
    let edges = context.edges(id)?.into_iter();
    Ok(edges.filter(move |edge| edge.relation == SUPERSEDES && edge.target == id))
}

/// Stores in the row of a memory by which one it is superseded. One that is from now on is as cold
/// as an outdated one.
fn record_superseded(context: &mut Context<'_>, id: MemoryId) -> Result<()> {
    let latest = superseding(context, id)?.max_by_key(|edge| (edge.created_at, edge.source));
    let superseded_by = latest.as_ref().map(|edge| edge.source);
    let Some(present) = context.present(id)? else { return Ok(()) };
    if present.memory.superseded_by == superseded_by {
        return Ok(());
    }
    // One of the cold tier is in no hot context, and keeps its heat.
    if superseded_by.is_some() && present.memory.tier() == Tier::Hot {
        let heat = outdated_heat(&present, &*context.thermo()?) as f32;
        context.anchor(&present, Anchor { heat, ..present.anchor })?;
    }
    // What replaces it may hold since another time than that of the edge.
    let superseded_at = match latest {
        None => None,
        Some(edge) => {
            let by = context.memory(edge.source)?;
            let times = by.and_then(|by| by.times);
            let since = times.and_then(|times| times.valid_from.or(times.occurred_at));
            Some(since.unwrap_or(edge.created_at))
        }
    };
    let times = present.memory.times_with(|times| times.superseded_at = superseded_at);
    let memory =
        Memory { superseded_by, times, updated_at: context.now(), ..present.memory.clone() };
    if memory.is_locked {
        record_edit(context, context.actor, id, [&present.memory, &memory])?;
    }
    context.put_memory(id, memory)
}

/// Removes the edges by which a memory supersedes others or is superseded: it leaves its namespace.
pub(super) fn end_supersessions(context: &mut Context<'_>, id: MemoryId) -> Result<()> {
    for edge in context.edges(id)?.into_iter().filter(|edge| edge.relation == SUPERSEDES) {
        remove(context, &edge)?;
    }
    Ok(())
}

/// Of so many places for edges, those that automatic ones may take: the rest is for those that callers create.
fn automatic_max(places: u64) -> u64 {
    places - places / 4
}

/// Creates the edges that the receiving node suggested, where the other memory still exists,
/// is accessible to the creator, and has room, as the tenant must have.
pub(super) fn create_suggested(
    context: &mut Context<'_>,
    source: MemoryId,
    suggestions: &[Suggestion],
) -> Result<()> {
    let tenant = context.tenant;
    let edges_max = context.draft.limit(tenant, Limit::Edges)?.map(automatic_max);
    for suggestion in suggestions.iter().take(SUGGESTIONS_MAX) {
        let Suggestion { other: target, relation, weight } = suggestion.clone();
        let Some(other) = context.memory(target)? else { continue };
        let edges = context.draft.number(tenant, Counted::Edges);
        let is_full = |edges: &Vec<Edge>| edges.len() as u64 >= automatic_max(EDGES_MAX as u64);
        // An edge reveals both its ends.
        let fits = edges_max.is_none_or(|max| edges < max)
            && context.has_access(&other.namespace)?
            && target != source
            && !other.guard.is_quarantined()
            && !is_full(&context.edges(target)?)
            && !is_full(&context.edges(source)?);
        if fits {
            let edge = Edge { source, target, relation, weight, created_at: context.now() };
            put_new(&mut Context { draft: &mut *context.draft, tenant, actor: None }, &edge)?;
        }
    }
    Ok(())
}

/// Replaces the edges to similar texts, since the text of a memory is another one.
pub(super) fn renew_similar(
    context: &mut Context<'_>,
    id: MemoryId,
    suggestions: &[Suggestion],
) -> Result<()> {
    for edge in context.edges(id)?.into_iter().filter(|edge| edge.relation == SIMILAR_TO) {
        remove(context, &edge)?;
    }
    create_suggested(context, id, suggestions)
}

/// Whether the tenant may have one more edge.
pub(super) fn has_room(context: &Context<'_>) -> Result<bool> {
    context.fits(Limit::Edges, Counted::Edges, 1)
}

pub(super) fn stored(context: &Context<'_>, edge: &EdgeRef) -> Result<Option<Edge>> {
    let relation = relation_key(&edge.relation);
    context.draft.record(&Key::Edge(context.tenant, edge.source, edge.target, relation))
}

/// Creates an edge, unless there is one. Returns whether it did.
pub(super) fn put_new(context: &mut Context<'_>, edge: &Edge) -> Result<bool> {
    let Edge { source, target, relation, .. } = edge.clone();
    let is_new = stored(context, &EdgeRef { source, target, relation })?.is_none();
    if is_new {
        put(context, edge)?;
    }
    Ok(is_new)
}

fn put(context: &mut Context<'_>, edge: &Edge) -> Result<()> {
    context.push(Change::EdgePut(context.tenant, edge.clone()));
    if edge.relation == SUPERSEDES {
        record_superseded(context, edge.target)?;
    }
    if let Some(memory) = context.memory(edge.source)? {
        let (other, relation) = (edge.target, edge.relation.clone());
        context.append(edge.source, &memory, EventKind::EdgeCreated { other, relation });
    }
    let other = Some(edge.target);
    let event = MemoryEvent::new(context.tenant, TriggerEvent::Relate, edge.source);
    context.draft.emit(MemoryEvent { other, ..event });
    Ok(())
}

pub(super) fn remove(context: &mut Context<'_>, edge: &Edge) -> Result<()> {
    let relation = relation_key(&edge.relation);
    context.push(Change::EdgeRemoved(context.tenant, edge.source, edge.target, relation));
    if edge.relation == SUPERSEDES {
        record_superseded(context, edge.target)?;
    }
    Ok(())
}
