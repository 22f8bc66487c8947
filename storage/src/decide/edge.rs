//! Rules for relating memories: by somebody's word, and by what a new memory shares with
//! others.

use crate::change::Change;
use crate::command::{Decision, NewMemory, Rejection, Reply};
use crate::decide::Draft;
use crate::decide::fire::emit;
use crate::decide::tenant::check_access;
use crate::error::Result;
use crate::model::edge::{EDGES_MAX, Edge, SUGGESTIONS_MAX, relation_key};
use crate::model::id::{MemoryId, TenantId};
use crate::model::journal::EventKind;
use crate::model::tenant::KeyId;
use crate::model::trigger::TriggerEvent;
use crate::table::key::Key;
use crate::table::view::View;

/// Weight of an edge that somebody asked for.
const EXPLICIT_WEIGHT: f32 = 1.0;

pub(super) fn relate(
    draft: &mut Draft<'_>,
    tenant: TenantId,
    actor: Option<KeyId>,
    (source, target): (MemoryId, MemoryId),
    relation: &str,
) -> Result<Decision> {
    for end in [source, target] {
        let Some(memory) = draft.memory(tenant, end)? else { return Ok(Err(Rejection::NotFound)) };
        if let Err(rejection) = check_access(draft, tenant, actor, &memory.namespace)? {
            return Ok(Err(rejection));
        }
    }
    let key = Key::Edge(tenant, source, target, relation_key(relation));
    if let Some(edge) = draft.record::<Edge>(&key)? {
        return Ok(Ok(Reply::Edge { edge, is_new: false }));
    }
    for end in [source, target] {
        if draft.edges(tenant, end)?.len() >= EDGES_MAX {
            return Ok(Err(Rejection::EdgesFull { id: end }));
        }
    }
    let (relation, weight) = (relation.to_owned(), EXPLICIT_WEIGHT);
    let edge = Edge { source, target, relation, weight, created_at: draft.now() };
    put(draft, tenant, actor, &edge)?;
    Ok(Ok(Reply::Edge { edge, is_new: true }))
}

pub(super) fn unrelate(
    draft: &mut Draft<'_>,
    tenant: TenantId,
    actor: Option<KeyId>,
    (source, target): (MemoryId, MemoryId),
    relation: &str,
) -> Result<Decision> {
    let key = Key::Edge(tenant, source, target, relation_key(relation));
    let Some(edge) = draft.record::<Edge>(&key)? else { return Ok(Err(Rejection::NoEdge)) };
    for end in [source, target] {
        if let Some(memory) = draft.memory(tenant, end)?
            && let Err(rejection) = check_access(draft, tenant, actor, &memory.namespace)?
        {
            return Ok(Err(rejection));
        }
    }
    remove(draft, tenant, &edge);
    if let Some(memory) = draft.memory(tenant, edge.source)? {
        let details = vec![edge.target.to_string(), edge.relation.clone()];
        draft.append(tenant, actor, EventKind::Unrelated, (edge.source, &memory), details);
    }
    Ok(Ok(Reply::Edge { edge, is_new: false }))
}

/// Relates a new memory to those that its node found, where they are still there, open to
/// whoever stores it, and have room.
pub(super) fn suggested(
    draft: &mut Draft<'_>,
    tenant: TenantId,
    actor: Option<KeyId>,
    new: &NewMemory,
) -> Result<()> {
    for suggestion in new.suggestions.iter().take(SUGGESTIONS_MAX) {
        let key = Key::Edge(tenant, new.id, suggestion.other, relation_key(&suggestion.relation));
        let Some(other) = draft.memory(tenant, suggestion.other)? else { continue };
        // An edge tells of both its ends.
        let open = check_access(draft, tenant, actor, &other.namespace)?.is_ok();
        let fits = open
            && suggestion.other != new.id
            && draft.bytes(&key)?.is_none()
            && draft.edges(tenant, suggestion.other)?.len() < EDGES_MAX;
        if fits {
            let edge = Edge {
                source: new.id,
                target: suggestion.other,
                relation: suggestion.relation.clone(),
                weight: suggestion.weight,
                created_at: draft.now(),
            };
            put(draft, tenant, None, &edge)?;
        }
    }
    Ok(())
}

/// Takes all edges of a memory away that is about to go.
pub(super) fn forget(draft: &mut Draft<'_>, tenant: TenantId, id: MemoryId) -> Result<()> {
    for edge in draft.edges(tenant, id)? {
        remove(draft, tenant, &edge);
    }
    Ok(())
}

fn put(draft: &mut Draft<'_>, tenant: TenantId, actor: Option<KeyId>, edge: &Edge) -> Result<()> {
    draft.push(Change::EdgePut(tenant, edge.clone()));
    if let Some(memory) = draft.memory(tenant, edge.source)? {
        let details = vec![edge.target.to_string(), edge.relation.clone()];
        draft.append(tenant, actor, EventKind::Related, (edge.source, &memory), details);
    }
    emit(draft, tenant, TriggerEvent::Relate, edge.source);
    Ok(())
}

fn remove(draft: &mut Draft<'_>, tenant: TenantId, edge: &Edge) {
    let relation = relation_key(&edge.relation);
    draft.push(Change::EdgeRemoved(tenant, edge.source, edge.target, relation));
}
