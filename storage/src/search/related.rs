//! Reads of the memory graph: the neighbours of one memory, and the view of a tenant's hottest
//! memories with the edges between them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::engine::Engine;
use crate::error::Result;
use crate::model::access::Access;
use crate::model::edge::Edge;
use crate::model::id::{MemoryId, TenantId};
use crate::model::memory::MemoryRecord;
use crate::search::list::{HotRequest, hottest};
use crate::table::view::View;

/// A memory reached over edges.
#[derive(Debug, Clone)]
pub struct Neighbour {
    /// The memory.
    pub record: MemoryRecord,
    /// The last edge of the path to it.
    pub edge: Edge,
    /// Number of edges of the path, from 1.
    pub hops: u32,
}

/// The hottest memories with the edges between them.
#[derive(Debug, Clone, Default)]
pub struct GraphView {
    /// The hottest memories, hottest first.
    pub memories: Vec<MemoryRecord>,
    /// Edges with both ends in `memories`, ordered by source, target and relation.
    pub edges: Vec<Edge>,
    /// Number of memories that match the filter.
    pub total: usize,
}

/// Neighbours of memory `id` by breadth-first search, nearest first, then by edge weight.
/// Each memory occurs once. Memories outside `access` are neither returned nor traversed.
/// `None` if the memory does not exist.
pub(crate) fn neighbours(
    engine: &Engine,
    tenant: TenantId,
    id: MemoryId,
    access: &Access,
    depth: u32,
    limit: usize,
) -> Result<Option<Vec<Neighbour>>> {
    let (now, thermo) = (engine.clock(), engine.thermo(tenant));
    let snapshot = engine.state.snapshot();
    if snapshot.memory(tenant, id)?.is_none() {
        return Ok(None);
    }
    let mut found = Vec::new();
    let mut visited = BTreeSet::from([id]);
    let mut queue = VecDeque::from([(id, 0)]);
    while let Some((from, hops)) = queue.pop_front().filter(|(_, hops)| *hops < depth) {
        for edge in snapshot.edges(tenant, from)? {
            let other = edge.other(from);
            if found.len() == limit {
                return Ok(Some(found));
            }
            if !visited.insert(other) {
                continue;
            }
            let record = snapshot.memory_record(tenant, other, &thermo, now)?;
            let is_allowed = |record: &MemoryRecord| access.allows(&record.memory.namespace);
            if let Some(record) = record.filter(is_allowed) {
                found.push(Neighbour { record, edge, hops: hops + 1 });
                queue.push_back((other, hops + 1));
            }
        }
    }
    Ok(Some(found))
}

/// The hottest memories and the edges between them.
pub(crate) fn graph_view(
    engine: &Engine,
    tenant: TenantId,
    request: &HotRequest,
) -> Result<GraphView> {
    let page = hottest(engine, tenant, request)?;
    let shown: BTreeSet<MemoryId> = page.memories.iter().map(|record| record.id).collect();
    let snapshot = engine.state.snapshot();
    let mut edges = BTreeMap::new();
    for id in &shown {
        for edge in snapshot.edges(tenant, *id)? {
            if edge.source == *id && shown.contains(&edge.target) {
                edges.insert((edge.source, edge.target, edge.relation.clone()), edge);
            }
        }
    }
    let edges = edges.into_values().collect();
    Ok(GraphView { memories: page.memories, edges, total: page.total })
}
