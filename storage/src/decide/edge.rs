//! Rules for edges: those that callers create, and those that a new memory gets.

use crate::change::Change;
use crate::command::{EdgeRef, NewMemory};
use crate::decide::context::{Context, Decided, reject_if};
use crate::decide::draft::MemoryEvent;
use crate::error::Result;
use crate::model::edge::{EDGES_MAX, Edge, SUGGESTIONS_MAX, Suggestion, relation_key};
use crate::model::journal::EventKind;
use crate::model::trigger::TriggerEvent;
use crate::reply::{Rejection, Reply};
use crate::table::key::Key;
use crate::table::view::View;

/// Creates an edge; one that exists already is returned as it is.
pub(super) fn create(context: &mut Context<'_>, new: &EdgeRef) -> Decided<Reply> {
    for end in [new.source, new.target] {
        context.existing(end)?;
    }
    if let Some(edge) = stored(context, new)? {
        return Ok(Reply::Edge { edge, is_new: false });
    }
    for id in [new.source, new.target] {
        reject_if(context.edges(id)?.len() >= EDGES_MAX, Rejection::EdgesFull(id))?;
    }
    let EdgeRef { source, target, relation } = new.clone();
    let edge = Edge { source, target, relation, weight: 1.0, created_at: context.now() };
    put(context, &edge)?;
    Ok(Reply::Edge { edge, is_new: true })
}

pub(super) fn delete(context: &mut Context<'_>, named: &EdgeRef) -> Decided<Reply> {
    let edge = stored(context, named)?.ok_or(Rejection::NoEdge)?;
    for end in [edge.source, edge.target] {
        // An edge of a memory that the key may not access does not exist for it.
        if let Some(memory) = context.memory(end)? {
            reject_if(!context.has_access(&memory.namespace)?, Rejection::NoEdge)?;
        }
    }
    remove(context, &edge);
    if let Some(memory) = context.memory(edge.source)? {
        let (other, relation) = (edge.target, edge.relation.clone());
        context.append(edge.source, &memory, EventKind::EdgeDeleted { other, relation });
    }
    Ok(Reply::Edge { edge, is_new: false })
}

/// Creates the edges that the receiving node suggested, where the other memory still exists,
/// is accessible to the creator, and has room.
pub(super) fn create_suggested(context: &mut Context<'_>, new: &NewMemory) -> Result<()> {
    for suggestion in new.suggestions.iter().take(SUGGESTIONS_MAX) {
        let Suggestion { other: target, relation, weight } = suggestion.clone();
        let (tenant, source) = (context.tenant, new.id);
        let key = Key::Edge(tenant, source, target, relation_key(&relation));
        let Some(other) = context.memory(target)? else { continue };
        // An edge reveals both its ends.
        let fits = context.has_access(&other.namespace)?
            && target != source
            && context.draft.bytes(&key)?.is_none()
            && context.edges(target)?.len() < EDGES_MAX;
        if fits {
            let edge = Edge { source, target, relation, weight, created_at: context.now() };
            put(&mut Context { draft: &mut *context.draft, tenant, actor: None }, &edge)?;
        }
    }
    Ok(())
}

fn stored(context: &Context<'_>, edge: &EdgeRef) -> Result<Option<Edge>> {
    let relation = relation_key(&edge.relation);
    context.draft.record(&Key::Edge(context.tenant, edge.source, edge.target, relation))
}

fn put(context: &mut Context<'_>, edge: &Edge) -> Result<()> {
    context.push(Change::EdgePut(context.tenant, edge.clone()));
    if let Some(memory) = context.memory(edge.source)? {
        let (other, relation) = (edge.target, edge.relation.clone());
        context.append(edge.source, &memory, EventKind::EdgeCreated { other, relation });
    }
    let event = MemoryEvent {
        tenant: context.tenant,
        event: TriggerEvent::Relate,
        id: edge.source,
        times: 1,
        other: Some(edge.target),
        transition: None,
    };
    context.draft.command.events.push(event);
    Ok(())
}

pub(super) fn remove(context: &mut Context<'_>, edge: &Edge) {
    let relation = relation_key(&edge.relation);
    context.push(Change::EdgeRemoved(context.tenant, edge.source, edge.target, relation));
}
